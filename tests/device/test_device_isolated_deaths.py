"""What kills or hangs the process of an isolated driver is an error in the caller, and the next call works."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest
from kernels import glsl
from made_kernels import IN_PLACE

from vyre_driver import Driver, kernels
from vyre_driver.errors import DeviceNotFound, DispatchFailed, DispatchTimeout, DriverCrashed, ForkError
from vyre_driver.isolated import process
from vyre_driver.isolated.driver import IsolatedDriver
from vyre_driver.isolated.process import Child
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import RunChild

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

X = np.arange(100, dtype=np.float32)
WORDS = np.zeros(1 << 18, np.uint32)  # which an endless shader turns over for minutes


@pytest.fixture
def isolated() -> Iterator[IsolatedDriver]:
    with Driver(isolated=True) as driver:
        assert isinstance(driver, IsolatedDriver)
        yield driver


@pytest.fixture
def saxpy(isolated: Driver) -> Kernel:
    return isolated.compile(shipped_module("saxpy"))


@pytest.fixture
def endless(isolated: Driver) -> Kernel:
    """A kernel that goes on for minutes."""
    return isolated.compile(glsl(IN_PLACE), {"ENDLESS": 1})


def is_right(kernel: Kernel) -> bool:
    return bool(np.array_equal(kernel(X, X, alpha=2, count=100), 3 * X))


def call_for_ever(call: Callable[[], object]) -> None:
    while True:
        call()


def busy(pid: int) -> bool:
    """Whether a process uses the processor, as one does whose shader is endless."""

    def used() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(0.1)
    return used() > before + 2


def wait_until_busy(pid: int) -> None:
    until = time.monotonic() + 20
    while not busy(pid) and time.monotonic() < until:
        pass


@contextmanager
def sent_when_busy(pid: int, number: int, target: int) -> Iterator[None]:
    """Send a signal as soon as a process works on something long."""

    def send() -> None:
        time.sleep(0.2)  # what comes before the shader uses the processor too
        wait_until_busy(pid)
        os.kill(target, number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def has_ended(pidfd: int) -> bool:
    return select.select([pidfd], [], [], 60)[0] == [pidfd]


def test_a_process_that_is_killed_between_calls_is_told_once_and_replaced(isolated: IsolatedDriver, saxpy: Kernel) -> None:
    buffer, pid, kept = isolated.buffer(X), isolated.pid, saxpy(X, X, alpha=2, count=100)
    bound = saxpy.bind(buffer, isolated.buffer(X), alpha=2, count=100)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DriverCrashed) as caught:
        call_for_ever(lambda: saxpy(X, X, alpha=2, count=100))  # the first calls may come before the signal
    error = caught.value
    assert (error.code, error.context["signal"], error.context["how"], error.context["pid"]) == (2017, 9, "SIGKILL", pid)
    assert str(error).startswith(f"the process {pid} of an isolated driver has ended (SIGKILL): it died ")
    assert ". Fix: call again, which starts another process; if the same call ends that too, " in str(error)
    assert (is_right(saxpy), isolated.pid != pid, kept.tolist()) == (True, True, (3 * X).tolist())
    for use in (buffer.read, bound.run):
        with pytest.raises(DriverCrashed, match=r"what is used was made in a process that is gone: .*Fix: make buffers"):
            use()
    assert isolated.buffer(X).read().tolist() == X.tolist()


@pytest.mark.thorough
def test_a_process_that_is_killed_in_the_middle_of_a_call_fails_all_calls_and_no_later_one(
    isolated: IsolatedDriver, saxpy: Kernel, endless: Kernel
) -> None:
    errors: list[BaseException] = []

    def call() -> None:
        try:
            endless(WORDS)
        except DriverCrashed as error:
            errors.append(error)

    beside = threading.Thread(target=call)
    beside.start()
    with sent_when_busy(isolated.pid, signal.SIGKILL, isolated.pid), pytest.raises(DriverCrashed) as caught:
        endless(WORDS)
    beside.join()
    assert ([type(one) for one in errors], caught.value.context["signal"]) == ([DriverCrashed], signal.SIGKILL)
    assert is_right(saxpy)


def test_a_shader_that_hangs_ends_in_time_with_its_process_and_the_next_call_works(
    isolated: IsolatedDriver, saxpy: Kernel, endless: Kernel
) -> None:
    pid = os.pidfd_open(isolated.pid)
    with pytest.raises(DispatchTimeout, match=r"did not end in 0\.3 s, and the process that worked on it was killed") as caught:
        endless(WORDS, timeout=0.3)
    assert (caught.value.context, has_ended(pid), is_right(saxpy)) == ({"timeout_s": 0.3}, True, True)
    bound = endless.bind(isolated.buffer(WORDS))
    with pytest.raises(DispatchTimeout):
        bound.run(timeout=0.3)
    assert is_right(saxpy)
    os.close(pid)


def test_a_vulkan_driver_that_hangs_itself_is_ended_too(
    isolated: IsolatedDriver, saxpy: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that answers nothing, not even that the time is over: here the whole process is stopped."""
    monkeypatch.setattr("vyre_driver.isolated.process._MAKING_S", 0.1)
    assert is_right(saxpy)
    os.kill(isolated.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, isolated.pid, os.WSTOPPED | os.WNOWAIT)  # a thread that polls may answer before it stops
    with pytest.raises(DispatchTimeout):
        saxpy(X, X, alpha=2, count=100, timeout=0.2)
    assert is_right(saxpy)


def test_a_segmentation_fault_in_the_vulkan_driver_is_an_error_with_its_signal(
    witness: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert witness
    crashes = tmp_path / "crashes"
    crashes.touch()
    monkeypatch.setenv("WITNESS_CRASHES", str(crashes))
    with Driver(isolated=True) as driver:
        saxpy = driver.compile(shipped_module("saxpy"))
        for _ in range(2):
            with pytest.raises(DriverCrashed, match=r"\(SIGSEGV\): it died while it worked on the kernel 'saxpy"):
                saxpy(X, X, alpha=2, count=100)
        crashes.unlink()
        assert is_right(saxpy)


@pytest.mark.cold_mesa
def test_a_blob_that_kills_is_set_aside_by_the_process_that_follows(witness: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert witness
    with Driver() as driver:
        assert is_right(driver.compile(shipped_module("saxpy")))
    monkeypatch.setenv("WITNESS_KILLS", "1")
    with Driver(isolated=True) as driver:
        saxpy = driver.compile(shipped_module("saxpy"))
        with pytest.raises(DriverCrashed):
            saxpy(X, X, alpha=2, count=100)
        assert is_right(saxpy)
        assert saxpy.trace.reason == "no entry: a process died when the driver was given its compiled blob"


def test_ctrl_c_ends_a_call_and_leaves_all_usable(isolated: IsolatedDriver, saxpy: Kernel, endless: Kernel) -> None:
    if not isolated.device.is_software:
        pytest.skip("the driver of a GPU ends a shader that goes on for minutes, and loses the device with it")
    assert is_right(saxpy)
    pid = isolated.pid
    with sent_when_busy(pid, signal.SIGINT, os.getpid()), pytest.raises(KeyboardInterrupt):
        endless(WORDS)
    assert (isolated.report()["device"], isolated.pid) == (isolated.device.name, pid)
    with pytest.raises(DispatchTimeout):  # the device is still at it
        saxpy(X, X, alpha=2, count=100, timeout=0.2)
    assert is_right(saxpy)


def test_calls_interrupted_anywhere_give_no_wrong_result_and_leave_nothing(isolated: IsolatedDriver, saxpy: Kernel) -> None:
    arena = isolated.child().arena
    assert (is_right(saxpy), is_right(saxpy)) == (True, True)
    gc.collect()
    before, wrong, interrupted = arena.given_bytes, 0, 0
    is_over, is_calling = threading.Event(), False

    def interrupt() -> None:
        random = np.random.default_rng(1)
        while not is_over.is_set():
            time.sleep(float(random.uniform(0.0002, 0.003)))
            os.kill(os.getpid(), signal.SIGUSR1)

    class Interrupted(Exception):
        """Raised by the handler of a signal."""

    def handler(*_: object) -> None:
        nonlocal is_calling
        if is_calling:  # else nothing would catch it
            is_calling = False
            raise Interrupted

    previous = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        while interrupted < 60:
            try:
                value = interrupted + 1
                x = np.full(100, value, np.float32)
                is_calling = True
                wrong += not (saxpy(x, x, alpha=1, count=100) == 2 * value).all()
                is_calling = False
            except Interrupted:
                interrupted += 1
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
    del x
    while any(not one.is_free() for one in isolated.child()._connections):  # noqa: SLF001 -- answers under way
        time.sleep(0.01)
    gc.collect()
    assert (wrong, is_right(saxpy), arena.given_bytes) == (0, True, before)


def test_the_memory_of_a_call_that_was_broken_off_is_not_given_to_the_next(
    saxpy: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes between the request and its answer: the child still works on the arrays of that call."""
    assert (is_right(saxpy), is_right(saxpy)) == (True, True)
    places: list[object] = []
    ask, receive = Child.ask, process.receive

    def noted(child: Child, what: str, name: str, *arguments: object, **how: Any) -> Any:  # noqa: ANN401 -- a step's
        places.append(arguments[2])
        return ask(child, what, name, *arguments, **how)

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "ask", noted)
    monkeypatch.setattr(process, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        saxpy(X, X, alpha=7, count=100)
    monkeypatch.setattr(process, "receive", receive)
    assert (is_right(saxpy), is_right(saxpy)) == (True, True)
    assert (places[0] != places[1], places[1] == places[2]) == (True, True)


CALLER = """
import sys
import numpy as np
from kernels import glsl
from made_kernels import IN_PLACE
from vyre_driver import Driver

driver = Driver(isolated=True)
endless = driver.compile(glsl(IN_PLACE), {"ENDLESS": 1})
print(driver.pid, flush=True)
endless(np.zeros(1 << 18, np.uint32))
"""


def test_the_process_ends_with_its_caller_even_while_a_shader_hangs() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, env=environment) as caller:
        assert caller.stdout is not None
        number = int(caller.stdout.readline())
        pid = os.pidfd_open(number)
        try:
            wait_until_busy(number)
            caller.kill()
            assert has_ended(pid)
        finally:
            os.close(pid)


@pytest.mark.thorough
def test_the_process_outlives_the_thread_that_made_the_driver() -> None:
    made: list[Driver] = []
    thread = threading.Thread(target=lambda: made.append(Driver(isolated=True)))
    thread.start()
    thread.join()
    with made[0] as driver:
        assert is_right(driver.compile(shipped_module("saxpy")))


FORKED = """
import os, sys
import numpy as np
from vyre_driver import Driver
from vyre_driver.errors import ForkError
from vyre_driver.spirv.shipped import shipped_module

x = np.arange(100, dtype=np.float32)
driver = Driver(isolated=True)
saxpy = driver.compile(shipped_module("saxpy"))
result = saxpy(x, x, alpha=2, count=100)
if os.fork() == 0:
    try:
        saxpy(x, x, alpha=2, count=100)
    except ForkError as error:
        print(error.code, result.tolist() == (3 * x).tolist(), flush=True)
    with Driver(isolated=True) as own:
        print((own.compile(shipped_module("saxpy"))(x, x, alpha=2, count=100) == 3 * x).all(), flush=True)
    os._exit(0)
os.wait()
print((saxpy(x, x, alpha=2, count=100) == 3 * x).all())
"""


def test_a_fork_is_refused_its_parent_s_and_may_open_its_own(run_python: RunChild) -> None:
    done = run_python("-c", FORKED)
    assert (done.status, done.stdout) == (0, f"{ForkError.code} True\nTrue\nTrue\n")


@pytest.mark.thorough
def test_closing_ends_the_process_also_while_a_shader_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.isolated.driver._CLOSING_S", 0.3)
    driver = Driver(isolated=True)
    assert isinstance(driver, IsolatedDriver)
    kernel, pid = driver.compile(glsl(IN_PLACE), {"ENDLESS": 1}), os.pidfd_open(driver.pid)
    with sent_when_busy(driver.pid, signal.SIGINT, os.getpid()), pytest.raises(KeyboardInterrupt):
        kernel(WORDS)
    driver.close()
    driver.close()
    assert has_ended(pid)
    os.close(pid)
    uses: list[Callable[[], object]] = [lambda: kernel(WORDS), lambda: driver.buffer(X), driver.report, driver.__enter__]
    for use in uses:
        with pytest.raises(DispatchFailed, match=r"is closed\. Fix: make a new Driver"):
            use()


def test_a_driver_that_is_dropped_takes_its_process_with_it() -> None:
    driver = Driver(isolated=True)
    assert isinstance(driver, IsolatedDriver)
    pid = os.pidfd_open(driver.pid)
    result = driver.compile(shipped_module("saxpy"))(X, X, alpha=2, count=100)
    del driver
    gc.collect()
    assert (has_ended(pid), result.tolist()) == (True, (3 * X).tolist())
    os.close(pid)


@pytest.mark.thorough
def test_a_kernel_of_several_dispatches_makes_its_buffers_anew(isolated: IsolatedDriver) -> None:
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    matmul = kernels.matmul(isolated)
    assert matmul(a, a).tolist() == (a @ a).tolist()
    os.kill(isolated.pid, signal.SIGKILL)
    with pytest.raises(DriverCrashed):
        call_for_ever(lambda: matmul(a, a))
    assert matmul(a, a).tolist() == (a @ a).tolist()


def test_what_cannot_be_opened_is_told_as_without_a_process() -> None:
    said = []
    for isolated in (False, True):
        with pytest.raises(DeviceNotFound) as caught:
            Driver("name:nobody's", isolated=isolated)
        said.append(str(caught.value))
    assert said[0] == said[1]
