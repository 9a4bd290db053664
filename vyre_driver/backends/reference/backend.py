"""The reference interpreter as a backend, for results to compare with. Acquired by name only.

It takes programs, and has no device, no memory of its own and no clock: it refuses the fields of a ``DispatchConfig`` that it
cannot honour, such as ``timeout``, because an interpreter cannot be stopped; a step budget bounds it instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.backends.base import HostBackend, core_supported_ops
from vyre_driver.backends.reference import BACKEND_ID
from vyre_driver.backends.reference.dispatch import MAX_SHARED_BYTES, interpret
from vyre_driver.backends.reference.invocations import SUBGROUP_LANES
from vyre_driver.backends.reference.statements import INTERPRETED_NODES
from vyre_driver.backends.validate import validate_program
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import check_unnamed, with_pushed_inputs
from vyre_driver.checks import U32_MAX
from vyre_driver.ir.program import Program
from vyre_driver.target.config import DispatchConfig, check_output_bytes, output_byte_len
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.specialization.values import SpecMap

_OPERATIONS = INTERPRETED_NODES.union(name for name in core_supported_ops() if not name.startswith("vyre.node."))


class ReferenceBackend(HostBackend):
    """The interpreter; ``dispatched`` counts what it ran."""

    id = BACKEND_ID
    title = "the reference interpreter"

    @property
    def profile(self) -> DeviceProfile:
        """What it interprets; sizes are what fits the process's memory, but for workgroup memory."""
        return DeviceProfile(
            self.id,
            supports_subgroup_ops=True,
            supports_specialization_constants=True,
            supports_f16=True,
            supports_bf16=True,
            supports_f64=True,
            supports_trap_propagation=True,
            has_mul_high=True,
            has_subgroup_shuffle=True,
            has_shared_memory=True,
            max_native_int_width=64,
            max_workgroup_size=(U32_MAX, U32_MAX, U32_MAX),
            max_invocations_per_workgroup=U32_MAX,
            max_shared_memory_bytes=MAX_SHARED_BYTES,
            subgroup_size=SUBGROUP_LANES,
        )

    @property
    def supported_ops(self) -> frozenset[str]:
        """What the interpreter has a handler for."""
        return _OPERATIONS

    def dispatch(
        self,
        artifact: object,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,
        push_constants: Mapping[str, object] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Interpret a program; raises as ``Backend.dispatch`` and ``interpret``."""
        chosen = self.checked_config(config)
        if chosen.timeout is not None:
            self.refuse("way to keep timeout: an interpreter is not stopped", "leave timeout out; a step budget bounds it")
        if not isinstance(artifact, Program):
            self.refuse(f"way to run something of type {type(artifact).__name__}", "give a Program")
        program = validate_program(self, artifact, chosen)
        plan = BindingPlan.build(program)
        check_unnamed(plan, push_constants)
        check_output_bytes(chosen, output_byte_len(with_pushed_inputs(plan).check_arguments(inputs, {})))
        iterations = chosen.fixpoint_iterations or 1
        interpretation = interpret(
            program,
            inputs,
            constants=constants,
            grid=chosen.grid_override or chosen.dispatch_grid,
            least_invocations=chosen.dispatch_elements or 0,
            iterations=iterations,
        )
        self.dispatched += 1
        return interpretation.outputs
