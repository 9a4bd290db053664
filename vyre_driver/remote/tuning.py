"""Tuning records in a store: of two for the same kernel and sizes the better measured stays, in whatever order they come.

No lock is needed for that, since every process finds the same one better. Two that store at the same moment may leave the worse
one there: the next push mends it, and a record costs speed at most, never a result.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.autotune.store.text import AutotuneText, format_text, parse
from vyre_driver.cache.entry import Verdict
from vyre_driver.remote.envelope import MAX_RECORD_BYTES, opened_record, signed_record
from vyre_driver.remote.exchange import KEEP_S
from vyre_driver.remote.names import TUNINGS, tuning_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
    from vyre_driver.remote.store import Store
    from vyre_driver.remote.trust import Signer, Trust


class StoredRecord(NamedTuple):
    """A record of a store that was found to be what it is said to be, and who signed it."""

    key: AutotuneKey
    record: AutotuneRecord
    signer: str


@dataclass(slots=True)
class Records:
    """What a store has below a name: records that count, and how many do not, by the reason."""

    found: list[StoredRecord] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def read_records(store: Store, trust: Trust, device: str, name: str) -> Records:
    """Return the records of a kernel on a device, as ``records_of``. The failure of the store goes through."""
    return records_of(store.fields(name, MAX_RECORD_BYTES), trust, device, name)


def records_of(fields: Mapping[str, bytes], trust: Trust, device: str, name: str) -> Records:
    """Return the records of a kernel on a device, which are the fields below a name as ``tuning_name`` makes it.

    A record counts when it is signed by somebody trusted, its key is that of the name, and its identity that of its field:
    what was stored elsewhere is not taken for it.
    """
    records = Records()
    for identity, data in fields.items():
        verdict, text, signer = opened_record(data, trust)
        one = None if text is None else _parsed(text)
        if verdict is not Verdict.HIT or one is None:
            records.refused[(Verdict.CORRUPT if verdict is Verdict.HIT else verdict).name] += 1
        elif tuning_name(device, one[0]) != name or one[1].identity != identity:
            records.refused[Verdict.FOREIGN_KEY.name] += 1
        else:
            records.found.append(StoredRecord(*one, signer))
    return records


def push_records(
    store: Store, signer: Signer, trust: Trust, device: str, records: Iterable[tuple[AutotuneKey, AutotuneRecord]]
) -> tuple[int, int]:
    """Store the records of a device that are better measured than what is there; returns how many, and how many were not.

    The failure of the store goes through. A record without an identity is nobody's but its file's, and is not stored.
    """
    by_name = defaultdict(list)
    for key, record in records:
        if record.identity:
            by_name[tuning_name(device, key)].append((key, record))
    stored = known = 0
    for name, given in by_name.items():
        there = {one.record.identity: one.record for one in read_records(store, trust.and_of(signer), device, name).found}
        for key, record in given:
            other = there.get(record.identity)
            if other is not None and not record.supersedes(other):
                known += 1
                continue
            text = format_text(AutotuneText({(key, record.identity): record})).encode()
            store.put_field(name, record.identity, signed_record(text, signer), KEEP_S)
            stored += 1
    return stored, known


def pull_records(store: Store, trust: Trust, device: str) -> Records:
    """Return all records of a device. The failure of the store goes through."""
    records = Records()
    for name in store.names(f"{TUNINGS}{device}:"):
        one = read_records(store, trust, device, name)
        records.found += one.found
        records.refused += one.refused
    return records


def _parsed(text: bytes) -> tuple[AutotuneKey, AutotuneRecord] | None:
    """Return the one record of a text, None for a text of more or none, or of another schema."""
    try:
        content = parse(text.decode())
    except ValueError:
        return None
    if len(content.records) != 1 or content.unreadable:
        return None
    (((key, _), record),) = content.records.items()
    return key, record
