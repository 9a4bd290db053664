"""saxpy: ``alpha * x + y`` of two arrays of float32, into a third.

Bit for bit what numpy gives: the product is rounded before the sum. The handling of denormal numbers is the device's, and
the payload of a NaN may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, TuningSpace
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels.common import SIZES, PaddedBuffers, check_parameters, checked_count, float32_of, tiles, zeros_plan
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.module import SpirvModule


@dataclass(frozen=True)
class Saxpy(KernelDefinition):
    """``saxpy(x, y, alpha=1.0)``: float32 of one shape (n,), n to 2^30 - 1.

    ``out`` may be the buffer of ``x`` or ``y``: each number is read before it is written, by the invocation that writes it.
    """

    name = "saxpy"
    inputs = ("x", "y")
    is_included = True
    sizes = SIZES
    may_overwrite = True

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the kernel's own and the one that copies a few words."""
        return shipped_module("saxpy_vectors"), shipped_module("copy_words")

    def space(self, _device: DeviceFacts) -> TuningSpace:
        """Return 80 candidates."""
        return TuningSpace(
            (
                Axis("WORKGROUP_X", (256, 128, 512, 1024, 64), "invocations of a workgroup", "x"),
                Axis("UNROLL", (2, 4, 1, 8), "vectors that an invocation loads at once"),
                Axis("TURNS", (1, 2, 4, 16), "tiles that a workgroup takes, one after the other"),
            )
        )

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (n,); raises InvalidInput."""
        check_parameters(self.name, parameters, ("alpha",))
        count, other = (checked_count(self.name, name, operands[name], ("float32",)) for name in self.inputs)
        if count != other:
            raise InvalidInput(
                f"x of saxpy has {count} elements and y has {other}", fix="pass arrays of one length", counts=(count, other)
            )
        _as_float32(parameters.get("alpha", 1.0))
        return (count,)

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, of a workgroup for each ``TURNS`` tiles as far as the device allows; the others go round."""
        (count,), operands, candidate = call.size, call.operands, call.candidate
        if not count:
            return zeros_plan("out", (0,), np.dtype(np.float32))
        padded = PaddedBuffers(count)
        out = Operand((count,), np.dtype(np.float32))
        buffers = padded.read("x", operands["x"]), padded.read("y", operands["y"]), padded.written("out", out)
        most = call.device.physical.limits.max_compute_work_group_count[0]
        groups = min(-(-tiles(count, candidate) // candidate["TURNS"]), most)
        push = {"alpha": float(_as_float32(call.parameters.get("alpha", 1.0))), "count": count}
        module = shipped_module("saxpy_vectors")
        step = Step(module, buffers, (groups, 1, 1), dict(candidate.constants), push)
        return Plan((*padded.before, step, *padded.after), {"out": out}, padded.temporaries)

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return numbers from 0 to 1."""
        rng = np.random.default_rng(seed)
        x, y = (rng.random(size[0], np.float32) for _ in self.inputs)
        return (x, y), {"alpha": 2.5}

    def expected(self, *arrays: NDArray[Any], alpha: float = 1.0, **_: object) -> NDArray[Any]:
        """Return what numpy gives in float32."""
        x, y = arrays
        with np.errstate(all="ignore"):
            return np.asarray(_as_float32(alpha) * x + y)

    def moved_bytes(self, size: Size) -> int:
        """Two arrays in, one out."""
        return 12 * size[0]


def _as_float32(alpha: object) -> np.float32:
    """Return alpha as numpy rounds it, too large a one as infinite; raises InvalidInput if it is not a number."""
    number = float32_of(alpha)
    if number is None:
        raise InvalidInput(f"alpha of saxpy is {alpha!r}, which is not a real number", fix="give a float", parameter="alpha")
    return np.float32(number)
