"""Ctrl-C while work that takes minutes is waited for: by closing a driver, by the collector and at exit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.device

HANGS_AFTER_S = 30
PRESSES_AFTER_S = 0.25
TIMES_OUT = """
import gc, sys
import numpy as np
from vyre_driver import Driver, SpirvModule, errors
from vyre_driver.vulkan.layer import _layer
module = SpirvModule.from_glsl('''#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform Push { uint n; };
void main() { uint a = x[0]; for (uint i = 0; i < n; i++) a = a * 1664525u + (a >> 3) + i; x[0] = a; }''')
driver = Driver(allow_software=True)
kernel = driver.compile(module)
def overrun(workgroups, timeout_s=0.1):
    try:
        kernel(np.zeros(4, np.uint32), n=60000, timeout=timeout_s, workgroups=workgroups)
    except errors.DispatchTimeout:
        print("timed out", flush=True)
"""
INTERRUPTED = """
overrun((65535, 1000))
try:
    {}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os; os._exit(0)
"""
COLLECTED = """
overrun((65535, 1000))
del driver, kernel
gc.collect()
print("collected", _layer.drop_ended(), flush=True)
import os; os._exit(0)
"""
GIVEN_BACK = """
overrun((6000, 1), timeout_s=1e-4)  # a GPU takes a millisecond for what takes a CPU a second
del kernel
gc.collect()
driver.close()
print("closed", _layer.drop_ended())
"""


def output_after_ctrl_c(program: str) -> str:
    """Return what a program prints that gets Ctrl-C again and again once its dispatch has timed out."""
    with subprocess.Popen([sys.executable, "-c", TIMES_OUT + program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        ends = time.monotonic() + HANGS_AFTER_S
        try:
            while child.poll() is None and time.monotonic() < ends:
                time.sleep(PRESSES_AFTER_S)
                child.send_signal(signal.SIGINT)
        finally:
            child.kill()
        return first + child.stdout.read()


@pytest.mark.parametrize("action", ["driver.close()", "with driver: pass"])
def test_ctrl_c_ends_a_close_that_waits_for_work_that_timed_out(action: str) -> None:
    assert output_after_ctrl_c(INTERRUPTED.format(action)) == "timed out\ninterrupted\n"


def test_the_collector_leaves_work_that_goes_on_to_the_device() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TIMES_OUT + COLLECTED], capture_output=True, text=True, timeout=HANGS_AFTER_S, check=True
    )
    assert ended.stdout == "timed out\ncollected 1\n"


def test_ctrl_c_ends_the_wait_at_exit_for_work_that_nobody_holds() -> None:
    left = "overrun((65535, 1000))\ndel driver, kernel\ngc.collect()\n"
    assert output_after_ctrl_c(left) == "timed out\n"


def test_a_close_waits_for_work_that_nobody_holds_and_lets_go_of_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TIMES_OUT + GIVEN_BACK], capture_output=True, text=True, timeout=HANGS_AFTER_S, check=True
    )
    assert ended.stdout == "timed out\nclosed 0\n"
