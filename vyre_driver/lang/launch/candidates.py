"""What of a kernel may be tuned: the values of its constants that the decorator names, or the workgroup of an Index kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.search.space import Axis, TuningSpace
from vyre_driver.autotune.target import columns_of
from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidInput, InvalidTuningSpace, KernelTypeError
from vyre_driver.lang.launch.arguments import checked_constant
from vyre_driver.lang.types import ConstType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.lang.source.parameters import KernelSignature, Parameter

_WORKGROUPS: dict[int, tuple[tuple[int, ...], ...]] = {1: ((64, 128, 256, 32, 512),), 2: ((16, 32, 8, 64), (16, 8, 4, 1, 32))}
_FIX = 'give True, or constants with their values: tune={"BLOCK": [64, 128, 256]}'


@dataclass(frozen=True, slots=True)
class Tunable:
    """What of a kernel may be tuned: values of constants, preferred first; or ``workgroup``, the sizes along x and y."""

    constants: tuple[tuple[str, tuple[int | bool, ...]], ...]
    along: tuple[tuple[str, Literal["x", "y", "z"]], ...] = ()
    workgroup: tuple[tuple[int, ...], ...] = ()

    def space(self, given: Mapping[str, object]) -> TuningSpace:
        """Return the candidates where these constants are given."""
        axes: list[Axis] = []
        for name, values in self.constants:
            if name not in given:
                axes.append(Axis(name, tuple(map(int, values)), "a constant of the kernel", dict(self.along).get(name)))
        for letter, sizes in zip(("x", "y"), self.workgroup, strict=False):
            axes.append(Axis(f"workgroup_size_{letter}", sizes, f"invocations of a workgroup along {letter}", letter))  # type: ignore[arg-type] # one of two
        return TuningSpace(tuple(axes))

    def chosen(self, candidate: Candidate) -> dict[str, int | bool]:
        """Return the constants of a candidate, as their types are."""
        known = dict(self.constants)
        return {
            name: bool(value) if isinstance(known[name][0], bool) else value
            for name, value in candidate.constants
            if name in known
        }


def tunable(given: object, signature: KernelSignature, kernel: str) -> tuple[Tunable | None, KernelSignature]:
    """Return what the decorator says may be tuned, and the parameters: a constant without a default has its first value.

    Raises
    ------
    KernelTypeError
        If it names something else than constants, or values that they may not have, or that no record has room for.
    """
    if given is None or given is False:
        return None, signature
    if given is True:
        axes = len(signature.indexes)
        if axes not in _WORKGROUPS:
            what = "has a Group, whose size is part of what it does" if not axes else f"has {axes} axes"
            raise KernelTypeError(f"{kernel!r} is to be tuned, and {what}", fix=_FIX)
        return Tunable((), workgroup=_WORKGROUPS[axes]), signature
    if not isinstance(given, dict) or not given:
        raise KernelTypeError(f"tune of {kernel!r} is {given!r}", fix=_FIX)
    by_name = {one.name: one for one in signature.constants}
    for name in given:
        if name not in by_name:
            raise KernelTypeError(
                f"tune of {kernel!r} names {name!r}, which is no constant of it",
                fix=f"name {', '.join(map(repr, by_name)) or f'a parameter *, {name}: Const[int]'}",
            )
    found = {name: _values(kernel, by_name[name], values) for name, values in given.items()}
    constants = tuple(
        replace(one, default=found[one.name][0]) if one.name in found and not one.has_default else one
        for one in signature.constants
    )
    sizes = () if signature.group is None else signature.group[1].sizes[::-1]
    along = tuple((size, letter) for size, letter in zip(sizes, "xyz", strict=False) if isinstance(size, str) and size in found)
    made = Tunable(tuple(found.items()), along)  # type: ignore[arg-type] # letters
    try:
        space = made.space({})
        columns_of(space, space.preferred)
    except InvalidTuningSpace as error:
        raise KernelTypeError(f"tune of {kernel!r}: {error.problem}", fix=error.fix) from error
    return made, replace(signature, constants=constants)


def _values(kernel: str, parameter: Parameter, given: Any) -> tuple[int | bool, ...]:  # noqa: ANN401 -- it is checked
    """Return the values of a constant, its default first."""
    name = parameter.name
    assert isinstance(parameter.type, ConstType)  # noqa: S101 -- a constant
    if parameter.type.type is float:
        raise KernelTypeError(f"{name!r} of {kernel!r} is a Const[float], and a record keeps whole numbers", fix="tune others")
    if not isinstance(given, (list, tuple, range)) or not given:
        raise KernelTypeError(f"tune of {kernel!r} gives {name!r} the values {given!r}", fix="give a list of one or more")
    try:
        values = [checked_constant(kernel, parameter, one) for one in given]
        default = [parameter.default] if parameter.has_default else []
    except InvalidInput as error:
        raise KernelTypeError(f"tune of {kernel!r}: {error.problem}", fix=error.fix) from error
    found: tuple[Any, ...] = tuple(dict.fromkeys([*default, *values]))
    wrong = [one for one in found if not 0 <= one <= U32_MAX]
    if wrong:
        raise KernelTypeError(
            f"tune of {kernel!r} gives {name!r} the value {wrong[0]}, and a record keeps 0 to {U32_MAX}",
            fix="give values in that range",
        )
    return found
