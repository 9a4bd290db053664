"""Ctrl-C at each bytecode of an isolated driver's calls: the next one is right, and nothing is left."""

from __future__ import annotations

import gc
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pytest
from interruption import interrupt, points_of

from vyre_driver import Driver
from vyre_driver.isolated.driver import IsolatedDriver
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.device


@pytest.fixture
def isolated() -> Iterator[IsolatedDriver]:
    with Driver(isolated=True) as driver:
        assert isinstance(driver, IsolatedDriver)
        yield driver


def called(driver: Driver, size: int) -> Callable[[], None]:
    """Return what calls a kernel with numbers that no call before had, with and without a target."""
    kernel, out, numbers = driver.compile(shipped_module("saxpy")), np.empty(size, np.float32), count(1)

    def act() -> None:
        alpha = next(numbers)
        x = np.full(size, alpha, np.float32)
        for target in (None, out):
            found = kernel(x, x, alpha=alpha, count=size, out=target, timeout=60)
            assert (found == alpha * (alpha + 1)).all()

    return act


def bound(driver: Driver) -> Callable[[], None]:
    """Return what writes to a buffer, runs a bound kernel with a new number, alone and in a batch, and reads."""
    x, y, numbers = driver.buffer(np.ones(100, np.float32)), driver.zeros(100, np.float32), count(1)
    run = driver.compile(shipped_module("saxpy")).bind(x, y, alpha=1, count=100)
    batch = driver.batch()
    batch.add(run)

    def act() -> None:
        alpha = next(numbers)
        y.write(np.full(100, alpha, np.float32))
        run.set(alpha=alpha)
        run.run(timeout=60)
        batch.run()
        assert (y.read() == 3 * alpha).all()

    return act


def made(driver: Driver) -> Callable[[], None]:
    """Return what compiles a kernel, calls it for the first time and for the second, and makes and binds buffers."""

    def act() -> None:
        kernel, x = driver.compile(shipped_module("saxpy")), np.ones(100, np.float32)
        for alpha in (2, 3):
            assert (kernel(x, x, alpha=alpha, count=100) == alpha + 1).all()
        y = driver.buffer(x)
        kernel.bind(driver.buffer(x), y, alpha=4, count=100).run()
        assert (y.read() == 5).all()

    return act


@pytest.mark.parametrize(
    "acting",
    [
        pytest.param(lambda driver: called(driver, 100), id="small calls"),
        pytest.param(lambda driver: called(driver, 20_000), id="long calls", marks=pytest.mark.thorough),
        pytest.param(bound, id="bound", marks=pytest.mark.thorough),
        pytest.param(made, id="made", marks=pytest.mark.thorough),
    ],
)
def test_after_an_interrupt_at_any_bytecode_the_next_call_is_right(
    isolated: IsolatedDriver, acting: Callable[[Driver], Callable[[], None]]
) -> None:
    act, child = acting(isolated), isolated.child()

    def left() -> tuple[int, int, int]:
        act()
        while not all(one.is_free() for one in child._connections):  # noqa: SLF001 -- answers under way
            pass
        gc.collect()
        isolated.report()  # which tells the child what has gone
        return isolated.pid, child.arena.given_bytes, len(child._handles)  # noqa: SLF001

    left()
    usual, wrong = left(), {}
    for point in points_of("isolated", act):
        found = interrupt(act, point)[1]
        if found:
            wrong[point] = found
        act()
    assert (wrong, left()) == ({}, usual)
