"""What the C table of ``_fast`` calls where it takes the GIL, and where its header is (include/vyre_driver.h)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import Verdict
from vyre_driver.identity.keys import PipelineCacheKey, manifest_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

# The numbers of vyre_cache_verdict.
_VERDICTS: Sequence[str] = (
    "HIT",
    "MISS",
    "TRUNCATED",
    "EXTENDED",
    "CORRUPT",
    "OUTDATED",
    "FOREIGN_KEY",
    "FOREIGN_DEVICE",
    "TOO_LARGE",
    "UNTRUSTED",
    "IO_ERROR",
)


def verdict_number(verdict: Verdict) -> int:
    """Return the number of ``vyre_cache_verdict`` for a verdict."""
    return _VERDICTS.index(verdict.name)


def get_include() -> str:
    """Return the directory of ``vyre_driver.h``, for a compiler's ``-I``."""
    return str(Path(__file__).parent / "include")


def pipeline_key(manifest: bytes) -> bytes:
    """Return the 32-byte digest of a pipeline's manifest, whatever is in it."""
    return manifest_digest(manifest)


def open_cache(directory: str | None) -> DiskPipelineCache:
    """Return the cache in a directory, None for the settings'; all else is as the settings say.

    Raises
    ------
    InvalidSetting
        If there is no directory given and an environment variable is not valid.
    ValueError
        If no directory can have that name.
    """
    if directory == "":
        raise ValueError("the directory of the cache has an empty name. Fix: name one, or pass NULL for the settings'.")
    return DiskPipelineCache.from_settings(directory)


def take_bound(kernel: object) -> object:
    """Return the handle of a BoundKernel for C code; raises as ``take_for_c``."""
    from vyre_driver.runtime.bound import take_for_c  # late: keys and the cache need no Vulkan

    return take_for_c(kernel)


def look_up(cache: DiskPipelineCache, manifest: bytes) -> tuple[int, bytes, bytes, str]:
    """Return the verdict's number, SPIR-V and native blob of a manifest's entry (empty for a miss), and why it is a miss.

    Raises
    ------
    InvalidKey
        If the bytes are not a manifest of a pipeline.
    """
    found = cache.get(PipelineCacheKey.from_manifest(manifest))
    number = verdict_number(found.verdict)
    if found.entry is None or found.verdict is not Verdict.HIT:
        return number, b"", b"", found.reason
    return number, found.entry.spirv, found.entry.native, ""
