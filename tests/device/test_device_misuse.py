"""What would end the interpreter in kompute is an error here, and the driver works on."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

REBUILD = "Fix: rebuild the shader with its compiler and pass the whole .spv file."
IN_ORDER = "Fix: pass them in binding order; an output's may be left out when out_shapes gives its shape."


ALL_REFUSED = [
    ("SPIR-V is empty", "InvalidModule", f"given is not a valid SPIR-V module: it is empty. {REBUILD}"),
    (
        "SPIR-V has an odd length",
        "InvalidModule",
        f"given is not a valid SPIR-V module: it has N bytes, which is not a multiple of 4. {REBUILD}",
    ),
    (
        "SPIR-V is cut in half",
        "InvalidModule",
        f"given is not a valid SPIR-V module: the instruction at word N runs past the end. {REBUILD}",
    ),
    (
        "SPIR-V lacks its last instruction",
        "InvalidModule",
        f"given is not a valid SPIR-V module: its last function has no end, so the module was cut off. {REBUILD}",
    ),
    (
        "SPIR-V is all zero",
        "InvalidModule",
        f"given is not a valid SPIR-V module: its first word is not the SPIR-V magic number 0x07230203. {REBUILD}",
    ),
    (
        "there are fewer arrays than bindings",
        "InvalidInput",
        f"the shader takes 2 array(s), 'x' (input), 'y' (input_output), and got 1. {IN_ORDER}",
    ),
    (
        "there are more arrays than bindings",
        "InvalidInput",
        f"the shader takes 2 array(s), 'x' (input), 'y' (input_output), and got 3. {IN_ORDER}",
    ),
    (
        "an array is too small for its fixed size",
        "InvalidInput",
        (
            "input_output 'counts' has 1020 bytes, and the shader fixes it at 1024 bytes (256 elements of 4 bytes). "
            "Fix: pass 1024 bytes."
        ),
    ),
    (
        "there are more groups than the limit",
        "LimitExceeded",
        (
            "the grid has LIMIT + 1 workgroups along y, and the device allows LIMIT. "
            "Fix: start fewer workgroups, and let an invocation do several elements."
        ),
    ),
    (
        "there are no groups",
        "InvalidInput",
        "workgroups is (0,), which is not 1 to 3 numbers of at least 1. Fix: give workgroups=(x, y, z).",
    ),
    (
        "there are more axes than three",
        "InvalidInput",
        "workgroups is (1, 1, 1, 1), which is not 1 to 3 numbers of at least 1. Fix: give workgroups=(x, y, z).",
    ),
    (
        "a push constant is missing",
        "InvalidPushConstant",
        "push constant 'count' (u32) was not given. Fix: give it, for example count=1, or --push count=1.",
    ),
    (
        "a push constant is unknown",
        "InvalidPushConstant",
        "the shader has no push constant 'beta'. Fix: give only what it declares: 'alpha', 'count'.",
    ),
    (
        "a float is given for a uint push constant",
        "InvalidPushConstant",
        "push constant 'count' is u32, and 'float' object cannot be interpreted as an integer. Fix: give u32.",
    ),
    (
        "a float is given for a uint constant",
        "InvalidSpecialization",
        (
            "specialization constant 'MAX_ITERATIONS' is a u32, and 'float' object cannot be interpreted as an integer. "
            "Fix: give a u32."
        ),
    ),
    (
        "a constant is unknown",
        "InvalidSpecialization",
        "the shader has no specialization constant 'SIZE'; it has none. Fix: give only constants that the shader declares.",
    ),
    (
        "an array has the wrong type",
        "InvalidInput",
        ("input 'x' holds float32 and got an array of float64. Fix: convert it with .astype(numpy.float32)."),
    ),
    (
        "an array holds objects",
        "InvalidInput",
        "input 'x' got an array of Python objects. Fix: pass an array of numbers.",
    ),
    ("the driver is closed", "DispatchFailed", "'DEVICE' is closed. Fix: make a new Driver."),
]


def without_numbers_of_the_compiler(message: str) -> str:
    """Where in the module it happened depends on the glslang that made it."""
    return re.sub(r"(?<=at word )\d+|(?<=has )\d+(?= bytes, which is not a multiple)", "N", message)


def test_each_is_refused_and_the_drivers_of_the_process_work_on(
    run_python: RunChild, children: Path, physical_device: PhysicalDevice
) -> None:
    done = run_python(str(children / "misuse.py"), *(case for case, _, _ in ALL_REFUSED))
    lines = without_numbers_of_the_compiler(done.stdout).splitlines()
    found = {case: json.loads(line) for (case, _, _), line in zip(ALL_REFUSED, lines, strict=False)}
    limit = physical_device.limits.max_compute_work_group_count[1]
    known = {"LIMIT + 1": str(limit + 1), "LIMIT": str(limit), "DEVICE": physical_device.name}
    expected = {
        case: {
            "error": error,
            "message": re.sub(r"LIMIT \+ 1|LIMIT|DEVICE", lambda word: known[word[0]], message),
            "right afterwards": True,
        }
        for case, error, message in ALL_REFUSED
    }
    assert (done.status, found) == (0, expected), done.stderr
