"""A backend that runs nothing, for testing what is built on backends. Acquired by name only.

It checks a program and its inputs as any backend does, on a device of the largest limits, computes nothing, and returns outputs
of zeros in the sizes that the program and its inputs give. Of anything else than a program there are no outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.backends.base import HostBackend
from vyre_driver.backends.validate import validate_program
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.checks import U32_MAX
from vyre_driver.ir.program import Program
from vyre_driver.target.config import DispatchConfig, check_output_bytes
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.specialization.values import SpecMap


class NullBackend(HostBackend):
    """Accepts and runs nothing; ``dispatched`` counts what it was asked to run."""

    id = "null"
    title = "the null backend"

    @property
    def profile(self) -> DeviceProfile:
        """Conservative, but for sizes: nothing is too large for what does nothing."""
        largest = (U32_MAX, U32_MAX, U32_MAX)
        return DeviceProfile(
            self.id,
            has_shared_memory=True,
            max_native_int_width=64,
            max_workgroup_size=largest,
            max_invocations_per_workgroup=U32_MAX,
        )

    def dispatch(
        self,
        artifact: object,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,  # noqa: ARG002 -- what runs nothing specializes nothing
        push_constants: Mapping[str, object] | None = None,  # noqa: ARG002 -- the same
    ) -> tuple[NDArray[Any], ...]:
        """Check a program and its inputs, and return zeros; raises as ``Backend.dispatch``."""
        chosen = self.checked_config(config)
        outputs: tuple[NDArray[Any], ...] = ()
        if isinstance(artifact, Program):
            outputs = _zeros(BindingPlan.from_program(validate_program(self, artifact, chosen), inputs), chosen)
        self.dispatched += 1
        return outputs


def _zeros(plan: BindingPlan, config: DispatchConfig) -> tuple[NDArray[Any], ...]:
    written = [one for one in plan.descriptors if one.role.produces_output]
    check_output_bytes(config, sum(one.element_count * one.stride for one in written))
    return tuple(one.zeros(one.element_count) for one in written)
