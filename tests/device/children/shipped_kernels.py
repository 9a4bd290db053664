"""The kernels that are shipped, for the validation layer to watch: with each of their modules."""

from __future__ import annotations

import numpy as np

from vyre_driver import Driver
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.kernels import KERNELS


def right(kernel: TunedKernel, size: tuple[int, ...], seed: int) -> bool:
    """Whether a call gives what numpy gives."""
    arrays, parameters = kernel.definition.example(size, seed)
    wanted = kernel.definition.expected(*arrays, **parameters)
    apart = np.abs(np.subtract(kernel(*arrays, **parameters), wanted, dtype=np.float64)).max()
    return bool(apart <= kernel.definition.tolerance(size) * np.abs(wanted).max())


def kernels_for_long_arrays() -> None:
    """Run each with one workgroup and with many, and with arrays that go through copies of four."""
    with Driver() as driver:
        for name in ("saxpy", "reduce_sum", "reduce_max", "inclusive_scan", "histogram"):
            kernel = TunedKernel(driver, KERNELS[name])
            for count in (3, 50_001):
                size = (count, 256) if name == "histogram" else (count,)
                assert [right(kernel, size, count) for _ in range(2)] == [True, True], (name, size)


def kernels_on_matrices() -> None:
    """Run each with rows of any length, rows of whole vectors, and rows that two dispatches share."""
    sizes: dict[str, list[tuple[int, ...]]] = {"matmul": [(33, 5, 9), (3, 8, 9)], "transpose": [(5, 7), (4, 8)]}
    sizes |= {"matmul_f16": sizes["matmul"], "softmax": [(2, columns) for columns in (3, 16, 16385, 16388)]}
    norms: list[tuple[int, ...]] = [(2, columns, byte_len) for columns in (3, 16, 16385, 16392) for byte_len in (4, 2)]
    sizes |= {"layernorm": norms, "rmsnorm": norms}
    linear: list[tuple[int, ...]] = [(batch, 9, 96, 32, byte_len) for batch in (1, 5) for byte_len in (2, 4)]
    sizes |= {"linear_int4": linear, "linear_int8": linear}
    with Driver() as driver:
        for name, found in sizes.items():
            kernel = TunedKernel(driver, KERNELS[name])
            assert [size for size in found if not right(kernel, size, 1)] == [], name
