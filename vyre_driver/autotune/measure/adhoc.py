"""A module or a program of somebody's own, with the arrays of a call, as a kernel that can be tuned."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.choice import module_target
from vyre_driver.autotune.measure.definition import KernelDefinition, Operand, Plan, Step
from vyre_driver.errors import InvalidInput
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import DeviceFacts, Size
    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.autotune.target import TuningTarget
    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.ir.predicates import ShapePredicate
    from vyre_driver.ir.program import Program
    from vyre_driver.spirv.module import SpirvModule

Groups = tuple[int, int, int]

EXAMPLE_ELEMENTS = 1 << 20
"""Of a buffer whose count nobody has said."""
_SEARCHED = 1 << 12


@dataclass(frozen=True)
class CallKernel(KernelDefinition):
    """One dispatch on given arrays. What it writes is compared between candidates: nobody knows it beforehand."""

    arguments: tuple[BufferArgument, ...]
    tolerated: float = field(default=0.0, kw_only=True)

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override] # of the call
        """The buffers that arrays were given for."""
        return tuple(one.binding.name for one in self.arguments if one.position is not None)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The size of the call, which counts for any."""
        return ((),)

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
        device: DeviceFacts,  # noqa: ARG002 -- none
    ) -> Plan:
        """Return the one dispatch; what is read and written keeps its name."""
        written = {
            one.binding.name: Operand(one.shape, one.dtype) for one in self.arguments if one.binding.output_index is not None
        }
        return Plan((self.step(tuple(one.binding.name for one in self.arguments), candidate),), written)

    @abstractmethod
    def step(self, buffers: tuple[str, ...], candidate: Candidate) -> Step:
        """Return the dispatch of a candidate."""

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


@dataclass(frozen=True)
class ModuleKernel(CallKernel):
    """A call of a module; ``groups`` are those of every candidate, or what tells them of one."""

    module: SpirvModule
    given: TuningSpace
    specs: Mapping[str, object] = field(default_factory=dict)
    groups: Groups | Callable[[Candidate], Groups] | None = None
    push: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:  # type: ignore[override] # of the module
        """The module's."""
        return self.module.name

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:  # noqa: ARG002 -- the same for any
        """Return the module."""
        return (self.module,)

    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return what is left of the space by the constants that are given."""
        return self.target(device, self.given).space

    def target(self, device: DeviceFacts, space: TuningSpace) -> TuningTarget:  # noqa: ARG002 -- of the module's own
        """Return what ``Driver.compile`` looks for with the same module, constants and space."""
        return module_target(self.module, self.specs, self.given, device.physical)

    def step(self, buffers: tuple[str, ...], candidate: Candidate) -> Step:
        """Return the dispatch of a candidate."""
        constants = {**dict(candidate.constants), **self.specs}
        groups = self.groups(candidate) if callable(self.groups) else self.groups
        return Step(self.module, buffers, groups, constants, self.push)


@dataclass(frozen=True)
class ProgramKernel(CallKernel):
    """A call of a program, whose workgroup is tuned; ``at`` is what ``Driver.compile`` looks for."""

    program: Program
    at: TuningTarget
    specs: Mapping[str, object] | None = None
    config: DispatchConfig | None = None

    @property
    def name(self) -> str:  # type: ignore[override] # of the target
        """The target's."""
        return self.at.kernel

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:  # noqa: ARG002 -- never
        """Return none: a program is lowered when it is compiled."""
        return ()

    def space(self, device: DeviceFacts) -> TuningSpace:  # noqa: ARG002 -- the same for any
        """Return the sizes of workgroups that make no other results."""
        return self.at.space

    def target(self, device: DeviceFacts, space: TuningSpace) -> TuningTarget:  # noqa: ARG002 -- as given
        """Return what was given."""
        return self.at

    def step(self, buffers: tuple[str, ...], candidate: Candidate) -> Step:
        """Return the dispatch of a candidate, over as many workgroups as cover the elements."""
        config = replace(self.config or DispatchConfig(), workgroup_override=candidate.workgroup_size)
        return Step(self.program, buffers, None, dict(self.specs or {}), {}, config)


def example_arrays(plan: BindingPlan, predicates: Sequence[ShapePredicate | None]) -> tuple[list[NDArray[Any]], dict[str, int]]:
    """Return arrays for a call that nobody has made yet, and counts of what it only writes.

    Numbers from 0 to 255, as many as the program declares, else ``EXAMPLE_ELEMENTS`` or about as many as fulfil the
    descriptor's predicate.
    """
    rng = np.random.default_rng(0)
    arrays: list[NDArray[Any]] = []
    counts = {}
    for one, predicate in zip(plan.descriptors, predicates, strict=True):
        count = one.element_count or _example_count(predicate)
        if one.role.consumes_input:
            dtype = np.dtype(np.uint8) if one.dtype is None else one.dtype
            size = one.header_bytes + count * one.stride
            arrays.append(rng.integers(0, 256, size // dtype.itemsize, np.uint8).astype(dtype))
        elif not one.element_count:
            counts[one.name] = count
    return arrays, counts


def _example_count(predicate: ShapePredicate | None) -> int:
    """Return the first count that will do, searched up a little and then down; where none does, the call will say so."""
    if predicate is None:
        return EXAMPLE_ELEMENTS
    counts = itertools.chain(range(EXAMPLE_ELEMENTS, EXAMPLE_ELEMENTS + _SEARCHED), range(EXAMPLE_ELEMENTS - 1, 0, -1))
    return next((count for count in counts if predicate.holds(count)), EXAMPLE_ELEMENTS)
