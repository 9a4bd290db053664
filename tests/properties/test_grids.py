"""Grids cover what they are asked for, and follow the formula."""

from __future__ import annotations

from math import ceil, prod

from hypothesis import assume, given
from hypothesis import strategies as st

from vyre_driver.binding.dispatch_parameters import ceil_cube_root, ceil_square_root, covering_grid

near_powers = st.builds(
    lambda side, power, step: max(side**power + step, 0), st.integers(0, 2**21), st.integers(1, 3), st.integers(-2, 2)
)
counts = near_powers | st.integers(0, 2**64 - 1)
sizes = st.tuples(*[st.sampled_from([1, 2, 8, 1024]) | st.integers(1, 2**32 - 1)] * 3)


def over(value: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-value // divisor)


@given(counts)
def test_a_root_is_the_least_side_that_reaches_the_value(value: int) -> None:
    square, cube = ceil_square_root(value), ceil_cube_root(value)
    assert square**2 >= value and cube**3 >= value  # noqa: PT018 -- one sentence
    assert value == 0 or ((square - 1) ** 2 < value and (cube - 1) ** 3 < value)


@given(counts, sizes)
def test_a_grid_has_an_invocation_for_each_element_and_no_row_too_many(count: int, size: tuple[int, int, int]) -> None:
    x, y, z = size
    assume((y, z) != (1, 1) or over(count, x) < 2**32)
    assume((z, ceil_square_root(count) // x < 2**32) != (1, False))
    grid = covering_grid(count, size)
    extents = [groups * axis for groups, axis in zip(grid, size, strict=True)]
    assert prod(extents) >= count
    assert min(grid) == 1 or prod((groups - 1) * axis for groups, axis in zip(grid, size, strict=True)) < count


@given(st.integers(1, 2**40), st.integers(1, 1024), st.integers(2, 1024))
def test_a_grid_of_two_axes_is_the_formulas(count: int, x: int, y: int) -> None:
    side = next(side for side in range(ceil(count**0.5) + 2, 0, -1) if (side - 1) ** 2 < count)
    assert covering_grid(count, (x, y, 1)) == (over(side, x), over(over(count, side), y), 1)


@given(st.integers(1, 2**40), st.integers(1, 64), st.integers(1, 64), st.integers(2, 64))
def test_a_grid_of_three_axes_is_the_formulas(count: int, x: int, y: int, z: int) -> None:
    side = next(side for side in range(ceil(count ** (1 / 3)) + 2, 0, -1) if (side - 1) ** 3 < count)
    assert covering_grid(count, (x, y, z)) == (over(side, x), over(side, y), over(over(count, side**2), z))
