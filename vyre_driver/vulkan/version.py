"""Packed Vulkan version numbers.

Source: Vulkan 1.3, "Version Numbers": variant in bits 29 to 31, major in 22 to 28, minor in 12 to 21, patch below.
"""

from __future__ import annotations

_PATCH = 0xFFF
_NEWEST_KNOWN_MINOR = 3


def pack_version(major: int, minor: int, patch: int = 0) -> int:
    """Return the packed number of a version."""
    return major << 22 | minor << 12 | patch


API_1_1, API_1_2, API_1_3 = (pack_version(1, minor) for minor in (1, 2, 3))


def known_minor(version: int) -> int:
    """Return the minor number, of a version after 1.3 that of 1.3: nothing here knows what later ones add."""
    return min(version >> 12 & 0x3FF, _NEWEST_KNOWN_MINOR)


def without_patch(version: int) -> int:
    """Return the version with a patch number of 0."""
    return version & ~_PATCH


def format_version(version: int) -> str:
    """Return ``major.minor.patch``."""
    return f"{version >> 22 & 0x7F}.{version >> 12 & 0x3FF}.{version & _PATCH}"
