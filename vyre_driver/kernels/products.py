"""Matrix products on tensor cores (cooperative matrices), and on ordinary units where a device has none for their types.

The code is emitted by :mod:`vyre_driver.matrices`. Source: Vulkan 1.4, ``VK_KHR_cooperative_matrix``.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.errors import InvalidInput, LimitExceeded, UnsupportedFeature
from vyre_driver.kernels.common import HALVES, check_feature, check_parameters, float32_of, zeros_plan
from vyre_driver.kernels.product_numbers import (
    ACTIVATION_FUNCTIONS,
    as_float64,
    check_element,
    dtype_of,
    element_of,
    name_of,
    rounded,
)
from vyre_driver.kernels.product_plans import ProductPlan, described, fragment_of, lack_of, module_of, space_of, untuned
from vyre_driver.matrices.description import SCALAR, ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import BF16, F16, F32, S8, S32, ElementType
from vyre_driver.matrices.epilogue import ACTIVATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.driver import Driver
    from vyre_driver.kernels.attention import Attention
    from vyre_driver.spirv.module import SpirvModule

    Shape = tuple[int, ...]

_MATRIX_AXES = 2


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A batch of products of (m, k) and (k, n) to (m, n); an operand whose matrices are one for all has 0 as ``*_step``."""

    batch: int
    m: int
    n: int
    k: int
    a_step: int
    b_step: int
    out: Shape

    @property
    def size(self) -> tuple[int, int, int, int]:
        """The batch, m, n and k."""
        return self.batch, self.m, self.n, self.k


def _batch_fix(names: tuple[str, str], shapes: tuple[Shape, Shape]) -> str:
    """Return how two arrays whose batches differ become a product: as one matrix for all, reshaped, or repeated."""
    batches = [shape[:-2] for shape in shapes]
    for name, shape, batch in zip(names, shapes, batches, strict=True):
        if math.prod(batch) == 1:
            return f"give {name}.reshape{shape[-2:]}, one matrix for all"
    if math.prod(batches[0]) == math.prod(batches[1]):
        return f"give {names[1]}.reshape{(*batches[0], *shapes[1][-2:])}"
    axes = itertools.zip_longest(*(batch[::-1] for batch in batches), fillvalue=1)
    pairs = list(axes)[::-1]
    if any(one != other and 1 not in (one, other) for one, other in pairs):
        return "give batches of one shape, or one matrix for all"
    batch = tuple(other if one == 1 else one for one, other in pairs)
    repeated = [
        f"numpy.broadcast_to({name}, {(*batch, *shape[-2:])})"
        for name, shape in zip(names, shapes, strict=True)
        if shape[:-2] != batch
    ]
    return f"give {' and '.join(repeated)}"


def product_shape(
    kernel: str, names: tuple[str, str], shapes: tuple[Shape, Shape], transposed: tuple[bool, bool]
) -> ProductShape:
    """Return what the product of arrays of these shapes is.

    Axes before the last two are the batch: as many for both, or none for one of them. Rows of an ``a`` that is not transposed
    are those of one matrix where ``b`` is one.

    Raises
    ------
    InvalidInput
        If the arrays do not fit each other.
    """
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) < _MATRIX_AXES:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {shape}, and must have two axes or more",
                fix="give a matrix: reshape a vector to one row or one column",
                binding=name,
            )
    (m, k), (inner, n) = (shape[:-3:-1] if swapped else shape[-2:] for shape, swapped in zip(shapes, transposed, strict=True))
    if k != inner:
        stored = zip(names, transposed, strict=True) if names == ("a", "b") else ()  # linear's weight is always (n, k)
        swapped = "".join(f", {name} is transposed" for name, is_transposed in stored if is_transposed)
        raise InvalidInput(
            f"{names[0]} of {kernel} has the shape {shapes[0]} and {names[1]} {shapes[1]}{swapped}: rows of {k} numbers, and "
            f"columns of {inner}",
            fix=f"give {names[1]} of shape {f'(..., n, {k})' if transposed[1] else f'(..., {k}, n)'}",
        )
    of_a, of_b = (shape[:-2] for shape in shapes)
    if of_a and of_b and of_a != of_b:
        raise InvalidInput(
            f"{names[0]} of {kernel} is a batch of {of_a} matrices and {names[1]} one of {of_b}",
            fix=_batch_fix(names, shapes),
        )
    if not of_b and not transposed[0]:
        return ProductShape(1, math.prod(of_a) * m, n, k, m * k, k * n, (*of_a, m, n))
    of_out = of_a or of_b
    return ProductShape(math.prod(of_out), m, n, k, m * k if of_a else 0, k * n if of_b else 0, (*of_out, m, n))


OUT = "out"
_CHOSEN = frozenset(
    ("bias", "residual", "activation", "out_dtype", "transpose_a", "transpose_b", "stride", "padding", "dilation", "require")
)
_MOST_EXACT = (2**31 - 1) // 128**2
_STORAGE = {1: "storageBuffer8BitAccess", 2: HALVES}


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
            if feature is not None:
                check_feature(self.public_name, feature, device, ", or convert the matrices to float32")
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
            found = ACTIVATION_FUNCTIONS[result.activation](found * self._scale({"scale": scale}) + extra.get("bias", 0.0))
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


_PACKAGE = __name__.partition(".")[0]
_said: set[str] = set()


class PerformanceWarning(UserWarning):
    """A kernel runs, and slower than on a device that has what it is made for."""


def warn_once(text: str) -> None:
    """Warn with a text, unless this process has before, at the line that called into this package."""
    if text in _said:
        return
    _said.add(text)
    frame, level = sys._getframe(1), 2  # noqa: SLF001 -- how deep it is depends on whether a call brings buffers
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, PerformanceWarning, stacklevel=level)


TENSOR = "tensor"
_OPERANDS = {"float16": F16, "bfloat16": BF16, "int8": S8, "float32": F32}
_RESULTS = {"float16": F16, "bfloat16": BF16, "float32": F32, "int32": S32}
SHORT = {F16: "f16", BF16: "bf16", F32: "f32", S8: "int8", S32: "int32"}
_UNCUT = Tiling((1, 1, 1), (1, 1), SCALAR, 1)  # until a device and a candidate are known


def product(  # noqa: PLR0913 -- by keyword
    dtype: DTypeLike,
    *,
    out_dtype: DTypeLike | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: bool = False,
    residual: bool = False,
    activation: str | None = None,
    names: tuple[str, str] = ("a", "b"),
) -> Product:
    """Return the definition of a product.

    Raises
    ------
    InvalidInput
        If there is none of such types, or with such an activation.
    """
    operand = element_of(dtype, _OPERANDS, "operands")
    accumulator = F32 if operand.is_float else S32
    out = accumulator if out_dtype is None else element_of(out_dtype, _RESULTS, "results")
    if not out.is_float and (operand.is_float or bias or residual or activation is not None):
        raise InvalidInput(
            f"results of {name_of(out)} are sums of int8 as they are, and {name_of(operand)} with "
            f"bias={bias}, residual={residual}, activation={activation!r} was asked for",
            fix="give out_dtype float32, float16 or bfloat16",
        )
    for name, flag in {"transpose_a": transpose_a, "transpose_b": transpose_b, "bias": bias, "residual": residual}.items():
        if type(flag) is not bool:
            raise InvalidInput(
                f"{name} is of type {type(flag).__name__}, and says whether there is one",
                fix="give True or False, and arrays with each call",
                parameter=name,
            )
    if activation is not None and (not isinstance(activation, str) or activation not in ACTIVATIONS):
        raise InvalidInput(
            f"there is no activation {activation!r}",
            fix=f"give None or one of {', '.join(ACTIVATIONS)}",
            parameter="activation",
        )
    result = Result(accumulator, out, bias, residual, activation)
    layout = ("t" if transpose_a else "n") + ("t" if transpose_b else "n")
    parts = ["product", SHORT[operand], *([] if layout == "nn" else [layout]), *([] if out == accumulator else [SHORT[out]])]
    name = "_".join([*parts, *result.extra_buffers, *([] if activation is None else [activation])])
    description = ProductDescription(operand, result, _UNCUT, transpose_a, transpose_b, is_aligned=False, is_direct=False)
    return Product(name, description, (*names, *result.extra_buffers))


def on_driver(driver: Driver, definition: Product | Attention, element: ElementType, require: str | None) -> TunedKernel:
    """Return a kernel on a driver; that the device has no matrices for its operands is warned of once (PerformanceWarning).

    Raises
    ------
    InvalidInput
        If ``require`` is neither None nor ``"tensor"``.
    UnsupportedFeature
        If it is ``"tensor"`` and the device has no such matrices; as ``TunedKernel``.
    """
    if require is not None and (not isinstance(require, str) or require != TENSOR):
        raise InvalidInput(f"require is {require!r}", fix=f"give None or {TENSOR!r}", parameter="require")
    kernel = TunedKernel(driver, definition)
    if definition.is_on_matrices(kernel.device):
        return kernel
    lack = definition.lack(kernel.device)
    if require is not None:
        raise UnsupportedFeature(
            f"{definition.public_name} is to run on tensor cores, and {lack}",
            fix="leave require out to run it on ordinary units, or choose another device",
            feature="cooperativeMatrix",
        )
    if element is not F32:
        warn_once(f"{lack}: it is multiplied on ordinary units, which are slower")
    return kernel
