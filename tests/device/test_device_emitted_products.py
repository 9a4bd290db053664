"""Products that are emitted for cooperative matrices give what numpy gives, at every size and in every layout."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from emitted_products import Case, drawn, product

from vyre_driver.matrices.description import ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import F16, F32, S8, S32, ElementType

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = [pytest.mark.device, pytest.mark.matrices]

LAYOUTS = list(itertools.product((False, True), repeat=2))
thorough = pytest.mark.thorough
FEW_LAYOUTS = [pytest.param(one, marks=() if one == (True, False) else thorough) for one in LAYOUTS]
# Of each type and layout one is compiled, which is what takes the time: `make test` has each side of each operand once or more.
ANY_TYPES = [pytest.param(F16, F32, one, marks=() if one[0] != one[1] else thorough) for one in LAYOUTS]
ANY_TYPES += [pytest.param(S8, S32, one, marks=() if one == (False, True) else thorough) for one in LAYOUTS]
ALIGNED_TYPES = [*ANY_TYPES, (F16, F16, (True, False))]
ALIGNED_TYPES += [pytest.param(F16, F16, one, marks=thorough) for one in LAYOUTS if one != (True, False)]
# Ends within fragments, within vectors, before the first one; one row, one column, one product; more than a step, and an odd
# number of steps; several tiles and a batch.
ANY_SIZES = [(2, 33, 35, 37), (1, 1, 1, 1), (1, 5, 70, 3), (3, 40, 7, 16), (1, 17, 31, 65)]
ALIGNED_SIZES = [(2, 48, 80, 112), (1, 16, 16, 16), (1, 112, 16, 48)]


def described(driver: Driver, operand: ElementType, out: ElementType, *, split: tuple[int, int] = (1, 1)) -> ProductDescription:
    """The smallest product of the device's own fragments of whose parts each invocation loads whole vectors."""
    accumulator = F32 if operand.is_float else S32
    wanted = ((operand.name, operand.name, accumulator.name, accumulator.name), False, "subgroup")
    found = [one for one in driver.device.matrix_shapes(flexible=True) if (one.types, one.saturating, one.scope) == wanted]
    if not found:
        pytest.skip(f"{driver.device.name} names no {operand.name} x {operand.name} + {accumulator.name} (subgroup)")
    shape, least = found[-1], operand.in_vector  # the last one is flexible where any is
    is_flexible = "Flexible" in type(shape).__name__
    m, n, k = (max(one, least) if is_flexible else one for one in shape.sizes)
    rows, columns = max(16, m) * split[0], max(16, n) * split[1]
    vectors = driver.device.subgroup_size * split[0] * split[1]
    tile = (rows, columns, max(16, k, vectors * least // min(rows, columns)))
    return ProductDescription(
        operand, Result(accumulator, out), Tiling(tile, split, (m, n, k), driver.device.subgroup_size, band=2)
    )


@pytest.mark.parametrize("size", ANY_SIZES, ids=str)
@pytest.mark.parametrize(("operand", "out", "layout"), ANY_TYPES, ids=lambda one: getattr(one, "name", str(one)))
def test_a_product_of_matrices_that_begin_anywhere_is_numpys(
    opened: Driver, operand: ElementType, out: ElementType, layout: tuple[bool, bool], size: tuple[int, int, int, int]
) -> None:
    description = replace(described(opened, operand, out), a_transposed=layout[0], b_transposed=layout[1], is_aligned=False)
    check(opened, drawn(description, size))


@pytest.mark.parametrize("size", ALIGNED_SIZES, ids=str)
@pytest.mark.parametrize(("operand", "out", "layout"), ALIGNED_TYPES, ids=lambda one: getattr(one, "name", str(one)))
def test_a_product_of_whole_vectors_is_numpys(
    opened: Driver, operand: ElementType, out: ElementType, layout: tuple[bool, bool], size: tuple[int, int, int, int]
) -> None:
    description = replace(described(opened, operand, out), a_transposed=layout[0], b_transposed=layout[1])
    check(opened, drawn(description, size))


@pytest.mark.parametrize("split", [*(pytest.param(one, marks=thorough) for one in ((1, 1), (1, 2), (2, 1))), (2, 2)], ids=str)
@pytest.mark.parametrize("layout", FEW_LAYOUTS, ids=str)
def test_subgroups_share_a_tile_and_exact_kernels_need_no_edges(
    opened: Driver, layout: tuple[bool, bool], split: tuple[int, int]
) -> None:
    description = described(opened, F16, F32, split=split)
    m, n, k = description.tiling.tile
    exact = replace(description, a_transposed=layout[0], b_transposed=layout[1], has_whole_tiles=True, has_whole_steps=True)
    check(opened, drawn(exact, (2, 2 * m, 3 * n, 4 * k)))


@pytest.mark.parametrize("layout", FEW_LAYOUTS, ids=str)
def test_rows_and_columns_past_the_ends_need_no_zeros_where_k_is_whole(opened: Driver, layout: tuple[bool, bool]) -> None:
    description = described(opened, F16, F32, split=(2, 2))
    m, n, k = description.tiling.tile
    whole = replace(description, a_transposed=layout[0], b_transposed=layout[1], has_whole_steps=True)
    check(opened, drawn(whole, (2, 2 * m - 8, 2 * n - 8, 4 * k)))
    check(opened, drawn(whole, (1, 8, 8, 2 * k)))


@pytest.mark.parametrize("size", [(1, 31, 32, 16), (2, 32, 24, 48), (1, 9, 40, 16)], ids=str)
def test_subgroups_share_a_tile_of_which_only_some_have_an_edge(opened: Driver, size: tuple[int, int, int, int]) -> None:
    description = replace(described(opened, F16, F16, split=(2, 2)), is_aligned=True)
    assert description.tiling.patch[0] * description.tiling.fragment[0] * 2 == description.tiling.tile[0]
    check(opened, drawn(description, size))


def test_nan_and_infinities_come_out_where_numpy_has_them(opened: Driver) -> None:
    case = drawn(described(opened, F16, F32), (1, 48, 48, 48))
    a, b = case.a.copy(), case.b.copy()
    a[0, 3, 5], a[0, 20, 7], a[0, 21, 8], b[0, 9, 11] = np.nan, np.inf, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(product(opened, Case(case.description, a, b)), want.astype(np.float32), equal_nan=True)


def test_sums_beyond_float16_are_infinite_where_the_result_is_float16(opened: Driver) -> None:
    case = drawn(described(opened, F16, F16), (1, 16, 16, 64))
    a, b = np.full_like(case.a, 60), np.full_like(case.b, 60)
    b[..., ::2] *= -1
    want = np.where(np.arange(16) % 2, np.float16(np.inf), np.float16(-np.inf))
    assert np.array_equal(product(opened, Case(case.description, a, b)), np.broadcast_to(want, (1, 16, 16)))


def check(driver: Driver, case: Case) -> None:
    want = np.matmul(case.a.astype(np.int64), case.b.astype(np.int64))
    assert np.array_equal(product(driver, case), want)
