"""Forks of a process that has a driver; test_device_lifetime.py runs each in a process of its own and wants exit status 0.

Usage: lifetime_forks.py CASE
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import gc
import os
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from lifetime import HANGS_AFTER_S, check, kept, long_copy, used

import vyre_driver.driver
from vyre_driver import Driver
from vyre_driver.errors import ForkError
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.device import KomputeDevice
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.devices import DeviceType, enumerate_devices
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def fork() -> int:
    """Fork, and have a child that hangs end by a signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads; that is the test
        pid = os.fork()
    if pid == 0:
        signal.alarm(HANGS_AFTER_S)  # faulthandler's watchdog would wait for a thread that did not come along
    return pid


def fork_and_wait(child: Callable[[], object]) -> None:
    """Run ``child`` in a fork that ends as programs do, and pass its exit status on if it is not 0."""
    pid = fork()
    if pid == 0:
        child()
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"the forked child ended with status {os.waitstatus_to_exitcode(status)}")


def expect_fork_error(call: Callable[[], object]) -> None:
    try:
        call()
    except ForkError:
        return
    os._exit(4)


def forked_child_gets_an_error_and_the_parent_works_on() -> None:
    _, kernel = used()

    def child() -> None:
        expect_fork_error(lambda: check(kernel))
        os._exit(0)

    fork_and_wait(child)
    check(kernel)


def forked_child_exits() -> None:
    kept.extend(used())
    fork_and_wait(lambda: None)


def forked_child_ends_without_the_exit_handlers_of_its_parents_libraries() -> None:
    libc = ctypes.CDLL(None)
    kept.extend(used())
    libc.on_exit(libc.abort, None)
    read, write = os.pipe()
    if fork() == 0:
        libc.fdopen.restype = ctypes.c_void_p
        libc.fputs(b"42", ctypes.c_void_p(libc.fdopen(write, b"w")))  # in the buffer of C's
        atexit.register(os.write, write, b"and ")
        sys.exit(3)
    _, status = os.wait()
    ended = (os.waitstatus_to_exitcode(status), os.read(read, 100))
    os._exit(0 if ended == (3, b"and 42") else 5)


def forked_child_drops_what_it_inherited() -> None:
    kept.extend(used())

    def child() -> None:
        kept.clear()
        gc.collect()
        os._exit(0)

    fork_and_wait(child)


def forked_child_drops_a_copy_that_runs() -> None:
    kept.extend(long_copy())

    def child() -> None:
        kept.clear()
        gc.collect()
        os._exit(0)

    fork_and_wait(child)
    target = kept[1]
    assert isinstance(target, TensorBuffer)
    target.fill_range(0, 1000, b"1234", Deadline(None, "the device"))
    if target.read_range(0, 1000, Deadline(None, "the device")).tobytes() != b"1234" * 250:
        os._exit(7)


def forked_child_closes_the_driver() -> None:
    driver, kernel = used()

    def child() -> None:
        driver.close()
        os._exit(0)

    fork_and_wait(child)
    check(kernel)


def forked_child_opens_a_driver_of_its_own() -> None:
    parents, kernel = used()
    kept.extend((parents, kernel))

    def child() -> None:
        if parents.device.is_software:
            with Driver() as driver:
                check(driver.compile(shipped_module("saxpy")))
        else:
            expect_fork_error(Driver)
        os._exit(0)

    fork_and_wait(child)


def forked_child_is_refused_hardware() -> None:
    kept.extend(used())
    children_device = dataclasses.replace(
        select_device(enumerate_devices(), None, allow_software=True), device_type=DeviceType.DISCRETE
    )

    def child() -> None:
        expect_fork_error(lambda: KomputeDevice(children_device))
        os._exit(0)

    fork_and_wait(child)


def forked_child_compiles_and_calls() -> None:
    driver, _ = used()

    def child() -> None:
        expect_fork_error(lambda: check(driver.compile(shipped_module("saxpy"))))
        os._exit(0)

    fork_and_wait(child)


def forked_while_another_thread_calls() -> None:
    _, kernel = used()
    calling, forked = threading.Event(), threading.Event()

    def stop(frame: FrameType, *_: object) -> None:
        if frame.f_code.co_name == "run":  # of the recorded dispatch, inside the call
            calling.set()
            forked.wait()

    def call() -> None:
        sys.settrace(stop)
        check(kernel)

    thread = threading.Thread(target=call)
    thread.start()
    calling.wait()

    def child() -> None:
        expect_fork_error(lambda: check(kernel))
        os._exit(0)

    try:
        fork_and_wait(child)
    finally:
        forked.set()
        thread.join()


def forked_while_other_threads_open_drivers_and_look_for_devices() -> None:
    """A child opens a driver of its own, whatever the other threads were at; before, every second one hung."""
    driver, _ = used()
    ends = threading.Event()

    def open_drivers() -> None:
        while not ends.is_set():
            Driver().close()

    def look() -> None:
        while not ends.is_set():
            enumerate_devices()

    def child() -> None:
        if driver.device.is_software:
            Driver().close()
        else:
            expect_fork_error(Driver)
        names = (b"VK_ADD_LAYER_PATH", b"VK_LAYER_PATH", b"VK_INSTANCE_LAYERS")
        os._exit(any(_layer.environment_variable(name) != os.environb.get(name) for name in names))

    threads = [threading.Thread(target=target) for target in (open_drivers, open_drivers, look)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            fork_and_wait(child)
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def forked_with_a_handler_that_another_library_registered() -> None:
    """It runs before ours, and may take a lock that a thread in a call of that library's waits for: none may be in one by then.

    NVIDIA's driver has such a handler.
    """
    driver, _ = used()
    kernel = driver.compile(shipped_module("byte_histogram"))
    memory = [driver.zeros(one.element_count or 64, one.dtype or np.uint8) for one in kernel.buffers]
    numbers = {one.name: 1 for one in kernel.push_constants}
    looked, made, begins, forked = (threading.Event() for _ in range(4))
    got_in: list[bool] = []

    def look() -> None:
        begins.wait()
        enumerate_devices()
        looked.set()
        forked.wait()  # a thread that ends needs a lock that Python 3.14 holds while it forks

    def make() -> None:
        begins.wait()
        kernel.bind(*memory, push_constants=numbers, workgroups=1)
        made.set()
        forked.wait()

    def prepare() -> None:
        begins.set()
        time.sleep(1)  # without the GIL
        got_in.append(looked.is_set() or made.is_set())

    handler = ctypes.CFUNCTYPE(None)(prepare)
    threads = [threading.Thread(target=target) for target in (look, make)]
    for thread in threads:
        thread.start()
    ctypes.CDLL(None)["__register_atfork"](handler, None, None, None)
    fork_and_wait(lambda: os._exit(0))
    forked.set()
    for thread in threads:
        thread.join()
    if (got_in, looked.is_set(), made.is_set()) != ([False], True, True):
        sys.exit(f"a thread got into a call of the driver's during the fork, or did not end: {got_in}, {looked}, {made}")


def forked_child_is_refused_before_hardware_is_looked_at() -> None:
    kept.extend(used())

    def child() -> None:
        vyre_driver.driver.enumerate_devices = lambda: os._exit(7)
        expect_fork_error(lambda: Driver(allow_software=False))
        os._exit(0)

    fork_and_wait(child)


if __name__ == "__main__":
    signal.alarm(2 * HANGS_AFTER_S)
    globals()[sys.argv[1]]()
