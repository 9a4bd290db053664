"""Calls of kernels that are written as Python functions: what is given, what comes back, what is refused, and calls again."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed, InvalidInput, KernelTypeError
from vyre_driver.lang import Const, Group, In, In2, Index, InOut, Out, atomic_add, bool_, default_driver, f32, i32, kernel, u32
from vyre_driver.lang.launch.default_driver import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

pytestmark = pytest.mark.device


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@kernel
def axpy(i: Index, x: In[f32], y: In[f32], z: Out[f32], a: f32) -> None:
    z[i] = a * x[i] + y[i]


@kernel
def sum_and_difference(i: Index, x: In[i32], y: In[i32], s: Out[i32], d: Out[i32]) -> None:
    s[i] = x[i] + y[i]
    d[i] = x[i] - y[i]


@kernel
def transposed(i: Index, j: Index, x: In2[i32], y: Out[i32]) -> None:
    y[j, i] = x[i, j]


@kernel
def counted(i: Index, x: In[u32], counts: InOut[u32]) -> None:
    atomic_add(counts, x[i], 1)


@kernel
def filled(i: Index, y: Out[i32], value: i32, flag: bool_, *, STEP: Const[int] = 1) -> None:  # noqa: N803 -- a constant
    y[i] = i * STEP + value if flag else -1


@kernel(signature="(m,k),(k,n)->(m,n)", over="m, n")
def matmul(g: Group[4, 4], a: In[f32], b: In[f32], c: Out[f32]) -> None:
    row, column = g.index
    total = 0.0
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


@kernel
def negated(i: Index, x: In[bool_], y: Out[bool_]) -> None:
    y[i] = not x[i]


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """A default driver of each test's own."""
    yield
    DEFAULT.close()


def numbers(count: int = 100) -> tuple[Any, Any]:
    return np.arange(count, dtype=np.float32), np.full(count, 0.5, np.float32)


def refusal(call: Any) -> str:  # noqa: ANN401 -- a function without arguments
    with pytest.raises(InvalidInput) as refused:
        call()
    return str(refused.value)


def test_an_array_that_is_written_is_written_in_place_and_returned() -> None:
    for _ in range(3):  # the first call proves, others are known again
        x, y = numbers()
        assert saxpy(x, y, 2.0) is y
        assert y.tolist() == (2 * x + np.float32(0.5)).tolist()


def test_an_output_that_is_left_out_is_made() -> None:
    for _ in range(3):
        x, y = numbers()
        z = axpy(x, y, 3.0)
        assert type(z) is np.ndarray
        assert z.tolist() == (3 * x + y).tolist()


def test_an_output_that_is_given_is_written_and_returned() -> None:
    for _ in range(3):
        x, y = numbers()
        z = np.empty_like(x)
        assert axpy(x, y, z, 3.0) is z
        assert axpy(x, y, a=3.0, z=z) is z
        assert z.tolist() == (3 * x + y).tolist()


def test_several_outputs_come_back_as_a_tuple() -> None:
    x, y = np.arange(5, dtype=np.int32), np.full(5, 7, np.int32)
    total, difference = sum_and_difference(x, y)
    assert (total.tolist(), difference.tolist()) == ([7, 8, 9, 10, 11], [-7, -6, -5, -4, -3])
    given = np.zeros(5, np.int32)
    total, difference = sum_and_difference(x, y, d=given)
    assert difference is given
    assert given.tolist() == [-7, -6, -5, -4, -3]
    assert total.tolist() == [7, 8, 9, 10, 11]


def test_buffers_stay_on_the_device_whose_driver_runs_the_kernel(driver: Driver) -> None:
    x, y = numbers()
    there, result = driver.buffer(x), driver.buffer(y)
    for turn in range(3):
        assert saxpy(there, result, 2.0) is result
        assert result.read().tolist() == (np.float32(0.5) + np.float32(2 * (turn + 1)) * x).tolist()
    made = axpy(there, result, 1.0)
    assert made.device is driver.context.device
    assert made.read().tolist() == (7 * x + np.float32(0.5)).tolist()
    assert DEFAULT.device is None  # nothing needed another driver


def test_arrays_and_buffers_go_together(driver: Driver) -> None:
    x, y = numbers()
    result = driver.buffer(y)
    assert saxpy(x, result, 2.0) is result
    assert result.read().tolist() == (2 * x + y).tolist()
    assert saxpy(driver.buffer(x), y, 2.0) is y
    assert y.tolist() == (2 * x + np.float32(0.5)).tolist()


def test_a_kernel_runs_on_the_driver_that_is_said(driver: Driver) -> None:
    x, y = numbers()
    put = saxpy.on(driver)
    for _ in range(2):
        put(x, y, 0.0)
    assert DEFAULT.device is None
    with Driver() as other:
        buffer = other.buffer(x)
        assert refusal(lambda: put(buffer, other.buffer(y), 1.0)) == (
            f"x of saxpy is a buffer of driver {other.number}, and the kernel was put on driver {driver.number}. "
            "Fix: make all buffers of a call by one driver."
        )
        assert refusal(lambda: saxpy(buffer, driver.buffer(y), 1.0)) == (
            f"y of saxpy is a buffer of driver {driver.number}, and x is on driver {other.number}. "
            "Fix: make all buffers of a call by one driver."
        )


def test_matrices_go_over_both_axes() -> None:
    x = np.arange(7 * 33, dtype=np.int32).reshape(7, 33)
    y = np.zeros((33, 7), np.int32)
    assert transposed(x, y).tolist() == x.T.tolist()
    assert transposed(x[:, ::2], np.zeros((17, 7), np.int32)).tolist() == x[:, ::2].T.tolist()


def test_a_signature_gives_outputs_their_shape_and_the_call_its_grid() -> None:
    a, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(24, dtype=np.float32).reshape(3, 8)
    assert matmul(a, b).tolist() == (a @ b).tolist()
    assert refusal(lambda: matmul(a, b[:2])) == (
        "axis 'k' of matmul has 3 elements in 'a' and 2 in 'b'. Fix: pass arrays of the shapes (m,k),(k,n)->(m,n)."
    )


def test_bools_are_numpys_in_arrays_and_numbers() -> None:
    x = np.array([True, False, True])
    assert negated(x).tolist() == [False, True, False]
    y = np.zeros(3, bool)
    assert negated(x, y) is y
    assert y.tolist() == [False, True, False]
    assert filled(np.zeros(3, np.int32), 5, True).tolist() == [5, 6, 7]
    assert filled(np.zeros(3, np.int32), 5, np.bool_(False)).tolist() == [-1, -1, -1]


def test_a_constant_is_given_by_name_or_beforehand() -> None:
    assert filled(np.zeros(3, np.int32), 5, True, STEP=10).tolist() == [5, 15, 25]
    assert filled.with_(STEP=2)(np.zeros(3, np.int32), 5, True).tolist() == [5, 7, 9]
    assert filled.with_(STEP=2) is filled.with_(STEP=2)
    assert filled.with_(STEP=2).program().digest() == filled.program(STEP=2).digest() != filled.program().digest()
    assert refusal(lambda: filled(np.zeros(3, np.int32), 5, True, STEP=1.5)) == (
        "STEP of filled is 1.5, and Const[int] wants int. Fix: give int(...)."
    )
    assert refusal(lambda: filled.with_(STOP=1)) == "filled has no constant 'STOP'. Fix: name 'STEP'."


def test_numbers_are_those_that_their_type_holds() -> None:
    y = np.zeros(2, np.int32)
    assert filled(y, np.int64(-(2**31)), True).tolist() == [-(2**31), -(2**31) + 1]
    assert refusal(lambda: filled(y, 2**31, True)) == (
        "value of filled is 2147483648, and an i32 holds -2147483648 to 2147483647. Fix: give a number in that range."
    )
    assert refusal(lambda: filled(y, 1.0, True)) == (
        "value of filled is the float 1.0, and takes an i32. Fix: give int(...), or annotate it f32."
    )
    assert refusal(lambda: filled(y, 1, 1)) == "flag of filled is 1, and takes a bool. Fix: give True or False."
    assert (
        refusal(lambda: saxpy(*numbers(), True)) == "a of saxpy is True, and takes an f32. Fix: give 1, or annotate it bool_."
    )
    assert refusal(lambda: saxpy(*numbers(), "2")) == "a of saxpy is of type str, and takes an f32. Fix: give a number."


def test_arrays_of_other_lengths_are_refused_by_index() -> None:
    x, y = numbers(1000)
    for _ in range(2):
        saxpy(x, y, 1.0)
        assert refusal(lambda: saxpy(x, y[:999], 1.0)) == (
            "index 'i' goes over 1000 ('x') and 999 ('y'). Fix: pass arrays of one length, or say the extent: saxpy.over(999)."
        )
    before = y.copy()
    assert saxpy.over(10)(x, y, 1.0) is y
    assert y[:10].tolist() == (before + x)[:10].tolist()
    assert y[10:].tolist() == before[10:].tolist()
    assert refusal(lambda: saxpy.over(1001)(x, y, 1.0)) == (
        "index 'i' of saxpy is to go over 1001, and 'x' has 1000. Fix: go over 1000 at most, or pass a longer array."
    )


def test_arrays_of_other_types_shapes_and_kinds_are_refused() -> None:
    x, y = numbers()
    assert refusal(lambda: saxpy(x.astype(np.float64), y, 1.0)) == (
        "x of saxpy is float64, and In[f32] wants float32. Fix: convert: numpy.asarray(x, numpy.float32)."
    )
    assert refusal(lambda: saxpy(x, np.zeros((100, 2), np.float32)[:, 0], 1.0)) == (
        "y of saxpy is not C-contiguous, and is written in place. Fix: pass a C-contiguous array."
    )
    y.flags.writeable = False
    assert refusal(lambda: saxpy(x, y, 1.0)) == ("y of saxpy is read-only, and cannot be written in place. Fix: pass y.copy().")
    assert refusal(lambda: saxpy(x, [1.0] * 100, 1.0)) == (
        "y of saxpy is of type list, which cannot be written in place. Fix: pass a numpy array."
    )
    assert refusal(lambda: saxpy(x.reshape(10, 10), np.zeros(100, np.float32), 1.0)) == (
        "x of saxpy has 2 axes and is used with 1. Fix: pass an array with 1 axis, for example x.reshape(-1)."
    )
    assert refusal(lambda: saxpy(None, np.zeros(100, np.float32), 1.0)) == ("x of saxpy is None. Fix: give an array of f32.")


def test_arguments_are_counted_and_named() -> None:
    x, y = numbers()
    assert refusal(lambda: saxpy(x, y)) == (
        "saxpy takes 3 argument(s) by position, and got 2. Fix: give x, y, a; an Out may be left out."
    )
    added = kernel.from_source("def added(i: Index, x: In[f32], y: Out[f32], a: f32, b: f32): y[i] = x[i] + a + b")
    for given in (y, default_driver().buffer(y)):
        assert refusal(lambda given=given: added(x, given, 1.0)) == (
            "added takes 4 argument(s) by position, and got 3. Fix: give x, y, a, b; an Out may be left out."
        )
    assert refusal(lambda: saxpy(x, y, 1.0, b=2)) == "saxpy has no parameter 'b'. Fix: name 'x', 'y', 'a'."
    assert refusal(lambda: saxpy(x, y, 1.0, i=2)) == (
        "saxpy was given its parameter 'i', which the device counts. "
        "Fix: leave it out; .over(...) or .groups(...) say how far it goes."
    )
    assert saxpy(y=y, a=1.0, x=x) is y


def test_a_call_without_elements_runs_nothing() -> None:
    empty = np.zeros(0, np.float32)
    assert axpy(empty, empty, 1.0).shape == (0,)
    assert saxpy(empty, empty, 1.0) is empty
    assert saxpy.over(0)(*numbers(), 1.0).tolist() == numbers()[1].tolist()


@kernel
def row_sums(i: Index, starts: In[i32], values: In[f32], y: Out[f32]) -> None:
    total = 1.0 * len(values)
    for k in range(starts[i], starts[i + 1]):
        total += values[k]
    values_at_0 = values[0]
    y[i] = total + values_at_0


def test_an_empty_array_that_decides_no_extent_reads_as_zeros(driver: Driver) -> None:
    starts, values = np.zeros(4, np.int32), np.zeros(0, np.float32)
    y = np.full(3, 7, np.float32)
    summed = row_sums.over(3).on(driver)
    assert summed(starts, values, y) is y
    assert y.tolist() == [0, 0, 0]
    assert summed(starts, values).tolist() == [0, 0, 0]
    result = summed(driver.buffer(starts), driver.buffer(values))
    assert result.read().tolist() == [0, 0, 0]
    bound = row_sums.over(3).bind(driver.buffer(starts), driver.buffer(values), result)
    bound.run()
    assert result.read().tolist() == [0, 0, 0]
    assert summed(starts, np.ones(2, np.float32), y).tolist() == [3, 3, 3]


def test_what_goes_over_another_array_than_the_output_counts_each_element(driver: Driver) -> None:
    x = np.random.default_rng(1).integers(0, 16, 3000).astype(np.uint32)
    counts = counted.on(driver)(x, np.zeros(16, np.uint32))
    assert counts.tolist() == np.bincount(x, minlength=16).tolist()


def test_a_grid_larger_than_the_devices_is_gone_over_in_turns(driver: Driver) -> None:
    count = driver.device.limits.max_compute_work_group_count[0] * 64 * 2 + 77
    if count > 1 << 24:
        count = (1 << 24) + 77  # a device whose grid is large enough
    x = np.arange(count, dtype=np.float32) % 1000
    assert (saxpy.on(driver)(x, np.ones(count, np.float32), 2.0) == 2 * x + 1).all()


def test_bound_buffers_run_again_and_numbers_are_replaced(driver: Driver) -> None:
    x, y = numbers()
    result = driver.buffer(y)
    bound = saxpy.bind(driver.buffer(x), result, 2.0)
    bound.run()
    bound.set(a=-2.0)
    bound.run()
    assert result.read().tolist() == y.tolist()
    with driver.batch() as batch:
        for _ in range(4):
            batch.add(bound)
    assert result.read().tolist() == (y - 8 * x).tolist()
    assert refusal(lambda: saxpy.bind(x, result, 2.0)) == (
        "x of saxpy is bound to an array of the host. Fix: make it a buffer: driver.buffer(...) or driver.empty(...)."
    )
    assert refusal(lambda: axpy.bind(result, result, 2.0)) == (
        "z of axpy is bound to nothing. Fix: make it a buffer: driver.buffer(...) or driver.empty(...)."
    )


def test_a_driver_compiles_a_kernel_as_its_program(driver: Driver) -> None:
    compiled = driver.compile(saxpy)
    x, y = numbers()
    assert compiled(x, y, a=2.0).tolist() == (2 * x + y).tolist()
    assert compiled.plan == driver.compile(saxpy.program()).plan


def test_a_closed_default_driver_is_opened_anew() -> None:
    x, y = numbers()
    saxpy(x, y, 0.0)
    first = default_driver()
    first.close()
    assert saxpy(x, y, 0.0) is y
    assert default_driver() is not first


def test_kernels_keep_no_driver_alive() -> None:
    x, y = numbers()
    driver = Driver()
    saxpy.on(driver)(x, y, 0.0)
    saxpy(driver.buffer(x), driver.buffer(y), 0.0)
    kept = weakref.ref(driver)
    driver.close()
    del driver
    gc.collect()
    assert kept() is None


def test_buffers_of_a_closed_driver_are_refused(driver: Driver) -> None:
    x, y = (driver.buffer(one) for one in numbers())
    saxpy(x, y, 1.0)
    driver.close()
    with pytest.raises(DispatchFailed, match="closed"):
        saxpy(x, y, 1.0)


def test_the_line_of_a_kernel_says_what_a_call_takes() -> None:
    assert repr(saxpy) == "<vyre_driver.lang.Kernel saxpy(x: In[f32], y: InOut[f32], a: f32)>"
    assert repr(filled.over(3).with_(STEP=2)) == (
        "<vyre_driver.lang.Kernel filled(y: Out[i32], value: i32, flag: bool, *, STEP: Const[int] = 1), over (3,), STEP=2>"
    )


@kernel
def magnitudes(i: Index, x: In[i32], size: Out[i32], rest: Out[i32], is_below: Out[i32]) -> None:
    size[i] = abs(x[i])
    rest[i] = abs(x[i]) % 7
    is_below[i] = 1 if abs(x[i]) < 0 else 0


def test_the_least_number_is_its_own_magnitude_and_below_0() -> None:
    x = np.array([0, 1, -1, 6, -6, 7, -8, 2**31 - 1, -(2**31) + 1, -(2**31)], np.int32)
    with np.errstate(over="ignore"):
        size = np.abs(x)
    found = magnitudes(x)
    assert [one.tolist() for one in found] == [size.tolist(), (size % 7).tolist(), (size < 0).astype(np.int32).tolist()]


def five_numbers() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.arange(5, dtype=np.float32), np.full(5, 3, np.float32)


def test_buffers_are_bound_again_with_what_each_call_says(driver: Driver) -> None:
    x, y = five_numbers()
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
    x, _ = five_numbers()
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
