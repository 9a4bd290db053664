"""PyTorch's side of benchmarks.kernels: a kernel's name and size on stdin, a median in microseconds on stdout.

Times are the device's, from events before and after one call.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UPS = 3


def matrices(size: tuple[int, ...], dtype: torch.dtype) -> Callable[[], object]:
    m, n, k = size
    a, b = torch.rand(m, k, device="cuda").to(dtype), torch.rand(k, n, device="cuda").to(dtype)
    out = torch.empty(m, n, device="cuda", dtype=dtype)
    return lambda: torch.matmul(a, b, out=out)


def normalized(name: str, size: tuple[int, ...]) -> Callable[[], object]:
    """Return PyTorch's layer_norm or rms_norm, before 2.4 what it would have of that."""
    rows, columns, byte_len = size
    dtype = {4: torch.float32, 2: torch.float16}[byte_len]
    x, weight, bias = (torch.rand(*shape, device="cuda").to(dtype) for shape in ((rows, columns), (columns,), (columns,)))
    functional = torch.nn.functional
    if name == "layernorm":
        return lambda: functional.layer_norm(x, (columns,), weight, bias, 1e-5)
    if hasattr(functional, "rms_norm"):
        return lambda: functional.rms_norm(x, (columns,), weight, 1e-6)
    return lambda: x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(dtype) * weight


def call(name: str, size: tuple[int, ...]) -> Callable[[], object]:
    """Return what does the same as the kernel of that name, on arrays that are there already."""
    torch.backends.cuda.matmul.allow_tf32 = False
    if name.startswith("matmul"):
        return matrices(size, torch.float16 if name == "matmul_f16" else torch.float32)
    if name in {"layernorm", "rmsnorm"}:
        return normalized(name, size)
    if name == "histogram":
        values = torch.randint(0, size[1], (size[0],), device="cuda", dtype=torch.int32)
        return lambda: torch.bincount(values, minlength=size[1])
    x = torch.rand(*size, device="cuda")
    if name in {"reduce_sum", "reduce_max"}:
        return x.sum if name == "reduce_sum" else x.amax
    if name.startswith("inclusive_scan"):
        return lambda: torch.cumsum(x, 0)
    if name == "softmax":
        return lambda: torch.softmax(x, -1)
    out = torch.empty_like(x)
    if name == "saxpy":
        y = torch.rand(*size, device="cuda")
        return lambda: torch.add(y, x, alpha=2.5, out=out)
    if name == "transpose":
        turned = torch.empty(*size[::-1], device="cuda")
        return lambda: turned.copy_(x.t())
    return lambda: out.copy_(x)


def median_us(run: Callable[[], object], repeats: int) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(repeats):
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times)


def main() -> None:
    repeats = int(sys.argv[1])
    print(torch.__version__, flush=True)
    made: tuple[str, Callable[[], object]] | None = None
    for line in sys.stdin:
        if made is None or made[0] != line:
            made = None
            torch.cuda.empty_cache()
            name, _, size = line.strip().partition(" ")
            made = line, call(name, tuple(int(one) for one in size.split("x")))
            median_us(made[1], WARM_UPS)
        print(median_us(made[1], repeats), flush=True)


if __name__ == "__main__":
    main()
