"""The frames of an error in a kernel or a call: the user's, and one of ours."""

# ruff: noqa: ANN001, ANN201, PLW0108 -- kernels return nothing, and each call is one of the test's
# mypy: ignore-errors

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from refusals import refusal

import vyre_driver
from vyre_driver import Driver
from vyre_driver.errors import DeviceNotFound, InvalidInput, KernelSourceError, KernelTypeError
from vyre_driver.lang import In, Index, Out, elementwise, f32, kernel, reduction

if TYPE_CHECKING:
    from conftest import RunChild


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
        lambda: Driver("name:no such device"),
    ],
)
def test_an_error_has_one_frame_of_ours(call) -> None:
    with pytest.raises((KernelSourceError, InvalidInput, DeviceNotFound)) as found:
        call()
    frames = [one.filename for one in traceback.extract_tb(found.value.__traceback__)]
    assert len(frames) == 3, frames
    assert frames[:2] == [__file__, __file__]
    shown = "".join(traceback.format_exception(found.value))
    assert shown.count("/vyre_driver/") == 1


_OPENING = """
import numpy
from vyre_driver.lang import In, Index, Out, f32, kernel
@kernel
def k(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i]
k(numpy.ones(2, numpy.float32))
"""


def test_the_error_of_a_device_that_a_call_opens_has_one_frame_of_ours(run_python: RunChild, tmp_path: Path) -> None:
    script = tmp_path / "opening.py"
    script.write_text(_OPENING)
    done = run_python(str(script), env={"VYRE_DEVICE": "name:no such device"})
    assert [line.strip().split(",")[0] for line in done.stderr.splitlines() if line.startswith("  File ")] == [
        f'File "{script}"',
        f'File "{Path(vyre_driver.__file__).parent / "lang" / "kernel.py"}"',
    ]
    assert "vyre_driver.errors.DeviceNotFound: " in done.stderr


def test_a_kernel_that_is_nested_too_deep_shows_no_recursion() -> None:
    text = "def deep(i: Index, o: InOut[f32]):\n    o[i] = " + "+".join(["o[i]"] * 2000) + "\n"
    try:
        made = kernel.from_source(text)
    except RecursionError:
        pytest.skip("this Python does not compile it either")
    with pytest.raises(KernelSourceError) as found:
        made.program()
    assert "".join(traceback.format_exception(found.value)).count("/vyre_driver/") == 1


def test_options_that_are_none_and_a_zero_that_is_missing_are_errors_of_kernels() -> None:
    with pytest.raises(KernelTypeError) as found:
        kernel(foo=1)
    assert str(found.value) == ("kernel has no option 'foo'. Fix: name signature, over, floats, bounds, tune, checks or debug.")
    for made in (lambda: reduction(max), lambda: reduction(), lambda: reduction(max, zero=None)):
        assert str(refusal(made, KernelTypeError)) == (
            "a reduction has no zero. Fix: give the number that leaves any other as it is: zero=0 for a sum, zero=1 for a "
            "product."
        )
