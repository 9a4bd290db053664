"""Calls of a kernel: from arrays and numbers to the launch of their form, which is made when it is met first."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.binding import _call_form
from vyre_driver.errors import DispatchFailed, InvalidInput, LimitExceeded
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.launch.arguments import constants_of, matched
from vyre_driver.lang.launch.arrays import check_shapes, check_types, read_array, types_of
from vyre_driver.lang.launch.default_driver import DEFAULT
from vyre_driver.lang.launch.extents import ReachFinder, left_out_shapes, pushed_numbers
from vyre_driver.lang.launch.launch import ArgumentPlaces, Launch
from vyre_driver.lang.launch.scalars import checked
from vyre_driver.lang.source.parameters import Specialization
from vyre_driver.lang.types import ScalarType, bool_
from vyre_driver.target.config import ProgramConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.driver import Driver
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.launch.arguments import Given
    from vyre_driver.lang.launch.arrays import GivenArray
    from vyre_driver.lang.launch.candidates import Tunable
    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.extents import Reach
    from vyre_driver.lang.launch.signatures import ShapeSignature
    from vyre_driver.lang.launch.specializations import Specializations
    from vyre_driver.lang.source.parameters import KernelSignature
    from vyre_driver.runtime.kernel import Kernel as CompiledKernel

    Arrays = dict[str, GivenArray]

_MOST_LAUNCHES = 256  # of one kernel on one driver


class Definition(NamedTuple):
    """What a kernel is: its name and parameters, its programs, and what its decorator says of shapes and extents."""

    name: str
    signature: KernelSignature
    programs: Specializations
    shapes: ShapeSignature | None = None
    over: tuple[str, ...] = ()
    floats: str = "device"
    bounds: str = "checked"
    tunable: Tunable | None = None


class Prepared(NamedTuple):
    """A call that fits: its program, its grid and numbers, and the arrays that it leaves out or that have no elements.

    ``grid`` is None where it goes over nothing; ``size`` is what stands for the call in a tuning record.
    """

    translated: TranslatedKernel
    grid: tuple[int, int, int] | None
    fixed: dict[str, int]
    left_out: dict[str, tuple[int, ...]]
    elements: dict[str, ScalarType]
    empty: frozenset[str]
    size: tuple[int, ...]


class Launcher:
    """The launches of one kernel by driver and form; those of a driver go with it."""

    def __init__(self, definition: Definition) -> None:
        """Have launched nothing."""
        self.definition = definition
        self._by_driver: dict[weakref.ref[Driver], dict[object, Launch]] = {}
        self._compiled: dict[weakref.ref[Driver], dict[int, tuple[TranslatedKernel, CompiledKernel]]] = {}

    def call(self, choices: Choices, given: tuple[object, ...], named: dict[str, object]) -> tuple[Launch, Any]:
        """Check a call and run it; returns its launch and its result.

        Raises
        ------
        InvalidInput
            If something does not fit.
        """
        signature = self.definition.signature
        one, arrays, numbers = self.matched(choices, given, named)
        launch = self.launch_of(choices, one, arrays, numbers)
        found = launch.run(signature, arrays, numbers, one.options)
        by_name = dict(zip([each.name for each in signature.parameters], one.values, strict=True))
        written = [each.name for each in signature.arrays if each.type.access.writes]  # type: ignore[union-attr] # arrays
        results = [result if by_name[each] is None else by_name[each] for each, result in zip(written, found, strict=True)]
        return launch, None if not results else results[0] if len(results) == 1 else tuple(results)

    def bound(self, choices: Choices, given: tuple[object, ...], named: dict[str, object]) -> Any:  # noqa: ANN401 -- a BoundKernel
        """Bind a kernel to buffers and numbers; raises InvalidInput as ``call``, or where something is no buffer."""
        name, signature = self.definition.name, self.definition.signature
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
        buffers: list[Any] = [launch.stand_ins.get(each.name, arrays[each.name]) for each in signature.arrays]
        return launch.compiled.bind(*buffers, push_constants={**launch.fixed, **numbers}, **launch.grid)

    def matched(
        self, choices: Choices, given: tuple[object, ...], named: dict[str, object]
    ) -> tuple[Given, Arrays, dict[str, bool | int | float]]:
        """Return a call as it was given, its arrays, and its numbers."""
        name, signature = self.definition.name, self.definition.signature
        one = matched(name, signature, given, named)
        both = list(zip(signature.parameters, one.values, strict=True))
        arrays = {each.name: read_array(name, each, value) for each, value in both if each in signature.arrays}
        types = types_of(name, signature, dict(choices.types), arrays)
        numbers = {
            each.name: checked(name, each, _scalar(each.type, types), value) for each, value in both if each.name not in arrays
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
        found = self.prepared_for(driver, choices, given, arrays, candidate)
        launch = Launch(
            None if found.grid is None else self.compiled(driver, found.translated),
            driver.context.device,
            found.translated.captured.changed,
            {"workgroups": found.grid},
            found.fixed,
            found.left_out,
            found.elements,
            {each: _stand_in(driver, found.elements[each], arrays) for each in found.empty},
        )
        if not found.empty and not launch.bools(arrays) and launch.compiled is not None:
            _make_plain(launch, definition.signature, arrays)
        return launch

    def prepared_for(
        self,
        driver: Driver,
        choices: Choices,
        given: Mapping[str, object],
        arrays: Arrays,
        candidate: Candidate | None = None,
    ) -> Prepared:
        """Check the arrays of a call, and translate the kernel for them, with what a candidate says of its constants.

        Raises
        ------
        InvalidInput
            If something does not fit.
        """
        definition = self.definition
        name, signature, tunable = definition.name, definition.signature, definition.tunable
        types = types_of(name, signature, dict(choices.types), arrays)
        elements = {one.name: _scalar(one.type.element, types) for one in signature.arrays}  # type: ignore[union-attr] # arrays
        check_types(name, signature.arrays, arrays, elements)
        shapes = self._shapes(arrays)
        sizes = definition.shapes.sizes(name, shapes) if definition.shapes is not None else {}
        over = self._extent(choices, shapes, sizes)
        chosen = {} if candidate is None or tunable is None else tunable.chosen(candidate)
        workgroup = candidate.workgroup_size if candidate is not None and tunable is not None and tunable.workgroup else None
        specialization = Specialization(
            constants_of(name, signature, {**chosen, **given}),
            tuple(types.items()),
            is_over=over is not None and signature.group is None,
            workgroup=workgroup,
        )
        specialization, reach = self._reaching(driver, specialization, arrays, over, choices.groups)
        translated = definition.programs.get(specialization)
        named = None if definition.shapes is None else (definition.shapes, sizes)
        left_out = left_out_shapes(name, translated, shapes, reach, named)
        shapes.update({each: shape or (1,) for each, shape in left_out.items()})
        empty = frozenset(each for each, shape in shapes.items() if 0 in shape)
        if empty:
            translated = definition.programs.get(replace(specialization, counted=empty))
        x, y, z = (*reversed(reach.groups), 1, 1)[:3]
        fixed = pushed_numbers(signature, translated, shapes, reach)
        size = tuple(sizes.values()) or reach.extent or tuple(length for shape in shapes.values() for length in shape)
        grid = None if 0 in reach.groups else (x, y, z)
        return Prepared(translated, grid, fixed, left_out, elements, empty, size)

    def _reaching(
        self,
        driver: Driver,
        specialization: Specialization,
        arrays: Arrays,
        over: tuple[int, ...] | None,
        groups: tuple[int, ...] | None,
    ) -> tuple[Specialization, Reach]:
        """Return how far a call goes, and what its program is made for: several turns where the device's grid is too small."""
        definition = self.definition
        translated = definition.programs.get(specialization)
        shapes = self._shapes(arrays)
        check_shapes(definition.name, translated.ranks, shapes)
        reach = ReachFinder(definition.name, definition.signature, translated).find(shapes, over, groups)
        within = reach.within(driver.device.limits.max_compute_work_group_count)
        if within == reach or definition.signature.group is not None:
            return specialization, reach
        return replace(specialization, strides=True), within

    def _shapes(self, arrays: Arrays) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays that a call gives, as the kernel uses them."""
        named = self.definition.shapes
        found = {each: tuple(one.shape) for each, one in arrays.items() if one is not None}
        return found if named is None else {each: named.lengths_of(each, shape) for each, shape in found.items()}

    def _extent(
        self, choices: Choices, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]
    ) -> tuple[int, ...] | None:
        """Return what a call goes over if that is said: by ``.over`` or ``.groups``, else by the decorator."""
        definition = self.definition
        if choices.over is not None or choices.groups is not None or not definition.over:
            return choices.over
        if definition.over[0] in shapes:
            return shapes[definition.over[0]]
        missing = [axis for axis in definition.over if axis not in sizes]
        if missing:
            raise InvalidInput(
                f"{definition.name} goes over {missing[0]!r}, which no array that is given has",
                fix="pass the array, or say the extent: .over(...)",
            )
        return tuple(sizes[axis] for axis in definition.over)

    @property
    def config(self) -> ProgramConfig:
        """What its programs are compiled with."""
        return ProgramConfig(floats=self.definition.floats, bounds=self.definition.bounds)

    def forget(self, driver: Driver) -> None:
        """Make the launches of a driver anew when they are needed: another candidate may be the best now."""
        with self.definition.programs.lock:
            self._by_driver.pop(weakref.ref(driver), None)

    def compiled(self, driver: Driver, translated: TranslatedKernel) -> CompiledKernel:
        """Return a program compiled for a driver; raises as ``Driver.compile``."""
        with self.definition.programs.lock:
            kept = self._compiled.setdefault(weakref.ref(driver, self._compiled.pop), {})
            found = kept.get(id(translated))
            if found is None:
                try:
                    compiled = driver.compile(translated.program, config=self.config)
                except LimitExceeded as error:
                    raise self._over_limit(translated, error) from error
                found = kept[id(translated)] = translated, compiled
            return found[1]

    def _over_limit(self, translated: TranslatedKernel, error: LimitExceeded) -> LimitExceeded:
        """Return the error of a program that a device does not take, with a fix that is one of kernels."""
        if "bytes to push" not in error.problem:
            return error
        count = len(translated.scalars)
        return LimitExceeded(
            f"{self.definition.name} has {count} numbers, lengths that it needs among them: {error.problem}",
            fix="pass some of them together in an array",
            **error.context,
        )


def _scalar(kind: Any, types: Mapping[str, ScalarType]) -> ScalarType:  # noqa: ANN401 -- a ScalarType or a TypeVar
    return kind if isinstance(kind, ScalarType) else types[kind.__name__]


def _stand_in(driver: Driver, element: ScalarType, arrays: Arrays) -> NDArray[Any] | Buffer:
    """Return what is bound in the place of an array without elements; the program knows that it has none."""
    word = np.zeros(1, np.uint32 if element is bool_ else element.dtype)
    are_buffers = all(isinstance(one, Buffer) for one in arrays.values() if one is not None)
    return driver.buffer(word) if are_buffers else word


def _make_plain(launch: Launch, signature: KernelSignature, arrays: Arrays) -> None:
    """Let calls of this form be handed over as they are: all arrays of one kind, and given, or all outputs left out."""
    left_out = {one.name for one in signature.arrays if arrays[one.name] is None}
    if left_out and left_out != {one.name for one in signature.arrays if one.type.access.writes}:  # type: ignore[union-attr] # arrays
        return
    given = tuple([array for array in arrays.values() if array is not None])
    kinds = {type(array) for array in given}
    if kinds in ({np.ndarray}, {Buffer}):
        launch.kind = kinds.pop()
        launch.form = _call_form.call_form(given, None, None, launch.kind)
        launch.places = ArgumentPlaces([one for one in signature.parameters if one.name not in left_out])
