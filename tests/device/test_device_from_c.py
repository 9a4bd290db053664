"""Bound kernels run from C, through the table that C extensions import; ctypes calls it without the interpreter's lock."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import c_table
import numpy as np
import pytest
from kernels import STEP, Spin, glsl

import vyre_driver
from vyre_driver import Driver
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from conftest import RunChild

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel

pytestmark = pytest.mark.device

SUCCESS, RUNNING, TIMED_OUT, FAILED, DEVICE_LOST, CLOSED = 0, 1, 2, -1, -2, -3
NO_TIME_OUT, MS = 2**64 - 1, 1_000_000
THREADS, TURNS = 8, 50
ROOT = Path(__file__).parents[2]
HEADER = (Path(vyre_driver.get_include()) / "vyre_driver.h").read_text("utf-8")


@pytest.fixture
def vyre() -> c_table.Table:
    return c_table.table()


def counter(driver: Driver, summand: int = 1) -> tuple[Buffer, BoundKernel]:
    """A buffer of zeros, and a kernel that adds the summand to each of them."""
    values = driver.buffer(np.zeros(64, np.uint32))
    pushed = {"factor": 1, "summand": summand}
    return values, driver.compile(glsl(STEP)).bind(values, push_constants=pushed, workgroups=(1,))


@pytest.fixture
def taken(opened: Driver, vyre: c_table.Table) -> Iterator[tuple[Buffer, Any]]:
    """A buffer of zeros, and the handle of a kernel that adds 1 to each of them."""
    values, bound = counter(opened)
    handle = vyre.bound_take(bound, None)
    yield values, handle
    vyre.bound_drop(handle)


def test_it_runs_in_turn_with_python_and_keeps_the_values_it_was_taken_with(opened: Driver, vyre: c_table.Table) -> None:
    values, bound = counter(opened)
    handle = vyre.bound_take(bound, None)
    bound.set(factor=2)
    found = []
    for _ in range(3):
        found.append(vyre.bound_run(handle, NO_TIME_OUT))
        bound.run()
    vyre.bound_drop(handle)
    assert (found, values.read().tolist()) == ([SUCCESS] * 3, [21] * 64)


def test_what_python_let_go_of_stays_until_the_handle_is_given_back(opened: Driver, vyre: c_table.Table) -> None:
    values, bound = counter(opened)
    handle = vyre.bound_take(bound, None)
    view = values[:]
    del values, bound
    gc.collect()
    assert [vyre.bound_run(handle, NO_TIME_OUT) for _ in range(3)] == [SUCCESS] * 3
    assert view.read().tolist() == [3] * 64
    vyre.bound_drop(handle)


def test_a_submission_runs_on_while_it_is_asked_about(opened: Driver, vyre: c_table.Table) -> None:
    spin = Spin(opened, 0.3)
    handle = vyre.bound_take(spin.bound, None)
    calls: list[tuple[Any, ...]] = [
        (vyre.bound_poll,),
        (vyre.bound_submit,),
        (vyre.bound_submit,),
        (vyre.bound_poll,),
        (vyre.bound_wait, MS),
        (vyre.bound_run, MS),
        (vyre.bound_wait, NO_TIME_OUT),
        (vyre.bound_poll,),
        (vyre.bound_run, MS),
        (vyre.bound_wait, NO_TIME_OUT),
    ]
    found = [call(handle, *more) for call, *more in calls]
    vyre.bound_drop(handle)
    during = [SUCCESS, SUCCESS, RUNNING, RUNNING, TIMED_OUT, RUNNING]
    assert (found, spin.runs()) == ([*during, SUCCESS, SUCCESS, TIMED_OUT, SUCCESS], 2)


def test_a_handle_given_back_while_its_work_runs_waits_for_it(opened: Driver, vyre: c_table.Table) -> None:
    spin = Spin(opened, 0.2)
    handle = vyre.bound_take(spin.bound, None)
    assert vyre.bound_submit(handle) == SUCCESS
    vyre.bound_drop(handle)
    assert (opened.context.device.report()["counters"]["work_pending"], spin.runs()) == (0, 1)  # type: ignore[index]


def test_eight_threads_run_handles_of_their_own_and_one_they_share(
    opened: Driver, vyre: c_table.Table, taken: tuple[Buffer, Any]
) -> None:
    values, shared = taken

    def work(number: int) -> tuple[list[int], list[int]]:
        own_values, bound = counter(opened, number)
        own = vyre.bound_take(bound, None)
        found = []
        for turn in range(TURNS):
            found.append(vyre.bound_run(shared, NO_TIME_OUT))
            found.append(vyre.bound_submit(own) if turn % 2 else vyre.bound_run(own, NO_TIME_OUT))
            found.append(vyre.bound_wait(own, NO_TIME_OUT))
            bound.run()
        vyre.bound_drop(own)
        return found, own_values.read().tolist()

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, range(THREADS)))
    assert found == [([SUCCESS] * 3 * TURNS, [2 * TURNS * number] * 64) for number in range(THREADS)]
    assert values.read().tolist() == [THREADS * TURNS] * 64


def test_threads_that_run_it_are_told_when_the_driver_is_closed(vyre: c_table.Table) -> None:
    driver = Driver()
    handles = [vyre.bound_take(counter(driver)[1], None) for _ in range(2)]

    def run_until_refused(number: int) -> tuple[set[int], int]:
        seen = set()
        status = SUCCESS
        while status >= SUCCESS:
            seen.add(status)
            handle = handles[number % 2]
            status = vyre.bound_submit(handle) if number % 4 == 3 else vyre.bound_run(handle, NO_TIME_OUT)
        return seen, status

    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(run_until_refused, number) for number in range(THREADS)]
        while not all(vyre.bound_wait(handle, NO_TIME_OUT) == SUCCESS for handle in handles):
            pass
        driver.close()
        found = [one.result() for one in running]
    after = [call(handles[0]) for call in (vyre.bound_submit, vyre.bound_poll)]
    after += [call(handles[0], NO_TIME_OUT) for call in (vyre.bound_run, vyre.bound_wait)]
    for handle in handles:
        vyre.bound_drop(handle)
    assert {status for _, status in found} == {CLOSED}
    assert set().union(*(seen for seen, _ in found)) <= {SUCCESS, RUNNING}
    assert after == [CLOSED] * 4


@pytest.mark.parametrize("call", ["submit", "wait"])
def test_a_failure_and_a_lost_device_are_told(vyre: c_table.Table, call: str) -> None:
    with Driver() as driver:
        handle = vyre.bound_take(counter(driver)[1], None)
        found = []
        for result in (-2, 0, -4, 0):  # VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST
            _layer.inject(call, 1 if result else 0, result)
            found.append(vyre.bound_run(handle, NO_TIME_OUT))
        vyre.bound_drop(handle)
    assert found == [FAILED, SUCCESS, DEVICE_LOST, DEVICE_LOST]


def test_in_a_fork_it_is_refused(run_python: RunChild) -> None:
    code = """
import os, sys
import numpy as np, c_table
from kernels import STEP, glsl
from vyre_driver import Driver
vyre = c_table.table()
with Driver() as driver:
    values = driver.buffer(np.zeros(64, np.uint32))
    bound = driver.compile(glsl(STEP)).bind(values, push_constants={"factor": 1, "summand": 1}, workgroups=(1,))
    handle = vyre.bound_take(bound, None)
    print(vyre.bound_submit(handle), flush=True)
    child = os.fork()
    found = [vyre.bound_run(handle, 0), vyre.bound_submit(handle), vyre.bound_wait(handle, 0), vyre.bound_poll(handle)]
    if not child:
        vyre.bound_drop(handle)
        print(found, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(vyre.bound_run(handle, 2**64 - 1))
"""
    # From 3.12 on Python warns of threads at a fork, and a GPU's driver has some.
    done = run_python("-W", "ignore::DeprecationWarning", "-c", code, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.stdout.splitlines(), done.stderr, done.status) == (["0", "[-4, -4, -4, -4]", "0"], "", 0)


def test_work_of_nothing_succeeds_at_once(opened: Driver, vyre: c_table.Table) -> None:
    bound = opened.compile(glsl(STEP)).bind(
        opened.empty(0, np.uint32), push_constants={"factor": 1, "summand": 1}, workgroups=(1,)
    )
    handle = vyre.bound_take(bound, None)
    found = [vyre.bound_submit(handle), vyre.bound_poll(handle), vyre.bound_run(handle, 0), vyre.bound_wait(handle, 0)]
    vyre.bound_drop(handle)
    assert found == [SUCCESS] * 4


def test_the_counts_are_the_layers_by_name_and_stay_after_the_driver_is_closed(vyre: c_table.Table) -> None:
    named = re.findall(r"\bVYRE_COUNT_(\w+) = (\d+)", HEADER)
    assert [(name.lower(), int(number)) for name, number in named] == [(name, i) for i, name in enumerate(_layer.COUNTERS)]
    places = (ctypes.c_uint64 * (len(named) + 2))(*[7] * (len(named) + 2))
    with Driver() as driver:
        handle = vyre.bound_take(counter(driver)[1], None)
        assert vyre.bound_run(handle, NO_TIME_OUT) == SUCCESS
        wanted = driver.context.device.report()["counters"]
        assert vyre.device_counts(handle, places, len(places)) == len(named)
        assert list(places) == [*wanted.values(), 0, 0]  # type: ignore[attr-defined]
    few = (ctypes.c_uint64 * 3)(7, 7, 7)
    assert (vyre.device_counts(handle, few, 2), few[2]) == (len(named), 7)
    assert few[0] > 0
    vyre.bound_drop(handle)


def test_what_cannot_be_run_from_c_is_refused_in_words(vyre: c_table.Table) -> None:
    reason = ctypes.create_string_buffer(256)

    def refusal(kernel: object) -> str:
        assert vyre.bound_take(kernel, reason) is None
        return reason.value.decode()

    said = [refusal(7)]
    with Driver() as driver:
        bound = counter(driver)[1]
    said.append(refusal(bound))
    assert (
        said[0]
        == "InvalidInput: what is to be run from C is of type int, not a BoundKernel. Fix: pass what kernel.bind() gave."
    )
    assert [re.sub("'.*'", "it", one) for one in said[1:]] == ["DispatchFailed: it is closed. Fix: make a new Driver."]
    vyre.bound_drop(None)


@pytest.fixture(scope="module")
def embed_c(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The example for embedders in C, built against this checkout's header."""
    library = tmp_path_factory.mktemp("embed_c") / "embed_c.so"
    include = [f"-I{vyre_driver.get_include()}", f"-I{sysconfig.get_path('include')}"]
    options = ["-std=c11", "-shared", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    subprocess.run([compiler, *options, *include, str(ROOT / "examples/embed_c/embed_c.c")], check=True)
    spec = importlib.util.spec_from_file_location("embed_c", library)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_example_runs_a_bound_kernel_and_times_it(embed_c: ModuleType, opened: Driver) -> None:
    values, bound = counter(opened)
    took = embed_c.run_bound(bound, 101)
    assert (took > 0, values.read().tolist()) == (True, [101] * 64)
    opened.close()
    with pytest.raises(ValueError, match=r"cannot be run from C: DispatchFailed: .* is closed"):
        embed_c.run_bound(bound, 1)
