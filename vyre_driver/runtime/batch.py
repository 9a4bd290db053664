"""Many dispatches in one submission, each waiting for those before it whose results it needs."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.checks import check_text
from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.recording import batch_label, record_in_order
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.bound import BoundKernel
from vyre_driver.runtime.futures import DispatchFuture
from vyre_driver.runtime.observed import ObservedBatch
from vyre_driver.runtime.recordings import Recordings
from vyre_driver.telemetry.stages import Stage

if TYPE_CHECKING:
    from types import TracebackType

    from vyre_driver.telemetry.events import Events


class Batch:
    """Bound kernels in order, run as one submission; ``run`` again replays it, with the push constants that they have by then.

    As a context manager it runs once at the end of the block, unless the block raised. Kernels that share no buffer, or
    only read the ones they share, run side by side; the others in order.
    """

    def __init__(self, events: Events, label: str | None = None) -> None:
        """Start empty; made by ``Driver.batch``."""
        if label is not None:
            check_text("label", label)
        self._events = events
        self._label = "batch" if label is None else label
        self._observed: ObservedBatch | None = None
        self._bound: list[BoundKernel] = []
        self._recordings: Recordings | None = None
        self._named = 0  # what profiles call its submissions, where it is recorded

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return how many dispatches it has as one line."""
        number = len(self._bound)
        recorded = "" if self._recordings is None else "recorded"
        return one_line("Batch", f"of {number} dispatch{'' if number == 1 else 'es'}", recorded)

    def add(self, bound: BoundKernel) -> None:
        """Append a bound kernel; the same one may come several times.

        Raises
        ------
        InvalidInput
            If it is something else.
        """
        if not isinstance(bound, BoundKernel):
            raise InvalidInput(
                f"a batch takes bound kernels and got something of type {type(bound).__name__}",
                fix="add what kernel.bind(...) returns",
            )
        self._bound.append(bound)
        self._recordings = self._observed = None

    def run(self, timeout: float | None = None) -> None:
        """Submit all and wait; raises as ``DispatchFuture.result``."""
        observed = self._watched()
        began = time.perf_counter_ns()
        try:
            recorded = self._recorded()
            recording = observed.timeline.now()
            recorded.first.run(timeout)
            if recording:
                observed.timeline.add(Stage.EXECUTE, recording, self._named)
        except Exception as error:
            observed.failed(error, time.perf_counter_ns() - began)
            raise
        observed.dispatches.ran(began)

    def submit(self, *, block: bool | None = None) -> DispatchFuture:
        """Submit all and return at once, also while earlier submissions are under way; as ``BoundKernel.submit``."""
        observed = self._watched()
        submitting = observed.timeline.now()
        try:
            submission, generation = self._recorded().submit(block)
            future = DispatchFuture(submission, generation, observed)
        except Exception as error:
            observed.failed(error)
            raise
        if submitting:
            observed.timeline.add(Stage.SUBMIT, submitting, self._named)
        return future

    def __enter__(self) -> Batch:
        """Return the batch itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Run it."""
        if error is None and self._bound:
            self.run()

    def _watched(self) -> ObservedBatch:
        observed = self._observed
        if observed is None:
            observed = self._observed = ObservedBatch(self._events, [one.name for one in self._bound], self._label)
        return observed

    def _recorded(self) -> Recordings:
        if not self._bound:
            raise InvalidInput("the batch is empty", fix="add a bound kernel to it")
        pushed = tuple([bound.push_words for bound in self._bound])
        recordings = self._recordings
        if recordings is None:
            devices = {id(bound.pipeline.device) for bound in self._bound}
            if len(devices) > 1:
                raise InvalidInput(f"the batch holds kernels of {len(devices)} drivers", fix="make a batch for each driver")
            self._named = batch_label(self._bound)
            recordings = self._recordings = Recordings(partial(record_in_order, tuple(self._bound)), pushed, "this batch")
        elif recordings.values != pushed:
            recordings = self._recordings = recordings.renewed(pushed)
        return recordings
