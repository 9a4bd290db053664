"""Attention without a device: what its arrays and parameters may be, and what it expects."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from literals import DEVICE, device, refusal

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.attention import AttentionShape, attention_of, attention_shape
from vyre_driver.vulkan.matrices import CooperativeMatrixShape

Shape = tuple[int, ...]
FEATURES = frozenset({"cooperativeMatrix", "vulkanMemoryModel", "shaderFloat16", "storageBuffer16BitAccess"})
PLAIN, CAUSAL = (attention_of("float16", is_causal=one) for one in (False, True))


@pytest.mark.parametrize(
    ("q", "k", "wanted"),
    [
        ((2, 9, 16), (2, 33, 16), (1, 2, 2, 9, 33, 16)),
        ((3, 8, 9, 16), (3, 2, 33, 16), (3, 8, 2, 9, 33, 16)),
        ((3, 8, 0, 16), (3, 1, 0, 16), (3, 8, 1, 0, 0, 16)),
        ((0, 8, 9, 16), (0, 4, 33, 16), (0, 8, 4, 9, 33, 16)),
        ((0, 9, 16), (2, 33, 16), (1, 0, 2, 9, 33, 16)),
    ],
    ids=str,
)
def test_arrays_are_heads_of_rows_with_or_without_a_batch(q: Shape, k: Shape, wanted: tuple[int, ...]) -> None:
    found = attention_shape("attention", q, k, k)
    batch, heads, kv_heads, queries, keys, head = wanted
    assert found == AttentionShape(batch, heads, kv_heads, queries, keys, head, q, heads_first=True)
    turned = [(*shape[:-3], shape[-2], shape[-3], shape[-1]) for shape in (q, k, k)]
    rows_first = attention_shape("attention", *turned, heads_first=False)
    assert rows_first == AttentionShape(batch, heads, kv_heads, queries, keys, head, turned[0], heads_first=False)
    assert found.size == (batch, heads, queries, keys, head)


AXES = "and must have the axes ([batch,] heads, rows, elements). Fix: reshape it: one head, or a batch of one, is an axis of 1."
AS_Q = (
    "and all must have the axes ([batch,] heads, rows, elements), with a batch or without one. "
    "Fix: reshape one of them: a batch of one is an axis of 1."
)
FIT = "k and v must be of one shape, and all of one batch and one number of elements. Fix: give arrays that fit each other."


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        ((9, 16), (9, 16), (9, 16), f"q of attention has the shape (9, 16), {AXES}"),
        ((1, 1, 2, 9, 16), (2, 9, 16), (2, 9, 16), f"q of attention has the shape (1, 1, 2, 9, 16), {AXES}"),
        ((1, 2, 9, 16), (2, 9, 16), (1, 2, 9, 16), f"k of attention has the shape (2, 9, 16) and q (1, 2, 9, 16), {AS_Q}"),
        ((2, 9, 16), (2, 9, 16), (1, 2, 9, 16), f"v of attention has the shape (1, 2, 9, 16) and q (2, 9, 16), {AS_Q}"),
        (
            (2, 9, 16),
            (2, 8, 16),
            (2, 9, 16),
            f"q of attention has the shape (2, 9, 16), k (2, 8, 16) and v (2, 9, 16): {FIT}",
        ),
        (
            (2, 9, 16),
            (2, 9, 8),
            (2, 9, 8),
            f"q of attention has the shape (2, 9, 16), k (2, 9, 8) and v (2, 9, 8): {FIT}",
        ),
        (
            (3, 2, 9, 16),
            (1, 2, 9, 16),
            (1, 2, 9, 16),
            f"q of attention has the shape (3, 2, 9, 16), k (1, 2, 9, 16) and v (1, 2, 9, 16): {FIT}",
        ),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_each_other_are_refused(q: Shape, k: Shape, v: Shape, message: str) -> None:
    kind, _, said = refusal(lambda: attention_shape("attention", q, k, v))
    assert (kind, said) == (InvalidInput, message)


@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 2), (2, 4), (2, 0)])
def test_each_head_of_keys_has_as_many_heads_of_queries(heads: int, kv_heads: int) -> None:
    kind, _, said = refusal(lambda: attention_shape("attention", (heads, 9, 16), (kv_heads, 9, 16), (kv_heads, 9, 16)))
    assert (kind, said) == (
        InvalidInput,
        (
            f"attention got {heads} heads of queries and {kv_heads} of keys: no whole number of the one for each of the other. "
            "Fix: give as many heads of queries for each head of keys."
        ),
    )


def operands(*dtypes: Any, shape: Shape = (2, 9, 16)) -> dict[str, Operand]:  # noqa: ANN401 -- what numpy takes
    return {name: Operand(shape, np.dtype(one)) for name, one in zip("qkv", dtypes, strict=True)}


def test_arrays_of_another_type_are_refused() -> None:
    half, single, bits, bfloat16 = np.float16, np.float32, np.uint16, ml_dtypes.bfloat16
    assert refusal(lambda: PLAIN.size(operands(half, single, half), {}))[2] == (
        "k of attention is of float32, and must be of float16. Fix: convert it with .astype(), or take the kernel of its type."
    )
    of_bits = attention_of("bfloat16", is_causal=False)
    assert of_bits.size(operands(bits, bits, bits), {}) == of_bits.size(operands(bfloat16, bfloat16, bfloat16), {})
    assert refusal(lambda: of_bits.size(operands(bfloat16, bfloat16, bits), {}))[2] == (
        "v of attention is of uint16, and must be of bfloat16: bfloat16 is bits in all arrays of a call, or in none. "
        "Fix: give v.view(bfloat16)."
    )


@pytest.mark.parametrize(
    "scale", [0, -1, math.nan, math.inf, 1e39, 10**400, 1e-50, True, "1", 1j], ids=lambda one: repr(one)[:9]
)
def test_a_scale_is_a_number_above_0(scale: object) -> None:
    assert refusal(lambda: PLAIN.size(operands(*["f2"] * 3), {"scale": scale}))[2] == (
        f"scale of attention is {scale!r}, and must be a number above 0 that float32 holds. Fix: give a float."
    )


@pytest.mark.parametrize(
    ("definition", "shift"), [(CAUSAL, 1.0), (CAUSAL, True), (CAUSAL, None), (CAUSAL, "1"), (PLAIN, 1), (PLAIN, False)]
)
def test_a_shift_is_an_integer_and_only_where_it_means_something(definition: Any, shift: object) -> None:  # noqa: ANN401 -- either
    assert refusal(lambda: definition.size(operands(*["f2"] * 3), {"shift": shift}))[2] == (
        f"shift of attention is {shift!r}, and must be an integer, and 0 where it is not causal. "
        "Fix: give keys - queries to a causal one to have its last query see all keys."
    )


def test_other_parameters_and_types_are_refused() -> None:
    assert refusal(lambda: PLAIN.size(operands(*["f2"] * 3), {"mask": 1}))[2] == (
        "attention takes scale, shift and got 'mask'. Fix: leave 'mask' out."
    )
    assert refusal(lambda: PLAIN.size(operands(*["f2"] * 3), {"is_causal": True}))[2] == (
        "attention takes scale, shift and got 'is_causal'. Fix: give 'is_causal' where the kernel is made, arrays by position."
    )
    assert refusal(lambda: attention_of("int8", is_causal=False))[2] == (
        "there is no such kernel with arrays of int8. Fix: give one of float16, bfloat16, float32."
    )
    assert refusal(lambda: PLAIN.space(DeviceFacts(DEVICE, frozenset()))) == (
        UnsupportedFeature,
        1002,
        (
            "attention needs storageBuffer16BitAccess, and 'Example GPU 9000' is open without it. "
            "Fix: choose another device, or convert the arrays to float32."
        ),
    )


def test_each_definition_has_a_name_of_its_own() -> None:
    names = [attention_of(dtype, is_causal=one).name for dtype in ("float16", "bfloat16", "float32") for one in (False, True)]
    assert len(set(names)) == 6


def test_it_runs_on_matrices_where_the_device_has_them_for_scores_and_for_results() -> None:
    sums = CooperativeMatrixShape(16, 16, 16, *["float16"] * 2, *["float32"] * 2, saturating=False, scope="subgroup")
    halves = replace(sums, c="float16", result="float16")
    found = {
        len(shapes): PLAIN.fragment(DeviceFacts(device(cooperative_matrices=shapes, flexible_matrices=()), FEATURES))
        for shapes in ((), (sums,), (sums, halves))
    }
    assert found == {0: None, 1: None, 2: (16, 16, 16)}
    both = DeviceFacts(device(cooperative_matrices=(sums, halves)), FEATURES)
    assert attention_of("float32", is_causal=False).fragment(both) is None
    without, of_scores = (
        DeviceFacts(device(cooperative_matrices=one, flexible_matrices=()), FEATURES) for one in ((), (sums,))
    )
    lacks = "has no cooperative matrices of float16, or is open without their features"
    assert PLAIN.lack(without) == f"{without.physical.name!r} {lacks}"
    assert PLAIN.lack(of_scores) == f"{without.physical.name!r} has cooperative matrices of float16, but no sums of that type"


def test_what_is_expected_is_the_formula_head_by_head() -> None:
    dice = np.random.default_rng(1)
    q, k, v = (dice.standard_normal(shape) for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)))
    definition = attention_of("float32", is_causal=True)
    singles = [one.astype(np.float32) for one in (q, k, v)]
    found = definition.expected(*singles, scale=0.5, shift=-1)
    want = np.zeros(q.shape)
    for batch, head, row in np.ndindex(2, 4, 5):
        keys, values = (one[batch, head // 2, :row].astype(np.float64) for one in singles[1:])
        weights = np.exp(0.5 * keys @ singles[0][batch, head, row])
        if row:
            want[batch, head, row] = weights @ values / weights.sum()
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7)
    assert not found[:, :, 0].any()
    assert np.array_equal(definition.expected(*(one[0] for one in singles), scale=0.5, shift=-1), found[0])
