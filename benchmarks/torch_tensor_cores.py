"""PyTorch's side of benchmarks.tensor_cores: its version, or an empty line without CUDA; then a line for each measurement.

``mm TYPE M N K``, ``gelu TYPE M N K`` (linear, bias and gelu), ``attention TYPE HEADS LENGTH HEAD`` (causal), and
``layernorm TYPE ROWS COLUMNS``, ``rmsnorm`` alike; ``block TYPE TOKENS WIDTH HEADS INNER`` is examples/kernels/transformer.py.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None

if TYPE_CHECKING:
    from collections.abc import Callable

_BUSY_S = 0.12
_BATCH_S = 0.02
_SAMPLES = 5


def _random(name: str, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="cuda").sub(0.25).to(getattr(torch, name))


def run_of(what: str, name: str, *sizes: int) -> Callable[[], object]:
    """Return what is timed."""
    if what == "mm" and name == "int8":
        m, n, k = sizes
        a, b = (torch.randint(-100, 100, shape, device="cuda", dtype=torch.int8) for shape in ((m, k), (n, k)))
        return lambda: torch._int_mm(a, b.t())  # noqa: SLF001 -- it has no other name
    if what == "mm":
        m, n, k = sizes
        a, b, out = _random(name, m, k), _random(name, k, n), _random(name, m, n)
        return lambda: torch.mm(a, b, out=out)
    if what == "gelu":
        m, n, k = sizes
        x, weight, bias = _random(name, m, k), _random(name, n, k), _random(name, n)
        return lambda: functional.gelu(functional.linear(x, weight, bias))
    if what == "attention":
        heads, length, head = sizes
        q, k, v = (torch.randn(1, heads, length, head, device="cuda").to(getattr(torch, name)) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    if what == "block":
        return block_of(name, *sizes)
    rows, columns = sizes
    x, weight, bias = _random(name, rows, columns), _random(name, columns), _random(name, columns)
    if what == "layernorm":
        return lambda: functional.layer_norm(x, (columns,), weight, bias)
    return lambda: functional.rms_norm(x, (columns,), weight, 1e-6)


def block_of(name: str, tokens: int, width: int, heads: int, inner: int) -> Callable[[], object]:
    """Return a transformer's block: norm, causal attention, norm, two linear layers."""
    x, one = _random(name, tokens, width), _random(name, width)
    square = [_random(name, width, width) / width**0.5 for _ in range(4)]
    up, bias, down = _random(name, inner, width) / width**0.5, _random(name, inner), _random(name, width, inner) / inner**0.5

    def run() -> object:
        normed = functional.rms_norm(x, (width,), one, 1e-6)
        q, k, v = (functional.linear(normed, weight).view(tokens, heads, -1).transpose(0, 1) for weight in square[:3])
        attended = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        found = x + functional.linear(attended.transpose(0, 1).reshape(tokens, width), square[3])
        between = functional.gelu(functional.linear(functional.rms_norm(found, (width,), one, 1e-6), up, bias))
        return found + functional.linear(between, down)

    return run


def microseconds(run: Callable[[], object]) -> float:
    """Return the microseconds of one of many calls on one stream, from events around them."""
    until, count = time.perf_counter() + _BUSY_S, 0
    began = time.perf_counter()
    while time.perf_counter() < until:
        run()
        torch.cuda.synchronize()
        count += 1
    repeats = max(20, int(_BATCH_S * count / (time.perf_counter() - began)))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(_SAMPLES):
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / repeats)
    return statistics.median(times)


def main() -> None:
    print(torch.__version__ if torch is not None and torch.cuda.is_available() else "", flush=True)
    for line in sys.stdin:
        what, name, *sizes = line.split()
        try:
            took = microseconds(run_of(what, name, *map(int, sizes)))
        except RuntimeError as error:  # what it cannot multiply, as int8 of few rows
            print(error, file=sys.stderr)
            took = -1.0
        print(took, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
