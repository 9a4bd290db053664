"""The entries below one root: look them up, verify them, and publish new ones."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver import _fast
from vyre_driver.cache import _read
from vyre_driver.cache.entry import MAX_ENTRY_BYTES, PipelineEntry, Verdict, decode_entry
from vyre_driver.cache.files import OPEN_TO_READ, CacheRoot, publish, set_aside, unmakeable_reason
from vyre_driver.cache.kernel_names import add_name, read_names
from vyre_driver.display.line import one_line
from vyre_driver.errors import CacheUnusable
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.cache._read import DirectoryFacts, FileFacts, Found

_LOG = logging.getLogger("vyre_driver.cache")
_SECONDS_BETWEEN_WARNINGS = 60.0


class Tally:
    """Counts by name and the last ignored error, of one cache. May be used from several threads."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._counts: Counter[str] = Counter()
        self._last_error: str | None = None
        self._warned_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        """Count one more of something."""
        with self._lock:
            self._counts[what] = self._counts.get(what, 0) + 1  # Counter's own += takes twice as long

    def ignore_error(self, what: str, error: OSError) -> str:
        """Count an error and let the work go on; returns it in words.

        It is logged (logger ``vyre_driver.cache``), each kind at most once a minute.
        """
        now = time.monotonic()
        with self._lock:
            self._counts[f"{what}_failed"] += 1
            self._last_error = f"{what}: {error}"
            warned_at = self._warned_at.get(what)
            is_due = warned_at is None or now - warned_at >= _SECONDS_BETWEEN_WARNINGS
            if is_due:
                self._warned_at[what] = now
        if is_due:
            _LOG.warning("the pipeline cache goes on without this: %s: %s", what, error)
        return error.strerror or str(error)

    def counts(self) -> dict[str, int]:
        """Return the counts by name, in the order of the names."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    @property
    def last_error(self) -> str | None:
        """The last ignored error, with what it happened to."""
        return self._last_error


# Doubts about bytes that are ours to move; an outdated entry is simply overwritten.
QUARANTINED = frozenset(
    {
        Verdict.TRUNCATED,
        Verdict.EXTENDED,
        Verdict.CORRUPT,
        Verdict.FOREIGN_KEY,
        Verdict.FOREIGN_DEVICE,
        Verdict.TOO_LARGE,
    }
)
TOUCH_AFTER_NS = 3600 * 10**9
SETTLED_NS = 10**9


class CacheLookup(NamedTuple):
    """What ``get`` found: the verdict, the entry on a hit, and the reason in words."""

    verdict: Verdict
    entry: PipelineEntry | None
    reason: str


NOTHING = CacheLookup(Verdict.MISS, None, Verdict.MISS.value)


def described(directory: EntryDirectory | None, base: EntryDirectory | None, in_memory: int) -> str:
    """Return a cache with these directories as one line; the disk is not asked."""
    place, parts = "in memory", []
    if directory is not None:
        place = f"at {directory.root.path!r}"
        parts = ["read-only" if directory.read_only else "", "sealed" if directory.hmac_key is not None else ""]
        parts.append("not used" if directory.refused else "")
    below = "" if base is None else f"base {base.root.path!r}"
    kept = f"{in_memory} {'entry' if in_memory == 1 else 'entries'} in memory" if in_memory else ""
    return one_line("DiskPipelineCache", place, *parts, below, kept)


def require_changeable(directory: EntryDirectory | None) -> None:
    """Refuse a directory in which what is put would not stay, as ``DiskPipelineCache.require_changeable``; None is memory."""
    reason = "it is in memory only" if directory is None else directory.unchangeable_reason()
    if reason:
        raise CacheUnusable(
            f"the cache{'' if directory is None else f' in {directory.root.path}'} may not be changed: {reason}",
            fix="open a directory of your own, and not read-only",
            root=None if directory is None else directory.root.path,
            reason=reason,
        )


class EntryDirectory:
    """The entries below one root. With ``read_only`` nothing below it is ever changed, not even the time of last use."""

    def __init__(self, root: CacheRoot, tally: Tally, *, read_only: bool = False, hmac_key: bytes | None = None) -> None:
        """Remember the root; nothing is read or made."""
        self.root = root
        self._encoded_path = os.fsencode(root.path)
        self.read_only = read_only
        self.hmac_key = hmac_key
        self.refused = ""
        self.has_made_root = False
        self.used: Callable[[bytes], object] = lambda _key: None
        """Called with the digest of an entry's key where its use is noted in its time: once an hour."""
        self._unmade = ""  # why it could not be made the last time
        self._settled: dict[str, int] = {}
        self._tally = tally

    def is_usable(self) -> bool:
        """Whether the root may be used now, or is not there and may be made; otherwise ``refused`` says why."""
        return self._is_usable(None)

    def unchangeable_reason(self) -> str:
        """Return why nothing may be put here now, or an empty text when it may."""
        return "it is read-only" if self.is_usable() and self.read_only else self.refused

    def _is_usable(self, facts: DirectoryFacts | None) -> bool:
        """Tell the same of a root of which this is known, None: nothing, as where it could not be opened."""
        try:
            self.refused = self.root.untrusted_reason() if facts is None else self.root.untrusted_reason_of(facts)
        except FileNotFoundError:
            self.refused = "" if self.read_only else self._unmade or unmakeable_reason(self.root.path)
        except OSError as error:
            self.refused = self._tally.ignore_error("root", error)
        return not self.refused

    def get(self, digest: bytes) -> CacheLookup | None:
        """Return what there is for a key, or None when the root is not used."""
        place = _fast.shard_path(digest)
        found = _read.read_entry(
            self._encoded_path, place, MAX_ENTRY_BYTES, self._settled.get(place[:2], -1), self.root.judged, TOUCH_AFTER_NS
        )
        if isinstance(found, bytes):
            self.refused = ""
            verdict, entry = decode_entry(digest, found, hmac_key=self.hmac_key)
            if verdict is Verdict.HIT:
                return CacheLookup(verdict, entry, f"verified entry of {len(found)} bytes")
            found = _read.read_entry(self._encoded_path, place, MAX_ENTRY_BYTES, -1)
        return self._judge_found(digest, place, found)

    def _judge_found(self, digest: bytes, place: str, found: Found) -> CacheLookup | None:
        """Judge the root, the sub-directory and the file of what was read, then its bytes."""
        _, code, root, ctime_ns, shard, file, data = found
        if not self._is_usable(root):
            return None
        if shard is not None and not self._trust_seen_shard(place[:2], shard, ctime_ns):
            return CacheLookup(Verdict.UNTRUSTED, None, f"the entry's directory {place[:2]} is not a directory of ours alone")
        if file is None:
            return self._unread(code)
        return self._judge(digest, place, file, data)

    def _trust_seen_shard(self, name: str, facts: DirectoryFacts, root_ctime_ns: int) -> bool:
        """Whether a sub-directory may be used; remembered for as long as the root does not change.

        The root's ctime moves in steps of some milliseconds: only one that is older than that tells the next change.
        """
        if not self.root.trusts_directory_facts(facts):
            return False
        if time.time_ns() - root_ctime_ns > SETTLED_NS:
            self._settled[name] = root_ctime_ns
        return True

    def _unread(self, code: int) -> CacheLookup:
        if code == errno.ENOENT:
            return NOTHING
        self._tally.ignore_error("get", OSError(code, os.strerror(code)))
        return CacheLookup(Verdict.IO_ERROR, None, f"{Verdict.IO_ERROR.value} ({os.strerror(code)})")

    def _judge(self, digest: bytes, place: str, file: FileFacts, data: bytes | None) -> CacheLookup:
        mode, user, group, _, size, changed_ns = file
        entry = None
        if not self.root.trusts_facts(mode, user, group):
            verdict = Verdict.UNTRUSTED
        elif data is None:
            verdict = Verdict.TOO_LARGE
        else:
            verdict, entry = decode_entry(digest, data, hmac_key=self.hmac_key)
        if verdict is Verdict.HIT:
            if not -TOUCH_AFTER_NS < time.time_ns() - changed_ns < TOUCH_AFTER_NS and not self.read_only:
                self._touch(place, user)
            return CacheLookup(verdict, entry, f"verified entry of {size} bytes")
        if verdict in QUARANTINED and not self.read_only:
            self._quarantine(place, file)
        return CacheLookup(verdict, None, verdict.value)

    def _touch(self, place: str, user: int) -> None:
        """Note the use in the file's own time: eviction goes by it. A time in the future is corrected too."""
        if user != os.geteuid() and not self.root.shared:
            return
        try:
            with Opened(f"{self.root.path}/{place}", OPEN_TO_READ) as descriptor:
                os.utime(descriptor)
            self.used(bytes.fromhex(place[3:-4]))
        except FileNotFoundError:
            return  # another process has removed it
        except OSError as error:
            self._tally.ignore_error("touch", error)

    def _quarantine(self, place: str, judged: FileFacts) -> None:
        try:
            was_moved = set_aside(self.root, place[:2], place[3:], judged[3:])
        except FileNotFoundError:
            return  # another process has moved it
        except OSError as error:
            self._tally.ignore_error("quarantine", error)
        else:
            if was_moved:
                self._tally.count("quarantined")

    def put(self, place: str, data: bytes, *, only_new: bool = False, kernel: str = "") -> bool | None:
        """Publish bytes at a place (``ab/abcd...bin``); returns whether they are stored, or None when the root is not used.

        With ``only_new`` what is there already stays, and counts as stored. A ``kernel`` is kept as the entry's name.
        """
        if not self.make_usable():
            return None
        try:
            self.publish(place, data, only_new=only_new)
        except OSError as error:
            self._tally.ignore_error("put", error)
            return False
        if kernel:
            self._keep_name(place[3:-4], kernel)
        return True

    def _keep_name(self, key: str, kernel: str) -> None:
        try:
            add_name(self.root, key, kernel)
        except OSError as error:
            self._tally.ignore_error("kernel_names", error)

    def kernel_names(self) -> dict[str, str]:
        """Return the names of kernels by the keys of entries; none where they cannot be read, which is counted."""
        try:
            return read_names(self.root)
        except OSError as error:
            self._tally.ignore_error("kernel_names", error)
            return {}

    def publish(self, place: str, data: bytes, *, only_new: bool = False) -> None:
        """Publish bytes in a root that is usable; the sub-directory is made, once more if it goes meanwhile."""
        shard, name = place[:2], place[3:]
        mode, shared = self.root.file_mode, self.root.shared
        for is_last in (False, True):
            try:
                if not self.root.trusts_shard(shard):
                    raise NotADirectoryError(f"{self.root.path}/{shard} is not a directory of ours")
                publish(f"{self.root.path}/{shard}", name, data, mode, shared=shared, only_new=only_new)
            except FileNotFoundError:
                if is_last:
                    raise
                self.root.make()
                self.root.make_shard(shard)
            else:
                return

    def set_aside(self, place: str) -> None:
        """Move what is at a place to the quarantine, if it is there."""
        try:
            found = os.lstat(f"{self.root.path}/{place}")
        except OSError:
            return
        self._quarantine(place, (found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_size, found.st_mtime_ns))

    def own_directory(self, name: str, *, create: bool) -> str | None:
        """Return the path of a sub-directory beside those of the entries; None when it may not be used, or is not there.

        With ``create`` something is to be written there, so that a read-only directory has none.
        """
        if create and self.read_only:
            return None
        if not (self.make_usable() if create else self.is_usable()):
            return None
        try:
            if create:
                self.root.make_shard(name)
            return f"{self.root.path}/{name}" if self.root.trusts_shard(name) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tally.ignore_error(name, error)
            return None

    def make_usable(self) -> bool:
        """Whether the root may be used, made if it was not there; otherwise ``refused`` says why."""
        try:
            self.refused = self.root.untrusted_reason()
        except FileNotFoundError:
            self.refused = self._make()
        except OSError as error:
            self.refused = self._tally.ignore_error("root", error)
        return not self.refused

    def _make(self) -> str:
        try:
            is_new = self.root.make()
            refused = self.root.untrusted_reason()
        except OSError as error:
            self._unmade = self._tally.ignore_error("root", error)
            return self._unmade
        self._unmade = ""
        self.has_made_root |= is_new
        if is_new and not refused:  # a tag that cannot be written is not a reason to refuse it
            try:
                self.root.tag()
            except OSError as error:
                self._tally.ignore_error("tag", error)
        return refused
