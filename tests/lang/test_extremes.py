"""The lesser and the greater of floats beside NaN: Python's and fmin's give the number, numpy's the NaN."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

from vyre_driver.lang import types


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("np.maximum(x[i], y[i])", np.maximum),
        ("np.minimum(x[i], y[i])", np.minimum),
        ("np.fmax(x[i], y[i])", np.fmax),
        ("np.fmin(x[i], y[i])", np.fmin),
        ("max(x[i], y[i])", np.fmax),
        ("min(y[i], x[i])", np.fmin),
        ("np.maximum(x[i], math.nan)", lambda x, _: np.maximum(x, np.nan)),
        ("np.maximum(np.maximum(1.0, math.nan), x[i])", lambda x, _: np.maximum(np.nan, x)),
        ("np.minimum(2, y[i])", lambda _, y: np.minimum(2, y)),
        ("np.clip(x[i], y[i], 4.0)", lambda x, y: np.clip(x, y, 4.0)),
        ("np.clip(x[i], -1, y[i])", lambda x, y: np.clip(x, -1, y)),
    ],
)
def test_extremes_beside_nan_are_those_of_their_names(element: str, line: str, expected: Any) -> None:  # noqa: ANN401 -- of numpy
    values = [math.nan, -math.inf, -2.5, 0.0, 3.0, math.inf]
    x, y = np.array(list(itertools.product(values, values)), types.SCALARS[element].dtype).T.copy()
    text = f"def kernel(i: Index, x: In[{element}], y: In[{element}], o: Out[{element}]):\n    o[i] = {line}\n"
    found = run_both(
        function_of(text, "kernel", NAMES | {"f64": types.f64}), {"x": x, "y": y, "o": np.zeros_like(x)}, (len(x),)
    )
    assert not found.differences()
    assert np.array_equal(found.program["o"], expected(x, y), equal_nan=True)
