"""A module of somebody's own, with arrays to tune it on, as a kernel that can be tuned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels.definition import KernelDefinition, Operand, Plan, Step
from vyre_driver.tuned_choice import module_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from vyre_driver.arguments import BufferArgument
    from vyre_driver.autotune.space import Candidate, TuningSpace
    from vyre_driver.kernels.definition import DeviceFacts, Size
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.tuning_target import TuningTarget

Groups = tuple[int, int, int]


@dataclass(frozen=True)
class ModuleKernel(KernelDefinition):
    """One dispatch of a module on given arrays. What it writes is compared between candidates, not known beforehand."""

    module: SpirvModule
    given: TuningSpace
    arguments: tuple[BufferArgument, ...]
    specs: Mapping[str, object] = field(default_factory=dict)
    groups: Groups | Callable[[Candidate], Groups] | None = None
    push: Mapping[str, object] = field(default_factory=dict)
    tolerated: float = 0.0

    @classmethod
    def of_call(
        cls,
        module: SpirvModule,
        space: TuningSpace,
        arrays: tuple[object, ...],
        out_counts: Mapping[str, int],
        **how: Any,  # noqa: ANN401 -- fields
    ) -> ModuleKernel:
        """Return the kernel of a call with these arrays; raises as the call of a ``Kernel`` with arrays that do not fit."""
        plan = BindingPlan.from_reflection(module.reflection)
        return cls(module, space, plan.check_arguments(arrays, out_counts), **how)

    @property
    def name(self) -> str:  # type: ignore[override] # of the module
        """The module's."""
        return self.module.name

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override] # of the module
        """The buffers that arrays were given for."""
        return tuple(one.binding.name for one in self.arguments if one.position is not None)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The size of the call, which counts for any."""
        return ((),)

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:  # noqa: ARG002 -- the same for any
        """Return the module."""
        return (self.module,)

    def space(self, device: DeviceFacts) -> TuningSpace:  # noqa: ARG002 -- the same for any
        """Return what is left of the space by the constants that are given."""
        return self.given.without(list(self.specs))

    def target(self, device: DeviceFacts, space: TuningSpace) -> TuningTarget:
        """Return what ``Driver.compile`` looks for with the same module, constants and space."""
        return module_target(self.module, self.specs, space, device.physical)

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return no size, after checking that the arrays are of the shapes of the call."""
        wanted = {one.binding.name: Operand(one.shape, one.dtype) for one in self.arguments if one.position is not None}
        if dict(operands) != wanted or parameters:
            raise InvalidInput(f"{self.name} is tuned on arrays of other shapes", fix="give arrays like those of the call")
        return ()

    def plan(
        self,
        operands: Mapping[str, Operand],  # noqa: ARG002 -- those of the call
        parameters: Mapping[str, Any],  # noqa: ARG002 -- none
        candidate: Candidate,
        device: DeviceFacts,
    ) -> Plan:
        """Return the one dispatch; what is read and written keeps its name."""
        constants = {**self.space(device).constants(candidate), **self.specs}
        groups = self.groups(candidate) if callable(self.groups) else self.groups
        names = tuple(one.binding.name for one in self.arguments)
        written = {
            one.binding.name: Operand(one.shape, one.dtype) for one in self.arguments if one.binding.output_index is not None
        }
        return Plan((Step(self.module, names, groups, constants, self.push),), written)

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:  # noqa: ARG002 -- as given
        """Return the arrays of the call."""
        return tuple(one.data for one in self.arguments if one.data is not None), {}

    def expected(self, *arrays: NDArray[Any], **parameters: Any) -> NDArray[Any] | None:  # noqa: ANN401, ARG002 -- nobody knows
        """Return None: nobody knows it."""
        return None

    def tolerance(self, size: Size) -> float:  # noqa: ARG002 -- the same for any
        """Return what was given."""
        return self.tolerated

    def moved_bytes(self, size: Size) -> int:  # noqa: ARG002 -- the same for any
        """Return the bytes of all buffers."""
        return sum(one.byte_len for one in self.arguments)
