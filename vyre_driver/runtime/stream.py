"""A kernel called with one chunk after the other, while those before and after it travel."""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_driver.errors import DispatchFailed, ForkError, InputChanged, InvalidInput, OutputNotWritten, VyreError
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.overlap import LOADS_UNDER_WAY, Overlap
from vyre_driver.process.call_lock import call_lock
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.streamed import Slots, StreamedLoad
from vyre_driver.runtime.streamed_call import check_untouched
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self

    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.streamed_call import Streamable, StreamedCall

_NOTHING = object()
_Arrived: TypeAlias = "tuple[StreamedCall, list[Any], tuple[int, int]]"  # with the bytes that went to the device and back


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a stream has come: chunks whose results were given, bytes that went to the device and back, and seconds.

    ``total`` is how many chunks there are, None where nobody knows. Bytes are those of the copies that go on beside dispatches:
    strict calls, and those where the device can have no movers, run by themselves and add none.
    """

    chunks: int
    total: int | None
    bytes_to_device: int
    bytes_from_device: int
    seconds: float


class Stream:
    """The results of a kernel for one chunk after the other, in order: what ``Driver.stream`` returns.

    Up to four chunks are read before the result of the first is given. Iterate over it; ``close``, or the end of a ``with``
    block, leaves out what has not been given. Which thread asks for the next result does not matter, one at a time.
    """

    def __init__(
        self,
        context: Context,
        calls: Iterator[StreamedCall],
        total: int | None,
        timeout: float | None,
        on_progress: Callable[[StreamProgress], object] | None,
    ) -> None:
        """Have begun nothing; made by ``Driver.stream``."""
        self._context = context
        self._device = context.device
        self._calls = calls
        self._total = total
        self._timeout = timeout
        self._on_progress = on_progress
        self._lock = call_lock("the stream")
        self._overlap = Overlap(context.device)
        self._line: deque[_Entry | None] = deque([None] * LOADS_UNDER_WAY, LOADS_UNDER_WAY)  # as the loads of ``_overlap``
        self._slots = Slots()
        self._alone: StreamedCall | None = None  # a call that runs by itself, once all before it are through
        self._error: Exception | None = None
        self._is_broken = False
        self._is_over = False
        self._moved = 0, 0
        self._began_ns: int | None = None
        self._finished = 0

    @property
    def finished(self) -> int:
        """How many chunks have come back: their results are whole, whatever happens to the others."""
        return self._finished

    def __iter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __next__(self) -> Any:  # noqa: ANN401 -- what the kernel returns
        """Return the result of the next chunk.

        A chunk's error is raised in its place, after the results of all before it; the stream has ended then.

        Raises
        ------
        InvalidInput
            If a chunk does not fit the kernel.
        DispatchTimeout
            If the device takes longer than ``timeout``.
        DeviceLost
            If the device is lost.
        DispatchFailed
            If the driver is closed, or the work fails otherwise.
        DeviceOutOfMemory
            If there is no memory for another chunk.
        """
        with self._lock:
            return self._next()

    def __length_hint__(self) -> int:
        """Return how many results are still to come; 0 where nobody knows."""
        return 0 if self._total is None else max(0, self._total - self._finished)

    def close(self) -> None:
        """Give up what has not been given, and return when the device is at none of the arrays any more.

        After a time-out or Ctrl-C it is needed before arrays of the stream are used for something else. It may be called again.
        """
        with self._lock:
            self._end()
            try:
                with self._device.in_use:
                    self._device.movers.settle(self._device.never)
            except DispatchFailed as error:
                is_gone = self._device.in_use.closed or self._device.is_lost or isinstance(error, ForkError)
                if not is_gone:
                    raise

    def __enter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it."""
        self.close()

    __reduce_ex__ = refuse_copies

    def _next(self) -> Any:  # noqa: ANN401 -- what the kernel returns
        """Return the next result, with the lock held; raises StopIteration after the last one."""
        if self._is_over:
            raise StopIteration
        self._is_over = True  # whatever ends this early: what is half done is not gone on with
        arrived = None
        try:
            arrived = self._arrived()
            if arrived is not None:
                found = self._given(*arrived)
                self._is_over = False
                return found
            self._end()
        except BaseException as error:
            self._end()
            if isinstance(error, Exception):
                self._tell(error, is_of_call=arrived is None)
            raise
        raise StopIteration

    def _arrived(self) -> _Arrived | None:
        """Return the next call with its outputs, once they are there; None if there are no more."""
        if self._began_ns is None:
            self._began_ns = time.perf_counter_ns()
        while True:
            if self._is_broken:
                self._check_ended_well()
                return None
            is_empty = not any(self._line)
            if self._alone is not None and is_empty:
                alone, self._alone = self._alone, None
                return alone, self._at_once(alone), (0, 0)
            call = self._pull() if self._alone is None else None
            if call is not None and call.kernel is not None and (call.options.strict or not self._device.movers.can_be_made):
                self._alone = call
                continue
            if call is None and is_empty:
                self._check_ended_well()
                return None
            with self._device.in_use:
                leaving = self._take(Deadline(self._timeout, self._device.physical.name))
                self._line.appendleft(self._start(call, leaving))
            if leaving is not None:
                return leaving.call, leaving.outputs(), leaving.streamed.moved_bytes

    def _check_ended_well(self) -> None:
        """Raise what taking or starting chunks has failed with, if it has."""
        if self._error is not None:
            raise self._error

    def _at_once(self, call: StreamedCall) -> list[Any]:
        """Run a call by itself: without movers nothing goes on beside it, and a strict one runs twice."""
        began_ns = time.perf_counter_ns()
        assert call.kernel is not None  # noqa: S101 -- others run nothing
        options = call.options._replace(timeout=self._timeout)
        try:
            outputs = call.kernel._run(call.arrays, call.named, options)  # noqa: SLF001 -- it is there for this
        except (OutputNotWritten, InputChanged) as error:
            if call.named_error is None:
                raise
            raise call.named_error(error) from None
        _record(call, began_ns)
        return outputs

    def _pull(self) -> StreamedCall | None:
        """Return the next call, None if there is none; what giving it fails with waits until those before it are through."""
        try:
            return next(self._calls, None)
        except Exception as error:  # noqa: BLE001 -- of the caller's own generator: it is raised in the place of the chunk
            self._fail(error)
            return None

    def _take(self, deadline: Deadline) -> _Entry | None:
        """Wait for the entry that is next to leave."""
        self._overlap.finish(deadline)
        leaving = self._line.pop()
        if leaving is not None and leaving.streamed.slot is not None:
            self._slots.give_back(leaving.streamed.slot)
        return leaving

    def _start(self, call: StreamedCall | None, leaving: _Entry | None) -> _Entry | None:
        """Place a call and hand it over, beside those before it; the result of what is ``leaving`` is yet to be taken."""
        if call is not None:
            try:
                check_untouched(call, [one.call for one in (leaving, *self._line) if one is not None])
                entry = _Entry(call, self._slots)
                self._overlap.start(entry.streamed.load)
            except Exception as error:  # noqa: BLE001 -- it is raised in the place of the chunk
                self._fail(error)
            else:
                return entry
        try:
            self._overlap.start(None)
        except Exception as error:  # noqa: BLE001 -- what is in hand is given first
            self._fail(error)
            self._is_broken = True
        return None

    def _given(self, call: StreamedCall, outputs: list[Any], moved: tuple[int, int]) -> Any:  # noqa: ANN401
        found = call.finish(outputs)
        self._moved = self._moved[0] + moved[0], self._moved[1] + moved[1]
        if self._on_progress is not None:
            seconds = (time.perf_counter_ns() - (self._began_ns or 0)) * 1e-9
            try:
                self._on_progress(StreamProgress(self._finished + 1, self._total, *self._moved, seconds))
            except StopIteration as error:  # which would seem to be the end of the stream, as in a generator
                raise RuntimeError("on_progress of a stream raised StopIteration") from error
        self._finished += 1
        return found

    def _fail(self, error: Exception) -> None:
        """Take no more chunks; the first error is the one that is raised."""
        self._error = self._error or error
        self._calls = iter(())

    def _end(self) -> None:
        """Give up what has not been given, and touch no array any more; what the device is at stays until it has ended."""
        self._is_over = True
        self._calls = iter(())
        self._alone = self._error = None
        self._line.extend([None] * LOADS_UNDER_WAY)
        self._slots = Slots()
        self._overlap.end()

    def _tell(self, error: Exception, *, is_of_call: bool) -> None:
        """Say of an error which chunk it belongs to, and count it if the call itself has failed."""
        if isinstance(error, VyreError):
            error.context.setdefault("chunk", self._finished)
        note = getattr(error, "add_note", None)  # from Python 3.11 on
        if note is not None:
            note(f"In chunk {self._finished} of a stream; the results of all before it were given.")
        if is_of_call:
            self._context.events.failed(EventKind.DISPATCH, error)


class _Entry:
    """A call that is under way."""

    __slots__ = ("_began_ns", "call", "streamed")

    def __init__(self, call: StreamedCall, slots: Slots) -> None:
        """Prove it and place it; raises as a call."""
        self._began_ns = time.perf_counter_ns()
        self.call = call
        self.streamed = StreamedLoad()
        if call.kernel is not None:
            self.streamed = call.kernel._load(call.arrays, call.named, call.options, slots)  # noqa: SLF001 -- it is there for this

    def outputs(self) -> list[Any]:
        """Return its outputs, which have arrived."""
        _record(self.call, self._began_ns)
        return self.streamed.take()


def _record(call: StreamedCall, began_ns: int) -> None:
    if call.kernel is not None:
        call.kernel._observed.dispatches.ran(began_ns, call.options.label)  # noqa: SLF001 -- it is there for this


def stream_of(  # noqa: PLR0913 -- as Driver.stream
    context: Context,
    kernel: object,
    chunks: Iterable[object],
    out: Iterable[object] | None,
    timeout: float | None,
    on_progress: Callable[[StreamProgress], object] | None,
    named: dict[str, object],
) -> Stream:
    """Return a stream, which begins when its first result is asked for; raises as ``Driver.stream``."""
    context.device.check_usable()
    if not hasattr(type(kernel), "__vyre_stream__"):
        raise InvalidInput(
            f"stream got a {type(kernel).__name__}, which is no kernel that it could run",
            fix="give what driver.compile() returns, or a kernel of vyre_driver.lang",
        )
    given = _iterated(chunks, "the chunks of a stream", "give a list, a generator, or an array whose rows are the chunks")
    targets = None if out is None else _iterated(out, "out of a stream", "give a list or a generator with one for each chunk")
    if on_progress is not None and not callable(on_progress):
        raise InvalidInput(
            f"on_progress is a {type(on_progress).__name__}, which cannot be called", fix="give a function of one argument"
        )
    Deadline(timeout, context.device.physical.name)
    found = operator.length_hint(chunks, -1)
    calls = _calls(kernel, context, given, targets, named)  # type: ignore[arg-type] # it has the method
    return Stream(context, calls, None if found < 0 else found, timeout, on_progress)


def _iterated(given: Iterable[object], what: str, fix: str) -> Iterator[object]:
    try:
        return iter(given)
    except TypeError as error:
        raise InvalidInput(f"{what} cannot be iterated over: {error}", fix=fix) from error


def _calls(
    kernel: Streamable,
    context: Context,
    chunks: Iterator[object],
    out: Iterator[object] | None,
    named: dict[str, object],
) -> Iterator[StreamedCall]:
    """Yield the calls of a stream; raises InvalidInput where ``out`` ends before the chunks, or one does not fit."""
    for number, chunk in enumerate(chunks):
        by_name = {**named, **chunk} if isinstance(chunk, Mapping) else named
        arrays = () if isinstance(chunk, Mapping) else chunk if isinstance(chunk, tuple) else (chunk,)
        target = None if out is None else next(out, _NOTHING)
        if target is _NOTHING:
            raise InvalidInput(
                f"out of the stream has ended after {number}, and there is another chunk", fix="give one for each chunk"
            )
        yield kernel.__vyre_stream__(context, arrays, by_name, target)
