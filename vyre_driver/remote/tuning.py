"""Tuning records in a store: of two for the same kernel and sizes the better measured stays, in whatever order they come.

No lock is needed for that, since every process finds the same one better. Two that store at the same moment may leave the worse
one there: the next push mends it, and a record costs speed at most, never a result.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.autotune.store.text import format_record, parse
from vyre_driver.cache.entry import Verdict
from vyre_driver.identity.keys import device_fields
from vyre_driver.remote.envelope import KEEP_S, MAX_RECORD_BYTES, opened_record, signed_record
from vyre_driver.remote.names import TUNINGS, device_name, tuning_name
from vyre_driver.remote.worker import Answer, Question, StoreWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
    from vyre_driver.remote.store import Store
    from vyre_driver.remote.trust import Signer, Trust
    from vyre_driver.vulkan.devices import PhysicalDevice


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
            text = format_record(key, record).encode()
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


class SharedRecords:
    """What ``TuningRecords`` asks: one driver's view of the records that machines share.

    What is asked for is brought, and what is sent is sent, by the background thread. What is taken goes to the driver's own
    records, where the better measured of two stays. Only what was measured here is sent.

    May be used from several threads; ``note`` counts what comes of a question.
    """

    def __init__(
        self, worker: StoreWorker, device: PhysicalDevice, trust: Trust, signer: Signer | None, note: Callable[[str], None]
    ) -> None:
        """Ask nothing yet."""
        self._worker, self._trust, self._signer, self._note = worker, trust, signer, note
        self._device = device_name(device_fields(device))
        self._asking: dict[str, _Question] = {}

    def ask(self, key: AutotuneKey, take: Callable[[AutotuneKey, AutotuneRecord], bool], patience_s: float) -> None:
        """Have the records of a kernel looked for, and wait for so many seconds at most until they are taken.

        ``take`` gets each, on the background thread, and returns whether it is used. Nothing is asked that was answered in the
        last half minute, or while the store is left alone.
        """
        name = tuning_name(self._device, key)
        question = self._asking.get(name)
        if question is None:
            if not self._trust or name in self._worker.absent or self._worker.is_open():
                return
            question = self._asking[name] = _Question(self, name, take)
            if not self._worker.ask(question):
                self._asking.pop(name, None)
                return
        if patience_s > 0:
            question.answer.wait(patience_s)

    def tell(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        """Have others get what was measured here, unless they have a better measured one."""
        if self._signer is None or not self._worker.may_write or not record.identity:
            return
        size = len(format_record(key, record))
        if self._worker.uploads.add(partial(self._push, key, record, self._signer), size, self._note):
            self._worker.wake()
        else:
            self._note("remote_put_shed")

    def _push(self, key: AutotuneKey, record: AutotuneRecord, signer: Signer, store: Store) -> bool:
        return push_records(store, signer, self._trust, self._device, [(key, record)])[0] > 0

    def judged(self, name: str, fields: dict[str, bytes]) -> Records:
        """Return what of the fields below a name counts."""
        return records_of(fields, self._trust, self._device, name)

    def ended(self, name: str, found: Records | None, taken: int = 0) -> None:
        """Let a name be asked for again: half a minute after an answer, at once after a failure. Count what came."""
        if found is not None:
            self._worker.absent.add(name)
            for what, number in (("remote_records", taken), ("remote_records_refused", found.refused.total())):
                for _ in range(number):
                    self._note(what)
        self._asking.pop(name, None)


class _Question(Question):
    """The records below a name, as the worker asks for them."""

    def __init__(self, shared: SharedRecords, name: str, take: Callable[[AutotuneKey, AutotuneRecord], bool]) -> None:
        self._shared, self._name, self._take = shared, name, take
        self._fields: dict[str, bytes] = {}
        self.answer = Answer()

    def ask(self, store: Store) -> Sequence[bytes | None]:
        self._fields = store.fields(self._name, MAX_RECORD_BYTES)
        return list(self._fields.values())

    def answered(self, values: Sequence[bytes | None]) -> bool | None:
        found = self._shared.judged(self._name, self._fields)
        taken = 0
        try:
            for one in found.found:
                taken += self._take(one.key, one.record)
        finally:
            self._shared.ended(self._name, found, taken)
            self.answer.finish("answered")
        return bool(found.refused) and not found.found if values else None

    def failed(self, outcome: str) -> None:
        self._shared.ended(self._name, None)
        self.answer.finish(outcome)
