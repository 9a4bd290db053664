"""Prepare a program for a kernel: validate, plan and specialize it, and lower it only when no cache has its code.

Source: spec items 1.8, 2.1 and 2.2; docs/lowering.md.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.binding.launch import ProgramRules
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import end_of, pushed_members
from vyre_driver.binding.subgroup_size import check_subgroup_size
from vyre_driver.errors import InvalidInput, LimitExceeded, UnsupportedFeature
from vyre_driver.identity.keys import program_digest
from vyre_driver.ir.nodes import ProgramCapability
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.validate import validate_for
from vyre_driver.lowering.emit.survey import most_turns
from vyre_driver.lowering.emit.target import FLUSH, PRESERVE, ROUND_TO_EVEN, EmittedModule, LoweringTarget, spec_constants
from vyre_driver.lowering.source import UNNAMED_PROGRAM, KernelSource, can_watch_loops
from vyre_driver.specialization.resolve import Specialization, named_values, specialize
from vyre_driver.target.config import DispatchConfig, ProgramConfig, check_supported_fields
from vyre_driver.target.profile import LOWERED, capabilities_of
from vyre_driver.vulkan.version import API_1_2

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vyre_driver.ir.validation.profile_rules import DeviceCapabilities
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.layout import Member
    from vyre_driver.vulkan.devices import DeviceLimits, PhysicalDevice

# Float controls, and what else a device needs to support one width by itself.
_CONTROLS = {PRESERVE: PRESERVE, FLUSH: "denormBehaviorIndependence", ROUND_TO_EVEN: "roundingModeIndependence"}
# Vulkan allows an fma to be a product and a sum, and has no fact that tells: VK_DRIVER_ID_NVIDIA_PROPRIETARY rounds once.
_FUSING = frozenset({4})
# It allows quotients 2.5 ulp, too: of 50 million pairs, half of them any bits, that driver (580.159.04, H200) rounds each once
# where a module asks for rounding to even, and without that a third of them differ.
_DIVIDING = frozenset({4})
# VK_DRIVER_ID_MESA_LLVMPIPE: a memory barrier, which the order of an atomic becomes, makes the invocations wait as one of the
# workgroup does, and those that do not come there, or come less often, never go on.
_LLVMPIPE = 13
_KEPT = frozenset({"ulp_budget", "workgroup_override", "subgroup_size", "floats", "bounds", "lines"})
_ROBUST = "robustBufferAccess"
_FEW_TURNS = 1024  # which no driver cuts
_LLVM_S_PER_WORD = 0.002  # to compile memory of an invocation (docs/lowering.md)
_LONG_COMPILE_S = 10


class ProgramSource(NamedTuple):
    """A program that may run, as far as is known without lowering it."""

    program: Program
    plan: BindingPlan
    names: tuple[str, ...]
    specialization: Specialization
    target: LoweringTarget
    rules: ProgramRules

    @property
    def push_constants(self) -> tuple[Member, ...]:
        """What a caller pushes."""
        return pushed_members(self.plan)

    @property
    def count_bytes(self) -> int:
        """The bytes of the counts that are pushed behind it."""
        return 4 * len(self.rules.counted_slots)

    @property
    def push_constant_bytes(self) -> int:
        """The bytes of both."""
        return end_of(self.push_constants) + self.count_bytes

    def kernel_source(self, limits: DeviceLimits, config: DispatchConfig | None, name: str = "") -> KernelSource:
        """Return what a driver makes a kernel of; ``config`` is the one that it was prepared with.

        Without a ``name`` it has that of the program, its ``entry_op_id``.
        """
        named = set(self.names)
        return KernelSource(
            name=name or self.program.entry_op_id or UNNAMED_PROGRAM,
            digest=program_digest(self.program),
            plan=self.plan,
            workgroup=self.rules.workgroup,
            push_constants=self.push_constants,
            push_constant_bytes=self.push_constant_bytes,
            count_bytes=self.count_bytes,
            specialization=self.specialization,
            constants={one.name: one.value for one in self.specialization.constants if one.name in named},
            rules=self.rules,
            features=self.target.features,
            lower=lambda: self.lower(limits),
            uses_subgroups=ProgramCapability.SUBGROUP in self.program.stats().capabilities,
            config=config,
            target=self.target,
            loop_limit=self.target.loop_limit,
        )

    def lower(self, limits: DeviceLimits) -> bytes:
        """Return its SPIR-V in host byte order.

        Raises
        ------
        UnsupportedFeature
            If a part of it has no lowering.
        LimitExceeded
            If its workgroup memory does not fit.
        """
        from vyre_driver.lowering.emit.entry import emit  # late: what a cache has is not lowered

        result = emit(self.program, self.plan, self.names, self.target)
        if result.shared_bytes > limits.max_compute_shared_memory_size:
            raise LimitExceeded(
                f"the program's workgroups share {result.shared_bytes} bytes, and the device allows "
                f"{limits.max_compute_shared_memory_size} bytes",
                fix="use smaller workgroup buffers",
                value=result.shared_bytes,
                limit=limits.max_compute_shared_memory_size,
            )
        return result.code


def prepare(
    program: object,
    specs: Mapping[str, object] | SpecMap | None,
    config: DispatchConfig | None,
    capabilities: DeviceCapabilities,
    target: LoweringTarget,
) -> ProgramSource:
    """Prove that a device with these capabilities can run a program.

    Raises
    ------
    InvalidInput
        If it is not a program.
    InvalidProgram
        If the validator or the planner refuses it.
    InvalidSpecialization
        If a constant is unknown or does not fit its type.
    UnsupportedFeature
        If the configuration asks for what the backend lacks, or the program has no buffer to bind.
    """
    if not isinstance(program, Program):
        raise InvalidInput(
            f"compile got something of type {type(program).__name__}", fix="give a SpirvModule or a Program", received=program
        )
    if config is not None and config.workgroup_override is not None:
        program = program.with_workgroup_size(config.workgroup_override)
    validate_for(program, capabilities._replace(**LOWERED))
    plan = BindingPlan.build(program)
    plan.descriptor_slots()  # refuses two descriptors of one number
    if not plan.descriptors:
        raise UnsupportedFeature(
            "the program cannot run through kompute, which makes no pipeline without a buffer: it declares "
            f"{len(program.buffers)}, and 0 of them outside workgroup memory and push constants",
            fix="add an output buffer",
        )
    names = () if specs is None else tuple(named_values(specs))
    rules = ProgramRules.of(program, plan)
    specialization = specialize(spec_constants(program, names), {} if specs is None else specs)
    return ProgramSource(program, plan, names, specialization, target, rules)


def prepare_for(
    device: KomputeDevice, program: object, specs: Mapping[str, object] | SpecMap | None, config: DispatchConfig | None
) -> ProgramSource:
    """Prove that an open device can run a program; raises as ``prepare``, ``check_limits`` and ``check_subgroup_size``."""
    check_supported_fields(config, _KEPT, "program")
    target = target_for(device.physical, device.features, config, device.api_version)
    prepared = prepare(program, specs, config, capabilities_of(device.physical, device.features), target)
    check_limits(prepared, device.physical.limits)
    _warn_of_long_arrays(prepared.program, device.physical)
    prepared = prepared._replace(target=_watching(target, prepared.program, prepared.plan, device))
    size = None if config is None else config.subgroup_size
    if size is not None:
        check_subgroup_size(size, prepared.rules.workgroup, device.physical, device.features, "the program")
    return prepared


def emitted(program: Program, config: ProgramConfig, device: KomputeDevice | None) -> EmittedModule:
    """Return a valid program as SPIR-V for an open device; without one for any, with none of what only some have.

    Raises
    ------
    UnsupportedFeature
        If it needs what the device has not.
    """
    from vyre_driver.lowering.emit.entry import emit  # late: as above

    plan = BindingPlan.build(program)
    if device is not None:
        target = target_for(device.physical, device.features, config, device.api_version)
        target = _watching(target, program, plan, device)
    else:
        exact, fast = config.float_mode == "exact", config.float_mode == "fast"
        target = LoweringTarget(strict=exact, contracts=fast, checks=config.bounds == "checked", lines=config.lines)
    return emit(program, plan, (), target)


def target_for(
    device: PhysicalDevice, features: Collection[str], config: DispatchConfig | None, api_version: int | None = None
) -> LoweringTarget:
    """Return the lowering target of a device that is open with these features for this packed Vulkan version.

    None is the device's own version. A ulp budget gives up what would cost instructions. Float controls are Vulkan's own from
    1.2 on. Raises UnsupportedFeature if bounds are left to the device, and it is not open with robustBufferAccess.
    """
    asked = (
        config if isinstance(config, ProgramConfig) else ProgramConfig(ulp_budget=None if config is None else config.ulp_budget)
    )
    if asked.bounds == "robust" and _ROBUST not in features:
        raise UnsupportedFeature(
            f"the configuration asks for bounds = 'robust', and {_ROBUST} is not on for {device.name!r}",
            fix="set VYRE_ROBUST_ACCESS=1 before the driver is opened, or leave bounds at 'checked'",
            feature=_ROBUST,
        )
    version = device.api_version if api_version is None else api_version
    has = device.float_controls if version >= API_1_2 else frozenset()
    controls = {name for name, beside in _CONTROLS.items() if name in has and beside in has}
    fuses, is_llvmpipe = device.driver_id in _FUSING, device.driver_id == _LLVMPIPE
    return LoweringTarget(
        frozenset(features) | controls,
        strict=asked.float_mode == "exact",
        fuses=fuses,
        divides=device.driver_id in _DIVIDING and ROUND_TO_EVEN in controls,
        fences=not is_llvmpipe,
        contracts=asked.float_mode == "fast",
        checks=asked.bounds == "checked",
        hides=is_llvmpipe,
        lines=asked.lines,
    )


def _watching(target: LoweringTarget, program: Program, plan: BindingPlan, device: KomputeDevice) -> LoweringTarget:
    """Return a target whose code says that a loop was cut, where the device's driver may cut one of the program's.

    That takes a buffer: a program that has all that the device can bind is not watched, which a RuntimeWarning says.
    """
    turns = most_turns(program)
    limit = device.loop_limit(device) if turns > _FEW_TURNS else 0
    is_needed = limit and turns > limit // 2
    if not is_needed or not can_watch_loops("the program", "it could say", plan, device, limit):
        return target
    return target._replace(loop_limit=limit)


def _warn_of_long_arrays(program: Program, device: PhysicalDevice) -> None:
    """Issue a RuntimeWarning where llvmpipe is to compile local arrays of an invocation for more than about 10 s."""
    size = sum(one.count * max(one.element.size_bytes or 4, 4) for one in program.buffers if one.is_local)
    seconds = size // 4 * _LLVM_S_PER_WORD
    if device.driver_id != _LLVMPIPE or seconds <= _LONG_COMPILE_S:
        return
    warnings.warn(
        f"the local arrays of the program have {size:,} bytes in each invocation, and {device.name!r} takes about "
        f"{seconds:.0f} s to compile them, at the first call in each process. Fix: use at most "
        f"{4 * int(_LONG_COMPILE_S / _LLVM_S_PER_WORD):,} bytes, or a buffer.",
        RuntimeWarning,
        stacklevel=2,
    )


def check_limits(source: ProgramSource, limits: DeviceLimits) -> None:
    """Check that the device can bind so many buffers and push so many bytes; raise LimitExceeded otherwise."""
    push_fix = "declare some of the counts"
    if source.push_constants:
        push_fix = "push fewer: hold some in a uniform buffer, as a kernel in Python does where it is called or bound itself"
    wanted = [
        ("buffers", len(source.plan.descriptors), limits.max_per_stage_descriptor_storage_buffers, "use fewer buffers"),
        ("bytes to push", source.push_constant_bytes, limits.max_push_constants_size, push_fix),
    ]
    for what, value, limit, fix in wanted:
        if value > limit:
            raise LimitExceeded(
                f"the program has {value} {what}, and the device allows {limit}", fix=fix, value=value, limit=limit
            )
