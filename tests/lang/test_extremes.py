"""The lesser and the greater: of floats beside NaN, where Python's and fmin's give the number, and of bools."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

from vyre_driver.errors import KernelSourceError
from vyre_driver.lang import fuse, kernel, reduction, scan, types
from vyre_driver.lang.frontend.builtins.table import TABLE
from vyre_driver.lang.frontend.calls import counts_of
from vyre_driver.lang.frontend.functions import FORMS


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


@pytest.mark.parametrize(
    "line",
    [
        *("max(x[i], y[i])", "min(x[i], y[i])", "max(x[i], y[i], x[i])", "min((x[i], y[i]))", "min(x[i], True)"),
        *("np.minimum(x[i], y[i])", "np.maximum(x[i], y[i])", "np.fmin(x[i], y[i])", "np.fmax(x[i], y[i])"),
        *("np.clip(x[i], y[i], y[i])", "np.clip(x[i], False, True)", "max(x[i], x[i] == y[i])"),
    ],
)
def test_extremes_of_bools_are_bools(line: str) -> None:
    x, y = np.array([1, 0, 1, 0], bool), np.array([1, 1, 0, 0], bool)
    text = f"def kernel(i: Index, x: In[bool_], y: In[bool_], o: Out[bool_]):\n    o[i] = {line}\n"
    made = function_of(text, "kernel", NAMES)
    found = run_both(made, {"x": x.astype(np.uint32), "y": y.astype(np.uint32), "o": np.zeros(4, np.uint32)}, (4,))
    expected = [int(eval(line, NAMES | {"x": x.tolist(), "y": y.tolist(), "i": at})) for at in range(4)]  # noqa: S307 -- of this test
    assert (found.differences(), found.program["o"].tolist()) == ([], expected)


@pytest.mark.device
def test_reductions_and_scans_of_bools_are_bools() -> None:
    x = np.array([[0, 1, 0], [0, 0, 0]], bool)
    found = [
        *(reduction(max, zero=False)(x), reduction(np.minimum, zero=True)(x), reduction(np.fmax, zero=False)(x, axis=0)),
        *(scan(max)(x), fuse(np.maximum)(x, x[::-1])),
    ]
    expected = [x.max(), x.min(), x.max(axis=0), np.maximum.accumulate(x, axis=-1), np.maximum(x, x[::-1])]
    assert [(one.dtype, one.tolist()) for one in found] == [(one.dtype, one.tolist()) for one in expected]


def test_no_function_of_the_language_leaves_a_type_to_the_validator() -> None:
    found: list[str] = []
    for function in (*TABLE, *FORMS):
        least, most = counts_of(function) or (0, 0)
        for count in range(max(least, 1), min(most, 3) + 1):
            rests = ("first", "bool_", "f32") if count > 1 else ("first",)
            for first, rest in itertools.product(types.SCALARS.values(), rests):
                heads = ", ".join(f"x{at}: In[{rest if at else 'first'}, 1]" for at in range(count))
                text = f"def k(i: Index, {heads}):\n    v = function({', '.join(f'x{at}[i]' for at in range(count))})\n"
                try:
                    kernel.from_source(text, {"first": first, "function": function}).program()
                except KernelSourceError as error:
                    if "refused" in error.context:  # by a rule of programs
                        found.append(f"{function} of {first}, {rest}: {error.problem}")
    assert found == []
