"""The tuning store of a user: one file that any number of processes and threads add to without losing records.

What is read is never half a file, and takes no lock: a file is replaced whole. Saving locks, reads what others have saved
since, joins it with what changed here, and writes it durably. docs/autotune-format.md says what stands in the file and what
the original does with it.

Source: spec item 2.4.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.autotune.store import file as autotune_file
from vyre_driver.autotune.store.text import SCHEMA, AutotuneText
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import InvalidAutotuneFile

if TYPE_CHECKING:
    import os
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord

DEFAULT_WAIT_S = 10.0
_Forgotten: TypeAlias = "tuple[AutotuneKey, str | None]"  # a key, and one identity or all of them


class AutotuneWarning(UserWarning):
    """Something in an autotune file is not used as it stands, and why."""


class AutotuneStore:
    """Records by key and identity, in memory; ``load`` and ``save_if_dirty`` are the way to and from a file.

    Safe for threads. ``len`` counts records; different identities under one of upstream's keys are different records.
    """

    def __init__(self) -> None:
        """Begin empty and clean."""
        self._content = AutotuneText()
        self._on_file = AutotuneText()  # what was read or written last: another save need not parse it again
        self._newest: dict[AutotuneKey, AutotuneRecord] = {}
        # What changed here since the last save: what was forgotten goes before what was put.
        self._changes: dict[tuple[AutotuneKey, str], AutotuneRecord] = {}
        self._forgotten: set[_Forgotten] = set()
        self._changing = threading.Lock()
        self._saving = threading.Lock()

    def __repr__(self) -> str:
        """Return how many records it has as one line."""
        return one_line("AutotuneStore", f"of {count(len(self), 'record')}", "not saved" if self.is_dirty else "")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AutotuneStore:
        """Return the records of a file, none if there is no file. Records that are not valid are warned of and left out.

        Raises
        ------
        FileUnusable
            If it cannot be read.
        InvalidAutotuneFile
            If it is not an autotune file; saving to it moves it aside first.
        """
        store = cls()
        store._on_file = autotune_file.read(path)
        store._take(_without(store._on_file, frozenset()))
        for _, why in store._content.unreadable:
            warnings.warn(f"a record of {path} is left out, and kept in the file: {why}", AutotuneWarning, stacklevel=2)
        return store

    def get(self, key: AutotuneKey, identity: str | None = None) -> AutotuneRecord | None:
        """Return the record of a key with just this identity; without one whichever was put last, as a suggestion."""
        if identity is None:
            return self._newest.get(key)
        return self._content.records.get((key, identity))

    def put(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        """Add a record, in the place of one with the same key and identity.

        A better measured one that the file has when this is saved stays: to replace that, forget it first.
        """
        with self._changing:
            self._put(key, record)

    def put_better(self, key: AutotuneKey, record: AutotuneRecord) -> bool:
        """Add a record unless there is one as well measured with the same key and identity; returns whether it was added."""
        with self._changing:
            there = self._content.records.get((key, record.identity))
            if there is not None and not record.supersedes(there):
                return False
            self._put(key, record)
            return True

    def forget(self, key: AutotuneKey, identity: str | None = None) -> bool:
        """Remove every record of a key, or the one with this identity, here and, when saved, from the file.

        Returns whether there was one here.
        """
        with self._changing:
            gone = [at for at in self._content.records if at[0] == key and identity in {None, at[1]}]
            if not gone:
                return False
            forgotten = {(key, identity)}
            self._take(_without(self._content, forgotten))
            self._changes = {at: record for at, record in self._changes.items() if at not in gone}
            self._forgotten |= forgotten
            return True

    def of(self, key: AutotuneKey) -> list[AutotuneRecord]:
        """Return every record of a key, in the order of their identities."""
        if key not in self._newest:
            return []
        return [record for (at, _), record in self.records().items() if at == key]

    def records(self) -> dict[tuple[AutotuneKey, str], AutotuneRecord]:
        """Return all of them by key and identity, in their order."""
        with self._changing:
            return dict(sorted(self._content.records.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        """Count the records."""
        return len(self._content.records)

    @property
    def is_empty(self) -> bool:
        """Whether there is no record."""
        return not self._content.records

    @property
    def is_dirty(self) -> bool:
        """Whether something changed since the last load or save."""
        return bool(self._changes or self._forgotten)

    def save_if_dirty(self, path: str | os.PathLike[str], *, wait_s: float = DEFAULT_WAIT_S) -> bool:
        """Join what changed with what the file has, durably; returns False, with nothing done, where nothing has changed.

        The directory is made. Of two records with one key and identity the better measured stays
        (:meth:`AutotuneRecord.supersedes`). Others may save for ``wait_s`` seconds first. After a failure the store is
        still dirty. A file that is not an autotune file is moved aside, with a warning.

        Raises
        ------
        FileUnusable
            If it cannot be locked in time, read or written.
        InvalidAutotuneFile
            If a newer version wrote it: then it is not written to.
        """
        with self._saving:
            with self._changing:
                changes, forgotten = dict(self._changes), frozenset(self._forgotten)
            if not changes and not forgotten:
                return False
            with autotune_file.locked(path, wait_s) as target:
                content = _joined(self._on_disk(target), changes, forgotten)
                self._on_file = content = target.write(content)
            with self._changing:
                self._changes = {at: new for at, new in self._changes.items() if changes.get(at) is not new}
                self._forgotten -= forgotten
                self._take(_joined(content, self._changes, self._forgotten))
            return True

    @staticmethod
    def check_savable(path: str | os.PathLike[str], *, wait_s: float = DEFAULT_WAIT_S) -> None:
        """Check that records could be saved to a file now, before a long measurement; nothing is written to it.

        Raises
        ------
        FileUnusable
            If the file cannot be read or written, or stays locked.
        InvalidAutotuneFile
            If the file holds no tuning records.
        """
        with autotune_file.locked(path, wait_s) as target:
            try:
                content = target.read()
            except InvalidAutotuneFile:  # it would be moved aside
                return
            _check_schema(target.path, content)

    def _put(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        self._content.records[key, record.identity] = record
        self._newest[key] = record
        self._changes[key, record.identity] = record

    def _on_disk(self, target: autotune_file.LockedFile) -> AutotuneText:
        try:
            content = target.read(self._on_file)
        except InvalidAutotuneFile as error:
            aside = target.move_aside()
            warnings.warn(f"{error} It is {aside} now", AutotuneWarning, stacklevel=3)
            return AutotuneText()
        _check_schema(target.path, content)
        return replace(content, schema=SCHEMA)

    def _take(self, content: AutotuneText) -> None:
        self._content = content
        self._newest = {key: record for (key, _), record in content.records.items()}


def _check_schema(path: Path, content: AutotuneText) -> None:
    if content.schema > SCHEMA:
        raise InvalidAutotuneFile(
            f"{path} has schema {content.schema}, and this version writes schema {SCHEMA}",
            fix="save to another file, or use the version that wrote it",
            path=str(path),
            schema=content.schema,
        )


def _without(content: AutotuneText, forgotten: AbstractSet[_Forgotten]) -> AutotuneText:
    """Return a copy with neither records nor additions of what was forgotten."""
    if not forgotten:
        return replace(content, records=dict(content.records), unknown_of=dict(content.unknown_of))
    gone = {at for at in content.records if at in forgotten or (at[0], None) in forgotten}
    records = {at: record for at, record in content.records.items() if at not in gone}
    return replace(content, records=records, unknown_of={at: one for at, one in content.unknown_of.items() if at not in gone})


def _joined(
    content: AutotuneText,
    changes: dict[tuple[AutotuneKey, str], AutotuneRecord],
    forgotten: AbstractSet[_Forgotten],
) -> AutotuneText:
    """Return a file's content with what changed: first what was forgotten goes, then the better measured of two stays."""
    result = _without(content, forgotten)
    for at, record in changes.items():
        there = result.records.get(at)
        if there is None or record.supersedes(there):
            result.records[at] = record
            result.unknown_of.pop(at, None)  # what others have added was said of another record
    return result
