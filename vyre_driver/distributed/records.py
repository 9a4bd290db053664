"""Tuning records of a fleet: what one worker has measured, or knew when it joined, the others use.

They are short, and lie with the scheduler. What comes from there is kept beside a worker's own records, never among them
(``autotune.taken.toml``), and can cost speed at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import TimeoutError as WaitTimeoutError
from typing import TYPE_CHECKING

from vyre_driver.autotune.store.records import PATIENCE_S
from vyre_driver.autotune.store.text import format_record, parse
from vyre_driver.distributed.scheduling import MEASURED, RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Worker

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
    from vyre_driver.autotune.store.records import TuningRecords

    Take = Callable[[AutotuneKey, AutotuneRecord], bool]

_ASKS_EVERY_S = 1.0


class FleetRecords:
    """What a worker's ``TuningRecords`` asks and tells, beside the store that machines share. Safe for threads."""

    def __init__(self, worker: Worker) -> None:
        """Ask nothing yet."""
        self._worker = worker
        self._asked: dict[AutotuneKey, float] = {}

    def ask(self, key: AutotuneKey, take: Take, patience_s: float) -> None:
        """Have the fleet's records of a kernel given to ``take``, unless that was within the last second."""
        now = time.monotonic()
        if now - self._asked.get(key, -_ASKS_EVERY_S) < _ASKS_EVERY_S:
            return
        self._asked[key] = now
        answer = asyncio.run_coroutine_threadsafe(self._ask(key, take), self._worker.loop.asyncio_loop)
        if patience_s > 0:
            with contextlib.suppress(WaitTimeoutError, OSError, ValueError):
                answer.result(patience_s)

    def tell(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        """Give the fleet a record that was measured here."""
        if record.identity:
            text = format_record(key, record)
            message = {"op": MEASURED, "name": list(_name(key)), "identity": record.identity, "text": text}
            self._worker.loop.add_callback(self._worker.batched_send, message)

    def exchange(self, key: AutotuneKey, records: TuningRecords) -> None:
        """Give the fleet what was measured here of a kernel before, and take what the fleet knows, before its first call."""
        for record in records.own(key):
            self.tell(key, record)
        self.ask(key, records.take, PATIENCE_S)

    async def _ask(self, key: AutotuneKey, take: Take) -> None:
        found: list[str] = await getattr(self._worker.scheduler, RECORDS)(name=list(_name(key)))
        for text in found:
            for (other, _), record in parse(text).records.items():
                if other == key:
                    await asyncio.to_thread(take, key, record)


def _name(key: AutotuneKey) -> tuple[str, str]:
    return key.key_hex, key.adapter_id
