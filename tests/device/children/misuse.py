"""Arguments that end the interpreter when kompute gets them; test_device_misuse.py runs this in a process of its own.

Usage: misuse.py CASE...

Prints for each as a line of JSON the error's class and message, and whether the same driver, or after one that was closed a new
one, computes right afterwards.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from vyre_driver import Driver, SpirvModule, VyreError
from vyre_driver.spirv.shipped import shipped_module

CODE = shipped_module("saxpy").code
X = np.arange(8, dtype=np.float32)
PUSH = {"alpha": 2, "count": 8}


def first_half(code: bytes) -> bytes:
    """Cut inside the first instruction that begins in the second half."""
    words = np.frombuffer(code, np.uint32)
    at = 5
    while at < len(words) // 2 or words[at] >> 16 < 2:
        at += int(words[at] >> 16)
    return code[: 4 * (at + 1)]


def compile_bytes(driver: Driver, code: bytes) -> None:
    driver.compile(SpirvModule.from_bytes(code, name="given"))(X, X, push_constants=PUSH)


def call_saxpy(driver: Driver, *arrays: object, **options: object) -> None:
    driver.compile(shipped_module("saxpy"))(*arrays, **{"push_constants": PUSH, **options})  # type: ignore[arg-type]


def use_after_close(driver: Driver) -> None:
    driver.close()
    call_saxpy(driver, X, X)


CASES = {
    "SPIR-V is empty": lambda driver: compile_bytes(driver, b""),
    "SPIR-V has an odd length": lambda driver: compile_bytes(driver, CODE[:-1]),
    "SPIR-V is cut in half": lambda driver: compile_bytes(driver, first_half(CODE)),
    "SPIR-V lacks its last instruction": lambda driver: compile_bytes(driver, CODE[:-4]),
    "SPIR-V is all zero": lambda driver: compile_bytes(driver, bytes(len(CODE))),
    "there are fewer arrays than bindings": lambda driver: call_saxpy(driver, X),
    "there are more arrays than bindings": lambda driver: call_saxpy(driver, X, X, X),
    "an array is too small for its fixed size": lambda driver: driver.compile(shipped_module("byte_histogram"))(
        np.zeros(4, np.uint32), np.zeros(255, np.uint32), push_constants={"byte_count": 16}
    ),
    "there are more groups than the limit": lambda driver: call_saxpy(
        driver, X, X, workgroups=(1, driver.device.limits.max_compute_work_group_count[1] + 1)
    ),
    "there are no groups": lambda driver: call_saxpy(driver, X, X, workgroups=(0,)),
    "there are more axes than three": lambda driver: call_saxpy(driver, X, X, workgroups=(1, 1, 1, 1)),
    "a push constant is missing": lambda driver: call_saxpy(driver, X, X, push_constants={"alpha": 2}),
    "a push constant is unknown": lambda driver: call_saxpy(driver, X, X, push_constants={**PUSH, "beta": 1}),
    "a float is given for a uint push constant": lambda driver: call_saxpy(
        driver, X, X, push_constants={"alpha": 2, "count": 8.0}
    ),
    "a float is given for a uint constant": lambda driver: driver.compile(
        shipped_module("mandelbrot"), {"MAX_ITERATIONS": 2.5}
    ),
    "a constant is unknown": lambda driver: driver.compile(shipped_module("saxpy"), {"SIZE": 1}),
    "an array has the wrong type": lambda driver: call_saxpy(driver, X.astype(np.float64), X),
    "an array holds objects": lambda driver: call_saxpy(driver, X.astype(object), X),
    "the driver is closed": use_after_close,
}


def misuse(case: str) -> dict[str, object]:
    driver = Driver()
    error = None
    try:
        CASES[case](driver)
    except VyreError as raised:
        error = raised
    if case == "the driver is closed":
        driver = Driver()
    right = np.array_equal(driver.compile(shipped_module("saxpy"))(X, X, push_constants=PUSH), 3 * X)
    return {"error": type(error).__name__, "message": str(error), "right afterwards": bool(right)}


def main() -> None:
    for case in sys.argv[1:]:
        sys.stdout.write(json.dumps(misuse(case)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
