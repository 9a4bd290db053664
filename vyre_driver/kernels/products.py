"""Matrix products on tensor cores (cooperative matrices), and on ordinary units where a device has none for their types.

The code is emitted by :mod:`vyre_driver.matrices`. Source: Vulkan 1.4, ``VK_KHR_cooperative_matrix``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size
from vyre_driver.errors import InvalidInput, LimitExceeded, UnsupportedFeature
from vyre_driver.kernels.long_arrays import check_parameters
from vyre_driver.kernels.product_numbers import ACTIVATIONS, as_float64, check_element, dtype_of, float32_of, rounded
from vyre_driver.kernels.product_plans import ProductPlan, described, module_of
from vyre_driver.kernels.product_shapes import ProductShape, product_shape
from vyre_driver.kernels.product_tilings import fragment_of, lack_of, space_of, untuned
from vyre_driver.kernels.zeros import zeros_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.matrices.description import ProductDescription
    from vyre_driver.matrices.elements import ElementType
    from vyre_driver.spirv.module import SpirvModule

OUT = "out"
_CHOSEN = frozenset(
    ("bias", "residual", "activation", "out_dtype", "transpose_a", "transpose_b", "stride", "padding", "dilation", "require")
)
_MOST_EXACT = (2**31 - 1) // 128**2
_STORAGE = {1: "storageBuffer8BitAccess", 2: "storageBuffer16BitAccess"}


@dataclass(frozen=True, slots=True)
class Product(KernelDefinition):
    """``activation(scale * (a @ b) + bias) + residual`` of matrices, or of batches of them.

    ``inputs`` are the names of a, b, and of what the result needs besides, in the order of a call. A size is (batch, m, n, k).
    """

    name: str
    description: ProductDescription
    inputs: tuple[str, ...]
    is_included = True
    sizes = tuple((1, side, side, side) for side in (256, 512, 1024, 2048, 4096, 8192))

    @property
    def public_name(self) -> str:
        """What messages call the kernel: ``linear`` has ``x`` and ``weight``, ``matmul`` ``a`` and ``b``."""
        return "linear" if self.inputs[0] == "x" else "matmul"

    def count_fix(self, received: int) -> str:
        """Return how to call or make the kernel so that it takes as many arrays."""
        wanted = f"give {len(self.inputs)}"
        if received == len(self.inputs) - 1 and (extra := self.inputs[2:]):
            return f"{wanted}, or make the kernel without one: kernels.{self.public_name}(..., {extra[0]}=False)"
        missing = [role for role in ("bias", "residual") if role not in self.inputs]
        if received == len(self.inputs) + 1 and missing and self.description.result.out.is_float:
            return f"{wanted}, or make the kernel with one more: kernels.{self.public_name}(..., {missing[0]}=True)"
        return wanted

    def is_on_matrices(self, device: DeviceFacts) -> bool:
        """Whether the device has cooperative matrices for these types."""
        return fragment_of(self.description, device) is not None

    def lack(self, device: DeviceFacts) -> str:
        """Return what a device lacks on which products run on ordinary units."""
        return lack_of(self.description.operand, device)

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the module of the preferred candidate; others are emitted for the calls that need them."""
        return (module_of(described(self.description, device, self.space(device).preferred)),)

    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return tiles, parts of k, and workgroups; raises UnsupportedFeature."""
        for element in (self.description.operand, self.description.result.out):
            feature = _STORAGE.get(element.byte_len)
            if feature is not None and feature not in device.features:
                raise UnsupportedFeature(
                    f"{self.public_name} needs {feature}, and {device.physical.name!r} is open without it",
                    fix="choose another device, or convert the matrices to float32",
                    feature=feature,
                )
        return space_of(self.description, fragment_of(self.description, device), device.physical)

    def untuned(self, candidates: Sequence[Candidate], size: Size) -> Candidate:
        """Return what makes enough workgroups for a large device."""
        return untuned(candidates, size)

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (batch, m, n, k); raises InvalidInput, and LimitExceeded where sums of int8 may not fit into int32."""
        check_parameters(self.public_name, parameters, ("scale",), _CHOSEN)
        self._scale(parameters)
        description, (a, b) = self.description, self.inputs[:2]
        for name in (a, b):
            check_element(self.public_name, name, operands[name].dtype, description.operand, operands[a].dtype)
        shape, out = self._shape(operands), self._out_dtype(operands)
        for name, role in zip(self.inputs[2:], description.result.extra_buffers, strict=True):
            wanted = (shape.n,) if role == "bias" else shape.out
            check_element(self.public_name, name, operands[name].dtype, description.result.out, out)
            if operands[name].shape != wanted:
                raise InvalidInput(
                    f"{name} of {self.public_name} has the shape {operands[name].shape}, and must have {wanted}",
                    fix="give an array of that shape",
                    binding=name,
                )
        if not description.operand.is_float and shape.k > _MOST_EXACT:
            raise LimitExceeded(
                f"{self.public_name} would sum {shape.k} products of int8 as int32, which holds the sum of any {_MOST_EXACT}",
                fix=f"multiply parts of at most {_MOST_EXACT} along k, and add them as int64",
                requested=shape.k,
                limit=_MOST_EXACT,
            )
        return shape.size

    def plan(self, call: Call) -> Plan:
        """Return one dispatch, or two where k is summed in parts; raises LimitExceeded for too large a batch."""
        shape, out = self._shape(call.operands), self._out_dtype(call.operands)
        if 0 in shape.out:
            return zeros_plan(OUT, shape.out, out)
        result = OUT, Operand(shape.out, out)
        return ProductPlan(call, self.description, shape, self.inputs, result, self._scale(call.parameters)).plan()

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return numbers from -0.25 to 0.75, both signs and sums that do not cancel, or int8 from -100 to 100."""
        batch, m, n, k = size
        description = self.description
        many = () if batch == 1 else (batch,)
        operand, out = description.operand, description.result.out
        extra = {"bias": (n,), "residual": (*many, m, n)}
        wanted: list[tuple[tuple[int, ...], ElementType]] = [
            ((*many, k, m) if description.a_transposed else (*many, m, k), operand),
            ((*many, n, k) if description.b_transposed else (*many, k, n), operand),
            *((extra[role], out) for role in description.result.extra_buffers),
        ]
        return self._drawn(wanted, seed), {}

    def expected(self, *arrays: NDArray[Any], scale: float = 1.0, **_: object) -> NDArray[Any]:
        """Return the product and what becomes of it in float64, rounded once."""
        description = self.description
        a, b = (
            as_float64(one.swapaxes(-1, -2) if swapped else one, description.operand)
            for one, swapped in zip(arrays[:2], (description.a_transposed, description.b_transposed), strict=True)
        )
        with np.errstate(all="ignore"):
            found = np.matmul(a, b)  # of int8 exact, and quicker than of integers
        return self._finished(found, arrays, scale)

    def _drawn(self, wanted: Sequence[tuple[tuple[int, ...], ElementType]], seed: int) -> tuple[NDArray[Any], ...]:
        dice = np.random.default_rng(seed)
        return tuple(
            rounded(dice.random(shape) - 0.25, element, dtype_of(element))
            if element.is_float
            else dice.integers(-100, 101, shape, np.int8)
            for shape, element in wanted
        )

    def _finished(self, found: NDArray[Any], arrays: Sequence[NDArray[Any]], scale: float) -> NDArray[Any]:
        """Return what becomes of sums in float64, rounded once."""
        result = self.description.result
        with np.errstate(all="ignore"):
            if not result.out.is_float:
                return np.asarray(found, np.int32)
            extra = dict(zip(result.extra_buffers, (as_float64(one, result.out) for one in arrays[2:]), strict=True))
            found = ACTIVATIONS[result.activation](found * self._scale({"scale": scale}) + extra.get("bias", 0.0))
            operands = dict(zip(self.inputs, (Operand(one.shape, one.dtype) for one in arrays), strict=True))
            return rounded(found + extra.get("residual", 0.0), result.out, self._out_dtype(operands))

    def numbers(self, output: NDArray[Any]) -> NDArray[Any]:
        """Return a result as numbers where it is the bits of bfloat16."""
        out = self.description.result.out
        return as_float64(output, out) if out.is_bfloat else output

    def tolerance(self, size: Size) -> float:
        """Return 16 + k / 8 units of 2**-23 for sums, which matrices do not round as float32 does, and the result's unit."""
        if not self.description.result.out.is_float:
            return 0.0
        sums = float(np.finfo(np.float32).eps) * (16 + (size[3] / 8 if self.description.operand.is_float else 0))
        out = self.description.result.out
        return sums + (2.0**-7 if out.is_bfloat else float(np.finfo(np.float16).eps) if out.byte_len == 2 else 0.0)

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of the operands and of the result."""
        batch, m, n, k = size
        description = self.description
        return batch * ((m * k + k * n) * description.operand.byte_len + m * n * description.result.out.byte_len)

    def operations(self, size: Size) -> int:
        """Return a multiplication and an addition for each product."""
        return 2 * math.prod(size)

    def _shape(self, operands: Mapping[str, Operand]) -> ProductShape:
        a, b = self.inputs[:2]
        transposed = self.description.a_transposed, self.description.b_transposed
        return product_shape(self.public_name, (a, b), (operands[a].shape, operands[b].shape), transposed)

    def _out_dtype(self, operands: Mapping[str, Operand]) -> np.dtype[Any]:
        """Return the type of the result: of bfloat16 the one that the operands have."""
        given, out = operands[self.inputs[0]].dtype, self.description.result.out
        return given if out.is_bfloat and self.description.operand.is_bfloat else dtype_of(out)

    def _scale(self, parameters: Mapping[str, Any]) -> float:
        """Return the factor; raises InvalidInput if it is none, or is given for sums that are whole."""
        given: object = parameters.get("scale", 1.0)
        found = float32_of(given)
        if found is None:
            raise InvalidInput(
                f"scale of {self.public_name} is {given!r}, which is not a number", fix="give a float", parameter="scale"
            )
        if not self.description.result.out.is_float and given != 1:
            raise InvalidInput(
                f"scale of {self.public_name} is {given!r}, and its results are whole numbers",
                fix="ask for results of float32",
                parameter="scale",
            )
        return found
