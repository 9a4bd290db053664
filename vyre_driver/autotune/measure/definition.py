"""What a tunable kernel says of itself: its shaders, what may be tuned, and how a call becomes dispatches.

A definition is stateless and knows no driver; ``TunedKernel`` runs it. To make one of your own, subclass
:class:`KernelDefinition` with your own modules.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.target import TuningTarget
from vyre_driver.display.line import count
from vyre_driver.errors import InvalidInput
from vyre_driver.specialization.values import SpecMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.ir.program import Program
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.target.config import DispatchConfig
    from vyre_driver.vulkan.devices import PhysicalDevice

Size = tuple[int, ...]

_BASIC, _ARITHMETIC = 0x1, 0x4  # VkSubgroupFeatureFlagBits


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device, and the features it is open with (Vulkan's names)."""

    physical: PhysicalDevice
    features: frozenset[str]

    @classmethod
    def of(cls, driver: BaseDriver) -> DeviceFacts:
        """Return those of a driver's device."""
        return cls(driver.device, frozenset(driver.context.device.features))

    @property
    def has_subgroup_arithmetic(self) -> bool:
        """Whether compute shaders have the basic and the arithmetic subgroup operations."""
        return self.physical.has_subgroup_operations(_BASIC | _ARITHMETIC)


@dataclass(frozen=True, slots=True)
class Operand:
    """An array as far as a plan knows it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call whose arrays and parameters are right and make a problem of this size, with one candidate on one device."""

    operands: Mapping[str, Operand]
    parameters: Mapping[str, Any]
    size: Size
    candidate: Candidate
    device: DeviceFacts


@dataclass(frozen=True, slots=True)
class Step:
    """One dispatch: the code, its buffers by name in binding order, workgroups, constants, push constants, configuration.

    ``workgroups`` None takes one invocation for each element of the largest output. ``views`` are the types as which the code
    has buffers that are of another type for the caller: ``numpy.dtype((numpy.uint32, 4))`` is vectors of 16 bytes.
    """

    module: SpirvModule | Program
    buffers: tuple[str, ...]
    workgroups: tuple[int, int, int] | None
    constants: Mapping[str, object] = field(default_factory=dict)
    push_constants: Mapping[str, object] = field(default_factory=dict)
    config: DispatchConfig | None = None
    views: Mapping[str, np.dtype[Any]] = field(default_factory=dict)

    def arguments(self, named: Mapping[str, Buffer]) -> tuple[Buffer, ...]:
        """Return its buffers in binding order, as the code has them; raises InvalidInput where that is no whole number."""
        return tuple(_viewed(named[name], self.views.get(name)) for name in self.buffers)


def _viewed(buffer: Buffer, dtype: np.dtype[Any] | None) -> Buffer:
    return buffer if dtype is None else buffer.reshape(-1).view(dtype.base).reshape(-1, *dtype.shape)


@dataclass(frozen=True, slots=True)
class Plan:
    """A call with one candidate: its dispatches in order, and the arrays it needs besides its inputs, by name.

    Inputs, outputs and temporaries share one name space. An output with the name of an input is worked on in place.
    """

    steps: tuple[Step, ...]
    outputs: Mapping[str, Operand]
    temporaries: Mapping[str, Operand] = field(default_factory=dict)


class KernelDefinition(ABC):
    """One kernel; instances are frozen values."""

    name: str
    inputs: tuple[str, ...]
    """The arrays of a call, by name and in order."""
    sizes: tuple[Size, ...]
    """The sizes that ``tune run`` takes without ``--size``, from small to large."""
    may_overwrite: bool = False
    """Whether an output may be the buffer of an input: each number is read before anybody writes its place."""
    is_included: bool = False
    """Whether its modules come with this package: they are right, and are read at the first call."""

    @property
    def public_name(self) -> str:
        """What messages call the kernel: the function that a caller made it with."""
        return self.name

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """What a call takes by keyword: that which ``expected`` names."""
        named = inspect.signature(self.expected).parameters.values()
        return tuple(one for one in named if one.kind is one.KEYWORD_ONLY)

    @abstractmethod
    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the modules that plans for this device use, in a fixed order.

        Raises
        ------
        UnsupportedFeature
            If the device cannot run the kernel.
        """

    @abstractmethod
    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return what may be tuned; raises UnsupportedFeature if the device cannot run the kernel."""

    def target(self, device: DeviceFacts) -> TuningTarget:
        """Return what records of the kernel are for, with the space that may be tuned."""
        return TuningTarget.of_modules(self.name, self.modules(device), self.space(device), device.physical, SpecMap())

    @abstractmethod
    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return the problem's size, after checking that the arrays fit each other and the parameters are right.

        Raises
        ------
        InvalidInput
            If they do not.
        """

    def operands(self, arrays: Sequence[NDArray[Any] | Buffer]) -> dict[str, Operand]:
        """Return a call's arrays by name.

        Raises
        ------
        InvalidInput
            If there are more or fewer than the kernel takes.
        """
        if len(arrays) != len(self.inputs):
            raise InvalidInput(
                f"{self.public_name} takes {count(len(self.inputs), 'array')} ({', '.join(self.inputs)}) and got {len(arrays)}",
                fix=self.count_fix(len(arrays)),
                expected=len(self.inputs),
                received=len(arrays),
            )
        return {name: Operand(one.shape, one.dtype) for name, one in zip(self.inputs, arrays, strict=True)}

    def count_fix(self, received: int) -> str:  # noqa: ARG002 -- of those that are made with or without an array
        """Return what to do where a call has another number of arrays than the kernel takes."""
        return f"give {len(self.inputs)}"

    def call(
        self, operands: Mapping[str, Operand], parameters: Mapping[str, Any], candidate: Candidate, device: DeviceFacts
    ) -> Call:
        """Return a call with the size that ``size`` finds; raises as that."""
        return Call(operands, parameters, self.size(operands, parameters), candidate, device)

    def untuned(self, candidates: Sequence[Candidate], size: Size) -> Candidate:  # noqa: ARG002 -- of those whom it matters to
        """Return what a call of this size runs with while nothing was measured: the one that the space prefers."""
        return candidates[0]

    @abstractmethod
    def plan(self, call: Call) -> Plan:
        """Return the dispatches of a call."""

    @abstractmethod
    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return arrays and parameters of a call of this size, to tune and to check with; the same for the same seed."""

    @abstractmethod
    def expected(self, *arrays: NDArray[Any], **parameters: Any) -> NDArray[Any] | None:  # noqa: ANN401 -- what the kernel takes
        """Return what numpy makes of a call, in the type the kernel returns; None where nobody knows."""

    def numbers(self, output: NDArray[Any]) -> NDArray[Any]:
        """Return an output as numbers that can be compared: itself, unless it is the bits of a type that numpy has not."""
        return output

    def tolerance(self, size: Size) -> float:  # noqa: ARG002 -- of those that round
        """Return how far two right results may be apart, relative to the largest magnitude in them; 0 is bit for bit."""
        return 0.0

    @abstractmethod
    def moved_bytes(self, size: Size) -> int:
        """Return the bytes that a call of this size has to read and write at least."""

    def operations(self, size: Size) -> int:  # noqa: ARG002 -- of those that compute
        """Return the floating-point operations of a call of this size, 0 where they do not limit it."""
        return 0

    def size_class(self, size: Size) -> Size:
        """Return what stands for a size in a record: each number rounded to the nearest power of two."""
        return tuple(1 << max(round(float(np.log2(max(one, 1)))), 0) for one in size)


@dataclass(frozen=True)
class KernelOfCall(KernelDefinition):
    """A kernel on the arrays of one call. Nobody knows what is right: candidates are compared with each other."""

    at: TuningTarget
    arrays: Mapping[str, NDArray[Any]]
    """What the call reads, by name."""
    plan_of: Callable[[Candidate], Plan]
    byte_len: int
    """The bytes of the call's buffers."""
    call_size: Size = ()
    tolerated: float = 0.0

    @property
    def name(self) -> str:  # type: ignore[override] # of the target
        """The target's."""
        return self.at.kernel

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override] # of the call
        """What the call reads."""
        return tuple(self.arrays)

    @property
    def sizes(self) -> tuple[Size, ...]:  # type: ignore[override] # of the call
        """That of the call."""
        return (self.call_size,)

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return none: what each candidate runs, its plan says."""
        return ()

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return what the call leaves open."""
        return self.at.space

    def target(self, _device: DeviceFacts) -> TuningTarget:
        """Return the call's."""
        return self.at

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return that of the call, after checking that the arrays are of its shapes."""
        wanted = {name: Operand(array.shape, array.dtype) for name, array in self.arrays.items()}
        if dict(operands) != wanted or parameters:
            raise InvalidInput(f"{self.name} is tuned on arrays of other shapes", fix="give arrays like those of the call")
        return self.call_size

    def plan(self, call: Call) -> Plan:
        """Return the dispatch with the candidate; what is read and written keeps its name."""
        return self.plan_of(call.candidate)

    def example(self, _size: Size, _seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return the arrays of the call."""
        return tuple(self.arrays.values()), {}

    def expected(self, *_arrays: NDArray[Any], **_: object) -> None:
        """Return None: nobody knows it."""

    def tolerance(self, _size: Size) -> float:
        """Return the call's."""
        return self.tolerated

    def moved_bytes(self, _size: Size) -> int:
        """Return the bytes of the call's buffers."""
        return self.byte_len
