"""The process that an isolated driver works in: it opens the device, and does what it is asked over sockets.

The first message on the control socket is the job. Each further one brings an end of a connection, which a thread of its own
serves until the other side closes it. When the control socket is closed the process ends at once, whatever the device does; the
kernel ends it with its parent even where that cannot be seen, because a driver holds the interpreter.

Kernels, buffers and bound kernels go by numbers, arrays by their places. An argument comes as
``("array", offset, shape, type)`` of the shared memory, ``("buffer", number, offset, shape, type)`` of a resident buffer, or
``("value", value)``.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.driver import Driver
from vyre_driver.ir.program import Program
from vyre_driver.isolated.arena import ARRAY, BUFFER, MappedArena, dtype_of, nbytes_of, place_in_buffer
from vyre_driver.isolated.packets import Polling, receive, send
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.process.child import end_with_parent
from vyre_driver.profiling.recorder import Recorder
from vyre_driver.runtime.compiling import NamedProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.isolated.arena import Encoded
    from vyre_driver.kompute.blocks import MemoryFacts
    from vyre_driver.profiling.recorder import Recording
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.kernel import Kernel

    Shaped = tuple[tuple[int, ...], Any]

_MOST_SEEN = 1024


class _Form(NamedTuple):
    kernel: Kernel
    inputs: tuple[Shaped, ...]
    outputs: tuple[Shaped, ...]
    names: tuple[str, ...]
    pushed: tuple[str, ...]
    grid: Mapping[str, Any]


class Work:
    """The objects of one driver, by the numbers that the other side gave them. Used by several threads."""

    def __init__(self, driver: Driver, arena: MappedArena) -> None:
        """Have none yet."""
        self._driver = driver
        self._arena = arena
        self._objects: dict[int, Any] = {}
        self._gone: set[int] = set()
        self._parts: dict[Any, Buffer] = {}
        self._batches: dict[tuple[int, ...], Batch] = {}
        self._forms: dict[tuple[int, int], _Form] = {}
        self._known: dict[tuple[int, int, tuple[int, ...]], tuple[NDArray[Any], ...]] = {}
        self._changing = threading.Lock()
        self._recorder: Recorder | None = None

    def facts(self) -> dict[str, Any]:
        """Return what the other side has to know of the device."""
        driver, device = self._driver, self._driver.context.device
        return {
            "device": driver.device,
            "features": device.features,
            "strict": driver.strict,
        }

    def drop(self, number: int) -> None:
        """Let an object go; one whose making goes on is let go when it is made."""
        with self._changing:
            if self._objects.pop(number, None) is None:
                if len(self._gone) >= _MOST_SEEN:
                    self._gone.clear()
                self._gone.add(number)
            for key in [key for key in self._parts if key[1] == number]:
                del self._parts[key]
            for form in [form for form in self._forms if form[0] == number]:
                del self._forms[form]
            for numbers in [numbers for numbers in self._batches if number in numbers]:
                del self._batches[numbers]

    def do(self, name: str, arguments: Sequence[Any]) -> Any:  # noqa: ANN401 -- each step its own
        """Return what a step gives."""
        if name not in _STEPS:
            raise ValueError(f"there is no step {name!r}")
        return getattr(self, name)(*arguments)

    def call(  # noqa: PLR0913 -- a call, taken apart
        self,
        made: int,
        number: int,
        arrays: Sequence[Encoded],
        named: Mapping[str, Encoded],
        options: Mapping[str, Any],
        out: Any,  # noqa: ANN401 -- one, several, or by name
    ) -> list[Any] | None:
        """Call a kernel; returns None where every output is in its place, else what each is, for ``fetch`` by ``made``."""
        kernel: Kernel = self._objects[number]
        given = [self._decoded(one) for one in arrays]
        by_name = {name: self._decoded(one) for name, one in named.items()}
        targets = self._targets(out)
        found = kernel(*given, out=targets, **options, **by_name)
        outputs = found if isinstance(found, tuple) else (found,)
        wanted = targets if isinstance(targets, tuple) else (targets,)
        if isinstance(targets, dict):
            wanted = tuple(targets.values())
        if all(type(one) is np.ndarray and any(one is target for target in wanted) for one in outputs):
            return None
        self._objects[made] = outputs
        known = [*given, *by_name.values(), *wanted]
        return [self._told(one, known) for one in outputs]

    def form(  # noqa: PLR0913 -- a form, taken apart
        self,
        number: int,
        form: int,
        inputs: Sequence[Shaped],
        outputs: Sequence[Shaped],
        names: tuple[tuple[str, ...], tuple[str, ...]],
        grid: Mapping[str, Any],
    ) -> None:
        """Remember a form of a kernel's calls: its arrays, the names of its numbers and push constants, and its grid."""
        self._forms[number, form] = _Form(self._objects[number], tuple(inputs), tuple(outputs), *names, grid)

    def again(self, number: int, form: int, places: tuple[int, ...], numbers: tuple[float, ...], timeout: float | None) -> None:
        """Call a kernel with arrays of a known form, which lie at these places, outputs last."""
        known = self._forms[number, form]
        arrays = self._known.get((number, form, places))
        if arrays is None:
            arrays = tuple(
                [self._arena.array((place, *one)) for place, one in zip(places, known.inputs + known.outputs, strict=True)]
            )
            if len(self._known) >= _MOST_SEEN:
                self._known.clear()
            self._known[number, form, places] = arrays
        count = len(known.inputs)
        named: dict[str, Any] = dict(zip(known.names, numbers, strict=False))
        if known.pushed:
            named["push_constants"] = dict(zip(known.pushed, numbers[len(known.names) :], strict=True))
        if timeout is not None:
            named["timeout"] = timeout
        known.kernel(*arrays[:count], out=arrays[count:] or None, **known.grid, **named)

    def fetch(self, made: int, places: Sequence[Encoded | None]) -> None:
        """Copy outputs of a call to where they are wanted."""
        for output, place in zip(self._objects[made], places, strict=True):
            if place is not None:
                self._decoded(place)[...] = output

    def compile(self, number: int, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Compile a kernel; returns what the other side shows of it."""
        code = recipe["code"]
        kernel = self._driver.compile(
            NamedProgram(recipe["name"], Program.from_wire(code)) if isinstance(code, bytes) else code,
            recipe["constants"],
            recipe["config"],
            space=recipe["space"],
        )
        self._keep(number, kernel)
        return {
            "name": kernel.name,
            "signature": kernel.signature,
            "plan": kernel.plan,
            "push_constants": kernel.push_constants,
            "constants": kernel.constants,
            "workgroup_size": kernel.workgroup_size,
            "key": kernel.trace.key,
        }

    def start_profile(self, most: int, device_clock: bool) -> None:  # noqa: FBT001 -- as it came over the pipe
        """Begin to record what the driver does."""
        self._recorder = Recorder(self._driver, most, device_clock=device_clock)
        self._recorder.start()

    def end_profile(self) -> list[Recording]:
        """End that, and return what was seen."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return []
        recorder.stop()
        return recorder.recordings()

    def tune(self, code: Any, arrays: Sequence[Encoded], named: Mapping[str, Encoded], how: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- Driver.tune's
        """Tune a module or a program, as ``Driver.tune``."""
        given = [self._decoded(one) for one in arrays]
        by_name = {name: self._decoded(one) for name, one in named.items()}
        code = Program.from_wire(code) if isinstance(code, bytes) else code
        return self._driver.tune(code, *given, **how, **by_name)

    def bench(self, number: int, kernel: bytes, arrays: Sequence[Encoded], run_timeout: float) -> None:
        """Make a workbench for the candidates of a tuning."""
        from vyre_driver.autotune.measure.trials import ServedBench  # late: few tune

        self._keep(number, ServedBench(self._driver, kernel, [self._decoded(one) for one in arrays], run_timeout))

    def trial(self, number: int, *step: Any) -> Any:  # noqa: ANN401 -- as ``ServedBench.do``
        """Do one step of a candidate."""
        return self._objects[number].do(*step)

    def bind(
        self, made: int, number: int, buffers: Sequence[Encoded], named: Mapping[str, Encoded], grid: Mapping[str, Any]
    ) -> None:
        """Bind a kernel to buffers."""
        given = [self._decoded(one) for one in buffers]
        by_name = {name: self._decoded(one) for name, one in named.items()}
        self._keep(made, self._objects[number].bind(*given, **grid, **by_name))

    def set(self, number: int, values: Mapping[str, Any]) -> None:
        """Replace push constants of a bound kernel."""
        self._objects[number].set(**values)

    def run(self, number: int, timeout: float | None) -> None:
        """Run a bound kernel."""
        self._objects[number].run(timeout)

    def batch(self, numbers: tuple[int, ...], timeout: float | None) -> None:
        """Run bound kernels in one submission; the same ones again are the batch that was recorded."""
        batch = self._batches.get(numbers)
        if batch is None:
            batch = self._driver.batch()
            for one in numbers:
                batch.add(self._objects[one])
            if len(self._batches) >= _MOST_SEEN:
                self._batches.clear()
            self._batches[numbers] = batch
        batch.run(timeout)

    def allocate(self, number: int, shape: tuple[int, ...], dtype: Any, name: str) -> None:  # noqa: ANN401 -- a type's name
        """Make a resident buffer."""
        self._keep(number, self._driver.empty(shape, np.dtype(dtype), name))

    def write(self, part: Encoded, source: Encoded, timeout: float | None) -> None:
        """Write an array to a part of a buffer."""
        self._decoded(part).write(self._decoded(source), timeout)

    def read(self, part: Encoded, target: Encoded, timeout: float | None) -> None:
        """Read a part of a buffer into an array."""
        self._decoded(part).read(timeout, out=self._decoded(target))

    def fill(self, part: Encoded, value: int, timeout: float | None) -> None:
        """Fill a part of a buffer with a number of its type."""
        self._decoded(part).fill(value, timeout)

    def copy(self, source: Encoded, target: Encoded, timeout: float | None) -> None:
        """Copy a part of a buffer to another of as many bytes."""
        self._decoded(source).copy_to(self._decoded(target), timeout)

    def trace(self, number: int) -> Any:  # noqa: ANN401 -- Trace
        """Return a kernel's trace."""
        return self._objects[number].trace

    def disassemble(self, number: int) -> str:
        """Return a kernel's code as text."""
        return str(self._objects[number].disassemble())

    def report(self) -> dict[str, object]:
        """Return the driver's report."""
        return self._driver.report()

    def memory(self) -> MemoryFacts:
        """Return how much memory the driver's buffers have."""
        return self._driver.memory

    def trim(self) -> None:
        """Give idle blocks of memory back."""
        self._driver.trim()

    def snapshot(self) -> dict[str, Any]:
        """Return what is known of the driver."""
        return self._driver.context.snapshot()

    def assert_warm(self) -> None:
        """Refuse to compile from now on."""
        self._driver.assert_warm()

    def close(self) -> None:
        """Close the driver when its work has ended."""
        self._driver.close()

    def _keep(self, number: int, made: object) -> None:
        with self._changing:
            if number in self._gone:
                self._gone.discard(number)
            else:
                self._objects[number] = made

    def _decoded(self, given: Encoded) -> Any:  # noqa: ANN401 -- an array, a buffer or a value
        if given[0] == ARRAY:
            return self._arena.array(given[1:])
        return self._part(given) if given[0] == BUFFER else given[1]

    def _targets(self, out: Any) -> Any:  # noqa: ANN401 -- one, several, or by name
        if type(out) is list:
            return tuple([None if one is None else self._decoded(one) for one in out])
        if type(out) is dict:
            return {name: None if one is None else self._decoded(one) for name, one in out.items()}
        return None if out is None else self._decoded(out)

    def _part(self, given: Encoded) -> Buffer:
        found = self._parts.get(given)
        if found is not None:
            return found
        _, number, offset, shape, dtype = given
        wanted = np.dtype(dtype)
        if not number:
            return self._driver.empty(shape, wanted)
        whole: Buffer = self._objects[number]
        found = whole if (offset, shape, wanted) == (0, whole.shape, whole.dtype) else _viewed(whole, offset, shape, wanted)
        with self._changing:
            if len(self._parts) >= _MOST_SEEN:
                self._parts.clear()
            self._parts[given] = found
        return found

    def _told(self, output: Any, known: Sequence[Any]) -> Any:  # noqa: ANN401 -- an array or a buffer
        """Return what an output is: an array's shape and type, which argument it is, or where in a new buffer it lies."""
        for place, one in enumerate(known):
            if one is output:
                return ("given", place)
        if type(output) is not Buffer:
            return (ARRAY, output.shape, dtype_of(output.dtype))
        with self._changing:
            number = -1 - len(self._objects)
            while number in self._objects:
                number -= 1
            self._objects[number] = output
        return place_in_buffer(number, 0, output.shape, output.dtype)


def _viewed(whole: Buffer, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
    raw = whole.reshape(-1).view(np.uint8)
    return raw[offset : offset + nbytes_of(shape, dtype)].view(dtype).reshape(shape)


_STEPS = frozenset(
    {
        "compile",
        "tune",
        "bench",
        "trial",
        "call",
        "fetch",
        "form",
        "again",
        "bind",
        "set",
        "run",
        "batch",
        "allocate",
        "write",
        "read",
        "fill",
        "copy",
    }
    | {"trace", "disassemble", "report", "memory", "trim", "snapshot", "assert_warm", "close", "start_profile", "end_profile"}
)


_MOST_ENDS = 4
NOTHING = pickle.dumps((True, None), 5)


def main(control: socket.socket, arena: int) -> None:
    """Open the driver, answer with the device, and serve connections until the parent is gone."""
    number, message = receive(control)
    try:
        job: dict[str, Any] = pickle.loads(message)  # noqa: S301 -- of our own parent
        sys.path[:] = job["path"]
        work = Work(_opened(job), MappedArena(arena))
        answer = pickle.dumps((True, work.facts()), 5)
    except Exception as error:  # noqa: BLE001 -- sent to the caller
        send(control, number, pickled_error(error))
        return
    send(control, number, answer)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_ENDS)
        for descriptor in descriptors:
            end = socket.socket(fileno=descriptor)
            threading.Thread(target=serve, args=(work, end), daemon=True).start()
        if not data:
            return


def serve(work: Work, end: socket.socket) -> None:
    """Answer on one connection, request by request; an empty one only asks to be answered."""
    polling = Polling(end)
    while True:
        try:
            polling.wait()
            number, message = receive(end)
            send(end, number, answer_of(work, message) if message else b"")
        except (EOFError, OSError):
            return


def answer_of(work: Work, message: bytes) -> bytes:
    """Return the pickled answer to a request: whether it went well, and the value or the error."""
    try:
        dropped, name, *arguments = pickle.loads(message)  # noqa: S301 -- of our own parent
        for one in dropped:
            work.drop(one)
        value = work.do(name, arguments)
        return NOTHING if value is None else pickle.dumps((True, value), 5)
    except Exception as error:  # noqa: BLE001 -- sent to the caller
        return pickled_error(error)


def pickled_error(error: Exception) -> bytes:
    """Return an answer that has the other side raise the error, or one that says what it said."""
    with suppress(Exception):
        found = pickle.dumps((False, error), 5)
        pickle.loads(found)  # noqa: S301 -- our own; some errors are pickled and cannot be read back
        return found
    return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")), 5)


def _opened(job: Mapping[str, Any]) -> Driver:
    store = job["autotune"]
    autotune = AutotuneStore() if store is False else store
    cache = DiskPipelineCache(**job["cache"])
    driver = Driver(job["device"], cache, autotune, allow_software=job["allow_software"], strict=job["strict"])
    if job["must_be_warm"]:
        driver.assert_warm()
    return driver


if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller
    os.dup2(2, 1)  # what drivers and libraries print
    with suppress(EOFError, OSError):
        main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    os._exit(0)  # without waiting for a device that may hang
