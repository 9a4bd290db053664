"""Upstream's disk cache: raw blobs without a header, named by program and device alone.

No path of the driver takes what is here: it stands for other vyre tools.

Nothing of a raw blob can be verified, and its name leaves out what else changes the code: such a blob must never select or
become an entry. Two things keep them apart below one root: their names are digests of different domains, and a raw blob that
begins as an entry does is refused here, as is a file without such a beginning there.

Source: upstream's DiskPipelineCache 0.4.1 (spec item 2.3). Departures: docs/cache-format.md.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

from vyre_driver import _fast
from vyre_driver.cache.entry import MAX_ENTRY_BYTES, claims_to_be_entry
from vyre_driver.cache.files import OPEN_TO_READ, read_bounded
from vyre_driver.errors import CacheUnusable, InvalidBlob
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.cache.directory import EntryDirectory
    from vyre_driver.upstream.keys import PipelineDeviceFingerprint

MAX_DISK_PIPELINE_BLOB_BYTES = MAX_ENTRY_BYTES
"""Bytes of the largest raw blob: 64 MiB."""


def blob_place(program_digest: bytes, fingerprint: PipelineDeviceFingerprint) -> str:
    """Return the place (``ab/abcd...bin``) of a program's blob on a device; raises InvalidKey 2203 for another digest."""
    return _fast.shard_path(fingerprint.cache_key(program_digest))


def read_blob(directory: EntryDirectory, place: str) -> bytes | None:
    """Return the blob at a place (``ab/abcd...bin``), or None when there is none; raises as ``DiskPipelineCache.read``."""
    if not directory.is_usable():
        _refuse_root(directory)
    path = f"{directory.root.path}/{place}"
    try:
        if not directory.root.trusts_shard(place[:2]):
            _refuse_file(path, "lies in a directory that is not ours alone")
        opened = Opened(path, OPEN_TO_READ)
    except FileNotFoundError:
        return None
    with opened as descriptor:
        found = os.fstat(descriptor)
        if not directory.root.trusts_file(found):
            _refuse_file(path, "is not a regular file, or somebody else could have written it")
        if found.st_size > MAX_DISK_PIPELINE_BLOB_BYTES:
            _refuse_size(found.st_size, "InvalidData")
        data = read_bounded(descriptor, found.st_size)
    if len(data) > found.st_size:
        _refuse_file(path, "grew while it was read")
    if claims_to_be_entry(data[:16]):
        _refuse_file(path, "is an entry, which only get may read")
    return data


def write_blob(given: EntryDirectory | None, place: str, data: bytes) -> EntryDirectory:
    """Publish a blob at a place, root and sub-directory made where they are not there; returns the directory.

    Raises as ``DiskPipelineCache.write``.
    """
    directory = _on_disk(given)
    if len(data) > MAX_DISK_PIPELINE_BLOB_BYTES:
        _refuse_size(len(data), "InvalidInput")
    if claims_to_be_entry(data[:16]):
        raise InvalidBlob(
            "the blob begins as an entry of the cache does", fix="store entries with put", kind="InvalidInput", bytes=len(data)
        )
    _check_writable(directory)
    if not directory.make_usable():
        _refuse_root(directory)
    directory.publish(place, data)
    return directory


def remove_blobs(given: EntryDirectory | None, places: Iterable[str]) -> None:
    """Remove what lies at these places, if anything does; raises as ``DiskPipelineCache.invalidate_impacted``."""
    directory = _on_disk(given)
    failed: OSError | None = None
    for place in places:
        try:
            _remove(directory, place)
        except CacheUnusable:
            raise
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _on_disk(directory: EntryDirectory | None) -> EntryDirectory:
    """Return the directory of a cache, or refuse a cache in memory."""
    if directory is None:
        raise CacheUnusable(
            "the cache is in memory only, which holds no raw blobs",
            fix="name its directory (VYRE_CACHE_DIR), and unset VYRE_CACHE_DISABLE",
            root=None,
            reason="memory only",
        )
    return directory


def _remove(directory: EntryDirectory, place: str) -> None:
    _check_writable(directory)
    if not directory.is_usable():
        _refuse_root(directory)
    try:
        if not directory.root.trusts_shard(place[:2]):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory of ours", f"{directory.root.path}/{place[:2]}")
        os.unlink(f"{directory.root.path}/{place}")  # noqa: PTH108
    except FileNotFoundError:
        return


def _check_writable(directory: EntryDirectory) -> None:
    if directory.read_only:
        raise CacheUnusable(
            f"the cache in {directory.root.path} is read-only",
            fix="unset VYRE_CACHE_READONLY, or open it without readonly",
            root=directory.root.path,
            reason="read-only",
        )


def _refuse_root(directory: EntryDirectory) -> NoReturn:
    root, reason = directory.root.path, directory.refused
    raise CacheUnusable(
        f"the cache in {root} is not used: {reason}",
        fix="name a directory of your own to which nobody else may write (VYRE_CACHE_DIR)",
        root=root,
        reason=reason,
    )


def _refuse_size(size: int, kind: str) -> NoReturn:
    raise InvalidBlob(
        f"the blob has {size} bytes, over the limit of {MAX_DISK_PIPELINE_BLOB_BYTES} bytes",
        fix=f"keep blobs to {MAX_DISK_PIPELINE_BLOB_BYTES} bytes",
        kind=kind,
        bytes=size,
        limit_bytes=MAX_DISK_PIPELINE_BLOB_BYTES,
    )


def _refuse_file(path: str, what: str) -> NoReturn:
    raise InvalidBlob(f"{path} {what}", fix="remove it, and write the blob anew", kind="InvalidData", path=path)
