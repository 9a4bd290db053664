"""A SPIR-V module on its way to a kernel: held against the device, planned and specialized.

Source: docs/spirv.md; docs/binding.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.binding.grid import check_shared_memory, local_size
from vyre_driver.binding.matrices import check_matrices, reserved_shared_bytes
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.requirements import check_requirements
from vyre_driver.binding.subgroup_size import check_subgroup_size
from vyre_driver.identity.keys import shader_digest
from vyre_driver.lowering.source import KernelSource, can_watch_loops
from vyre_driver.specialization.resolve import specialize
from vyre_driver.spirv.opcodes import SUBGROUP_CAPABILITIES
from vyre_driver.spirv.validator import check_valid
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.vulkan.devices import PhysicalDevice


@dataclass(frozen=True, slots=True)
class ModuleRules:
    """The rules of a module: nothing but the caller's is pushed, and outputs come back whole."""

    looks_beyond_x: bool

    def push_words(self, arguments: Sequence[BufferArgument]) -> tuple[int, ...]:  # noqa: ARG002 -- LaunchRules
        """Return none."""
        return ()

    def groups(self, arguments: Sequence[BufferArgument]) -> None:
        """Leave it to the largest output."""

    def trimmed(self, outputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return all of them."""
        return list(outputs)


def module_source(  # noqa: PLR0913 -- a module, what is asked of it, and a device
    module: SpirvModule,
    specs: Mapping[str, object] | SpecMap | None,
    device: PhysicalDevice,
    features: Collection[str],
    api_version: int,
    subgroup_size: int | None = None,
) -> KernelSource:
    """Prove that a device, open with these features for this packed Vulkan version, can run a module.

    ``subgroup_size`` is that of the configuration.

    Raises
    ------
    UnsupportedFeature
        If the module needs a feature, SPIR-V version or shape of cooperative matrices that is not there, or what kompute
        cannot bind.
    InvalidSpecialization
        If a constant is unknown, does not fit its type, or leaves shared memory without a size.
    LimitExceeded
        If the workgroup, its shared memory or the bindings are over a limit of the device.
    InvalidDispatchConfig
        If the workgroup does not fill subgroups of the size.
    """
    runnable = module.runnable
    reflection = runnable.reflection
    check_requirements(reflection, device, features, api_version)
    plan = BindingPlan.from_reflection(reflection)
    specialization = specialize(reflection.spec_constants, {} if specs is None else specs)
    workgroup = local_size(reflection, specialization, device.limits)
    check_matrices(reflection, specialization.words, workgroup, device, features)
    reserved = reserved_shared_bytes(reflection, specialization.words, device)
    check_shared_memory(reflection, specialization, device.limits, reserved)
    if subgroup_size is not None:
        check_subgroup_size(subgroup_size, workgroup, device, features, runnable.name)
    return KernelSource(
        name=runnable.name,
        digest=shader_digest(runnable.code),
        plan=plan,
        workgroup=workgroup,
        push_constants=reflection.push_constants,
        push_constant_bytes=reflection.push_constant_bytes,
        specialization=specialization,
        constants={one.name: one.value for one in specialization.constants},
        rules=ModuleRules(runnable.looks_beyond_x),
        features=features,
        lower=lambda: runnable.code,
        uses_subgroups=any(capability in SUBGROUP_CAPABILITIES for capability in reflection.capabilities),
        capabilities=reflection.capabilities,
        config=None if subgroup_size is None else DispatchConfig(subgroup_size=subgroup_size),
    )


def watched_source(source: KernelSource, device: KomputeDevice) -> KernelSource:
    """Return the source with code that says whether the device's driver has cut one of its loops; itself where none may be cut.

    That takes a buffer: a module that has all that the device can bind is not watched, which a RuntimeWarning says. Raises
    InvalidModule if it has loops, and spirv-val refuses it, or it cannot be taken apart.
    """
    if source.target is not None or source.loop_limit:
        return source
    from vyre_driver.spirv.loop_balance import has_loops, with_balance  # late: for strict calls alone

    code = source.lower()
    limit = device.loop_limit(device) if has_loops(code) else 0
    if not limit or not can_watch_loops(source.name, "a strict call could find", source.plan, device, limit):
        return source
    check_valid(code, source.capabilities, device.api_version, source.name)
    watched = with_balance(code, len(source.plan.descriptors), source.name)
    return replace(source, digest=shader_digest(watched), lower=lambda: watched, loop_limit=limit)
