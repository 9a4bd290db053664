"""A driver whose device is open in a child process: ``Driver(isolated=True)``.

What a shader or the Vulkan driver does to that process is an exception here, and the next call starts another. The page is
docs/isolated.md, the reason for a class of its own docs/decisions/0053.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from vyre_driver import settings
from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.binding.arguments import check_switch
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.files import given_directory
from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput
from vyre_driver.isolated.arena import Arena, nbytes_of
from vyre_driver.isolated.arguments import Sent
from vyre_driver.isolated.device import IsolatedContext, IsolatedDevice, IsolatedMemory, IsolatedRoom, adopted, not_here
from vyre_driver.isolated.kernel import IsolatedBatch, IsolatedKernel, code_of
from vyre_driver.isolated.process import Child
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.elements import checked_dtype, checked_shape
from vyre_driver.process.call_lock import call_lock
from vyre_driver.profiling.opened import tell_opened
from vyre_driver.runtime.base import BaseDriver
from vyre_driver.runtime.compiling import name_of
from vyre_driver.telemetry.events import EventKind, Events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.space import TuningSpace
    from vyre_driver.ir.program import GivesProgram, Program
    from vyre_driver.kompute.blocks import MemoryFacts
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.target.config import DispatchConfig

_Driver = TypeVar("_Driver", bound=BaseDriver)
_CLOSING_S = 30.0


@functools.cache
def isolated_class(driver: type[_Driver]) -> type[_Driver]:
    """Return the class of isolated drivers, whose base is what is given: ``Driver``."""
    return type("IsolatedDriver", (IsolatedDriver, driver), {"__doc__": IsolatedDriver.__doc__})


class IsolatedDriver(BaseDriver):
    """A ``Driver`` that works in a child process. It and its kernels may be used from several threads, each on its own."""

    def __init__(  # noqa: PLR0913 -- as Driver's
        self,
        device: str | int | None = None,
        cache: DiskPipelineCache | str | os.PathLike[str] | None = None,
        autotune: AutotuneStore | str | os.PathLike[str] | None = None,
        *,
        allow_software: bool | None = None,
        strict: bool | None = None,
        isolated: bool = True,  # noqa: ARG002 -- what had this class made
    ) -> None:
        """Start the process, which opens the device; parameters and errors as of ``Driver``.

        Raises
        ------
        InvalidInput
            If ``autotune`` is a store, which is in this process.
        DriverCrashed
            If the process dies before its device is open.
        VyreError
            What ``Driver`` raises.
        """
        for name, switch in (("strict", strict), ("allow_software", allow_software)):
            check_switch(name, switch)
        if isinstance(autotune, AutotuneStore):
            raise InvalidInput(
                "autotune is a store of this process, which an isolated driver does not see",
                fix="give the file, as text or Path",
            )
        self.cache = cache if isinstance(cache, DiskPipelineCache) else DiskPipelineCache.from_settings(given_directory(cache))
        self._autotune, self._tuning, self._looking = autotune, None, threading.RLock()
        self._remote = None  # the child asks the store that machines share
        self._job: dict[str, Any] = {
            "path": [one for one in sys.path if os.path.isabs(one)],  # noqa: PTH117
            "device": settings.text(settings.DEVICE) if device is None else device,
            "cache": self.cache.arguments(),
            "autotune": None if autotune is None else os.path.abspath(autotune),  # noqa: PTH100 -- of a text too
            "allow_software": allow_software,
            "strict": strict,
            "must_be_warm": False,
        }
        self._starting = call_lock("the start of an isolated driver's process")
        self._is_closed, self._arena, self.room = False, Arena(), IsolatedRoom()
        self.events = Events()
        """The events of calls, as of a ``Driver``; the cache's and the layer's own are in the child, and in ``metrics``."""
        self._there = self._started()
        self.device = self._there.physical
        self.strict = bool(self._there.child.facts["strict"])
        # After a restart the same device is meant, also where the best one would be another by then.
        self._job["device"] = f"uuid:{self.device.device_uuid.hex()}" if device is None else device
        tell_opened(self, is_isolated=True)

    def child(self) -> Child:
        """Return the process that is there, started anew where the last one has ended.

        Raises
        ------
        DispatchFailed
            If the driver is closed.
        ForkError
            In a fork of the process that made the driver.
        DriverCrashed
            If a new process dies before its device is open.
        """
        return self.here().child

    def here(self) -> IsolatedDevice:
        """Return the device of the process that is there; raises as ``child``."""
        there = self._there
        if there.child.died is None:
            there.check_usable()
            return there
        with self._starting:
            if self._is_closed:
                self._there.check_usable()
            if self._there.child.died is not None:
                self._there = self._started()
                self.room.empty()
            return self._there

    def _started(self) -> IsolatedDevice:
        return IsolatedDevice(Child(self._job, self._arena), weakref.ref(self))

    @property
    def pid(self) -> int:
        """The number of the process that the device is open in."""
        return self._there.child.pid

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._is_closed

    @property
    def context(self) -> Context:  # type: ignore[override]
        """What code above the driver asks for the device; all else of it is in the child."""
        return IsolatedContext(self)  # type: ignore[return-value]

    def compile(
        self,
        module: SpirvModule | Program | GivesProgram,
        constants: Mapping[str, object] | SpecMap | None = None,
        config: DispatchConfig | None = None,
        *,
        space: TuningSpace | None = None,
    ) -> Kernel:
        """Compile a kernel in the child, as ``Driver.compile``; raises as that, and DriverCrashed if the process dies of it."""
        began = time.perf_counter_ns()
        try:
            recipe = {"code": code_of(module), "constants": constants, "config": config, "space": space}
            recipe["name"] = name_of(module)
            return IsolatedKernel(self, recipe)
        except Exception as error:
            self.events.failed(EventKind.COMPILE, error, time.perf_counter_ns() - began, kernel=name_of(module))
            raise

    def tune(self, code: SpirvModule | Program, /, *arrays: object, **how: Any) -> TuningResult:  # noqa: ANN401 -- Driver.tune's
        """Tune in the child, as ``Driver.tune``, without ``on_progress``; a candidate that kills the process ends the search.

        Raises
        ------
        UnsupportedFeature
            If ``on_progress`` is given.
        InvalidInput
            If ``workgroups`` or another argument cannot be sent to the process.
        DriverCrashed
            If the process dies.
        VyreError
            What ``Driver.tune`` raises.
        """
        with self.events.timed(EventKind.TUNE, name_of(code)):
            if how.get("on_progress") is not None:
                raise not_here("listener of a tuning's progress")
            child = self.child()
            named = {name: value for name, value in how.items() if isinstance(value, np.ndarray | Buffer)}
            sent = Sent(child, arrays, named)
            rest = {name: value for name, value in how.items() if name not in named}
            found: TuningResult = child.ask("tuning", "tune", code_of(code), sent.arrays, sent.named, rest, held=sent.held)
            self._tuning = None  # what this process has read is out of date
            return found

    def empty(
        self, shape: int | Iterable[int], dtype: DTypeLike | None = None, name: str = "", *, share: str | None = None
    ) -> Buffer:
        """Return a resident buffer whose contents are not defined; raises as ``buffer``; ``share`` is refused."""
        if share is not None:
            raise not_here("memory shared with CUDA")
        return Buffer(self.here(), shape, dtype, name)  # type: ignore[arg-type] # which stands for the device

    def adopted(self, child: Child, number: int, _offset: int, shape: tuple[int, ...], dtype: Any) -> Buffer:  # noqa: ANN401 -- a type
        """Return a buffer that the child has made for the output of a call."""
        memory = IsolatedMemory(child.handle(number))
        return adopted(self._there, memory, shape, np.dtype(dtype))

    def pinned(self, shape: int | Iterable[int], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return an array of zeros in the memory that both processes see: calls take it, and write to it, without a copy."""
        wanted, kind = checked_shape(shape), checked_dtype(dtype)
        self.child()
        found = self._arena.lease(nbytes_of(wanted, kind)).array(wanted, kind)
        found[...] = np.zeros((), kind)
        return found

    def stream(self, *_: object, **__: object) -> NoReturn:
        """Refuse: its pieces would wait for each other across processes."""
        raise not_here("streams")

    def batch(self, label: str | None = None) -> Batch:
        """Return an empty batch, whose run is one message."""
        self.child()
        return IsolatedBatch(self, label)

    def assert_warm(self) -> None:
        """Refuse to compile from now on, as ``Driver.assert_warm``, in later processes too."""
        self._job["must_be_warm"] = True
        self.child().ask("assert_warm", "assert_warm")

    @property
    def memory(self) -> MemoryFacts:
        """What ``Driver.memory`` is in the child, which has the buffers."""
        facts: MemoryFacts = self.child().ask("the facts of the memory", "memory")
        return facts

    def trim(self) -> None:
        """Give blocks of memory back to the device, as ``Driver.trim``."""
        self.child().ask("giving memory back", "trim")

    def report(self) -> dict[str, object]:
        """Return what ``Driver.report`` gives in the child."""
        found: dict[str, object] = self.child().ask("the report", "report")
        return found

    def close(self) -> None:
        """Close the driver in the child when its work has ended, 30 s at most, and end the process; it may be called again.

        Results stay as they are.
        """
        self._is_closed = True
        self._there.in_use.is_closed = True
        self._there.child.close(_CLOSING_S)

    def __enter__(self) -> Self:
        """Return the driver itself; raises DispatchFailed 1005 once it is closed."""
        self.child()
        return self

    def __repr__(self) -> str:
        """Return its device and state on one line."""
        state = "closed" if self._is_closed else f"in process {self.pid}"
        return one_line("Driver", f"on {self.device.name!r}", "isolated", state)
