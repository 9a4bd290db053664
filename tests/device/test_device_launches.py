"""Calls on buffers: recorded as they come, ordered by what they touch, and of buffers that may be let go at once."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, Spin, glsl

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed, DispatchTimeout
from vyre_driver.lang import In, Index, InOut, Out, bool_, f32, i32, kernel, u32
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.kompute.buffer import Buffer

pytestmark = pytest.mark.device

LENGTH = 300
MADE_ANEW = ("pipelines_created", "pipelines_shared", "command_pools_created", "command_pools_reused", "memory_allocated")


@kernel
def add(i: Index, x: In[i32], y: InOut[i32], a: i32) -> None:
    y[i] = y[i] + a * x[i]


@kernel
def mix(i: Index, x: In[i32], y: In[i32], z: Out[i32], a: i32) -> None:
    z[i] = x[i] * 3 + y[i] * a


@kernel
def numbers(i: Index, y: Out[f32], a: f32, b: u32, c: bool_) -> None:
    y[i] = a + f32(b) if c else -a


def add_plainly(x: NDArray[np.int32], y: NDArray[np.int32], a: int) -> None:
    y += np.int32(a) * x


def counters(driver: Driver) -> dict[str, int]:
    there = driver.context.device.counters()
    return {name: there[name] for name in MADE_ANEW}


def test_calls_whose_numbers_and_buffers_change_make_nothing_anew(driver: Driver) -> None:
    x = driver.buffer(np.arange(LENGTH, dtype=np.int32))
    targets = [driver.zeros(LENGTH, np.int32) for _ in range(8)]
    for target in targets[:2]:
        add(x, target, 1)
    before = counters(driver)
    for number in range(200):
        add(x, targets[number % 8], number)
    assert counters(driver) == before
    sums = [sum(range(place, 200, 8)) + (place < 2) for place in range(8)]
    assert [target.read()[7] for target in targets] == [7 * total for total in sums]


def test_a_number_of_another_type_or_size_is_refused_in_every_call(driver: Driver) -> None:
    y, refused = driver.empty(4, np.float32), []
    for a, b, c in ((1.5, 2, True), (2.5, 7, True), (4.0, 0, False)):
        numbers(y, a, b, c)
        assert y.read().tolist() == [a + b if c else -a] * 4
    for given in ((1.0, -1, True), (1.0, 2**32, True), ("1", 1, True), (1.0, 1.5, True), (1.0, 1, 2)):
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- which is compared below
            numbers(y, *given)
        refused.append(type(caught.value).__name__)
    assert (refused, y.read().tolist()) == (["InvalidInput"] * 5, [-4.0] * 4)


def test_random_calls_give_what_they_give_on_the_host(driver: Driver) -> None:
    """Calls of two kernels on few buffers, views of them, and buffers that come and go, with moves in between."""
    draw = random.Random(20261128)  # noqa: S311 -- not for secrets
    there = [driver.buffer(np.arange(LENGTH, dtype=np.int32) + place) for place in range(5)]
    here = [np.arange(LENGTH, dtype=np.int32) + place for place in range(5)]

    def some(count: int) -> list[int]:
        return draw.sample(range(5), count)

    def call_add() -> None:
        (one, other), a = some(2), draw.randrange(-3, 4)
        part = slice(0, 64) if draw.random() < 0.2 else slice(0, LENGTH)
        add(there[one][part], there[other][part], a)
        here[other][part] += np.int32(a) * here[one][part]

    def call_mix() -> None:
        (one, other, third), a = some(3), draw.randrange(-3, 4)
        mix(there[one], there[other], there[third], a)
        here[third][:] = here[one] * np.int32(3) + here[other] * np.int32(a)

    def make_another() -> None:
        place = draw.randrange(5)
        there[place].close()
        there[place] = driver.buffer(here[place])

    def move() -> None:
        one, other = some(2)
        there[one].copy_to(there[other])
        here[other][:] = here[one]

    def fill() -> None:
        place, value = draw.randrange(5), draw.randrange(100)
        there[place].fill(value)
        here[place][:] = value

    def look() -> None:
        place = draw.randrange(5)
        assert there[place].read().tolist() == here[place].tolist()

    steps: list[Callable[[], None]] = [call_add, call_add, call_add, call_mix, call_mix, make_another, move, fill, look]
    with np.errstate(over="ignore"):
        for _ in range(600):
            draw.choice(steps)()
    assert [one.read().tolist() for one in there] == [one.tolist() for one in here]


def test_threads_that_call_one_kernel_get_each_their_own(driver: Driver) -> None:
    x = driver.buffer(np.ones(LENGTH, np.int32))
    found: list[bool] = []

    def run(first: int) -> None:
        y = driver.zeros(LENGTH, np.int32)
        for number in range(first, first + 100):
            add(x, y, number)
        found.append(set(y.read().tolist()) == {sum(range(first, first + 100))})

    threads = [threading.Thread(target=run, args=(1000 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_a_call_that_is_not_waited_for_keeps_what_it_needs(driver: Driver) -> None:
    spin, step = Spin(driver, 0.2), driver.compile(glsl(STEP))
    push = {"factor": 2, "summand": 1}
    values = driver.buffer(np.arange(64, dtype=np.uint32))
    step(values, push_constants=push)
    for _ in range(2):
        spin.bound.submit()
        with pytest.raises(DispatchTimeout):
            step(values, push_constants=push, timeout=0.0)
    later: list[Buffer] = [values[:]]
    values = None  # type: ignore[assignment]
    others = [driver.buffer(np.full(64, 7, np.uint32)) for _ in range(4)]
    assert later[0].read().tolist() == [8 * number + 7 for number in range(64)]
    assert [set(one.read().tolist()) for one in others] == [{7}] * 4


def test_a_buffer_that_is_closed_is_refused_also_where_its_calls_are_known(driver: Driver) -> None:
    x, y = (driver.buffer(np.ones(LENGTH, np.int32)) for _ in range(2))
    for _ in range(3):
        add(x, y, 1)
    whole = y[:]
    for _ in range(2):
        add(x, whole, 1)
    y.close()
    for closed in (y, whole):
        with pytest.raises(DispatchFailed, match="the buffer is closed"):
            add(x, closed, 1)


def test_a_call_that_the_device_refuses_is_an_error_and_the_next_one_works(driver: Driver) -> None:
    x, y = driver.buffer(np.ones(LENGTH, np.int32)), driver.zeros(LENGTH, np.int32)
    for _ in range(3):
        add(x, y, 1)
    found: list[Any] = []
    for _ in range(3):
        _layer.inject("submit", 1, -1)
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- whose code is compared
            add(x, y, 1)
        found.append(caught.value.code)  # type: ignore[attr-defined]
        _layer.inject("submit", 0, 0)
        add(x, y, 1)
    assert (found, set(y.read().tolist())) == ([1001] * 3, {6})


def test_a_kernel_keeps_no_driver_that_nobody_holds() -> None:
    driver = Driver()
    x, y = (driver.buffer(np.ones(LENGTH, np.int32)) for _ in range(2))
    for number in range(4):
        add(x, y, number)
    device = weakref.ref(driver.context.device)
    del driver, x, y
    gc.collect()
    assert device() is None


@pytest.mark.parametrize("is_quick", [False, True])
def test_close_waits_for_a_call_on_another_thread(*, is_quick: bool) -> None:
    driver, errors = Driver(), []
    x, y = driver.buffer(np.arange(LENGTH, dtype=np.int32)), driver.zeros(LENGTH, np.int32)
    spin = Spin(driver, 0.3)
    for _ in range(3):
        add(x, y, 1)
        spin.kernel(spin.ended, spin.each, push_constants={"turns": 1}, workgroups=(1,))
    began = threading.Event()

    def call() -> None:
        try:
            began.set()
            if is_quick:
                add(x, y, 1)
            else:
                spin.kernel(spin.ended, spin.each, push_constants={"turns": 1}, workgroups=(1,))
        except Exception as error:  # noqa: BLE001 -- whatever it is
            errors.append(repr(error))

    spin.bound.submit()
    thread = threading.Thread(target=call)
    thread.start()
    began.wait()
    time.sleep(0.05)  # the call waits for the work before it
    driver.close()
    thread.join()
    assert errors == []
