"""Convolutions of small whole numbers, whose sums every type holds, as they are checked on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from poisoned import result

from vyre_driver.autotune.measure.definition import DeviceFacts
from vyre_driver.kernels.convolution import Window, convolution
from vyre_driver.kernels.product_plans import fragment_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kernels.convolution import Convolution

# By what they try; batch, height, width, channels, out channels, kernel height and width, and the window.
CASES = {
    "edges on all sides": ((2, 7, 9, 16, 9, 3, 3), Window(padding=(1, 1))),
    "other strides, padding and dilation down than across": ((2, 9, 8, 3, 5, 3, 2), Window((2, 3), (1, 0), (2, 1))),
    "pixels as they are": ((3, 5, 5, 8, 16, 1, 1), Window()),
    "some of the pixels": ((2, 5, 6, 8, 16, 1, 1), Window(stride=(2, 2))),
    "pixels and a rim of zeros": ((1, 3, 2, 8, 3, 1, 1), Window(padding=(1, 2))),
    "more channels than a step": ((1, 6, 6, 40, 3, 5, 5), Window(padding=(2, 2))),
    "one window of one channel": ((1, 4, 4, 1, 1, 4, 4), Window()),
    "several rows of taps in a step": ((2, 6, 20, 1, 2, 5, 3), Window(padding=(0, 1))),
    "whole tiles": ((2, 4, 8, 32, 32, 3, 3), Window(padding=(1, 1))),
    "windows without a pixel": ((1, 2, 3, 8, 4, 2, 2), Window(padding=(4, 3), dilation=(1, 2))),
    "taps far apart": ((1, 20, 9, 8, 4, 3, 3), Window(dilation=(9, 4))),
}


def drawn(definition: Convolution, size: tuple[int, ...], seed: int = 1) -> list[NDArray[Any]]:
    """Return arrays of a call, of numbers from -2 to 2."""
    dice, (arrays, _) = np.random.default_rng(seed), definition.example(size, seed)
    is_bits = definition.description.operand.is_bfloat
    return [bits(dice, one.shape) if is_bits else dice.integers(-2, 3, one.shape).astype(one.dtype) for one in arrays]


def bits(dice: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    """Return whole numbers as bfloat16."""
    return (dice.integers(-2, 3, shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def smallest(driver: Driver, definition: Convolution, parts: int = 1) -> Candidate:
    """Return a candidate that compiles quickly: a workgroup of four subgroups, or of 64 invocations."""
    facts = DeviceFacts.of(driver)
    fragment, space = fragment_of(definition.description, facts), definition.space(facts)
    if fragment is None:
        return space.candidate(TILE_X=32, TILE_Y=32, SPLIT_K=parts, WORKGROUP_X=8, WORKGROUP_Y=8)
    x, y = 2 * fragment[1], 2 * fragment[0]
    return space.candidate(TILE_X=x, TILE_Y=y, SPLIT_K=parts, WORKGROUP_X=2 * facts.physical.subgroup_size, WORKGROUP_Y=2)


def check(driver: Driver, dtype: str, case: str, parts: int = 1, **how: Any) -> None:  # noqa: ANN401 -- as of convolution
    """Check that a device makes of a case what numpy makes of it."""
    size, window = CASES[case]
    definition = convolution(dtype, window=window, **how)
    arrays = drawn(definition, size)
    found = result(driver, definition, smallest(driver, definition, parts), *arrays)
    assert np.array_equal(found, definition.expected(*arrays))


def check_numbers_that_are_none(driver: Driver) -> None:
    """Check that NaN and infinities are where numpy has them: zeros outside and past the last tap multiply nothing else."""
    dice = np.random.default_rng(7)
    for case in ("edges on all sides", "other strides, padding and dilation down than across"):
        size, window = CASES[case]
        definition = convolution("float16", bias=False, window=window)
        x, weight = drawn(definition, size)
        weight[-1, 0, 1, 2] = np.inf
        for number in (np.nan, np.inf, -np.inf):
            x[dice.random(x.shape) < 1 / 100] = number
        x[0, 0, 0, 0], x[1, 5:] = np.nan, np.nan  # the rows that follow those of a window are read with its last taps
        found = result(driver, definition, smallest(driver, definition), x, weight)
        want = definition.expected(x, weight)
        kinds = [np.isnan(want).any(), np.isposinf(want).any(), np.isneginf(want).any(), np.isfinite(want).any()]
        assert (kinds, np.array_equal(found, want, equal_nan=True)) == ([True] * 4, True)
