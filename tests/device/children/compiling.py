"""A compilation that takes as long as the test wants; test_device_compiling.py runs each case in a process of its own.

Usage: compiling.py CASE, below the witness layer with WITNESS_GATE

Exit status 0: as it should be.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from kernels import glsl

from vyre_driver import Driver, Kernel
from vyre_driver.spirv.shipped import shipped_module

X = np.arange(64, dtype=np.float32)
TRIPLE = """
layout(binding = 0) buffer A { float a[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] *= 3.0; }
"""
HANGS_AFTER_S = 40
GATE = Path(os.environ["WITNESS_GATE"])
REACHED = Path(f"{GATE}.reached")


def call(kernel: Kernel) -> None:
    np.testing.assert_array_equal(kernel(X, X, push_constants={"alpha": 2, "count": X.size}), 3 * X, strict=True)


def let_pass_once_reached() -> threading.Thread:
    """Open the gate from another thread, which has to be let run while this one compiles."""

    def let_pass() -> None:
        while not REACHED.exists():
            time.sleep(0.001)
        GATE.touch()

    thread = threading.Thread(target=let_pass)
    thread.start()
    return thread


def another_thread_runs_meanwhile() -> None:
    with Driver() as driver:
        thread = let_pass_once_reached()
        call(driver.compile(shipped_module("saxpy")))
        thread.join()


def another_thread_calls_meanwhile() -> None:
    """A kernel that is compiled runs on the same device while another is compiled; what needs kompute waits."""
    GATE.touch()
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        x, y = driver.buffer(X), driver.buffer(X)
        bound = kernel.bind(x, y, push_constants={"alpha": 2, "count": X.size})
        bound.run()
        y.read()  # the first of a buffer is recorded by kompute on devices that do not share the host's memory
        GATE.unlink()
        REACHED.unlink()
        compiles = threading.Thread(target=driver.compile(glsl(TRIPLE)), args=(X,))
        compiles.start()
        while not REACHED.exists():
            time.sleep(0.001)
        y.write(X)
        bound.run()
        np.testing.assert_array_equal(y.read(), 3 * X, strict=True)
        waits = threading.Thread(target=driver.empty, args=(64, np.float32))
        waits.start()
        assert compiles.is_alive()
        GATE.touch()
        for thread in (compiles, waits):
            thread.join()


def ctrl_c_is_heard_after_it() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        main = threading.get_ident()

        def press() -> None:
            while not REACHED.exists():
                time.sleep(0.001)
            signal.pthread_kill(main, signal.SIGINT)
            GATE.touch()

        thread = threading.Thread(target=press)
        thread.start()
        try:
            call(kernel)
        except KeyboardInterrupt:
            pass
        else:
            sys.exit("Ctrl-C was not heard")
        thread.join()
        call(kernel)
        assert driver.context.device.layer.counters()["pipelines_created"] == 1


def a_fork_waits_for_it_and_its_child_compiles() -> None:
    with Driver() as driver:
        if not driver.device.is_software:
            return  # refused in a fork
        kernel = driver.compile(shipped_module("saxpy"))
        compiles = threading.Thread(target=call, args=(kernel,))
        compiles.start()
        while not REACHED.exists():
            time.sleep(0.001)
        threading.Timer(0.2, GATE.touch).start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads; that is the test
            pid = os.fork()
        if pid == 0:
            signal.alarm(HANGS_AFTER_S // 4)
            if not GATE.exists():
                os._exit(5)
            with Driver() as childs:
                call(childs.compile(shipped_module("saxpy")))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        compiles.join()
        call(kernel)
        assert os.waitstatus_to_exitcode(status) == 0, status


def the_process_exits_meanwhile() -> None:
    driver = Driver()
    kernel = driver.compile(shipped_module("saxpy"))
    threading.Thread(target=call, args=(kernel,), daemon=True).start()
    while not REACHED.exists():
        time.sleep(0.001)
    # Ends during the interpreter's own end: the daemon thread then asks for the GIL of an interpreter that is going.
    threading.Thread(target=lambda: (time.sleep(0.1), GATE.touch()), daemon=True).start()


if __name__ == "__main__":
    signal.alarm(HANGS_AFTER_S)
    globals()[sys.argv[1]]()
