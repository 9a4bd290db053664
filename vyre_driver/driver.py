"""One dispatch, top to bottom: module and arrays in, arrays out; the only module that sees cache, shaders and device."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.autotune.store.records import TuningRecords
from vyre_driver.binding.arguments import check_switch
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.files import given_directory
from vyre_driver.cache.loop_limits import LoopLimit
from vyre_driver.display.line import facts, one_line
from vyre_driver.display.tracebacks import shortens_tracebacks
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.device import KomputeDevice, check_not_forked
from vyre_driver.kompute.owner import DeviceOwner
from vyre_driver.process.copies import refuse_copies
from vyre_driver.profiling.opened import tell_opened
from vyre_driver.runtime.base import BaseDriver
from vyre_driver.runtime.batch import Batch
from vyre_driver.runtime.compiling import check_no_space, kernel_of_module, kernel_of_program, name_of
from vyre_driver.runtime.context import Context
from vyre_driver.runtime.loop_limit import loop_limit
from vyre_driver.runtime.pipelines import FirstPipelines, shared_store
from vyre_driver.runtime.recording import recording_of_settings
from vyre_driver.runtime.room import Room
from vyre_driver.runtime.stream import stream_of
from vyre_driver.runtime.warming import WarmReport, warm
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.telemetry.events import EventKind, Events
from vyre_driver.telemetry.prometheus import metrics_of
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.layer.enable import STATISTICS_FEATURE
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.outcomes import Budget, Progress
    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.autotune.store.store import AutotuneStore
    from vyre_driver.ir.program import GivesProgram, Program
    from vyre_driver.kompute.blocks import MemoryFacts
    from vyre_driver.profiling.profile import Profile
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.runtime.stream import Stream, StreamProgress
    from vyre_driver.runtime.streamed_call import Streamable
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.target.config import DispatchConfig

_numbers = itertools.count(1)


class Driver(BaseDriver):
    """One device, one cache, and the kernels compiled for them: a context manager, and for several threads."""

    def __new__(cls, *_: object, isolated: bool = False, **__: object) -> Driver:
        """Choose the class."""
        check_switch("isolated", isolated)
        if isolated and cls is Driver:
            from vyre_driver.isolated.driver import isolated_class  # late: few are isolated

            return Driver.__new__(isolated_class(Driver))
        made = object.__new__(cls)
        made.number = next(_numbers)
        return made

    @shortens_tracebacks
    def __init__(  # noqa: PLR0913 -- what a driver is opened with
        self,
        device: str | int | None = None,
        cache: DiskPipelineCache | str | os.PathLike[str] | None = None,
        autotune: AutotuneStore | str | os.PathLike[str] | None = None,
        *,
        allow_software: bool | None = None,
        strict: bool | None = None,
        isolated: bool = False,
    ) -> None:
        """Open a device.

        Parameters
        ----------
        device
            ``uuid:``, ``pci:``, ``name:`` or ``type:`` and a value, or an index; None takes VYRE_DEVICE, else the best device.
        cache
            A cache, or a directory in place of VYRE_CACHE_DIR; all else is as the VYRE_CACHE_ variables say.
        autotune
            A store, which is not saved, or a file in place of VYRE_AUTOTUNE_FILE; VYRE_AUTOTUNE says what is done with it.
        allow_software
            Whether a CPU device will do; None takes VYRE_ALLOW_SOFTWARE.
        strict
            Whether calls are checked for outputs that the shader did not write and inputs that it changed, with robust access
            on (:mod:`vyre_driver.runtime.strict`); None takes VYRE_STRICT.
        isolated
            Whether to work in a child process, whose death is an error here (docs/isolated.md); not for subclasses.

        Raises
        ------
        VulkanUnavailable
            If there is no Vulkan loader or driver.
        DeviceNotFound
            If no device is the one that is asked for.
        SoftwareDeviceRefused
            If it is a CPU, and that is not allowed.
        BackendUnavailable
            If kp cannot be imported.
        UnsupportedFeature
            If calls are strict, and the device has no robust access.
        DispatchFailed
            If the device cannot be opened, or takes no work (DeviceLost if it is lost).
        DeviceOutOfMemory
            If there is no memory for its first work.
        InvalidInput
            If ``cache`` is neither a cache nor a path, ``autotune`` neither a store nor a path, or a switch is not a bool.
        InvalidSetting
            If an environment variable is not valid.
        """
        if isolated:
            raise InvalidInput("a subclass of Driver cannot be isolated", fix="make a Driver(isolated=True), and hold it")
        check_switch("strict", strict)
        check_switch("allow_software", allow_software)
        allow_software = settings.switch(settings.ALLOW_SOFTWARE) if allow_software is None else allow_software
        if not allow_software:
            check_not_forked()  # before hardware's drivers are looked at
        wanted = settings.text(settings.DEVICE) if device is None else device
        self.device = select_device(enumerate_devices(), wanted, allow_software=allow_software)
        self.cache = cache if isinstance(cache, DiskPipelineCache) else DiskPipelineCache.from_settings(given_directory(cache))
        self._autotune = autotune
        self._tuning: TuningRecords | None = None
        self._looking = threading.RLock()
        self.events = Events()
        self.cache.tell_evictions(self.events)
        self.strict = settings.switch(settings.STRICT) if strict is None else strict
        self._remote = remote = shared_store(self.cache, self.device, self.events)
        if autotune is not None or settings.text(settings.AUTOTUNE):
            _ = self.tuning
        room, find_limit = Room(), partial(loop_limit, LoopLimit(self.cache, self.device).known_or)
        owner = DeviceOwner(weakref.ref(self), self.events.timeline, room.make, find_limit)
        device_opened = KomputeDevice(self.device, owner, robust="the driver is strict" if self.strict else None)
        is_usual = STATISTICS_FEATURE not in device_opened.features
        pipelines = FirstPipelines(self.cache, self.device, is_usual=is_usual, remote=remote)
        self.context = Context(device_opened, self.cache, room, pipelines, self.events, self.strict, recording_of_settings())
        tell_opened(self)

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self.context.device.in_use.closed

    @property
    def tuning(self) -> TuningRecords:
        """The tuning records, with their place and mode."""
        with self._looking:
            if self._tuning is None:
                self._tuning = TuningRecords.from_settings(self._autotune, self._remote.records if self._remote else None)
            return self._tuning

    def compile(
        self,
        module: SpirvModule | Program | GivesProgram,
        constants: Mapping[str, object] | SpecMap | None = None,
        config: DispatchConfig | None = None,
        *,
        space: TuningSpace | None = None,
    ) -> Kernel:
        """Prove that the device can run a module or a program with these constants, and fetch or store its entry.

        An object with a method ``__vyre_program__``, such as a Python kernel, is compiled as the program that this returns.
        ``constants`` gives values by name: plain ones, or typed ones (``SpecValue``), which must be of the declared type; of a
        program they take the place of the literals of the lets with these names. Of ``config`` a program's ulp budget lets
        floats be the device's own, what a ``ProgramConfig`` says of them and of bounds holds, and its workgroup override
        replaces the program's size; all else is refused. It is lowered only when the cache has no entry (docs/lowering.md).

        ``space`` says which constants of a module may be tuned: those that ``constants`` leaves out take the best values known.

        Raises
        ------
        InvalidInput
            If it is neither, or ``space`` names a constant that the module does not have, or is given for a program.
        InvalidSpecialization
            If a constant is unknown, does not fit its type, or leaves shared memory without a size.
        LimitExceeded
            If the workgroup, its shared memory or the bindings are over a limit of the device.
        InvalidProgram
            With all that the validator of programs found.
        UnsupportedFeature
            If the module needs a feature or SPIR-V version that is not there, or what kompute cannot bind; if a part of the
            program has no lowering, or ``config`` asks for what is not kept (InvalidDispatchConfig if it is none).
        InvalidModule
            If spirv-val is installed and refuses the code.
        DispatchFailed
            If the driver is closed.
        CacheNotWarm
            If there is no entry, after ``assert_warm`` or with VYRE_ASSERT_WARM.
        """
        began = time.perf_counter_ns()
        try:
            self.context.device.check_usable()
            if isinstance(module, SpirvModule):
                return kernel_of_module(self.context, lambda: self.tuning, module, constants, config, space, began)
            program: Any = getattr(module, "__vyre_program__", lambda: module)()  # which is checked below
            check_no_space(space)
            name = name_of(module)
            return kernel_of_program(self.context, self.tuning, program, constants, config, began, self._tune_unasked, name)
        except Exception as error:
            self.events.failed(EventKind.COMPILE, error, time.perf_counter_ns() - began, kernel=name_of(module))
            raise

    def _tune_unasked(self, *call: Any) -> None:  # noqa: ANN401 -- as tune_program_unasked
        from vyre_driver.autotune.measure.calls import tune_program_unasked  # late: it runs a driver

        tune_program_unasked(self, *call)

    def tune(  # noqa: PLR0913 -- what a tuning takes, by keyword
        self,
        code: SpirvModule | Program,
        /,
        *arrays: object,
        space: TuningSpace | None = None,
        constants: Mapping[str, object] | SpecMap | None = None,
        config: DispatchConfig | None = None,
        workgroups: tuple[int, int, int] | Callable[[Candidate], tuple[int, int, int]] | None = None,
        invocations: int | Sequence[int] | None = None,
        push_constants: Mapping[str, object] | None = None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None = None,
        tolerance: float = 0.0,
        seconds: float | None = None,
        budget: Budget | None = None,
        isolate: bool = False,
        replace: bool = True,
        on_progress: Callable[[Progress], None] | None = None,
        **named: object,
    ) -> TuningResult:
        """Find the best constants of a module, or workgroup of a program, on a call with these arrays, and keep the record.

        ``compile`` uses it from then on, and ``Kernel.constants`` shows what it chose.

        Parameters
        ----------
        arrays
            As a call's; none for a program makes some up, of the counts that it declares.
        space
            The constants of a module that may be tuned. A program has its workgroup's size, where nothing else depends on that.
        constants, config
            As ``compile``; constants that are given are not tuned.
        workgroups, invocations
            As a call's; of a module ``workgroups`` may be a function of the candidate, and one of them is needed where more
            than the workgroup's size is tuned. A program's grid is its own.
        push_constants, out_shapes, named
            As a call's; arrays and push constants with the name of one of these keywords are given as there.
        tolerance
            How far the outputs of two candidates may be apart, relative to the largest magnitude in them.
        seconds, budget
            How long to search, in all or in detail; one of them, or neither.
        isolate, replace, on_progress
            As :func:`vyre_driver.autotune.measure.tune.tune`.

        Raises
        ------
        InvalidInput
            If what is given does not fit the code or leaves nothing to tune, or a program depends on its workgroup.
        InvalidPushConstant
            If a push constant is missing, unknown, or does not fit.
        InvalidTuningSpace
            As ``tune``.
        TuningFailed
            As ``tune``.
        """
        from vyre_driver.autotune.measure.calls import tune_call  # late: most processes tune nothing

        how: dict[str, Any] = {"space": space, "constants": constants, "config": config, "tolerance": tolerance}
        how |= {"workgroups": workgroups, "invocations": invocations, "push_constants": push_constants}
        how |= {"out_shapes": out_shapes, "seconds": seconds, "budget": budget}
        return tune_call(self, code, arrays, named, isolate=isolate, replace=replace, on_progress=on_progress, **how)

    def stream(
        self,
        kernel: Kernel | Streamable,
        chunks: Iterable[object],
        /,
        *,
        out: Iterable[object] | None = None,
        timeout: float | None = None,
        on_progress: Callable[[StreamProgress], object] | None = None,
        **named: object,
    ) -> Stream:
        """Return an iterator over the results of a kernel for one chunk after the other, in order (docs/streams.md).

        While one is computed the next is uploaded and the one before is read back, so that what is streamed may be larger than
        the device. Four chunks are on the way at most, and nothing is read of ``chunks`` that nobody waits for.

        Parameters
        ----------
        kernel
            What ``compile`` returned, or a kernel of ``vyre_driver.lang``.
        chunks
            For each call a tuple of its arrays, a mapping of arrays, push constants and options by name, or its only array.
        out
            For each call what ``out`` of a call takes: an array, or a tuple with one or None for each output. An array
            that gets a result may be given again to the fifth call after it; until then other calls may not read or write it.
        timeout
            Seconds that the device may take for one result; None waits for ever.
        on_progress
            Called with a ``StreamProgress`` after each result.
        named
            Buffers, push constants and options that are those of every call. A buffer stays on the device, and kernels that
            write to it find what the calls before have left there.

        Raises
        ------
        InvalidInput
            If an argument is not of these; what is wrong with a chunk is raised in its place.
        """
        return stream_of(self.context, kernel, chunks, out, timeout, on_progress, named)

    def batch(self, label: str | None = None) -> Batch:
        """Return an empty batch: bound kernels that go to the device in one submission; ``label`` is for ``driver.events``."""
        self.context.device.check_usable()
        return Batch(self.events, label)

    def warm(self, kernels: Iterable[Kernel]) -> WarmReport:
        """Make kernels ready before their first calls (docs/fleet.md); raises InvalidInput if one is of another driver."""
        return warm(self.context, kernels)

    def assert_warm(self) -> None:
        """Raise CacheNotWarm 2601, with key and reason, from now on wherever something would have to be compiled.

        That is in ``compile`` for want of an entry, and at a kernel's first call or ``bind`` for want of the driver's compiled
        code in it; of the latter not on a device that gives none away, where each process compiles. So does VYRE_ASSERT_WARM.
        """
        self.context.first_pipelines.must_be_warm = True

    @property
    def memory(self) -> MemoryFacts:
        """How much memory of the device buffers have, how much is reserved for them, and who has it."""
        return self.context.device.memory.facts

    def trim(self) -> None:
        """Give blocks of memory back to the device of which no buffer has anything; they are kept for the next ones else."""
        device = self.context.device
        with device.in_use:
            device.memory.trim()

    def report(self) -> dict[str, object]:
        """Return the device, the backend and the cache's counters, as plain data."""
        return self.context.report()

    def profile(self, *, events: int | None = None, device_clock: bool = True) -> Profile:
        """Return a profile of what this driver does within its ``with`` block, for Perfetto, as text and as a page.

        Parameters
        ----------
        events
            How many events of the host, and spans of the device, are kept; what comes then is counted. None keeps 250,000.
        device_clock
            Whether the device writes its clock before and after each submission, which takes an H200 6.5 us. Without it, spans
            of the device last from the submission to the end that the host saw.

        Raises
        ------
        InvalidInput
            If ``events`` is not a whole number from 1 to 16,777,216.
        """
        from vyre_driver.profiling.profile import Profile  # late: most profile nothing

        return Profile([self], events, device_clock=device_clock)

    def metrics(self) -> str:
        """Return counters of events, cache and layer as text in Prometheus's exposition format (docs/observability.md)."""
        return str(metrics_of([self]))

    def close(self) -> None:
        """Give the device back when its work has ended; all of it raises DispatchFailed then. It may be called again."""
        self.context.device.close()

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return its device and state on one line."""
        return one_line("Driver", f"on {self.device.name!r}", "closed" if self.is_closed else "")

    def _repr_html_(self) -> str:
        return facts("Driver", {name: value for name, value in self.report().items() if not isinstance(value, dict)})

    def __enter__(self) -> Driver:
        """Return the driver itself; raises DispatchFailed 1005 once it is closed."""
        self.context.device.check_usable()
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the driver."""
        self.close()
