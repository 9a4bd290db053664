"""Reductions and scans of functions, against numpy."""

from __future__ import annotations

import math
import operator
import pickle
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang import elementwise, f32, i32, reduction, scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

total = reduction(lambda a, b: a + b, zero=0)
norm = reduction(map=lambda x: x * x, combine=lambda a, b: a + b, zero=0.0, finish=sqrt)
top = reduction(max, zero=-math.inf)
running = scan(lambda a, b: a + b)
latest = scan(lambda a, b: b if b != 0 else a)  # not the same the other way round


@reduction(zero=1)
def min(a, b):  # noqa: A001, ANN001, ANN201 -- a name that the kernel's own text has too
    return a * b


COUNTS = [0, 1, 2, 63, 255, 256, 257, 4095, 4096, 4097, 70_000, 1_300_001]
SHAPES = [
    (70, 300),
    (3, 5000, 2),
    (2, 1, 70),
    (1000, 3),
    (4, 9000),
    (0, 5),
    (5, 0),
    pytest.param((70_000, 2), marks=pytest.mark.thorough),
    (2, 100, 400),
    (20_000, 5),
    pytest.param((70_000, 5), marks=pytest.mark.thorough),
    (40, 4100),
]


def whole(*shape: int) -> NDArray[np.int32]:
    return np.random.default_rng(len(shape)).integers(-(2**31), 2**31, shape, np.int32)


def some(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(len(shape)).random(shape, np.float32)


@pytest.mark.parametrize("count", COUNTS)
def test_whole_numbers_are_numpys_bit_for_bit(opened: Driver, count: int) -> None:
    for x in (whole(count), whole(count).view(np.uint32)):
        found = total.on(opened)(x)
        assert (found, found.dtype) == (x.sum(dtype=x.dtype), x.dtype)
        np.testing.assert_array_equal(running.on(opened)(x), np.cumsum(x, dtype=x.dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_axis_is_gone_along(opened: Driver, shape: tuple[int, ...]) -> None:
    x = whole(*shape)
    for axis in range(-len(shape), len(shape)):
        np.testing.assert_array_equal(total.on(opened)(x, axis=axis), x.sum(axis, dtype=np.int32))
        np.testing.assert_array_equal(running.on(opened)(x, axis=axis), np.cumsum(x, axis, dtype=np.int32))
    assert total.on(opened)(x) == x.sum(dtype=np.int32)


def test_nothing_gives_zero_and_one_element_itself(opened: Driver) -> None:
    nothing = np.zeros(0, np.float32)
    assert total.on(opened)(nothing) == 0
    assert norm.on(opened)(nothing) == 0
    assert top.on(opened)(nothing) == -math.inf
    assert min.on(opened)(np.zeros((0, 3), np.int32), axis=0).tolist() == [1, 1, 1]
    assert total.on(opened)(np.array(7, np.int32)) == 7
    assert running.on(opened)(nothing).shape == (0,)


def test_floats_are_near_the_exact_sum_and_the_same_each_time(opened: Driver) -> None:
    x = some(300_000)
    found = [total.on(opened)(x) for _ in range(3)]
    assert len({one.tobytes() for one in found}) == 1
    # 37 additions a lane, and two trees of 8, each of which rounds once
    assert abs(float(found[0]) - math.fsum(x)) <= 60 * 2.0**-24 * math.fsum(x)
    assert abs(float(norm.on(opened)(x)) - math.sqrt(math.fsum(x.astype(np.float64) ** 2))) <= 1e-4
    assert top.on(opened)(x) == x.max()
    np.testing.assert_array_equal(top.on(opened)(some(40, 50, 6), axis=1), some(40, 50, 6).max(1))
    np.testing.assert_allclose(running.on(opened)(x), np.cumsum(x.astype(np.float64)), rtol=1e-5)


def test_the_order_of_elements_is_kept_by_a_scan(opened: Driver) -> None:
    x = np.where(np.arange(100_000) % 777 == 0, np.arange(100_000), 0).astype(np.int32)
    np.testing.assert_array_equal(latest.on(opened)(x), np.maximum.accumulate(x))


@pytest.mark.parametrize("shape", [(1,), (300,), (2, 257), (3, 5, 2), (2, 300, 2)], ids=str)
def test_nothing_is_out_of_range_without_a_device(
    opened: Driver, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = whole(*shape)
    monkeypatch.setenv("VYRE_INTERPRET", "1")
    for axis in range(-1, len(shape) - 1):
        assert (total.on(opened)(x, axis=axis) == x.sum(axis, np.int32)).all()
        assert (running.on(opened)(x, axis=axis) == x.cumsum(axis, np.int32)).all()


def test_buffers_stay_on_the_device(opened: Driver) -> None:
    x = whole(6, 5000)
    here = opened.buffer(x)
    for found, expected in (
        (total(here), x.sum(dtype=np.int32)),
        (total(here, axis=0), x.sum(0, dtype=np.int32)),
        (running(here), np.cumsum(x, -1, dtype=np.int32)),
    ):
        assert isinstance(found, Buffer)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.read(), expected)
    np.testing.assert_array_equal(here.read(), x)


def test_types_follow_the_functions(opened: Driver) -> None:
    counted = reduction(map=lambda x: i32(x > 0.5), combine=lambda a, b: a + b, zero=0, finish=lambda n: f32(n) / 2.0)
    x = some(5000)
    found = counted.on(opened)(x)
    assert (found, found.dtype) == (np.count_nonzero(x > 0.5) / 2, np.float32)
    octets = np.arange(500).astype(np.uint8)
    assert total.on(opened)(octets) == octets.sum()
    assert running.on(opened)(octets).dtype == np.int32
    views = whole(60, 70)[::2, ::-3]
    np.testing.assert_array_equal(total.on(opened)(views, axis=0), views.sum(0, dtype=np.int32))


def test_what_a_function_takes_from_outside_may_change(opened: Driver) -> None:
    least = 0
    above = reduction(map=lambda x: x if x > least else 0, combine=lambda a, b: a + b, zero=0)
    x = np.arange(10, dtype=np.int32)
    assert above.on(opened)(x) == 45
    least = 7
    assert above.on(opened)(x) == 17


def test_more_rows_than_workgroups_go_round(opened: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.lang.reductions.MOST_GROUPS", 7)
    x = whole(30, 700)
    np.testing.assert_array_equal(total.on(opened)(x, axis=1), x.sum(1, dtype=np.int32))
    np.testing.assert_array_equal(running.on(opened)(x), np.cumsum(x, 1, dtype=np.int32))


def test_matrices_and_zeros_of_numpy_are_taken(opened: Driver) -> None:
    matrix = np.array([[1, 2], [3, 4]], np.int32).view(np.matrix)
    summed = reduction(lambda a, b: a + b, zero=np.int32(0)).on(opened)
    assert summed(matrix) == 10
    assert summed(matrix, axis=0).tolist() == [4, 6]
    assert running.on(opened)(matrix, axis=0).tolist() == [[1, 2], [4, 6]]


OPERATORS: list[tuple[Any, Any, str, int]] = [
    (np.add, np.add, "add", 0),
    (operator.add, np.add, "add", 0),
    (np.multiply, np.multiply, "multiply", 1),
    (operator.mul, np.multiply, "multiply", 1),
    (np.minimum, np.minimum, "minimum", 2**31 - 1),
    (np.maximum, np.maximum, "maximum", -(2**31)),
    (max, np.maximum, "greatest", -(2**31)),
    (np.bitwise_and, np.bitwise_and, "bitwise_and", -1),
    (operator.or_, np.bitwise_or, "bitwise_or", 0),
    (np.bitwise_xor, np.bitwise_xor, "bitwise_xor", 0),
]


@pytest.mark.parametrize(("given", "same", "name", "zero"), OPERATORS)
def test_operators_are_functions(opened: Driver, given: Any, same: Any, name: str, zero: int) -> None:  # noqa: ANN401 -- ufuncs
    x = np.array([[3, 5, 7], [6, 2, 1]], np.int32)
    reduced = reduction(given, zero=zero)
    assert reduced.name == name
    assert reduced.on(opened)(x, axis=1).tolist() == same.reduce(x, axis=1).tolist()
    assert scan(given).on(opened)(x).tolist() == same.accumulate(x, axis=1).tolist()
    assert elementwise(given).on(opened)(x, x[::-1]).tolist() == same(x, x[::-1]).tolist()
    again = pickle.loads(pickle.dumps(reduced))  # noqa: S301 -- our own
    assert again.on(opened)(x) == same.reduce(x, axis=None)


def test_logical_operators_give_bools(opened: Driver) -> None:
    x, y = np.array([0, 2, 0, 3], np.int32), np.array([0, 0, 5, 4], np.int32)
    for one in (np.logical_and, np.logical_or, np.logical_xor, np.less, np.equal):
        found = elementwise(one).on(opened)(x, y)
        assert (found.dtype, found.tolist()) == (np.bool_, one(x, y).tolist())
    assert elementwise(operator.not_).on(opened)(x).tolist() == [True, False, True, False]
    assert bool(reduction(np.logical_or, zero=False, map=bool).on(opened)(x)) is True


def test_a_number_that_is_taken_from_outside_may_become_another_of_another_type(opened: Driver) -> None:
    factor: float = 2

    def scaled(x: Any) -> Any:  # noqa: ANN401 -- a number of a kernel
        return x * factor

    summed, x = reduction(np.add, zero=0, map=scaled), np.arange(5, dtype=np.int32)
    running = scan(lambda a, b: a + b + factor)
    on_device = summed.on(opened)
    for now, kind in ((2, np.int32), (3, np.int32), (0.5, np.float32), (2, np.int32)):
        factor = now
        assert (on_device(x), on_device(x).dtype) == (kind((x * now).sum()), kind)
        if kind is np.int32:
            assert running.on(opened)(x[1:]).tolist() == [1, 3 + now, 6 + 2 * now, 10 + 3 * now]
        else:
            with pytest.raises(KernelTypeError, match="combine of scan makes f32 of two i32"):
                running.on(opened)(x)


def test_they_show_what_they_are() -> None:
    assert repr(min) == "<vyre_driver.lang.Reduction min_, zero 1>"
    assert repr(total) == "<vyre_driver.lang.Reduction reduction, zero 0>"
    assert repr(running) == "<vyre_driver.lang.Scan scan>"


REFUSED: dict[str, tuple[Callable[[Driver], Any], type[Exception], str]] = {
    "no function": (
        lambda _: reduction(3, zero=0),
        KernelTypeError,
        "combine of a reduction is of type int. Fix: give a function.",
    ),
    "no map": (
        lambda _: reduction(lambda a, b: a + b, map="x", zero=0),
        KernelTypeError,
        "map of a reduction is of type str. Fix: give a function.",
    ),
    "no zero": (
        lambda _: reduction(lambda a, b: a + b, zero=None),
        KernelTypeError,
        "a reduction has no zero. Fix: give the number that leaves any other as it is: zero=0 for a sum, zero=1 for a product.",
    ),
    "no scan": (lambda _: scan(None), KernelTypeError, "combine of a scan is of type NoneType. Fix: give a function."),
    "no operator": (
        lambda _: reduction(np.nextafter, zero=0),
        KernelTypeError,
        "combine of a reduction is 'nextafter', which kernels do not know. Fix: give a Python function, as lambda a, b: a + b.",
    ),
    "an operator of one number": (
        lambda _: scan(operator.neg),
        KernelTypeError,
        (
            "combine of a scan is 'negative', which cannot be called with two numbers. Fix: give one that can, as "
            "lambda a, b: a + b."
        ),
    ),
    "a map of two numbers": (
        lambda _: reduction(np.add, zero=0, map=math.atan2),
        KernelTypeError,
        "map of a reduction is 'atan2', which cannot be called with one number. Fix: give one that can, as lambda a: a * a.",
    ),
    "another type": (
        lambda driver: reduction(lambda a, b: (a + b) * 0.5, zero=0).on(driver)(whole(3)),
        KernelTypeError,
        "combine of reduction makes f32 of two i32. Fix: let it return i32, or give it f32 by map.",
    ),
    "a zero between": (
        lambda driver: reduction(lambda a, b: a + b, zero=0.5).on(driver)(whole(3)),
        KernelTypeError,
        "zero of reduction is 0.5, and it combines i32. Fix: give a whole number.",
    ),
    "no axis": (
        lambda driver: total.on(driver)(whole(3, 4), axis=2),
        InvalidInput,
        "axis of reduction is 2, and x has 2 axes. Fix: give -2 to 1, or None.",
    ),
    "no array": (lambda driver: total.on(driver)(None), InvalidInput, "x of reduction is None. Fix: give an array."),
    "complex numbers": (
        lambda driver: total.on(driver)(np.zeros(3, np.complex64)),
        InvalidInput,
        (
            "x of reduction is complex64, which kernels do not compute with. Fix: pass "
            "numpy.ascontiguousarray(x, numpy.complex64).view(numpy.float32), where the parts alternate, or "
            "one part: numpy.asarray(numpy.real(x), numpy.float32)."
        ),
    ),
    "all of a scan": (
        lambda driver: running.on(driver)(whole(3, 4), axis=None),
        InvalidInput,
        "axis of scan is None. Fix: give x.reshape(-1).",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_does_not_fit_is_refused(opened: Driver, which: str) -> None:
    call, kind, message = REFUSED[which]
    assert str(refusal(lambda: call(opened), kind)) == message
