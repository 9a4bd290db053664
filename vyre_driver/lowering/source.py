"""What a kernel is made of, before its code is fetched or made: the same value whichever front end it comes from.

A SPIR-V module on its way there is held against the device, planned and specialized here; a program in program.py.

Source: docs/spirv.md; docs/binding.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from vyre_driver.binding.grid import check_shared_memory, local_size
from vyre_driver.binding.matrices import check_matrices, reserved_shared_bytes
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.requirements import check_requirements
from vyre_driver.binding.subgroup_size import check_subgroup_size
from vyre_driver.identity.keys import shader_digest
from vyre_driver.specialization.resolve import Specialization, specialize
from vyre_driver.spirv.opcodes import SUBGROUP_CAPABILITIES
from vyre_driver.spirv.validator import check_valid
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lowering.emit.target import LoweringTarget
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.layout import Member
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.vulkan.devices import PhysicalDevice


class LaunchRules(Protocol):
    """What a kernel does by itself at each call."""

    @property
    def looks_beyond_x(self) -> bool:
        """Whether the code looks at more axes of its grid than the first, or may do so."""
        ...

    def push_words(self, arguments: Sequence[BufferArgument]) -> tuple[int, ...]:
        """Return the words that are pushed behind the caller's."""
        ...

    def groups(self, arguments: Sequence[BufferArgument]) -> tuple[int, int, int] | None:
        """Return the workgroups of a call that gives none; None where they cover the largest output."""
        ...

    def trimmed(self, outputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return what comes back of the outputs."""
        ...


UNNAMED_PROGRAM = "the lowered program"
"""The name of a program that has none of its own."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A module or a program that a device can run, with its constants.

    ``digest`` is that of the code as the caller gave it, ``features`` are those that the key names. ``target`` is what SPIR-V
    is emitted for, None of a finished module. ``loop_limit`` is the number of turns after which the driver ends loops, where
    the code says so in a buffer more, else 0. Of ``push_constant_bytes`` the last ``count_bytes`` are those of the counts that
    the kernel pushes by itself. ``lower`` returns the SPIR-V in host byte order; it is asked on a miss. ``name`` is what
    events, metrics, profiles and messages call the kernel; it is no part of the key.
    """

    name: str
    digest: bytes
    plan: BindingPlan
    workgroup: tuple[int, int, int]
    push_constants: tuple[Member, ...]
    push_constant_bytes: int
    specialization: Specialization
    constants: Mapping[str, int | float | bool]
    rules: LaunchRules
    features: Collection[str]
    lower: Callable[[], bytes]
    uses_subgroups: bool = False
    capabilities: Collection[int] = ()
    config: DispatchConfig | None = None
    target: LoweringTarget | None = None
    count_bytes: int = 0
    loop_limit: int = 0

    @property
    def named_push_bytes(self) -> int:
        """The bytes of the push constants that a caller gives, which come first."""
        return self.push_constant_bytes - self.count_bytes

    @property
    def subgroup_size(self) -> int:
        """The invocations that each subgroup must have, 0 where that is left to the device."""
        return 0 if self.config is None else self.config.subgroup_size or 0


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """The source of a pipeline: SPIR-V in host order, specialization words by SpecId, push-constant bytes, a saved blob.

    ``subgroup_size`` are the invocations that each of its subgroups must have, 0 where that is left to the device. ``name`` is
    for profiles, and so are ``traversals``: of each binding 1 where it is read or written, 2 where it is both. ``loop_limit``
    is the number of turns after which the driver cuts the loops of its code, 0 where it cuts none.
    """

    code: bytes
    spec_words: tuple[int, ...]
    push_constant_bytes: int
    native: bytes = b""
    subgroup_size: int = 0
    name: str = ""
    traversals: tuple[int, ...] = ()
    loop_limit: int = 0

    @property
    def watches_loops(self) -> bool:
        """Whether its code has a buffer more, of one word, in which it says that the driver has cut a loop."""
        return self.loop_limit > 0


def can_watch_loops(what: str, way: str, plan: BindingPlan, device: KomputeDevice, limit: int) -> bool:
    """Return whether the device can bind a buffer more than the plan has; a RuntimeWarning says of ``what`` that it cannot.

    ``way`` is how the buffer would tell that the driver has ended a loop, as it does after ``limit`` turns.
    """
    buffers, most = len(plan.descriptors), device.physical.limits.max_per_stage_descriptor_storage_buffers
    if buffers >= most:
        warnings.warn(
            f"{what} has {buffers} buffers, and {device.physical.name!r} binds {most}: there is none left by which {way} that "
            f"the driver has ended a loop, which it does after {limit:,} turns. Fix: use {most - 1} or fewer.",
            RuntimeWarning,
            stacklevel=3,
        )
    return buffers < most


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
