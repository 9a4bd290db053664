"""One driver's view of the tuning records that machines share: what is asked for by the background thread, and sent by it.

What is taken goes to the driver's own records, where the better measured of two stays. Only what was measured here is sent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.autotune.store.text import AutotuneText, format_text
from vyre_driver.identity.keys import device_fields
from vyre_driver.remote.envelope import MAX_RECORD_BYTES
from vyre_driver.remote.names import device_name, tuning_name
from vyre_driver.remote.outcome import Answer
from vyre_driver.remote.tuning import push_records, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
    from vyre_driver.remote.store import Store
    from vyre_driver.remote.trust import Signer, Trust
    from vyre_driver.remote.tuning import Records
    from vyre_driver.remote.worker import StoreWorker
    from vyre_driver.vulkan.devices import PhysicalDevice


class SharedRecords:
    """What ``TuningRecords`` asks. May be used from several threads; ``note`` counts what comes of a question."""

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
        size = len(format_text(AutotuneText({(key, record.identity): record})))
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


class _Question:
    """The records below a name, as the worker asks for them."""

    names: Sequence[str] = ()

    def __init__(self, shared: SharedRecords, name: str, take: Callable[[AutotuneKey, AutotuneRecord], bool]) -> None:
        self._shared, self._name, self._take = shared, name, take
        self._fields: dict[str, bytes] = {}
        self.answer = Answer()

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *raised: object) -> None:
        pass

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
