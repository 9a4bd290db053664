"""Kernels with more numbers than a device pushes: the program takes them from a buffer."""

# mypy: ignore-errors

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tuned_code import FEW

from vyre_driver.errors import InvalidInput, KernelFault, LimitExceeded
from vyre_driver.lang import kernel
from vyre_driver.lang.types import f64, i64, u64

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

COUNT = 200
NAMES = [f"n{k}" for k in range(COUNT)]
INTEGERS = ", ".join(f"{name}: i32" for name in NAMES)
SUM = "".join(f"    total = total * 3 + {name}\n" for name in NAMES)
MANY = f"def many(i: Index, x: In[i32], o: Out[i32], {INTEGERS}):\n    total = x[i]\n{SUM}    o[i] = total\n"


def expected(x: np.ndarray, numbers: list[int]) -> list[int]:
    total = x.astype(np.int64)
    for number in numbers:
        total = (total * 3 + number).astype(np.int32).astype(np.int64)
    return total.tolist()


def test_each_call_gives_its_own(driver: Driver) -> None:
    many = kernel.from_source(MANY).on(driver)
    x, rng = np.arange(70, dtype=np.int32), np.random.default_rng(1)
    on_device = driver.buffer(x)
    for _ in range(3):
        numbers = rng.integers(-(2**31), 2**31, COUNT).tolist()
        assert many(x, *numbers).tolist() == expected(x, numbers)
        assert many(on_device, *numbers).read().tolist() == expected(x, numbers)
        result = driver.empty(70, np.int32)
        many.bind(on_device, result, *numbers).run()
        assert result.read().tolist() == expected(x, numbers)
    with pytest.raises(InvalidInput, match="n3 of many is of type str, and takes an i32"):
        many(x, 0, 1, 2, "3", *range(4, COUNT))


@pytest.mark.parametrize(("count", "arrays"), [(15, 2), (15, 3), (16, 1), (16, 3), (17, 1)])
def test_the_counts_of_arrays_are_among_what_is_pushed(driver: Driver, count: int, arrays: int) -> None:
    outputs = [f"o{k}" for k in range(arrays)]
    parameters = [f"{name}: Out[i64]" for name in outputs] + [f"n{k}: i64" for k in range(count)]
    total = " ^ ".join(f"n{k}" for k in range(count))
    lines = [f"    {name}[i] = {total}" for name in outputs]
    text = "\n".join([f"def pushed(i: Index, {', '.join(parameters)}):", *lines, ""])
    numbers = [3**k - (1 << 62) for k in range(count)]
    found = kernel.from_source(text, {"i64": i64}).on(driver)(*[np.zeros(2, np.int64) for _ in outputs], *numbers)
    wanted = [functools.reduce(operator.xor, numbers)] * 2
    assert [one.tolist() for one in (found if arrays > 1 else [found])] == [wanted] * arrays


def test_each_type_comes_as_it_is(driver: Driver) -> None:
    text = f"""
def typed(i: Index, a: Out[f32], b: Out[i64], c: Out[u64], e: Out[u32], {INTEGERS}, f: f32, flag: bool_, s: i64, t: u64,
    w: u32):
    total = 0
{SUM}    a[i] = f * 2.0 if flag else f
    b[i] = s + total
    c[i] = t
    e[i] = w
"""
    made = kernel.from_source(text, {"i64": i64, "u64": u64, "f64": f64}).on(driver).over(3)
    outputs = [np.zeros(3, dtype) for dtype in (np.float32, np.int64, np.uint64, np.uint32)]
    for f, flag, s, t, w in ((1.5, True, -(2**62), 2**64 - 3, 2**32 - 1), (-math.inf, False, 7, 1 << 32, 0)):
        a, b, c, e = made(*outputs, *[0] * COUNT, f, flag, s, t, w)
        assert (a.tolist(), b.tolist()) == ([f * 2 if flag else f] * 3, [s] * 3)
        assert (c.tolist(), e.tolist()) == ([t] * 3, [w] * 3)


def test_a_kernel_that_checks_itself_may_have_them(driver: Driver) -> None:
    text = MANY.replace("o[i] = total", "o[i] = total + x[n0]")
    many = kernel(checks=True)(kernel.from_source(text).function).on(driver)
    x = np.arange(5, dtype=np.int32)
    assert many(x, 2, *[0] * (COUNT - 1)).tolist() == [one + 2 for one in expected(x, [2, *[0] * (COUNT - 1)])]
    with pytest.raises(KernelFault, match=r"x\[9\] is out of range"):
        many(x, 9, *[0] * (COUNT - 1))


def test_what_they_decide_is_not_alike_for_a_barrier(driver: Driver) -> None:
    head = f"def many(g: Group[64], x: In[i32], o: Out[i32], {INTEGERS}):\n    total = x[g.index]\n{SUM}"
    body = "    for k in range(n0):\n        g.barrier()\n    o[g.index] = total\n"
    with pytest.raises(LimitExceeded, match=r"bytes to push.* together in an array, those that no barrier depends on"):
        kernel.from_source(head + body).on(driver)(np.zeros(64, np.int32), *range(COUNT))


def test_numbers_of_a_bound_kernel_are_set_by_name(driver: Driver) -> None:
    many, x = kernel.from_source(MANY).on(driver), np.arange(70, dtype=np.int32)
    result, numbers = driver.empty(70, np.int32), list(range(COUNT))
    first = many.bind(driver.buffer(x), result, *numbers)
    second = many.bind(driver.buffer(x), result, *numbers)
    batch = driver.batch()
    batch.add(first)
    batch.run()
    first.set(n3=-5)
    first.set(n7=70)
    numbers[3], numbers[7] = -5, 70
    for run in (first.run, batch.run, lambda: first.submit().result()):
        second.run()
        assert result.read().tolist() == expected(x, list(range(COUNT)))
        run()
        assert result.read().tolist() == expected(x, numbers)
    with pytest.raises(InvalidInput) as refused:
        first.set(n3=2**40)
    assert str(refused.value).startswith("n3 of many is 1099511627776, and an i32 holds -2147483648 to 2147483647. Fix:")


def test_a_kernel_with_them_is_tuned(driver: Driver) -> None:
    many, x = kernel(tune=True)(kernel.from_source(MANY).function).on(driver), np.arange(70, dtype=np.int32)
    tuned = many.tune(x, *range(COUNT), budget=FEW)
    assert {one.status.name for one in tuned.outcomes} <= {"TIMED", "DROPPED", "NOT_TRIED"}
    assert many(x, *range(COUNT)).tolist() == expected(x, list(range(COUNT)))


def test_a_driver_that_compiles_it_says_what_to_do_instead(driver: Driver) -> None:
    with pytest.raises(LimitExceeded, match="as a kernel in Python does where it is called or bound itself"):
        driver.compile(kernel.from_source(MANY))
