"""Attention: ``softmax(scale * q @ k^T) @ v`` of each head, in one pass over the keys; on tensor cores where there are.

Devices without cooperative matrices for the type, and heads of other sizes, take a shader on ordinary units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import InvalidInput, LimitExceeded, UnsupportedFeature
from vyre_driver.kernels import common, product_numbers
from vyre_driver.kernels.product_plans import Fragment, bits_of_float, fragment_for, holds_sums, lack_of, subgroup_config
from vyre_driver.kernels.products import warn_once
from vyre_driver.matrices.attention import PUSHED, attention_module
from vyre_driver.matrices.description import AttentionDescription, AttentionTiling
from vyre_driver.matrices.elements import BF16, F16, F32, ElementType
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import DTypeLike, NDArray

    Shape = tuple[int, ...]

_AXES = (3, 4)


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """``heads`` of ``queries`` rows for each of a batch, ``kv_heads`` of ``keys`` rows, all of ``head`` elements."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head: int
    out: Shape
    heads_first: bool

    @property
    def q_steps(self) -> tuple[int, int, int]:
        """Elements from a row of q to the next one, from a head, and from an entry of the batch."""
        return self._steps(self.heads, self.queries)

    @property
    def k_steps(self) -> tuple[int, int, int]:
        """The same of k and v."""
        return self._steps(self.kv_heads, self.keys)

    def _steps(self, heads: int, rows: int) -> tuple[int, int, int]:
        row, of_head = (self.head, rows * self.head) if self.heads_first else (heads * self.head, self.head)
        return row, of_head, heads * rows * self.head

    @property
    def size(self) -> tuple[int, int, int, int, int]:
        """The batch, heads, queries, keys and elements of a row."""
        return self.batch, self.heads, self.queries, self.keys, self.head


def attention_shape(kernel: str, q: Shape, k: Shape, v: Shape, *, heads_first: bool = True) -> AttentionShape:
    """Return what arrays of shape ([batch,] heads, rows, elements) make, or ([batch,] rows, heads, elements).

    Raises
    ------
    InvalidInput
        If they do not fit each other.
    """
    axes = "heads, rows" if heads_first else "rows, heads"
    if len(q) not in _AXES:
        raise InvalidInput(
            f"q of {kernel} has the shape {q}, and must have the axes ([batch,] {axes}, elements)",
            fix="reshape it: one head, or a batch of one, is an axis of 1",
            binding="q",
        )
    for name, shape in (("k", k), ("v", v)):
        if len(shape) != len(q):
            raise InvalidInput(
                f"{name} of {kernel} has the shape {shape} and q {q}, and all must have the axes ([batch,] {axes}, elements), "
                "with a batch or without one",
                fix="reshape one of them: a batch of one is an axis of 1",
                binding=name,
            )
    if k != v or k[:-3] != q[:-3] or k[-1] != q[-1]:
        raise InvalidInput(
            f"q of {kernel} has the shape {q}, k {k} and v {v}: k and v must be of one shape, and all of one batch and one "
            "number of elements",
            fix="give arrays that fit each other",
        )
    at_heads, at_rows = (-3, -2) if heads_first else (-2, -3)
    heads, kv_heads = q[at_heads], k[at_heads]
    if heads and (not kv_heads or heads % kv_heads):
        raise InvalidInput(
            f"{kernel} got {heads} heads of queries and {kv_heads} of keys: no whole number of the one for each of the other",
            fix="give as many heads of queries for each head of keys",
        )
    return AttentionShape(q[0] if len(q) == max(_AXES) else 1, heads, kv_heads, q[at_rows], k[at_rows], q[-1], q, heads_first)


_NAMES = ("q", "k", "v")
_VECTORS, _BITS = np.dtype((np.uint32, 4)), np.dtype(np.uint16)
_SHADERS = {"float32": "attention", "float16": "attention_f16", "bfloat16": "attention_bf16"}
_QUERIES = 8  # of a workgroup of shaders/attention.comp
_KEYS_OF_A_STEP, _TURNS_OF_A_STEP = 128, 200  # there, beside a turn for each element of a row
_MOST_TURNS = 30_000  # of the loops of one dispatch on a CPU device: llvmpipe ends them after 65,535
_STATE = "state"  # what dispatches for parts of the keys hand on
_MOST_PLACES = 256  # of a row there
_BY_HAND = "multiply with kernels.matmul, and weigh the scores with kernels.softmax"
_LARGEST_HEAD = 128  # on matrices: of more there is no room in registers


@lru_cache(maxsize=64)
def _emitted(description: AttentionDescription) -> SpirvModule:
    return SpirvModule.from_bytes(attention_module(description), name="attention")


def _tiling(fragment: Fragment, subgroup_size: int, candidate: Candidate) -> AttentionTiling:
    keys, is_direct = candidate["TILE_X"], fragment[1] == fragment[2]
    subgroups = candidate.workgroup_size[0] // subgroup_size
    return AttentionTiling(fragment[0], keys, subgroups, fragment, subgroup_size, keys, is_direct)


@dataclass(frozen=True, slots=True)
class Attention(KernelDefinition):
    """Heads of one type; ``is_causal`` as PyTorch has it: a query sees the keys up to its own number.

    A size is (batch, heads, queries, keys, elements of a row).
    """

    name: str
    element: ElementType
    is_causal: bool
    heads_first: bool = True
    on_matrices_alone: bool = False
    """Whether what would run on ordinary units is refused."""
    inputs = _NAMES
    is_included = True
    sizes = tuple((1, 32, length, length, 128) for length in (256, 1024, 4096))

    @property
    def public_name(self) -> str:
        """What messages call the kernel."""
        return "attention"

    def is_on_matrices(self, device: DeviceFacts) -> bool:
        """Whether the device has cooperative matrices for this type."""
        return self.fragment(device) is not None

    def lack(self, device: DeviceFacts) -> str:
        """Return what a device lacks on which attention runs on ordinary units."""
        if self.element is F32 or fragment_for(self.element, F32, device) is None:
            return lack_of(self.element, device)
        name = product_numbers.name_of(self.element)
        return f"{device.physical.name!r} has cooperative matrices of {name}, but no sums of that type"

    def fragment(self, device: DeviceFacts) -> Fragment | None:
        """Return (m, n, k) of what subgroups multiply at once, None for float32 and without such matrices.

        Weights come as sums and go on as operands by way of matrices of sums of the operands' type, and results are stored as
        such: NVIDIA's devices name none of bfloat16.
        """
        found = None if self.element is F32 else fragment_for(self.element, F32, device)
        return found if found is None or holds_sums(self.element, found, device) else None

    def modules(self, device: DeviceFacts) -> tuple[SpirvModule, ...]:
        """Return the shader for ordinary units, and what the preferred candidate is for a head of 128; or that alone."""
        shipped = shipped_module(_SHADERS[self.element.name])
        fragment = self.fragment(device)
        if fragment is None and device.physical.is_software:
            return shipped, shipped_module(f"{_SHADERS[self.element.name]}_parts")
        if fragment is None:
            return (shipped,)
        return shipped, _emitted(self._described(device, fragment, self.space(device).preferred, _LARGEST_HEAD))

    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return keys of a step and workgroups; on ordinary units nothing. Raises UnsupportedFeature."""
        if self.element is not F32:
            common.check_feature(self.public_name, common.HALVES, device, ", or convert the arrays to float32")
        fragment, subgroup = self.fragment(device), device.physical.subgroup_size
        if fragment is None:
            return TuningSpace(())
        # On a CPU one subgroup: some have a barrier of one wait for the others, and they reach different ones.
        counts, keys = ((1,), (2, 1)) if device.physical.is_software else ((4, 8), (4, 2))
        axes = (
            Axis("TILE_X", tuple(count * fragment[1] for count in keys), "keys of a step"),
            Axis(
                "WORKGROUP_X", tuple(count * subgroup for count in counts), "invocations, each subgroup with its queries", "x"
            ),
        )

        def rule(candidate: Candidate, limits: Limits) -> str | None:
            largest = self._described(device, fragment, candidate, _LARGEST_HEAD)
            return largest.problem() or common.over_shared_memory("it takes", largest.shared_bytes, limits)

        return TuningSpace(axes, rule)

    def size(self, operands: Mapping[str, Operand], parameters: Mapping[str, Any]) -> Size:
        """Return (batch, heads, queries, keys, elements of a row); raises InvalidInput."""
        common.check_parameters(self.public_name, parameters, ("scale", "shift"), ("is_causal", "heads_first", "require"))
        for name, one in operands.items():
            product_numbers.check_element(self.public_name, name, one.dtype, self.element, operands["q"].dtype)
        shape = self._shape(operands)
        self._scale(parameters, shape)
        self._shift(parameters)
        return shape.size

    def plan(self, call: Call) -> Plan:
        """Return one dispatch.

        Raises
        ------
        LimitExceeded
            If the batch or the heads are too large.
        UnsupportedFeature
            If it would run on ordinary units and is not to.
        """
        shape = self._shape(call.operands)
        output = {"o": call.operands["q"]}
        if 0 in shape.out:
            return common.zeros_plan("o", shape.out, call.operands["q"].dtype)
        most = call.device.physical.limits.max_compute_work_group_count[2]
        if shape.batch > most:
            raise LimitExceeded(
                f"{self.public_name} got a batch of {shape.batch}, and the device takes {most} at once",
                fix=f"give parts of at most {most}",
                requested=shape.batch,
                limit=most,
            )
        fragment = self.fragment(call.device)
        if fragment is None or not shape.keys:
            return self._on_ordinary_units(call, shape, output)
        description = self._described(call.device, fragment, call.candidate, shape.head)
        above = f"{shape.head} elements are more than {_LARGEST_HEAD}" if shape.head > _LARGEST_HEAD else None
        problem = above or description.problem()
        if problem is None:
            return Plan((self._matrices(call, shape, description),), output)
        self._tell_of_heads(shape, problem)
        return self._on_ordinary_units(call, shape, output)

    def _on_ordinary_units(self, call: Call, shape: AttentionShape, output: Mapping[str, Operand]) -> Plan:
        """Return one dispatch, or on a CPU device several for parts of the keys: its driver may end loops of many turns.

        Each goes on with what the one before has kept, so that the result is that of one.
        """
        part = _MOST_TURNS // (shape.head + _TURNS_OF_A_STEP) * _KEYS_OF_A_STEP
        whole = self._ordinary(call, shape)
        if not call.device.physical.is_software or shape.keys <= part:
            return Plan((whole,), output)
        module, buffers = shipped_module(f"{_SHADERS[self.element.name]}_parts"), (*whole.buffers, _STATE)
        steps = []
        for first in range(0, shape.keys, part):
            pushed = {**whole.push_constants, "first_key": first, "end_key": min(first + part, shape.keys)}
            steps.append(replace(whole, module=module, buffers=buffers, push_constants=pushed))
        rows = shape.batch * shape.heads * shape.queries
        return Plan(tuple(steps), output, {_STATE: Operand((rows, shape.head + 2), np.dtype(np.float32))})

    def _tell_of_heads(self, shape: AttentionShape, problem: str) -> None:
        """Refuse heads that tensor cores do not take, or warn of them once."""
        why = f"{self.public_name} got heads of {shape.head} elements, which tensor cores do not take: {problem}"
        if self.on_matrices_alone:
            zeros = f"append zeros to the rows of q, k and v, to {_LARGEST_HEAD} elements, and give the scale, or "
            otherwise = f"{zeros if shape.head < _LARGEST_HEAD else ''}leave require out to run it on ordinary units"
            raise UnsupportedFeature(
                why,
                fix=otherwise if shape.head <= _MOST_PLACES else _BY_HAND,
                feature="cooperativeMatrix",
            )
        if shape.head <= _MOST_PLACES:  # else they are refused there too
            warn_once(f"{why}; they are multiplied on ordinary units, which are slower")

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        """Return normally distributed numbers, as many heads of keys as of queries."""
        batch, heads, queries, keys, head = size
        dice, dtype = np.random.default_rng(seed), product_numbers.dtype_of(self.element)
        rows = (queries, keys, keys)
        shapes = [(batch, heads, one, head) if self.heads_first else (batch, one, heads, head) for one in rows]
        return tuple(product_numbers.rounded(dice.standard_normal(one), self.element, dtype) for one in shapes), {}

    def expected(self, *arrays: NDArray[Any], scale: float | None = None, shift: int = 0, **_: object) -> NDArray[Any]:
        """Return the formula in float64, rounded once; a query that sees no key has zeros."""
        shape = self._shape({name: Operand(one.shape, one.dtype) for name, one in zip(_NAMES, arrays, strict=True)})
        factor, (q, k, v) = self._scale({"scale": scale}, shape), (self._turned(one) for one in arrays)
        found = np.zeros(q.shape)
        for *batch, head in np.ndindex(q.shape[:-2]):  # one by one: the scores of all heads may be gigabytes
            of_keys = (*batch, head // (shape.heads // shape.kv_heads))
            of_q, of_k, of_v = (
                product_numbers.as_float64(one, self.element) for one in (q[(*batch, head)], k[of_keys], v[of_keys])
            )
            found[(*batch, head)] = self._expected_head(of_q, of_k, of_v, factor, shift)
        return product_numbers.rounded(self._turned(found), self.element, arrays[0].dtype)

    def _expected_head(
        self, q: product_numbers.Numbers, k: product_numbers.Numbers, v: product_numbers.Numbers, scale: float, shift: int
    ) -> product_numbers.Numbers:
        with np.errstate(all="ignore"):
            scores = q @ k.T * scale
            if self.is_causal:
                sees = np.arange(len(k)) <= np.arange(len(q))[:, None] + shift
                scores = np.where(sees, scores, -np.inf)
            most = scores.max(-1, keepdims=True, initial=-np.inf)
            weights = np.where(scores == -np.inf, 0.0, np.exp(scores - most))
            sums = weights.sum(-1, keepdims=True)
            return np.where(sums == 0, 0.0, weights @ v / np.where(sums == 0, 1, sums))

    def numbers(self, output: NDArray[Any]) -> NDArray[Any]:
        """Return a result as numbers where it is the bits of bfloat16."""
        return product_numbers.as_float64(output, self.element) if self.element.is_bfloat else output

    def tolerance(self, size: Size) -> float:  # noqa: ARG002 -- one for all
        """Return 2**-16, and two units of the type, to which weights are rounded too."""
        return 2.0**-16 + 2 * {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(self.element.name, 0.0)

    def moved_bytes(self, size: Size) -> int:
        """Return the bytes of all four arrays."""
        batch, heads, queries, keys, head = size
        return 2 * batch * heads * (queries + keys) * head * self.element.byte_len

    def operations(self, size: Size) -> int:
        """Return two multiplications and additions for each query, key and element, half of them where it is causal."""
        return 4 * math.prod(size) // (2 if self.is_causal else 1)

    def _shape(self, operands: Mapping[str, Operand]) -> AttentionShape:
        return attention_shape(self.public_name, *(operands[name].shape for name in _NAMES), heads_first=self.heads_first)

    def _turned(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return an array with heads first, or one that has them first as the caller has it."""
        return numbers if self.heads_first else numbers.swapaxes(-3, -2)

    def _described(self, device: DeviceFacts, fragment: Fragment, candidate: Candidate, head: int) -> AttentionDescription:
        tiling = _tiling(fragment, device.physical.subgroup_size, candidate)
        return AttentionDescription(self.element, self.element, head, tiling, self.is_causal)

    def _matrices(self, call: Call, shape: AttentionShape, description: AttentionDescription) -> Step:
        tiles = shape.heads * math.ceil(shape.queries / description.tiling.tile)
        across, down, _ = common.grid_of(tiles, call.device.physical.limits)
        of_q, of_k = shape.q_steps, shape.k_steps
        sizes = (shape.heads, shape.kv_heads, shape.queries, shape.keys)
        scale = bits_of_float(self._scale(call.parameters, shape))
        shift = _clamped(self._shift(call.parameters), shape) % 2**32
        numbers_pushed = (*sizes, scale, shift, *of_q, *of_k, *of_k, *of_q)
        views = dict.fromkeys(_NAMES, _VECTORS) | ({"o": _BITS} if self.element.is_bfloat else {})
        push = dict(zip(PUSHED, numbers_pushed, strict=True))
        config = subgroup_config(call.device)
        return Step(_emitted(description), (*_NAMES, "o"), (across, down, shape.batch), {}, push, config, views)

    def _ordinary(self, call: Call, shape: AttentionShape) -> Step:
        if shape.head > _MOST_PLACES:
            raise LimitExceeded(
                f"{self.public_name} got heads of {shape.head} elements, and takes {_MOST_PLACES}",
                fix=_BY_HAND,
                requested=shape.head,
                limit=_MOST_PLACES,
            )
        across, down, _ = common.grid_of(shape.heads * math.ceil(shape.queries / _QUERIES), call.device.physical.limits)
        push = {"heads": shape.heads, "kv_heads": shape.kv_heads, "queries": shape.queries, "keys": shape.keys}
        push |= {"shift": _clamped(self._shift(call.parameters), shape), "head": shape.head, "is_causal": int(self.is_causal)}
        push |= dict(zip(("q_row", "q_head", "k_row", "k_head"), (*shape.q_steps[:2], *shape.k_steps[:2]), strict=True))
        views = dict.fromkeys((*_NAMES, "o"), _BITS) if self.element.is_bfloat else {}
        module, grid = shipped_module(_SHADERS[self.element.name]), (across, down, shape.batch)
        scaled = {**push, "scale": self._scale(call.parameters, shape)}
        return Step(module, (*_NAMES, "o"), grid, {}, scaled, None, views)

    def _scale(self, parameters: Mapping[str, Any], shape: AttentionShape) -> float:
        """Return the factor of scores, 1 / sqrt(elements of a row) if none is given; raises InvalidInput."""
        given: object = parameters.get("scale")
        if given is None:
            return float(np.float32(1 / math.sqrt(max(shape.head, 1))))
        found = common.float32_of(given)
        if found is None or not 0 < found < math.inf:
            raise InvalidInput(
                f"scale of {self.public_name} is {given!r}, and must be a number above 0 that float32 holds",
                fix="give a float",
                parameter="scale",
            )
        return found

    def _shift(self, parameters: Mapping[str, Any]) -> int:
        """Return how many keys beyond its own number a query sees; raises InvalidInput."""
        given: object = parameters.get("shift", 0)
        if type(given) is bool or not isinstance(given, Integral) or (given and not self.is_causal):
            raise InvalidInput(
                f"shift of {self.public_name} is {given!r}, and must be an integer, and 0 where it is not causal",
                fix="give keys - queries to a causal one to have its last query see all keys",
                parameter="shift",
            )
        return int(given)


def _clamped(shift: int, shape: AttentionShape) -> int:
    """Return the shift, or the nearest one with which every query sees as much: kernels add numbers of rows in 32 bits."""
    return min(max(shift, -shape.queries), shape.keys)


def attention_of(dtype: DTypeLike, *, is_causal: bool, heads_first: bool = True, on_matrices_alone: bool = False) -> Attention:
    """Return the definition for a type; raises InvalidInput if there is none."""
    for name, flag in (("is_causal", is_causal), ("heads_first", heads_first)):
        if not isinstance(flag, (int, np.bool_)):
            raise InvalidInput(
                f"{name} of attention is of type {type(flag).__name__}, and must be True or False",
                fix="give True or False",
                parameter=name,
            )
    element = product_numbers.element_of(dtype, product_numbers.FLOATS, "arrays")
    short = {F16: "f16", BF16: "bf16", F32: "f32"}[element]
    name = f"attention_{short}{'_causal' if is_causal else ''}{'' if heads_first else '_rows_first'}"
    return Attention(name, element, is_causal, heads_first, on_matrices_alone)
