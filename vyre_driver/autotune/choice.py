"""Choose the constants of a module or program at compile time: declared < tuned < given by the caller.

Source: spec items 2.4, 6.1 (the sizes of workgroups) and 6.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from blake3 import blake3

from vyre_driver.autotune.search.space import Axis, TuningSpace
from vyre_driver.autotune.target import TuningTarget
from vyre_driver.errors import InvalidInput
from vyre_driver.identity.keys import layout_digest, program_digest
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.specialization.resolve import specialize
from vyre_driver.target.config import DispatchConfig, ProgramConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.autotune.store.records import TuningRecords
    from vyre_driver.ir.program import Program
    from vyre_driver.lowering.program import ProgramSource
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.vulkan.devices import PhysicalDevice

_WHOLE = frozenset({"u32", "i32"})
# 64 fills the subgroups of every GPU and wastes little at the end of a grid; the others waste more, or may fill less.
_SIZES = (64, 128, 256, 32, 512, 1024)
_ALONG: tuple[Literal["x", "y", "z"], ...] = ("x", "y", "z")


def module_target(
    module: SpirvModule,
    constants: Mapping[str, object] | SpecMap | None,
    space: TuningSpace,
    device: PhysicalDevice,
    subgroup_size: int | None = None,
) -> TuningTarget:
    """Return what records of a module with these constants are for; a constant that the caller gives is not tuned.

    What was found for one required size of the subgroups may be wrong, or refused, for another.

    Raises
    ------
    InvalidInput
        If the space is none, or names a constant that the module does not have.
    InvalidSpecialization
        If a constant that is given is unknown or does not fit its type.
    """
    if not isinstance(space, TuningSpace):
        raise InvalidInput(f"space is of type {type(space).__name__}", fix="pass a TuningSpace (vyre_driver.autotune)")
    declared = module.runnable.reflection.spec_constants
    names = [one.name for one in declared]
    unknown = [axis.constant for axis in space.axes if axis.constant not in names]
    if unknown:
        raise InvalidInput(
            f"the tuning space names the constant {unknown[0]!r}, and {module.name} has {', '.join(names) or 'none'}",
            fix="name specialization constants of the module",
            constant=unknown[0],
        )
    specialized = specialize(declared, {} if constants is None else constants)
    given = {one.name: one for one in specialized.constants if one.name in dict(constants or {})}
    fixed = specialized.typed_values(without=[axis.constant for axis in space.axes if axis.constant not in given])
    numbers = {name: one.bits if one.type_name in _WHOLE else 0 for name, one in given.items()}
    target = TuningTarget.of_modules(module.name, [module], space.given(numbers), device, fixed)
    return replace(target, code=_with_subgroups(target.code, subgroup_size))


def _with_subgroups(digest: bytes, size: int | None) -> bytes:
    return digest if size is None else blake3(digest + f"subgroups of {size}".encode()).digest()


def tuned_specs(  # noqa: PLR0913 -- all that a record holds for
    module: SpirvModule,
    constants: Mapping[str, object] | SpecMap | None,
    space: TuningSpace,
    device: PhysicalDevice,
    records: TuningRecords,
    subgroup_size: int | None = None,
) -> dict[str, object]:
    """Return the constants that the caller gives, and the best known of those that the space names; raises as above."""
    target = module_target(module, constants, space, device, subgroup_size)
    known = target.known(records)
    return {**({} if known is None else dict(known.constants)), **dict(constants or {})}


def program_space(program: Program, *, is_checked: bool = True) -> TuningSpace:
    """Return the workgroup sizes that a valid program may have: the size it declares first; ``is_checked`` as for its freedom.

    A program that is bound to its workgroup has one: its own. Axes stand for no specialization constants here: the program of
    a candidate is ``program.with_workgroup_size(candidate.workgroup_size)``, lowered for itself, since the bounds checks that
    a lowering leaves out are proven for one size. ``candidates(limits)`` leaves out what the device does not take.
    """
    declared = program.workgroup_size
    if why_workgroup_is_fixed(program, is_checked=is_checked) is None:
        others = tuple(size for size in _SIZES if size != declared[0])
        return TuningSpace((_axis("x", (declared[0], *others)),))
    return TuningSpace(tuple(_axis(along, (size,)) for along, size in zip(_ALONG, declared, strict=True)))


def program_target(prepared: ProgramSource, config: DispatchConfig | None, device: PhysicalDevice) -> TuningTarget:
    """Return what records of a program are for: a space of its workgroup's sizes, which it has for free.

    One that depends on its workgroup has but the size it declares: whatever a file says, a record never makes a program run
    otherwise.
    """
    space = program_space(prepared.program, is_checked=prepared.target.checks)
    budget = 0 if config is None else config.ulp_budget or 0
    digest, layout = program_digest(prepared.program), layout_digest(prepared.plan)
    digest = _with_subgroups(digest, None if config is None else config.subgroup_size)
    if isinstance(config, ProgramConfig):
        modes = config.float_mode, config.bounds
        if modes != ("device" if budget else "exact", "checked"):
            digest = blake3(digest + " ".join(modes).encode()).digest()
    return TuningTarget("program", digest, layout, space, device, prepared.specialization.typed_values(), budget)


def tuned_config(
    prepared: ProgramSource, config: DispatchConfig | None, device: PhysicalDevice, records: TuningRecords
) -> DispatchConfig | None:
    """Return the configuration with the best workgroup size known, None if that is the declared one, or none is known."""
    target = program_target(prepared, config, device)
    if all(len(axis.values) == 1 for axis in target.space.axes):  # which records, ours or others', would not change
        return None
    known = target.known(records)
    if known is None or known.workgroup_size == prepared.rules.workgroup:
        return None
    return replace(config or DispatchConfig(), workgroup_override=known.workgroup_size)


def _axis(along: Literal["x", "y", "z"], sizes: tuple[int, ...]) -> Axis:
    return Axis(f"workgroup_size_{along}", sizes, f"invocations of a workgroup along {along}", along)
