"""The frames of an error in a kernel or a call: the user's, and one of ours."""

# ruff: noqa: ANN001, ANN201, PLW0108 -- kernels return nothing, and each call is one of the test's
# mypy: ignore-errors

from __future__ import annotations

import traceback

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput, KernelSourceError
from vyre_driver.lang import In, Index, Out, elementwise, f32, kernel, reduction


def inner(v):
    return v + missing  # noqa: F821 -- it is


@kernel
def mistaken(i: Index, x: In[f32], o: Out[f32]):
    o[i] = inner(x[i]) + 1.0


@kernel
def right(i: Index, x: In[f32], o: Out[f32], a: f32):
    o[i] = x[i] * a


_X = np.ones(4, np.float32)


def unannotated(i: Index, x):
    pass


@pytest.mark.device
@pytest.mark.parametrize(
    "call",
    [
        lambda: mistaken(_X),
        lambda: mistaken.program(),
        lambda: mistaken.interpret(_X),
        lambda: mistaken.python(_X),
        lambda: mistaken.spirv(),
        lambda: right(_X, 1, 2, 3),
        lambda: right(_X, "two"),
        lambda: right(_X.astype(np.float64), 2.0),
        lambda: right.bind(_X, _X, 2.0),
        lambda: right.with_(A=3),
        lambda: right.over(1, 2),
        lambda: kernel(unannotated),
        lambda: kernel()(unannotated),
        lambda: kernel.from_source("def made(i: Index, x):\n    pass\n"),
        lambda: elementwise(inner)(_X),
        lambda: reduction(lambda a, b: a + b, zero=0)(_X, axis=3),
    ],
)
def test_an_error_has_one_frame_of_ours(call) -> None:
    with pytest.raises((KernelSourceError, InvalidInput)) as found:
        call()
    frames = [one.filename for one in traceback.extract_tb(found.value.__traceback__)]
    assert len(frames) == 3, frames
    assert frames[:2] == [__file__, __file__]
    shown = "".join(traceback.format_exception(found.value))
    assert shown.count("vyre_driver/lang/") == 1


def test_a_kernel_that_is_nested_too_deep_shows_no_recursion() -> None:
    text = "def deep(i: Index, o: InOut[f32]):\n    o[i] = " + "+".join(["o[i]"] * 2000) + "\n"
    try:
        made = kernel.from_source(text)
    except RecursionError:
        pytest.skip("this Python does not compile it either")
    with pytest.raises(KernelSourceError) as found:
        made.program()
    assert "".join(traceback.format_exception(found.value)).count("vyre_driver/lang/") == 1
