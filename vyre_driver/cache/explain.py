"""Explain a cache miss by comparing the key with the nearest entries."""

from __future__ import annotations

import heapq
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.cache.entry import Verdict
from vyre_driver.identity.manifest import FieldValue, decode_manifest
from vyre_driver.vulkan.version import format_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.cache.directory import CacheLookup
    from vyre_driver.cache.upkeep import StoredEntry

MAX_COMPARED = 10_000
MAX_NEAREST = 3

_CONSTANT = re.compile(r"constant [0-9]+ (.+)|spec (.+)", re.DOTALL)
_TYPED = re.compile(r"(u32|i32|f32|bool):(0x[0-9a-f]{8})")
_HEX_FIELDS = frozenset({"vendorID", "deviceID"})
_SHOWN_HEX_DIGITS = 8
_ABSENT = "none"


@dataclass(frozen=True, slots=True)
class NearEntry:
    """An entry that is not the one looked for: its key in hex, how many fields agree, each difference in words, its kernel."""

    key: str
    shared_fields: int
    differences: tuple[str, ...]
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a look-up comes to and why; ``nearest`` has the nearest entries on a miss, ``compared`` says of how many."""

    verdict: Verdict
    reason: str
    nearest: tuple[NearEntry, ...] = ()
    compared: int = 0

    def __str__(self) -> str:
        """Tell it in one line, with what the nearest entry differs in."""
        if self.verdict is not Verdict.MISS:
            return self.reason
        if not self.nearest:
            return f"{self.reason}; there is no other entry to compare it with"
        return f"{self.reason}; {self.nearest_in_words}"

    @property
    def nearest_in_words(self) -> str:
        """What the nearest entry differs in; empty without one."""
        if not self.nearest:
            return ""
        first = self.nearest[0]
        difference = "; ".join(first.differences) or "nothing in the manifest"
        return f"the nearest of {self.compared} entries is {first.key[:_SHOWN_HEX_DIGITS]}, which differs in {difference}"


def explain_lookup(lookup: CacheLookup, manifest: bytes, stored: Iterable[StoredEntry]) -> Explanation:
    """Return what a look-up came to, and on a miss the nearest of the stored entries."""
    if lookup.verdict is not Verdict.MISS:
        return Explanation(lookup.verdict, lookup.reason)
    try:
        nearest, compared = nearest_entries(manifest, stored)
    except OSError as error:
        return Explanation(lookup.verdict, f"{lookup.reason}; the entries cannot be read: {error}")
    return Explanation(lookup.verdict, lookup.reason, nearest, compared)


def nearest_entries(manifest: bytes, stored: Iterable[StoredEntry]) -> tuple[tuple[NearEntry, ...], int]:
    """Return the three entries that share most manifest fields, the nearest first, and how many were compared.

    Of more than 10,000 entries those used last are compared. Where two share as many, the one used later comes first.
    """
    wanted = _fields(manifest)
    recent = heapq.nlargest(MAX_COMPARED, stored, key=lambda one: one.used_at)
    scored = [(_shared(wanted, dict(one.fields())), one.used_at, one.key, one) for one in recent]
    best = heapq.nlargest(MAX_NEAREST, scored, key=lambda one: one[:3])
    nearest = tuple(
        NearEntry(one.key, shared, differences(dict(one.fields()), wanted), one.kernel) for shared, _, _, one in best
    )
    return nearest, len(recent)


def _fields(manifest: bytes) -> dict[str, FieldValue]:
    try:
        return dict(decode_manifest(manifest))
    except ValueError:
        return {}


def _shared(wanted: dict[str, FieldValue], found: dict[str, FieldValue]) -> int:
    return sum(name in found and found[name] == value for name, value in wanted.items())


def differences(found: dict[str, FieldValue], wanted: dict[str, FieldValue]) -> tuple[str, ...]:
    """Return what an entry has and what is wanted, field by field in the order of the wanted manifest: ``TILE: 16 -> 32``."""
    names = [*wanted, *(name for name in found if name not in wanted)]
    return tuple(
        f"{_shown_name(name)}: {_shown(name, found.get(name))} -> {_shown(name, wanted.get(name))}"
        for name in names
        if found.get(name) != wanted.get(name)
    )


def _shown_name(name: str) -> str:
    """Return the constant's own name where a field is one."""
    match = _CONSTANT.fullmatch(name)
    return (match[1] or match[2]) if match else name


def _shown(name: str, value: FieldValue | None) -> str:
    if value is None or value == "":
        return _ABSENT
    if isinstance(value, bytes):
        digits = value.hex()
        return digits if len(digits) <= _SHOWN_HEX_DIGITS else digits[:_SHOWN_HEX_DIGITS] + "..."
    if isinstance(value, int):
        if name == "apiVersion":
            return format_version(value)
        return f"{value:#06x}" if name in _HEX_FIELDS else str(value)
    return _shown_text(name, value)


def _shown_text(name: str, value: str) -> str:
    """Return a typed value as its number; any other text as it is, made printable."""
    typed = _TYPED.fullmatch(value) if _CONSTANT.fullmatch(name) else None
    if typed is None:
        return value if value.isprintable() else ascii(value)[1:-1]
    bits = int(typed[2], 16)
    match typed[1]:
        case "i32":
            return str(bits - ((bits & 0x8000_0000) << 1))
        case "f32":
            return repr(struct.unpack("<f", struct.pack("<I", bits))[0])
        case "bool":
            return "true" if bits else "false"
    return str(bits)
