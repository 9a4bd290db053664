"""The keys of what a driver compiles: everything about code, constants, bindings and device that changes the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.identity.keys import PipelineCacheKey, PipelineFeatureFlags, layout_digest, program_digest, shader_digest
from vyre_driver.kompute.device import BACKEND_ID
from vyre_driver.spirv.opcodes import SUBGROUP_CAPABILITIES

if TYPE_CHECKING:
    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lowering.program import ProgramSource
    from vyre_driver.specialization.resolve import Specialization
    from vyre_driver.spirv.runnable import RunnableModule
    from vyre_driver.target.config import DispatchConfig


def module_key(
    device: KomputeDevice,
    module: RunnableModule,
    plan: BindingPlan,
    specialization: Specialization,
    workgroup: tuple[int, int, int],
) -> PipelineCacheKey:
    """Return the key of a module with these constants on an open device."""
    reflection = module.reflection
    uses_subgroups = any(capability in SUBGROUP_CAPABILITIES for capability in reflection.capabilities)
    return PipelineCacheKey.new(
        shader_digest(module.code),
        layout_digest(plan),
        reflection.push_constant_bytes,
        workgroup,
        _flags(uses_subgroups=uses_subgroups, push_constant_bytes=reflection.push_constant_bytes),
        BACKEND_ID,
        backend_flavour=device.api.flavour,
        specialization=specialization,
        device=device.physical,
        enabled_features=sorted(device.features),
    )


def program_key(device: KomputeDevice, prepared: ProgramSource, config: DispatchConfig | None) -> PipelineCacheKey:
    """Return the key of a program on an open device."""
    return PipelineCacheKey.new(
        program_digest(prepared.program),
        layout_digest(prepared.plan),
        prepared.push_constant_bytes,
        prepared.rules.workgroup,
        _flags(uses_subgroups=prepared.uses_subgroups, push_constant_bytes=prepared.push_constant_bytes),
        BACKEND_ID,
        backend_flavour=device.api.flavour,
        specialization=prepared.specialization,
        device=device.physical,
        config=config,
        emitter_version=prepared.target.emitter_version,
        emitter_options=prepared.target.options(),
        enabled_features=sorted(prepared.target.features),
    )


def _flags(*, uses_subgroups: bool, push_constant_bytes: int) -> PipelineFeatureFlags:
    flags = PipelineFeatureFlags.SUBGROUP_OPS if uses_subgroups else PipelineFeatureFlags(0)
    return flags | PipelineFeatureFlags.PUSH_CONSTANTS if push_constant_bytes else flags
