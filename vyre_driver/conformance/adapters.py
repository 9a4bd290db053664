"""Adapt backends to the form that the suite calls: one function for each."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.reference import BACKEND_ID as REFERENCE
from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.backends.reference.invocations import SUBGROUP_LANES
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import split_inputs, with_pushed_inputs
from vyre_driver.errors import InvalidModule, ToolUnavailable
from vyre_driver.identity.keys import PipelineFeatureFlags
from vyre_driver.spirv.disassembler import disassemble
from vyre_driver.target.config import DispatchConfig
from vyre_driver.target.profile import capabilities_of, feature_flags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from numpy.typing import NDArray

    from vyre_driver.backends.base import Backend
    from vyre_driver.conformance.case import RunProgram
    from vyre_driver.driver import Driver
    from vyre_driver.ir.program import Program

KOMPUTE = "kompute"
_WORDS_A_LINE = 8


def run_reference_sequentially(
    program: Program,
    inputs: Sequence[NDArray[Any]],
    *,
    grid: tuple[int, int, int],
    element_counts: Mapping[str, int],
) -> Sequence[NDArray[Any]]:
    """Run a program on the reference with every invocation alone: what it gives in lockstep has to be the same."""
    return interpret(program, inputs, grid=grid, element_counts=element_counts, lockstep=0).outputs


class DriverBackend:
    """A driver as a backend; each program is compiled by ``Driver.compile`` and called once."""

    def __init__(self, driver: Driver) -> None:
        """Ask this driver."""
        self._driver = driver
        device = driver.device
        has_subgroups = PipelineFeatureFlags.SUBGROUP_OPS in feature_flags(device)
        self.subgroup_lanes = device.subgroup_size if has_subgroups else 0

    def __call__(
        self,
        program: Program,
        inputs: Sequence[NDArray[Any]],
        *,
        grid: tuple[int, int, int],
        element_counts: Mapping[str, int],
    ) -> Sequence[NDArray[Any]]:
        """Compile and run it."""
        arrays, pushed = split_inputs(BindingPlan.build(program), inputs, element_counts)
        kernel = self._driver.compile(program)
        result = kernel(*arrays, workgroups=grid, push_constants=pushed, out_shapes=dict(element_counts))
        return (result,) if isinstance(result, np.ndarray) else tuple(result)

    def assembly(self, program: Program) -> str:
        """Return the program's SPIR-V for this driver's device, as :func:`shown`."""
        from vyre_driver.lowering.program import prepare, target_for

        driver = self._driver
        device, features = driver.device, driver.context.device.features
        prepared = prepare(program, None, None, capabilities_of(device, features), target_for(device, features, None))
        return shown(prepared.lower(device.limits))


class AcquiredBackend:
    """What ``acquire`` gives, of any package; each program is dispatched once."""

    def __init__(self, backend: Backend) -> None:
        """Ask this backend."""
        self._backend = backend
        profile = backend.profile
        self.subgroup_lanes = (profile.subgroup_size or SUBGROUP_LANES) if profile.supports_subgroup_ops else 0

    def __call__(
        self,
        program: Program,
        inputs: Sequence[NDArray[Any]],
        *,
        grid: tuple[int, int, int],
        element_counts: Mapping[str, int],
    ) -> Sequence[NDArray[Any]]:
        """Dispatch it; an output whose count is left to run time has an array of that size among the inputs."""
        left = iter(inputs)
        given: list[NDArray[Any]] = []
        for one in with_pushed_inputs(BindingPlan.build(program)).descriptors:
            if one.role.consumes_input:
                given.append(next(left))
            elif one.name in element_counts:
                given.append(one.zeros(element_counts[one.name]))
        return self._backend.dispatch(program, given, DispatchConfig(grid_override=grid))


def shown(code: bytes) -> str:
    """Return SPIR-V, in the host's byte order, as spirv-dis shows it, or as words of eight hex digits without that."""
    with suppress(ToolUnavailable, InvalidModule):
        return "\n".join(line for line in disassemble(code).splitlines() if not line.startswith(";"))
    words = [f"{word:08x}" for word in np.frombuffer(code, np.uint32)]
    return "\n".join(" ".join(words[place : place + _WORDS_A_LINE]) for place in range(0, len(words), _WORDS_A_LINE))


def open_backend(name: str, stack: ExitStack, *, device: str | None = None, allow_software: bool | None = None) -> RunProgram:
    """Return the backend of an id until the stack is closed; ``cpu-ref`` is the reference one by one, against itself.

    ``kompute`` is a driver that keeps what it compiles in a cache of its own, which goes with it; all others are acquired.

    Raises
    ------
    VyreError
        What ``acquire`` raises if there is no backend of this id, and ``Driver`` if the device cannot be opened.
    """
    if name == REFERENCE:
        return run_reference_sequentially
    if name != KOMPUTE:
        from vyre_driver.backends.acquisition import acquire

        return AcquiredBackend(stack.enter_context(acquire(name, device, allow_software=allow_software)))
    from vyre_driver.driver import Driver  # late: cpu-ref needs no device

    cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="vyre-conform-"))
    return DriverBackend(stack.enter_context(Driver(device, cache=cache, allow_software=allow_software)))
