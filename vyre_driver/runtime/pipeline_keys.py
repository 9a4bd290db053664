"""The keys of what a driver compiles: everything about code, constants, bindings and device that changes the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.identity.keys import PipelineCacheKey, PipelineFeatureFlags, layout_digest

if TYPE_CHECKING:
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lowering.source import KernelSource


def pipeline_key(device: KomputeDevice, source: KernelSource) -> PipelineCacheKey:
    """Return the key of a kernel's pipeline on an open device."""
    flags = PipelineFeatureFlags.SUBGROUP_OPS if source.uses_subgroups else PipelineFeatureFlags(0)
    if source.push_constant_bytes:
        flags |= PipelineFeatureFlags.PUSH_CONSTANTS
    return PipelineCacheKey.new(
        source.digest,
        layout_digest(source.plan),
        source.push_constant_bytes,
        source.workgroup,
        flags,
        device.backend_id,
        backend_flavour=device.api.flavour,
        specialization=source.specialization,
        device=device.physical,
        config=source.config,
        emitter_version=0 if source.target is None else source.target.emitter_version,
        emitter_options=None if source.target is None else source.target.options(),
        enabled_features=source.features,
    )
