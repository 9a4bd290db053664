"""Share buffers with PyTorch on a GPU, and tell as JSON what held.

Usage: torch_cuda.py torch|vulkan [times]: whose device is opened first; whether stderr shall tell how long things take
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vyre_driver import Driver
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.lang import Index, InOut, f32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
COUNT = 16 * MIB  # elements of f32: 64 MiB
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128", "bool")


@kernel
def step(i: Index, x: InOut[f32], a: f32) -> None:
    x[i] = 2.0 * x[i] + a


def free_bytes() -> int:
    """What the GPU has left once nothing of ours is kept."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def seen_both_ways(driver: Driver) -> dict[str, bool]:
    """Whether each side sees what the other wrote, in all of 64 MiB, and nothing was copied."""
    given = np.random.default_rng(1).random(COUNT, np.float32)
    before = torch.cuda.memory_allocated()
    shared = driver.buffer(given, share="cuda")
    tensor = torch.from_dlpack(shared)
    found = {"torch sees what was written": bool((tensor.cpu().numpy() == given).all())}
    step.on(driver)(shared, 1.0)
    expected = 2 * given + np.float32(1)
    found["torch sees what a kernel wrote"] = bool((tensor.cpu().numpy() == expected).all())
    tensor.mul_(3)
    torch.cuda.synchronize()
    expected = expected * np.float32(3)
    found["read sees what torch wrote"] = bool((shared.read() == expected).all())
    step.on(driver)(shared, 1.0)
    found["a kernel sees what torch wrote"] = bool((shared.read() == 2 * expected + np.float32(1)).all())
    again, part = torch.from_dlpack(shared), torch.from_dlpack(shared[1000:2000].reshape(10, 100))
    found["the address is the same"] = again.data_ptr() == tensor.data_ptr() == part.data_ptr() - 4000
    part.fill_(-1)
    torch.cuda.synchronize()
    whole = shared.read()
    found["a view is its part"] = bool((whole[1000:2000] == -1).all() and (whole[2000] != -1) and (whole[999] != -1))
    shared[5:7] = np.array([7, 8], np.float32)
    found["a part that was written is seen"] = tensor[4:8].tolist()[1:3] == [7.0, 8.0]
    found["it is on the GPU, and torch allocated nothing"] = (
        tensor.is_cuda and tensor.device.index == shared.__dlpack_device__()[1] and torch.cuda.memory_allocated() == before
    )
    return found


def alternating(driver: Driver) -> bool:
    """Whether 200 steps in turn, bound, and on a stream of its own, are the steps in order."""
    shared = driver.zeros(100_000, np.float32, share="cuda")
    bound = step.on(driver).bind(shared, 1.0)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.from_dlpack(shared)
        expected = np.zeros(100_000, np.float32)
        for _ in range(200):
            bound.run()
            tensor.mul_(0.25)
            stream.synchronize()
            expected = (2 * expected + np.float32(1)) * np.float32(0.25)
    return bool((shared.read() == expected).all())


def of_each_type(driver: Driver) -> dict[str, bool]:
    """Whether elements of each type are seen as what they are."""
    found = {}
    for name in DTYPES:
        given = (np.arange(12) % 2 if name == "bool" else np.arange(12)).astype(name).reshape(3, 4)
        seen = torch.from_dlpack(driver.buffer(given, share="cuda"))
        found[f"elements of {name}"] = str(seen.dtype) == f"torch.{name}" and bool((seen.cpu().numpy() == given).all())
    return found


def on_the_cpu(driver: Driver) -> bool:
    """Whether copies on the CPU are what they were."""
    shared = driver.buffer(np.arange(4, dtype=np.float32), share="cuda")
    copied = np.asarray(shared)
    capsule = torch.utils.dlpack.from_dlpack(shared.__dlpack__(dl_device=(1, 0), copy=True))
    return copied.tolist() == capsule.tolist() == [0, 1, 2, 3] and not capsule.is_cuda


def outliving() -> dict[str, bool]:
    """Whether tensors outlive buffer and driver, and go afterwards, on whichever thread."""
    driver = Driver()
    shared = driver.buffer(np.arange(COUNT, dtype=np.float32), share="cuda")
    tensor = torch.from_dlpack(shared)
    shared.close()
    other = [driver.zeros(COUNT, np.float32) for _ in range(4)]  # would take the memory if it were free
    found = {
        "a tensor outlives the buffer": tensor[-3:].tolist() == [COUNT - 3, COUNT - 2, COUNT - 1] and float(tensor[7]) == 7.0
    }
    del other
    driver.close()
    del driver
    gc.collect()
    tensor.add_(1)
    found["a tensor outlives the driver"] = float(tensor[7]) == 8.0 and float(tensor[-1]) == float(np.float32(COUNT))
    kept = [tensor]
    del tensor
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    return found


def leaks(driver: Driver) -> dict[str, bool]:
    """Whether making, giving away and dropping leaves memory: of 300 times 64 MiB less than 64 MiB."""

    def dropped_buffer() -> None:
        torch.from_dlpack(driver.empty(COUNT, np.float32, share="cuda")).fill_(1)

    def unused_capsule() -> None:
        driver.empty(COUNT, np.float32, share="cuda").__dlpack__(max_version=(1, 0))

    def unshared() -> None:
        driver.empty(COUNT, np.float32, share="cuda").close()

    found = {}
    for make in (dropped_buffer, unused_capsule, unshared):
        make()
        before = free_bytes()
        for _ in range(100):
            make()
        found[f"nothing leaks: {make.__name__}"] = before - free_bytes() < 64 * MIB
    return found


def with_cupy(driver: Driver) -> bool | None:
    """Whether CuPy sees the same; None where it is not installed."""
    try:
        import cupy
    except ImportError:
        return None
    shared = driver.buffer(np.arange(8, dtype=np.float32), share="cuda")
    seen = cupy.from_dlpack(shared[2:])
    seen *= 10
    cupy.cuda.Device().synchronize()
    return bool(shared.read().tolist() == [0, 1, 20, 30, 40, 50, 60, 70])


def refused_on_lavapipe() -> bool:
    """Whether a device that CUDA does not see is refused; True too where there is no such device."""
    try:
        with Driver("type:cpu", allow_software=True) as software:
            software.empty(4, np.float32, share="cuda")
    except UnsupportedFeature:
        return True
    except LookupError:
        return True
    return False


def microseconds(action: Callable[[], object], times: int) -> float:
    """The median time of an action."""
    taken = []
    for _ in range(times):
        began = time.perf_counter_ns()
        action()
        taken.append(time.perf_counter_ns() - began)
    return float(np.median(taken)) / 1000


def tell_times(driver: Driver) -> None:
    """Print how long it takes to pass 64 MiB to torch and back, without a copy and through the host."""
    shared, plain = driver.zeros(COUNT, np.float32, share="cuda"), driver.zeros(COUNT, np.float32)
    bound, bound_plain = step.on(driver).bind(shared, 1.0), step.on(driver).bind(plain, 1.0)
    tensor = torch.from_dlpack(shared)

    def without_copy() -> None:
        bound.run()
        tensor.mul_(0.25)
        torch.cuda.synchronize()

    def through_host() -> None:
        bound_plain.run()
        there = torch.from_numpy(plain.read()).cuda()
        there.mul_(0.25)
        plain.write(there.cpu().numpy())

    actions: dict[str, tuple[Callable[[], Any], int]] = {
        "from_dlpack": (lambda: torch.from_dlpack(shared), 1000),
        "empty(share='cuda') of 64 MiB": (lambda: driver.empty(COUNT, np.float32, share="cuda"), 20),
        "empty() of 64 MiB": (lambda: driver.empty(COUNT, np.float32), 20),
        "kernel, shared": (bound.run, 200),
        "kernel, not shared": (bound_plain.run, 200),
        "write, shared": (lambda: shared.write(np.zeros(COUNT, np.float32)), 10),
        "write, not shared": (lambda: plain.write(np.zeros(COUNT, np.float32)), 10),
        "kernel and torch, shared": (without_copy, 200),
        "kernel and torch, through the host": (through_host, 10),
    }
    for what, (action, times) in actions.items():
        action()
        sys.stderr.write(f"{what}: {microseconds(action, times):.1f} us\n")


def main() -> None:
    """Try all of it."""
    if sys.argv[1] == "torch":
        torch.zeros(1).cuda()
    driver = Driver()
    found: dict[str, bool | None] = seen_both_ways(driver) | of_each_type(driver) | outliving() | leaks(driver)
    found["steps in turn are in order"] = alternating(driver)
    found["the CPU gets copies"] = on_the_cpu(driver)
    found["CuPy sees it (null: not installed)"] = with_cupy(driver)
    found["lavapipe is refused"] = refused_on_lavapipe()
    if "times" in sys.argv:
        tell_times(driver)
    json.dump(found, sys.stdout, indent=1)
    globals()["kept"] = torch.from_dlpack(driver.zeros(4, np.float32, share="cuda"))  # until the process ends


if __name__ == "__main__":
    main()
