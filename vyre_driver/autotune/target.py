"""What a tuning record is for, and the constants that a module or program gets: declared < tuned < given by the caller.

The target is a kernel's code and constants, a device model and driver, and a size class. The identity is what a record is
found by; upstream's key, under which it stands in the file, has room for less.

A record holds a candidate as a workgroup size, an unrolling and a tile of three numbers: the constant ``UNROLL`` is the
unrolling; what is neither that nor the workgroup's size is the tile, in the order of the space. Missing numbers are 1, of the
tile 0.

Source: spec items 2.1, 2.4, 6.1 (the sizes of workgroups) and 6.2.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from blake3 import blake3

from vyre_driver.autotune.search.space import UNROLL, Axes, Axis, Candidate, Limits, TuningSpace
from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.errors import InvalidInput, InvalidTuningSpace
from vyre_driver.identity.keys import layout_digest, program_digest, shader_digest, tuning_identity
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.specialization.resolve import specialize
from vyre_driver.specialization.values import SpecMap
from vyre_driver.target.config import DispatchConfig, ProgramConfig
from vyre_driver.upstream.keys import SpecCacheKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.autotune.store.records import Size, TuningRecords
    from vyre_driver.ir.program import Program
    from vyre_driver.lowering.program import ProgramSource
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.vulkan.devices import PhysicalDevice

_MOST_OTHERS = 3


class Columns(NamedTuple):
    """The numbers of a record."""

    workgroup_size: Axes
    unroll: int
    tile: Axes


def columns_of(space: TuningSpace, candidate: Candidate) -> Columns:
    """Return the numbers that stand for a candidate of a space.

    Raises
    ------
    InvalidTuningSpace
        If a record has no room for all of its constants.
    """
    tile = [candidate[axis.constant] for axis in _others(space)]
    if len(tile) > _MOST_OTHERS:
        names = ", ".join(axis.constant for axis in _others(space))
        raise InvalidTuningSpace(
            f"a record has room for {_MOST_OTHERS} constants besides the workgroup's size and {UNROLL}, and the space has "
            f"{len(tile)}: {names}",
            fix="tune fewer at once",
        )
    x, y, z = tile + [0] * (_MOST_OTHERS - len(tile))
    values = dict(candidate.constants)
    return Columns(candidate.workgroup_size, values.get(UNROLL, 1), (x, y, z))


def candidate_of(space: TuningSpace, record: AutotuneRecord, limits: Limits) -> Candidate | None:
    """Return the candidate that a record names, None if it is not of this space or will not do on this device."""
    sizes = dict(zip("xyz", record.workgroup_size, strict=True))
    values = {axis.constant: sizes[axis.workgroup] for axis in space.axes if axis.workgroup is not None}
    values |= {axis.constant: record.unroll for axis in space.axes if axis.constant == UNROLL}
    others = _others(space)
    values |= {axis.constant: value for axis, value in zip(others, record.tile, strict=False)}
    if len(others) > _MOST_OTHERS or any(values[axis.constant] not in axis.values for axis in space.axes):
        return None
    found = space.candidate(**values)
    is_same = columns_of(space, found) == (record.workgroup_size, record.unroll, record.tile)
    return found if is_same and space.refusal(found, limits) is None else None


def _others(space: TuningSpace) -> list[Axis]:
    return [axis for axis in space.axes if axis.workgroup is None and axis.constant != UNROLL]


_SHARED_NAMES = frozenset({"<source>", "<bytes>", "program"})
"""Names that all modules of text or bytes without one, and all programs, have."""


@dataclass(frozen=True, slots=True)
class TuningTarget:
    """A kernel on a device, as far as a choice of constants depends on it.

    ``code`` and ``layout`` are 32-byte digests of the program or modules and of how they are bound; ``fixed`` are the values
    of the constants that are not tuned, an axis of the space that has one of them does not count as tuned.
    """

    kernel: str
    code: bytes
    layout: bytes
    space: TuningSpace
    device: PhysicalDevice
    fixed: SpecMap = field(default_factory=SpecMap)
    ulp_budget: int = 0

    def __post_init__(self) -> None:
        """Check that a record has room for what may be tuned; raises InvalidTuningSpace."""
        columns_of(self.space, self.space.preferred)

    @classmethod
    def of_modules(
        cls, kernel: str, modules: Sequence[SpirvModule], space: TuningSpace, device: PhysicalDevice, fixed: SpecMap
    ) -> TuningTarget:
        """Return the target of a kernel that is made of these modules, in this order; raises as ``SpirvModule.runnable``."""
        plans = [BindingPlan.from_reflection(one.runnable.reflection) for one in modules]
        layout = b"".join(layout_digest(plan) for plan in plans)
        code = b"".join(shader_digest(one.runnable.code) for one in modules)
        return cls(kernel, blake3(code).digest(), blake3(layout).digest(), space, device, fixed)

    def known(self, records: TuningRecords, size: Size = ()) -> Candidate | None:
        """Return the best choice known for a class of sizes, None if none is, or the device would not take it."""
        record = records.best(self, size)
        return None if record is None else candidate_of(self.space, record, self.device.limits)

    def accepts(self, record: AutotuneRecord) -> bool:
        """Whether the record's choice is one of the space, whose values and rule may have changed, and does on this device."""
        return candidate_of(self.space, record, self.device.limits) is not None

    @property
    def key(self) -> AutotuneKey:
        """Upstream's key, of the preferred workgroup; the adapter is ``vulkan-`` and the ids of vendor and device in hex."""
        shader, binding = (int.from_bytes(one[:8], "little") for one in (self.code, self.layout))
        spec = SpecCacheKey.new(shader, binding, self.space.preferred.workgroup_size, self.fixed)
        return AutotuneKey.new(spec, f"vulkan-{self.device.vendor_id:04x}-{self.device.device_id:04x}")

    def identity(self, size: str = "") -> str:
        """Return the identity of a record for a class of sizes, as ``AutotuneRecord.size`` has it."""
        constants = [axis.constant for axis in self.space.axes if axis.constant not in self.fixed]
        return tuning_identity(self.code, constants, self.fixed, self.device, ulp_budget=self.ulp_budget, size=size)

    @property
    def title(self) -> str:
        """The kernel's name in records: its own, with the first 8 hex digits of its code where other kernels share that."""
        return f"{self.kernel} {self.code.hex()[:8]}" if self.kernel in _SHARED_NAMES else self.kernel

    def record(self, best: Candidate, samples: int, median_ns: int, size: str = "", timings: str = "") -> AutotuneRecord:
        """Return the record of a choice that was measured just now, so many times, with this median.

        ``timings`` are those of its search, as ``AutotuneRecord.timings`` has them.
        """
        device = self.device
        return AutotuneRecord(
            *columns_of(self.space, best),
            dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
            self.identity(size),
            samples,
            median_ns,
            int(time.time()),
            self.title,
            device.name,
            f"{device.driver_name} {device.driver_info}".strip(),
            size,
            timings,
        )


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
