"""Compile for a device, and dispatch nothing: the shaders and kernels of the package, or random programs.

Usage: compiled.py shaders | kernels | programs FIRST COUNT [--constants]

Each thing is named on a line of its own before it is compiled, so that the last line of a driver that dies tells on what. A
line that begins with "refused" or "failed" tells why; the last is "done", how many were compiled and to how many bytes, as the
Vulkan driver keeps them. The process ends without closing anything: a device that is not there cannot be waited for.

Such a device has no memory, and ``Driver.compile`` leaves the pipeline to the first call: it is made by the layer pipelines.c.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import traceback
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver import Driver
from vyre_driver.autotune.measure.definition import Operand
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import random_cases
from vyre_driver.errors import InvalidProgram, LimitExceeded, UnsupportedFeature
from vyre_driver.kernels import KERNELS
from vyre_driver.kompute import device as kompute_device
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.autotune.measure.definition import KernelDefinition, Plan
    from vyre_driver.runtime.kernel import Kernel

Work = tuple[str, "Callable[[], list[Kernel]]"]
EMPTY_CACHE = 32  # bytes: the header of VkPipelineCacheHeaderVersionOne
_WHOLE = ("linear_int4", "linear_int8")  # of whole groups alone
_OTHER_TYPES = {"reduce_sum": ("u4", "i4"), "reduce_max": ("u4", "i4"), "inclusive_scan": ("u4",), "transpose": ("f4", "i4")}


def shaders(driver: Driver) -> Iterator[Work]:
    """Every shader of the package as it is."""
    names = [one.name.removesuffix(".spv") for one in files("vyre_driver.shaders").iterdir() if one.name.endswith(".spv")]
    for name in sorted(names):
        yield f"shader {name}", lambda name=name: [driver.compile(shipped_module(name))]


def kernels(driver: Driver) -> Iterator[Work]:
    """Every kernel with each of its candidates for the device."""
    for name, definition in KERNELS.items():
        try:
            kernel = TunedKernel(driver, definition)
        except (UnsupportedFeature, LimitExceeded) as error:
            yield f"kernel {name}", lambda error=error: _raise(error)
            continue
        for candidate in kernel.candidates:
            yield f"kernel {name}: {candidate}", lambda kernel=kernel, candidate=candidate: _compile_plans(kernel, candidate)


def _raise(error: Exception) -> list[Kernel]:
    raise error


def _compile_plans(kernel: TunedKernel, candidate: Any) -> list[Kernel]:  # noqa: ANN401 -- a Candidate
    plans = _plans(kernel, kernel.definition, candidate)
    return list({id(made): made for plan in plans for step in plan.steps for made in [kernel.compiled(step)]}.values())


def _plans(kernel: TunedKernel, definition: KernelDefinition, candidate: Any) -> Iterator[Plan]:  # noqa: ANN401 -- a Candidate
    """The plans of the smallest size, of an odd one near it where that is one, and of other types."""
    arrays, parameters = definition.example(definition.sizes[0], 0)
    whole = [(one.shape, one.dtype) for one in arrays]
    odd = [(tuple(max(count - 1, 1) for count in shape), dtype) for shape, dtype in whole]
    others = [[(shape, np.dtype(kind)) for shape, _ in whole] for kind in _OTHER_TYPES.get(definition.name, ())]
    for form in (whole, *([] if definition.name in _WHOLE else [odd]), *others):
        operands = {name: Operand(*one) for name, one in zip(definition.inputs, form, strict=True)}
        yield definition.plan(definition.call(operands, parameters, candidate, kernel.device))


def programs(driver: Driver, first: int, count: int, *, constants: bool) -> Iterator[Work]:
    """Random programs from a seed on; those by hand before seed 0."""
    lanes = driver.device.subgroup_size
    options = Options(subgroups=True, subgroup_lanes=lanes, constants=constants)
    cases = [*hand_written(options)] if first == 0 else []
    for case in (*cases, *random_cases(first, count, options)):
        yield case.name, lambda case=case: [driver.compile(case.program)]


def native_bytes(library: ctypes.CDLL, kernel: Kernel) -> int:
    """Have the Vulkan driver make a kernel's pipeline; returns how long its code is, as the driver keeps it."""
    source, native = kernel._pipelines._pipeline_source, ctypes.c_size_t()  # noqa: SLF001 -- what its first call makes the pipeline of
    words = (ctypes.c_uint32 * len(source.spec_words))(*source.spec_words)
    given = source.code, len(source.code), len(kernel.plan.descriptors), words, len(words), source.push_constant_bytes
    result = library.make_pipeline(*given[:1], ctypes.c_size_t(given[1]), *given[2:], ctypes.byref(native))
    if result or native.value <= EMPTY_CACHE:
        raise RuntimeError(f"VkResult {result}, {native.value} bytes")
    return native.value


def main(what: str, *arguments: str) -> None:
    """Compile, and tell of it."""
    done = native = 0
    library = ctypes.CDLL(os.environ["PIPELINES_LIBRARY"])
    kompute_device.submit_first = lambda _: []  # at which a device that is not there dies
    with tempfile.TemporaryDirectory() as cache:
        driver = Driver(cache=cache)
        print(f"device {driver.device.name}, {driver.device.driver_info}", flush=True)
        if what in {"shaders", "kernels"}:
            work = shaders(driver) if what == "shaders" else kernels(driver)
        else:
            work = programs(driver, int(arguments[0]), int(arguments[1]), constants="--constants" in arguments)
        for name, compile_it in work:
            print(name, flush=True)
            try:
                native += sum(native_bytes(library, kernel) for kernel in compile_it())
                done += 1
            except (UnsupportedFeature, LimitExceeded) as error:
                print(f"refused {name}: {error.problem}")
            except Exception as error:  # noqa: BLE001 -- what is asked
                if type(error) is InvalidProgram:  # for want of a device's feature, as the conformance suite has it
                    print(f"refused {name}: {error.problem}")
                else:
                    print(f"failed {name}: {json.dumps(traceback.format_exc())}")
    print(f"done {done} {native}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
