"""Calls of Python kernels that are like one before, and calls that no kernel can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.lang import In, Index, InOut, Out, f32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@kernel
def axpy(i: Index, x: In[f32], y: In[f32], z: Out[f32], a: f32) -> None:
    z[i] = a * x[i] + y[i]


def numbers() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.arange(5, dtype=np.float32), np.full(5, 3, np.float32)


def refusal(call: Callable[[], object]) -> str:
    """Return what a call is refused with."""
    with pytest.raises(InvalidInput) as found:
        call()
    return str(found.value)


def test_buffers_are_bound_again_with_what_each_call_says(driver: Driver) -> None:
    x, y = numbers()
    given, result = driver.buffer(x), driver.buffer(y)
    scaled = saxpy.on(driver)
    for a in (2.0, 3, np.float32(-4.0)):
        result.write(y)
        scaled.bind(given, result, a).run()
        assert result.read().tolist() == (a * x + y).tolist()
    assert (
        refusal(lambda: scaled.bind(given, result, "2")) == "a of saxpy is of type str, and takes an f32. Fix: give a number."
    )
    assert refusal(lambda: scaled.bind(given, y, 2.0)).startswith("y of saxpy is bound to an array of the host.")
    assert refusal(lambda: axpy.on(driver).bind(given, given, 2.0)).startswith("z of axpy is bound to nothing.")
    axpy.on(driver)(given, result, 2.0)  # whose output is left out
    assert refusal(lambda: axpy.on(driver).bind(given, result, 2.0)).startswith("z of axpy is bound to nothing.")


FACTOR = 2.0


@kernel
def scaled_by_a_name(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = FACTOR * x[i]


def test_what_is_bound_again_has_the_captured_values_of_now(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = numbers()
    given, result = driver.buffer(x), driver.empty(x.size, np.float32)
    made = scaled_by_a_name.on(driver)
    for factor in (2.0, 2.0, 5.0, float("2"), 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        made.bind(given, result).run()
        assert result.read().tolist() == (factor * x).tolist()
        assert made(given).read().tolist() == (factor * x).tolist()
        assert made(x).tolist() == (factor * x).tolist()


def test_a_kernel_without_arrays_is_told_so(driver: Driver) -> None:
    @kernel
    def unseen(i: Index, a: f32) -> None:
        assert a > 0 or i == 0

    with pytest.raises(KernelTypeError) as found:
        unseen.on(driver).over(4)(1.0)
    assert str(found.value) == (
        "'unseen' has no array: nothing of what it computes could be seen. Fix: give it one that it writes, as out: Out[f32]."
    )


def test_a_list_of_another_type_is_told_what_a_list_can_do(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match=r"Fix: convert: numpy\.asarray\(x, numpy\.float32\)\.$"):
        axpy.on(driver)([1, 2], [1.0, 2.0], 2.0)


def test_positions_pass_over_no_parameter_that_is_named_but_for_outputs() -> None:
    x, y, z = (np.full(3, one, np.float32) for one in (1, 2, 9))
    assert axpy(x, y, 2.0, z=z) is z
    assert (z.tolist(), axpy(x, y=y, a=2.0).tolist()) == ([4, 4, 4], [4, 4, 4])
    with pytest.raises(InvalidInput) as caught:
        saxpy(y, 2.0, x=x)
    assert str(caught.value) == (
        "x of saxpy is given by name, and a, which stands behind it, by position. "
        "Fix: give x by its position, or what stands behind it by name."
    )
    assert y.tolist() == [2, 2, 2]


def test_what_is_no_driver_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        saxpy.on(3)  # type: ignore[arg-type] # that is the test
    assert str(caught.value) == "the driver of saxpy is of type int. Fix: give a vyre_driver.Driver."
