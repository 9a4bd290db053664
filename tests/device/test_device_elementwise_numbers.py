"""Numbers in calls of elementwise functions: which type they have, alone and beside arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.lang import elementwise

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (np.uint32(4_000_000_000), 2, np.uint32(4_000_000_002)),
        (2, np.array(4_000_000_000, np.uint32), np.uint32(4_000_000_002)),
        (np.int32(2), np.float32(0.5), np.float32(2.5)),
        (np.float64(1.0), 2, np.float32(3.0)),
        (np.uint8(200), np.uint8(100), np.int32(300)),
    ],
)
def test_numbers_of_numpy_alone_keep_their_type(opened: Driver, x: Any, y: Any, expected: np.generic) -> None:  # noqa: ANN401 -- numbers
    found = elementwise(lambda a, b: a + b).on(opened)(x, y)
    assert (found.dtype, found) == (expected.dtype, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int16])
def test_a_number_beside_small_elements_is_what_these_are_loaded_as(opened: Driver, dtype: type) -> None:
    x = np.array([1, 2, 200 if dtype is not np.float16 else 2.5], dtype)
    found = elementwise(lambda a, b: a + b).on(opened)(x, 300)
    wanted = x.astype(np.float32 if dtype is np.float16 else np.int32) + 300
    assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
