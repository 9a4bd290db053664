"""Attention that is emitted for cooperative matrices is what float64 gives, at every length, in every layout, and at extremes.

Tests of several subgroups keep scores so small that all of them look up their largest ones at the same steps: lavapipe has a
barrier of a subgroup wait for the workgroup.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from emitted_attention import Case, attention, drawn, expected

from vyre_driver.matrices.description import AttentionDescription, AttentionTiling
from vyre_driver.matrices.elements import F16, F32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = [pytest.mark.device, pytest.mark.matrices]

thorough = pytest.mark.thorough
HEAD = 16
# Of a batch, heads, heads of keys, queries, keys: ends within fragments and steps, one of each, whole steps, few queries of
# many keys and the other way round.
SIZES = [(2, 4, 2, 37, 45), (1, 1, 1, 1, 1), (1, 2, 1, 32, 48), (1, 3, 3, 5, 70), (2, 2, 1, 70, 3)]
WHOLE = (1, 2, 1, 32, 48)


def described(driver: Driver, *, is_causal: bool = False) -> AttentionDescription:
    """The smallest attention of the device's own fragments."""
    wanted = (("float16", "float16", "float32", "float32"), False, "subgroup")
    found = [one for one in driver.device.matrix_shapes(flexible=False) if (one.types, one.saturating, one.scope) == wanted]
    if not found:
        pytest.skip(f"{driver.device.name} names no float16 x float16 + float32 (subgroup)")
    m, n, k = found[0].sizes
    keys = max(m, n, k, 16)
    tiling = AttentionTiling(m, keys, 1, (m, n, k), driver.device.subgroup_size, keys)
    return AttentionDescription(F16, F32, HEAD, tiling, is_causal)


def check(driver: Driver, description: AttentionDescription, case: Case, *, is_interleaved: bool = False) -> None:
    found = attention(driver, description, case, is_interleaved=is_interleaved)
    assert_close(found, expected(case, is_causal=description.is_causal))


def assert_close(found: NDArray[np.floating], want: NDArray[np.float64]) -> None:
    """Weights are rounded to float16, sums are not: relative to the largest of a result, which is a mean of values."""
    assert np.array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=0, atol=2e-3 * np.nanmax(np.abs(want)))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_any_lengths_is_that_of_float64(
    opened: Driver,
    size: tuple[int, int, int, int, int],
    is_causal: bool,  # noqa: FBT001 -- a case
) -> None:
    check(opened, described(opened, is_causal=is_causal), drawn((*size, HEAD)))


@pytest.mark.parametrize("shift", [-40, -9, 8, 100])
def test_a_query_sees_as_many_keys_more_or_less_as_is_pushed_and_without_any_it_is_zeros(opened: Driver, shift: int) -> None:
    case = drawn((1, 2, 2, 37, 45, HEAD), shift=shift)
    found = attention(opened, described(opened, is_causal=True), case)
    assert_close(found, expected(case, is_causal=True))
    assert not found[:, :, : max(0, -shift)].any()


def test_heads_of_a_row_may_lie_side_by_side(opened: Driver) -> None:
    check(opened, described(opened, is_causal=True), drawn((2, 4, 2, 37, 45, HEAD)), is_interleaved=True)


@pytest.mark.parametrize("head", [pytest.param(32, marks=thorough), pytest.param(64, marks=thorough)])
def test_heads_have_any_size_of_whole_fragments(opened: Driver, head: int) -> None:
    check(opened, replace(described(opened), head=head), drawn((1, 1, 1, 20, 40, head)))


def test_the_result_is_rounded_where_it_is_float16(opened: Driver) -> None:
    for size in (WHOLE, (1, 2, 1, 37, 45)):
        check(opened, replace(described(opened), out=F16), drawn((*size, HEAD)))


@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("split", [(1, 1), (2, 2)], ids=["a fragment", "two fragments, keys turned in halves"])
def test_rows_and_weights_are_cut_in_any_way(opened: Driver, split: tuple[int, int], is_direct: bool) -> None:  # noqa: FBT001 -- a case
    description = described(opened, is_causal=True)
    tiling = description.tiling
    rows, turned = tiling.rows * split[0], max(tiling.keys // split[1], tiling.fragment[2])
    tiling = replace(tiling, rows=rows, keys=max(rows, tiling.keys), turned=turned, is_direct=is_direct)
    check(opened, replace(description, tiling=tiling), drawn((1, 2, 1, 37, 45, HEAD)))


@pytest.mark.parametrize("is_direct", [False, True])
def test_how_many_elements_an_invocation_holds_may_be_told(opened: Driver, is_direct: bool) -> None:  # noqa: FBT001 -- a case
    description = described(opened, is_causal=True)
    m, n, _ = description.tiling.fragment
    tiling = replace(description.tiling, elements=m * n // description.tiling.subgroup_size, is_direct=is_direct)
    check(opened, replace(description, tiling=tiling), drawn((1, 2, 1, 37, 45, HEAD)))


@pytest.mark.parametrize("is_causal", [False, True])
def test_subgroups_share_steps_of_keys(opened: Driver, is_causal: bool) -> None:  # noqa: FBT001 -- a case
    description = described(opened, is_causal=is_causal)
    keys = max(description.tiling.keys, 2 * opened.device.subgroup_size // description.part.vectors)  # a vector each at least
    tiling = replace(description.tiling, keys=keys, subgroups=2, band=1)
    case = drawn((2, 2, 1, 37, 45, HEAD))
    check(opened, replace(description, tiling=tiling), replace(case, scale=0.02))


@pytest.mark.parametrize("far", [1.0, 0.02, -1.0], ids=["rising", "slowly rising", "falling"])
def test_scores_that_rise_or_fall_along_the_keys_are_weighed_as_in_float64(opened: Driver, far: float) -> None:
    case = drawn((1, 2, 2, 16, 96, HEAD))
    q, k = case.q.copy(), case.k.copy()
    q[..., 0], k[..., 0] = 8, far * np.arange(96)  # scores of two units a key, powers of e
    check(opened, described(opened), Case(q, k, case.v))


@pytest.mark.parametrize("base", [-60000, 60000])
def test_scores_far_from_zero_are_weighed_as_in_float64(opened: Driver, base: float) -> None:
    case = drawn((1, 1, 1, 16, 40, HEAD))
    q, k = case.q.copy(), case.k.copy()
    q[..., 0], k[..., 0] = 1, base  # exact in float32, beside the rest of a score
    check(opened, described(opened), Case(np.round(q), np.round(k), case.v, scale=1.0))


def test_nan_and_infinities_come_out_where_float64_has_them(opened: Driver) -> None:
    case = drawn((1, 1, 1, 40, 48, HEAD))
    q, k, v = case.q.copy(), case.k.copy(), case.v.copy()
    k[...] = np.abs(k)
    q[0, 0, 3, 5], q[0, 0, 9, 0], q[0, 0, 20, 2] = np.nan, np.inf, 0
    v[0, 0, 40, 7] = np.inf
    found = attention(opened, described(opened), Case(q, k, v))
    want = expected(Case(q, k, v), is_causal=False)
    assert np.isnan(want[0, 0, [3, 9]]).all()
    assert np.array_equal(np.isnan(found), np.isnan(want))
    assert np.array_equal(np.isinf(found), np.isinf(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(found[finite], want[finite], rtol=0, atol=2e-3 * np.abs(want[finite]).max())


def test_what_a_head_lacks_of_a_step_is_not_taken_from_another(opened: Driver) -> None:
    case = drawn((1, 2, 2, 37, 45, HEAD))
    for other, own in ((0, slice(1, 2)), (1, slice(0, 1))):
        q, k, v = case.q.copy(), case.k.copy(), case.v.copy()
        for one in (q, k, v):
            one[0, other] = np.inf
        found = attention(opened, described(opened), Case(q, k, v))
        assert_close(found[:, own], expected(Case(q[:, own], k[:, own], v[:, own]), is_causal=False))


def test_a_key_with_minus_infinity_as_its_score_weighs_nothing(opened: Driver) -> None:
    case = drawn((1, 1, 1, 16, 48, HEAD))
    q, k = np.abs(case.q), case.k.copy()
    k[0, 0, [0, 17, 40], 3] = -np.inf
    check(opened, described(opened), Case(q, k, case.v))
