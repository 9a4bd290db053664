"""Whatever is asked of a driver or a pool that is closed: an error with a name, and no kernel that could never run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import STEP, glsl

from vyre_driver import Driver, DriverPool, kernels
from vyre_driver.backends import acquire
from vyre_driver.errors import DispatchFailed
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, store

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.device
ONES = np.ones(4, np.uint32)


def program() -> Program:
    out = BufferDecl.output("out", 0, DataType.U32).with_count(4)
    return Program.wrapped([out], (4, 1, 1), [store(out, gid_x(), gid_x())])


def unrefused(calls: dict[str, Callable[[], object]]) -> list[str]:
    """Which calls raise anything but that something is closed."""
    found = []
    for name, call in calls.items():
        try:
            call()
        except DispatchFailed as error:
            if not error.problem.endswith("is closed"):
                found.append(f"{name}: {error}")
        else:
            found.append(name)
    return found


def test_a_closed_driver_refuses_all_work() -> None:
    driver = Driver()
    kernel, shipped = driver.compile(glsl(STEP)), kernels.saxpy(driver)
    driver.close()
    calls: dict[str, Callable[[], object]] = {
        "with": driver.__enter__,
        "compile": lambda: driver.compile(glsl(STEP)),
        "compile a program": lambda: driver.compile(program()),
        "tune": lambda: driver.tune(program()),
        "buffer": lambda: driver.buffer(ONES),
        "empty": lambda: driver.empty(4, np.uint32),
        "batch": driver.batch,
        "call": lambda: kernel(ONES, push_constants={"factor": 1, "summand": 1}),
        "bind": lambda: kernel.bind(push_constants={"factor": 1, "summand": 1}),
        "a shipped kernel": lambda: shipped(np.ones(4, np.float32), np.ones(4, np.float32)),
        "make a shipped kernel": lambda: kernels.saxpy(driver),
    }
    assert unrefused(calls) == []
    driver.close()
    assert (driver.report()["device"], "vyre_driver_info" in driver.metrics()) == (driver.device.name, True)


def test_a_closed_pool_and_a_closed_backend_refuse_all_work() -> None:
    pool, backend = DriverPool(), acquire("kompute")
    pool.close()
    backend.close()
    calls: dict[str, Callable[[], object]] = {
        "with": pool.__enter__,
        "compile": lambda: pool.compile(glsl(STEP)),
        "submit": lambda: pool.submit(lambda driver: driver.device.name),
        "load": lambda: backend.load(glsl(STEP)),
        "dispatch": lambda: backend.dispatch(program(), []),
        "allocate": lambda: backend.allocate_resident(4),
    }
    assert unrefused(calls) == []
