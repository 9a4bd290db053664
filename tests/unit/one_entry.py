"""A key, what is stored under it, and where its file is."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from literals import device_manifest, key, native_blob

from vyre_driver.cache import PipelineEntry
from vyre_driver.cache.entry import encode_entry

if TYPE_CHECKING:
    from pathlib import Path


KEY, OTHER = key(0xAB), key(0xCD)
MANIFEST = device_manifest()
ENTRY = PipelineEntry(MANIFEST, b"SPIR-V words", native_blob())
NEWER = PipelineEntry(MANIFEST, b"other words")
DATA = encode_entry(KEY.digest, ENTRY)
PLACE = "ab/" + "ab" * 32 + ".bin"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))
