"""What numpy makes of a kernel's call is the right result, and never a warning: not of any numbers, nor on any CPU."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.autotune.measure.trials import difference
from vyre_driver.kernels import KERNELS

if TYPE_CHECKING:
    from conftest import RunChild

F = np.float32
MOST, LEAST, INF, NAN = F(np.finfo(F).max), F(1e-45), F(np.inf), F(np.nan)
SIGNALLING = np.array([0x7FA00001], np.uint32).view(F)
HUGE = F(2.0**60)
ONES = np.ones(2, F)
# One infinity among zeros, a 1, and two of them; weights of 0, 1 and -1 at the infinity, a scale of 3.
LAYER = [
    np.array([[INF, 0], [1, 0], [1, 1]], F),
    np.array([[0, 1], [1, 1], [-1, -2]], np.int8),
    np.full((3, 1), 3, np.float16),
]

CASES: list[tuple[str, list[np.ndarray], dict[str, Any], list[Any]]] = [
    ("matmul", [np.array([[INF, 1]]), np.array([[0, 2], [1, 1]])], {}, [[NAN, INF]]),
    ("matmul", [np.array([[MOST, MOST]]), np.array([[2], [0]])], {}, [[INF]]),
    ("matmul", [np.array([[LEAST]]), np.array([[LEAST]])], {}, [[0]]),
    ("matmul", [SIGNALLING.reshape(1, 1), np.array([[1]])], {}, [[NAN]]),
    ("matmul_f16", [np.array([[INF, 1]], np.float16), np.array([[0], [1]], np.float16)], {}, [[NAN]]),
    ("softmax", [np.array([[INF, 0], [NAN, 0], [0, -INF], [MOST, -MOST]])], {}, [[NAN, NAN], [NAN, NAN], [1, 0], [1, 0]]),
    ("softmax", [np.array([[0, -100]])], {}, [[1, 3.783506e-44]]),  # below the normal numbers
    ("softmax", [SIGNALLING.reshape(1, 1)], {}, [[NAN]]),
    (
        "layernorm",
        [np.array([[1, 3], [3, 3], [5, -3]]), np.array([2, 4]), np.array([0, 1])],
        {"eps": 0},
        [[-2, 5], [NAN, NAN], [2, -3]],
    ),
    ("layernorm", [np.array([[INF, 0], [NAN, 0], [MOST, -MOST]]), ONES, ONES], {}, [[NAN, NAN], [NAN, NAN], [2, 0]]),
    ("layernorm", [np.array([[1, -1]]), ONES, np.array([0, INF])], {"eps": 3}, [[0.5, INF]]),
    ("layernorm", [np.array([[LEAST, -LEAST]]), ONES, np.array([0, 0])], {"eps": 0}, [[1, -1]]),
    ("layernorm", [SIGNALLING.reshape(1, 1), ONES[:1], SIGNALLING], {}, [[NAN]]),
    ("rmsnorm", [np.array([[3, -3], [0, 0]]), np.array([1, 2])], {"eps": 0}, [[1, -2], [NAN, NAN]]),
    ("rmsnorm", [np.array([[INF, 1], [1, -INF], [NAN, 0]]), ONES], {}, [[NAN, 0], [0, NAN], [NAN, NAN]]),
    ("rmsnorm", [np.array([[2, -2]]), np.array([MOST, 0])], {"eps": 1e300}, [[0, 0]]),
    ("linear_int8", LAYER, {}, [[NAN, INF, -INF], [0, 3, -3], [3, 6, -9]]),
    ("reduce_sum", [np.array([MOST, MOST])], {}, INF),
    ("reduce_sum", [np.array([INF, -INF])], {}, NAN),
    ("reduce_sum", [np.array([LEAST, LEAST])], {}, F(3e-45)),
    ("reduce_sum", [SIGNALLING], {}, NAN),
    ("reduce_max", [np.array([1, NAN, INF])], {}, NAN),
    ("reduce_max", [np.concatenate([np.zeros(20, F), SIGNALLING])], {}, NAN),
    ("inclusive_scan", [np.array([MOST, MOST, -INF])], {}, [MOST, INF, -INF]),
    ("inclusive_scan", [np.array([INF, -INF])], {}, [INF, NAN]),
    ("inclusive_scan", [SIGNALLING], {}, [NAN]),
    ("saxpy", [np.array([HUGE, INF, LEAST]), np.array([0, 0, 0])], {"alpha": HUGE * HUGE}, [INF, INF, 1.8626451e-09]),
    ("saxpy", [np.array([MOST, LEAST]), np.array([MOST, 0])], {"alpha": 0.5}, [INF, 0]),
    ("saxpy", [np.array([1, 0]), np.array([1, 1])], {"alpha": 1e-320}, [1, 1]),
    ("saxpy", [np.array([0, 1]), np.array([1, 1])], {"alpha": 1e300}, [NAN, INF]),
]


@pytest.mark.parametrize(("name", "arrays", "parameters", "wanted"), CASES)
def test_it_is_told_without_a_warning(
    name: str, arrays: list[np.ndarray], parameters: dict[str, Any], wanted: list[Any]
) -> None:
    """Where a CPU raises a flag that another does not, it is ignored: a user who has numpy raise all of them sees none."""
    given = [one if one.dtype in (np.float16, np.int8) else one.astype(F) for one in arrays]
    with np.errstate(all="raise"):
        found = KERNELS[name].expected(*given, **parameters)
    assert isinstance(found, np.ndarray)
    assert found.dtype == F
    with np.errstate(invalid="ignore"):  # of the signalling NaN
        np.testing.assert_array_equal(found, np.array(wanted, F))


def test_outputs_are_compared_without_a_warning() -> None:
    odd = np.array([NAN, INF, MOST, LEAST], F)
    odd = np.concatenate([odd, SIGNALLING])
    with np.errstate(all="raise"):
        same = difference([odd], [odd.copy()], 0.1)
        apart = difference([odd], [-odd], 0.1)
    said = "output 1: 2 of 5 elements are wrong, the first at index 1: -inf, and inf is right"
    assert (same, apart) == (None, said)


# Needs, as in /proc/cpuinfo: on a CPU without, OpenBLAS would execute what that does not know.
BLAS_KERNELS = {
    "Prescott": {"pni"},
    "Nehalem": {"sse4_2"},
    "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"},
}
PRODUCTS = """
import numpy as np
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16
for definition in (MATMUL, MATMUL_F16):
    for n in (7, 25, 36, 37):
        (a, b), _ = definition.example((35, n, 15), 1)
        a[34, 14], a[1, 0] = np.inf, np.nan
        b[14, n - 1], b[0, 1] = -np.inf, np.nan
        found = definition.expected(a, b)
        print(np.isnan(found).sum(), np.isinf(found).sum() , np.isfinite(found).sum())
"""


def flags() -> set[str]:
    """What this CPU can do; nothing where that is not said."""
    path = Path("/proc/cpuinfo")
    told = path.read_text().splitlines() if platform.machine() == "x86_64" and path.exists() else []
    return {flag for line in told[:40] if line.startswith("flags") for flag in line.split(":")[1].split()}


@pytest.mark.parametrize("core", BLAS_KERNELS)
def test_a_product_is_told_without_a_warning_by_every_kernel_of_openblas(run_python: RunChild, core: str) -> None:
    """An infinity in the last column of fifteen meets the zeros that some of them fill a vector up with."""
    if not BLAS_KERNELS[core] <= flags():
        pytest.skip(f"this CPU has no {', '.join(sorted(BLAS_KERNELS[core] - flags()))}")
    done = run_python("-W", "error", "-c", PRODUCTS, env={"OPENBLAS_CORETYPE": core})
    counts = [f"{n + 34} {n + 32} {33 * (n - 2)}" for n in (7, 25, 36, 37)]
    assert (done.status, done.stdout.splitlines(), done.stderr) == (0, 2 * counts, "")
