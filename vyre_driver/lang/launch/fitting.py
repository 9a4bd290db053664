"""What a kernel is, and whether the arrays of a call fit it: shapes and types held against its parameters and its program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import InvalidInput, LimitExceeded
from vyre_driver.lang.frontend.translation import source_lines
from vyre_driver.lang.launch.arguments import constants_of
from vyre_driver.lang.launch.arrays import check_shapes, check_types, types_of
from vyre_driver.lang.launch.extents import ReachFinder, index_names, left_out_shapes, pushed_numbers
from vyre_driver.lang.launch.races import check_updates
from vyre_driver.lang.source.parameters import Specialization
from vyre_driver.lang.types import ScalarType
from vyre_driver.target.config import ProgramConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.launch.arrays import GivenArray
    from vyre_driver.lang.launch.candidates import Tunable
    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.extents import Reach
    from vyre_driver.lang.launch.signatures import ShapeSignature
    from vyre_driver.lang.launch.specializations import Specializations
    from vyre_driver.lang.source.parameters import KernelSignature, Parameter

    Arrays = dict[str, GivenArray]
    Shapes = dict[str, tuple[int, ...]]


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
    checks: bool = False
    debug: bool = False

    @property
    def mode(self) -> str | None:
        """How its function is translated for a device."""
        return "record" if self.checks else None

    @property
    def is_robust(self) -> bool:
        """Whether accesses are left to the device."""
        return self.bounds == "robust"

    def chosen(self, candidate: Candidate | None) -> Mapping[str, object]:
        """Return the constants that a candidate of the tuner says."""
        return {} if candidate is None or self.tunable is None else self.tunable.chosen(candidate)

    def workgroup(self, candidate: Candidate | None) -> tuple[int, int, int] | None:
        """Return the workgroup that a candidate of the tuner says, if it may."""
        is_tuned = candidate is not None and self.tunable is not None and self.tunable.workgroup
        return candidate.workgroup_size if candidate is not None and is_tuned else None

    def config(self, translated: TranslatedKernel) -> ProgramConfig:
        """Return how a program of it is lowered."""
        lines = source_lines(translated.places) if self.debug else None
        return ProgramConfig(floats=self.floats, bounds=self.bounds, lines=lines)


class FittedCall(NamedTuple):
    """A call whose arrays fit: its program, and the shapes of all arrays, of those left out too.

    ``fixed`` are the numbers that the program is given beside those of the call, ``empty`` the arrays without elements, and
    ``size`` is what stands for the call in a tuning record.
    """

    specialization: Specialization
    translated: TranslatedKernel
    elements: dict[str, ScalarType]
    shapes: Shapes
    left_out: Shapes
    reach: Reach
    fixed: dict[str, int]
    empty: frozenset[str]
    size: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, int, int] | None:
        """The workgroups along x, y and z; None where there is nothing to do."""
        x, y, z = (*reversed(self.reach.groups), 1, 1)[:3]
        return (x, y, z) if x and y and z else None

    def scalars(self, signature: KernelSignature) -> dict[str, tuple[Parameter, ScalarType]]:
        """Return the parameters that are numbers, and their types, by name."""
        types = dict(self.specialization.types)
        return {one.name: (one, scalar_of(one.type, types)) for one in signature.scalars}  # type: ignore[arg-type] # a number's


def fitted(  # noqa: PLR0913 -- a call, and what it is fitted for
    definition: Definition,
    choices: Choices,
    given: Mapping[str, object],
    arrays: Arrays,
    *,
    limits: Sequence[int] | None = None,
    candidate: Candidate | None = None,
    mode: str | None = None,
    stored: bool = False,
) -> FittedCall:
    """Check the arrays of a call, and translate the program for them.

    ``given`` are the values of constants, ``limits`` the most workgroups along x, y and z; ``candidate`` says what constants
    are where nothing is given; ``mode`` and ``stored`` are those of the specialization.

    Raises
    ------
    InvalidInput
        If something does not fit.
    KernelSourceError
        If the function cannot be translated.
    """
    name, signature = definition.name, definition.signature
    types = types_of(name, signature, dict(choices.types), arrays)
    elements = {one.name: scalar_of(one.type.element, types) for one in signature.arrays}  # type: ignore[union-attr, arg-type] # arrays
    check_types(name, signature.arrays, arrays, elements)
    shapes = _shapes(definition, arrays)
    sizes = definition.shapes.sizes(name, shapes) if definition.shapes is not None else {}
    over = _extent(definition, choices, shapes, sizes)
    constants = constants_of(name, signature, {**definition.chosen(candidate), **given})
    is_over, workgroup = over is not None and signature.group is None, definition.workgroup(candidate)
    specialization = Specialization(
        constants, tuple(types.items()), mode, is_over, workgroup=workgroup, stored=stored, robust=definition.is_robust
    )
    translated = definition.programs.get(specialization)
    _check_axes(definition, translated, shapes, over)
    made = None if definition.shapes is None else definition.shapes.left_out(shapes, sizes)
    reach = ReachFinder(name, signature, translated).find(shapes, over, choices.groups, made or {})
    if limits is not None and reach.within(limits) != reach:
        _check_may_go_round(definition, reach, limits)
        specialization, reach = replace(specialization, strides=True), reach.within(limits)
    check_updates(definition, translated, reach, mode)
    left_out = left_out_shapes(name, signature, translated, shapes, reach, made)
    shapes.update({each: shape or (1,) for each, shape in left_out.items()})
    empty = frozenset(each for each, shape in shapes.items() if 0 in shape)
    if empty or specialization.strides:
        specialization = replace(specialization, counted=empty)
        translated = definition.programs.get(specialization)
    fixed = pushed_numbers(signature, translated, shapes, reach)
    size = tuple(sizes.values()) or reach.extent or tuple(length for shape in shapes.values() for length in shape)
    return FittedCall(specialization, translated, elements, shapes, left_out, reach, fixed, empty, size)


def scalar_of(kind: ScalarType | TypeVar, types: Mapping[str, ScalarType]) -> ScalarType:
    """Return a type, or what a type variable stands for in a call."""
    return kind if isinstance(kind, ScalarType) else types[kind.__name__]


def _check_axes(definition: Definition, translated: TranslatedKernel, shapes: Shapes, over: tuple[int, ...] | None) -> None:
    """Check that arrays have the axes that the kernel indexes, the one that it goes over among them; raises InvalidInput."""
    check_shapes(definition.name, translated.ranks, shapes)
    count = len(index_names(definition.signature))
    if over is not None and len(over) != count:
        array = definition.over[0]
        axes = "1 axis" if len(over) == 1 else f"{len(over)} axes"
        raise InvalidInput(
            f"{definition.name!r} goes over {array!r}, which has {axes}, and along {count} of its own",
            fix=f"name an axis of the signature for each index, or leave over={array!r} out and say the extent: .over(...)",
            parameter=array,
            axes=len(over),
            wanted=count,
        )


def _check_may_go_round(definition: Definition, reach: Reach, limits: Sequence[int]) -> None:
    """Check that fewer workgroups may do the work of a grid over the limits, as is so without a Group; raises LimitExceeded."""
    if definition.signature.group is None:
        return
    both = [(*each, axis) for axis, each in enumerate(zip(reach.groups, limits[: len(reach.groups)][::-1], strict=True))]
    count, limit, axis = next(one for one in both if one[0] > one[1])
    along = f" along axis {axis}" if len(both) > 1 else ""
    raise LimitExceeded(
        f"{definition.name} is to run {count:,} workgroups{along}, and the device allows {limit:,}",
        fix="say fewer with .groups(...), and let each do several parts",
        value=count,
        limit=limit,
    )


def _shapes(definition: Definition, arrays: Arrays) -> Shapes:
    """Return the shapes of the arrays that a call gives, as the kernel uses them."""
    named = definition.shapes
    found = {each: tuple(one.shape) for each, one in arrays.items() if one is not None}
    return found if named is None else {each: named.lengths_of(each, shape) for each, shape in found.items()}


def _extent(definition: Definition, choices: Choices, shapes: Shapes, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return what a call goes over if that is said: by ``.over`` or ``.groups``, else by the decorator."""
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
