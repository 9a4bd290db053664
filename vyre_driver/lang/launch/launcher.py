"""Calls of a kernel: from arrays and numbers to the launch of their form, which is made when it is met first."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.launch import ProgramRules
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import end_of, pushed_members
from vyre_driver.errors import DispatchFailed, InvalidInput, KernelSyntaxError, KernelTypeError, LimitExceeded
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.frontend.translate import check_shared, check_workgroup
from vyre_driver.lang.launch._watch import Watch
from vyre_driver.lang.launch.arguments import matched
from vyre_driver.lang.launch.arrays import check_apart, read_array, types_of
from vyre_driver.lang.launch.default_driver import DEFAULT
from vyre_driver.lang.launch.fitting import fitted, scalar_of
from vyre_driver.lang.launch.launch import Launch, stays_on_device
from vyre_driver.lang.launch.scalars import checked
from vyre_driver.lang.launch.specializations import MAX_PROGRAMS
from vyre_driver.lang.types import ScalarType, bool_
from vyre_driver.runtime.compiling import NamedProgram
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.driver import Driver
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.launch.arguments import Given
    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.fitting import Arrays, Definition, FittedCall
    from vyre_driver.lang.source.captured import Objects
    from vyre_driver.lang.source.parameters import KernelSignature
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.kernel import Kernel as CompiledKernel

_ALWAYS_PUSHED = 128  # bytes, on every device of Vulkan
_MOST_LAUNCHES = 256  # of one kernel on one driver


class Launcher:
    """The launches of one kernel by driver and form; those of a driver go with it."""

    def __init__(self, definition: Definition) -> None:
        """Have launched nothing."""
        self.definition = definition
        self._by_driver: dict[weakref.ref[Driver], dict[object, Launch]] = {}
        self._compiled: dict[weakref.ref[Driver], OrderedDict[int, tuple[TranslatedKernel, CompiledKernel]]] = {}

    def call(self, choices: Choices, given: tuple[object, ...], named: dict[str, object]) -> tuple[Launch, Any]:
        """Check a call and run it; returns its launch and its result.

        Raises
        ------
        InvalidInput
            If something does not fit.
        """
        signature = self.definition.signature
        with self._reported(choices, given):
            one, arrays, numbers = self.matched(choices, given, named)
            launch = self.launch_of(choices, one, arrays, numbers)
            return launch, self.returned(one, launch.run(signature, arrays, numbers, one.options))

    @contextmanager
    def _reported(self, choices: Choices, given: tuple[object, ...]) -> Iterator[None]:
        """Report what the block raises to the driver of a call, where it is known which that is; none is opened for it."""
        try:
            yield
        except Exception as error:
            device = next((one.device for one in given if isinstance(one, Buffer)), DEFAULT.device)
            driver: Driver | None = choices.driver or (None if device is None else device.driver())
            if driver is not None:
                driver.events.failed(EventKind.DISPATCH, error, kernel=self.definition.name)
            raise

    def returned(self, given: Given, found: Sequence[Any]) -> Any:  # noqa: ANN401 -- nothing, an array, or a tuple of them
        """Return what a call returns, by what was found for each array that is written: what was given itself, where it was."""
        signature = self.definition.signature
        by_name = dict(zip([each.name for each in signature.parameters], given.values, strict=True))
        written = [each.name for each in signature.arrays if each.type.access.writes]  # type: ignore[union-attr] # arrays
        results = [result if by_name[each] is None else by_name[each] for each, result in zip(written, found, strict=True)]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def bound(self, choices: Choices, given: tuple[object, ...], named: dict[str, object]) -> tuple[Launch, BoundKernel]:
        """Bind a kernel to buffers and numbers; raises InvalidInput as ``call``, or where something is no buffer.

        Returns the launch of its form, too.
        """
        with self._reported(choices, given):
            return self._bound(choices, given, named)

    def _bound(self, choices: Choices, given: tuple[object, ...], named: dict[str, object]) -> tuple[Launch, BoundKernel]:
        name, signature = self.definition.name, self.definition.signature
        if self.definition.checks:
            raise InvalidInput(
                f"{name} checks itself, and only a call tells what it found",
                fix="call it, or make it without checks=True to bind it",
            )
        one, arrays, numbers = self.matched(choices, given, named)
        for each, array in arrays.items():
            if not isinstance(array, Buffer):
                raise InvalidInput(
                    f"{each} of {name} is bound to {'nothing' if array is None else 'an array of the host'}",
                    fix="make it a buffer: driver.buffer(...) or driver.empty(...)",
                    parameter=each,
                )
        if one.options:
            raise InvalidInput(
                f"{name} is bound with the option {next(iter(one.options))!r}", fix="give it to run() or to a call"
            )
        launch = self.launch_of(choices, one, arrays, numbers)
        if launch.compiled is None:
            raise InvalidInput(f"{name} is bound to go over nothing", fix="bind buffers that have elements")
        return launch, launch.bind(signature, arrays, numbers)

    def matched(
        self, choices: Choices, given: tuple[object, ...], named: dict[str, object]
    ) -> tuple[Given, Arrays, dict[str, bool | int | float]]:
        """Return a call as it was given, its arrays, and its numbers."""
        name, signature = self.definition.name, self.definition.signature
        one = matched(name, signature, given, named)
        both = list(zip(signature.parameters, one.values, strict=True))
        arrays = {each.name: read_array(name, each, value) for each, value in both if each in signature.arrays}
        check_apart(name, signature, arrays)
        types = types_of(name, signature, dict(choices.types), arrays)
        numbers = {
            each.name: checked(name, each, scalar_of(each.type, types), value)  # type: ignore[arg-type] # a number
            for each, value in both
            if each.name not in arrays
        }
        return one, arrays, numbers

    def launch_of(self, choices: Choices, given: Given, arrays: Arrays, numbers: Mapping[str, object]) -> Launch:
        """Return the launch of a call's form, made now if there is none."""
        driver = self.driver_of(choices, arrays)
        constants = {**dict(choices.constants), **given.constants}
        key = (
            tuple([None if one is None else (isinstance(one, Buffer), one.dtype, one.shape) for one in arrays.values()]),
            repr(sorted(constants.items())),
            choices.over,
            choices.groups,
            choices.types,
        )
        kept = self._by_driver.get(weakref.ref(driver), {})
        launch = kept.get(key)
        if launch is not None and launch.changed() is None:
            return launch
        launch = self._made(driver, choices, constants, arrays, numbers)
        with self.definition.programs.lock:
            kept = self._by_driver.setdefault(weakref.ref(driver, self._by_driver.pop), {})
            kept.pop(key, None)
            kept[key] = launch
            while len(kept) > _MOST_LAUNCHES:
                del kept[next(iter(kept))]
        return launch

    def driver_of(self, choices: Choices, arrays: Arrays) -> Driver:
        """Return the driver of a call: that of its buffers, the one that was chosen, or the default."""
        name = self.definition.name
        driver, first = choices.driver, None
        for each, one in arrays.items():
            if not isinstance(one, Buffer):
                continue
            found: Driver | None = one.device.driver()
            if found is None:
                raise DispatchFailed(
                    f"the driver that {each} of {name} was made by is gone", fix="keep it as long as its buffers"
                )
            if driver is not None and found is not driver:
                whose = f"{first} is" if first is not None else "the kernel was put"
                raise InvalidInput(
                    f"{each} of {name} is a buffer of driver {found.number}, and {whose} on driver {driver.number}",
                    fix="make all buffers of a call by one driver",
                    parameter=each,
                    drivers=(found.number, driver.number),
                )
            driver, first = found, each
        return DEFAULT.get() if driver is None else driver

    def _made(
        self, driver: Driver, choices: Choices, given: Mapping[str, object], arrays: Arrays, numbers: Mapping[str, object]
    ) -> Launch:
        """Check the arrays of a call, and compile the program for them, with the best constants that are known."""
        definition = self.definition
        candidate = None
        if definition.tunable is not None:
            from vyre_driver.lang.launch.tuning import CallAtHand, best_known  # late: of most kernels nothing may be tuned

            candidate = best_known(CallAtHand(self, driver, choices, given, arrays, numbers))
        found = self.fitted(driver, choices, given, arrays, candidate)
        compiled = None if found.grid is None else self.compiled(driver, found.translated)
        launch = Launch(
            definition.name,
            found.scalars(definition.signature),
            compiled,
            driver.context.device,
            found.translated.captured.changed,
            found.grid,
            found.fixed,
            found.left_out,
            found.shapes,
            found.elements,
            {each: _stand_in(driver, found.elements[each], arrays) for each in found.empty},
            _watch(found.translated.captured.objects()),
        )
        launch.is_stored = found.specialization.stored
        if found.translated.faults:
            from vyre_driver.lang.interpret.faults import Faults  # late: few kernels check themselves

            launch.check = Faults(found.translated, len(found.reach.groups), found.shapes).check_none
        elif not found.empty and not launch.is_stored and not launch.bools(arrays) and launch.compiled is not None:
            _make_plain(launch, definition.signature, arrays)
        return launch

    def fitted(
        self,
        driver: Driver,
        choices: Choices,
        given: Mapping[str, object],
        arrays: Arrays,
        candidate: Candidate | None = None,
    ) -> FittedCall:
        """Check the arrays of a call for a driver, and translate the program for them; raises as ``fitting.fitted``.

        Where the device does not push as many numbers, the program takes those of the call from a buffer.
        """
        limits = driver.device.limits
        fit = functools.partial(
            fitted,
            self.definition,
            choices,
            given,
            arrays,
            limits=limits.max_compute_work_group_count,
            candidate=candidate,
            mode=self.definition.mode,
        )
        found = fit()
        if self.definition.signature.scalars and _pushed_bytes(found.translated) > limits.max_push_constants_size:
            with suppress(KernelSyntaxError):  # a barrier under one of them, which only what is pushed may decide
                return fit(stored=True)
        return found

    def forget(self, driver: Driver) -> None:
        """Make the launches of a driver anew when they are needed: another candidate may be the best now."""
        with self.definition.programs.lock:
            self._by_driver.pop(weakref.ref(driver), None)

    def compiled(self, driver: Driver, translated: TranslatedKernel) -> CompiledKernel:
        """Return a program compiled for a driver; raises as ``Driver.compile``.

        Of more than ``MAX_PROGRAMS`` the least recently used is dropped with its launches, and so with its pipelines and
        buffers; one that is bound, or under way, lives as long as who holds it.
        """
        with self.definition.programs.lock:
            kept = self._compiled.setdefault(weakref.ref(driver, self._compiled.pop), OrderedDict())
            key = id(translated)
            if key not in kept:
                compiled = self._newly_compiled(driver, translated)
                while len(kept) >= MAX_PROGRAMS:
                    _, (_, evicted) = kept.popitem(last=False)
                    self._forget_launches(driver, evicted)
                kept[key] = translated, compiled
            kept.move_to_end(key)
            return kept[key][1]

    def _newly_compiled(self, driver: Driver, translated: TranslatedKernel) -> CompiledKernel:
        self._check_seen(translated)
        limits = driver.context.device.physical.limits
        check_workgroup(self.definition.name, translated.program.workgroup_size, limits)
        check_shared(translated, limits.max_compute_shared_memory_size)
        try:
            named = NamedProgram(self.definition.name, translated.program)
            return driver.compile(named, config=self.definition.config(translated))
        except LimitExceeded as error:
            raise self._over_limit(translated, error) from error

    def _forget_launches(self, driver: Driver, evicted: CompiledKernel) -> None:
        """Let go of the launches of a compiled program: they would keep it alive."""
        launches = self._by_driver.get(weakref.ref(driver), {})
        for key in [key for key, launch in launches.items() if launch.compiled is evicted]:
            del launches[key]

    def _check_seen(self, translated: TranslatedKernel) -> None:
        """Check that a kernel has an array, or a buffer for what its checks find; raises KernelTypeError."""
        if not self.definition.signature.arrays and not translated.faults:
            raise KernelTypeError(
                f"{self.definition.name!r} has no array: nothing of what it computes could be seen",
                fix="give it one that it writes, as out: Out[f32]",
            )

    def _over_limit(self, translated: TranslatedKernel, error: LimitExceeded) -> LimitExceeded:
        """Return the error of a program that a device does not take, with a fix that is one of kernels."""
        if not _pushes_too_much(error):
            return error
        count = len(translated.scalars)
        return LimitExceeded(
            f"{self.definition.name} needs {count} lengths and other numbers: {error.problem}",
            fix="pass some of them together in an array, those that no barrier depends on"
            if self.definition.signature.scalars
            else "use fewer arrays of several axes",
            **error.context,
        )


def _pushed_bytes(translated: TranslatedKernel) -> int:
    """Return how many bytes a program pushes: its numbers, and a count for each buffer that run time sizes."""
    if len(translated.scalars) * 8 + len(translated.program.buffers) * 4 <= _ALWAYS_PUSHED:
        return 0  # few enough, whatever they are
    plan = BindingPlan.build(translated.program)
    return end_of(pushed_members(plan)) + 4 * len(ProgramRules.of(translated.program, plan).counted_slots)


def _watch(objects: Objects | None) -> Watch | None:
    return None if objects is None else Watch(*objects)


def _pushes_too_much(error: LimitExceeded) -> bool:
    return "bytes to push" in error.problem


def _stand_in(driver: Driver, element: ScalarType, arrays: Arrays) -> NDArray[Any] | Buffer:
    """Return what is bound in the place of an array without elements; the program knows that it has none."""
    word = np.zeros(1, np.uint32 if element is bool_ else element.dtype)
    return driver.buffer(word) if stays_on_device(arrays) else word


def _make_plain(launch: Launch, signature: KernelSignature, arrays: Arrays) -> None:
    """Let calls of this form be handed over as they are: all arrays of one kind, and given, or all outputs left out."""
    left_out = {one.name for one in signature.arrays if arrays[one.name] is None}
    if left_out and left_out != {one.name for one in signature.arrays if one.type.access.writes}:  # type: ignore[union-attr] # arrays
        return
    kinds = {type(array) for array in arrays.values() if array is not None}
    if kinds in ({np.ndarray}, {Buffer}):
        given = [one for one in signature.parameters if one.name not in left_out]
        launch.take_plain(given, list(arrays.values()), kinds.pop())
