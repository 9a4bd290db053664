"""Programs of examples/gallery in Triton, which reads the source of a kernel from its file; arrays are tensors of PyTorch.

Each takes what ``data`` of its program returns, with the arrays on the device, and leaves its results there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found] # where it is installed
import triton  # type: ignore[import-not-found] # the same
import triton.language as tl  # type: ignore[import-not-found] # the same

if TYPE_CHECKING:
    from collections.abc import Callable


def device() -> str:
    """Return where tensors belong; Triton's interpreter takes those of the processor."""
    return "cpu" if triton.knobs.runtime.interpret else "cuda"


@triton.jit
def _saxpy(x, y, z, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(z + i, a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


def saxpy(x: Any, y: Any, a: float) -> Any:
    z = torch.empty_like(y)
    _saxpy[(triton.cdiv(len(x), 1024),)](x, y, z, a, len(x), BLOCK=1024, enable_fp_fusion=False)  # equal to numpy
    return z


@triton.jit
def _matmul(a, b, c, m, n, depth, BLOCK: tl.constexpr, DEEP: tl.constexpr):
    rows, columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, depth, DEEP):
        k = start + tl.arange(0, DEEP)
        left = tl.load(a + rows[:, None] * depth + k[None, :], mask=(rows[:, None] < m) & (k[None, :] < depth), other=0.0)
        right = tl.load(b + k[:, None] * n + columns[None, :], mask=(k[:, None] < depth) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def matmul(a: Any, b: Any) -> Any:
    (m, depth), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    _matmul[(triton.cdiv(m, 64), triton.cdiv(n, 64))](a, b, c, m, n, depth, BLOCK=64, DEEP=32)
    return c


@triton.jit
def _sums(x, sums, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


def reduction(x: Any) -> Any:
    while len(x) > 1:
        blocks = triton.cdiv(len(x), 4096)
        sums = torch.empty(blocks, dtype=torch.float32, device=x.device)
        _sums[(blocks,)](x, sums, len(x), BLOCK=4096)
        x = sums
    return x


@triton.jit
def _normal_below(x):
    k = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    w = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    above = 0.3989422804 * tl.exp(-0.5 * x * x) * w
    return tl.where(x >= 0.0, 1.0 - above, above)


@triton.jit
def _prices(spots, strikes, times, call, put, rate, sigma, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    spot, strike = tl.load(spots + i, mask=inside, other=1.0), tl.load(strikes + i, mask=inside, other=1.0)
    years = tl.load(times + i, mask=inside, other=1.0)
    deviation = sigma * tl.sqrt(years)
    d1 = (tl.log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / deviation
    a, b = _normal_below(d1), _normal_below(d1 - deviation)
    discounted = strike * tl.exp(-rate * years)
    tl.store(call + i, spot * a - discounted * b, mask=inside)
    tl.store(put + i, discounted * (1.0 - b) - spot * (1.0 - a), mask=inside)


def black_scholes(spot: Any, strike: Any, years: Any) -> tuple[Any, Any]:
    call, put = torch.empty_like(spot), torch.empty_like(spot)
    _prices[(triton.cdiv(len(spot), 1024),)](spot, strike, years, call, put, 0.02, 0.3, len(spot), BLOCK=1024)
    return call, put


@triton.jit
def _accelerate(places, speeds, step, n, BLOCK: tl.constexpr, OTHERS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x, y = tl.load(places + 3 * i, mask=inside, other=0.0), tl.load(places + 3 * i + 1, mask=inside, other=0.0)
    z = tl.load(places + 3 * i + 2, mask=inside, other=0.0)
    ax, ay, az = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, OTHERS):
        j = start + tl.arange(0, OTHERS)
        there = j < n
        dx = tl.load(places + 3 * j, mask=there, other=0.0)[None, :] - x[:, None]
        dy = tl.load(places + 3 * j + 1, mask=there, other=0.0)[None, :] - y[:, None]
        dz = tl.load(places + 3 * j + 2, mask=there, other=0.0)[None, :] - z[:, None]
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + 0.0004)
        w = tl.where(there[None, :], inverse * inverse * inverse, 0.0)
        ax += tl.sum(dx * w, axis=1)
        ay += tl.sum(dy * w, axis=1)
        az += tl.sum(dz * w, axis=1)
    tl.store(speeds + 3 * i, tl.load(speeds + 3 * i, mask=inside) + ax * step, mask=inside)
    tl.store(speeds + 3 * i + 1, tl.load(speeds + 3 * i + 1, mask=inside) + ay * step, mask=inside)
    tl.store(speeds + 3 * i + 2, tl.load(speeds + 3 * i + 2, mask=inside) + az * step, mask=inside)


@triton.jit
def _move(places, speeds, step, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(places + i, tl.load(places + i, mask=inside) + tl.load(speeds + i, mask=inside) * step, mask=inside)


def nbody(places: Any, speeds: Any) -> Any:
    places, speeds = places.clone(), speeds.clone()
    n = len(places)
    for _ in range(20):
        _accelerate[(triton.cdiv(n, 16),)](places, speeds, 0.002 / n, n, BLOCK=16, OTHERS=128)
        _move[(triton.cdiv(3 * n, 256),)](places, speeds, 0.002, 3 * n, BLOCK=256)
    return places


@triton.jit
def _turns_to_leave(turns, side, left, top, step, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cr, ci = left + (at % side).to(tl.float32) * step, top + (at // side).to(tl.float32) * step
    zr, zi = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    found = tl.zeros([BLOCK], tl.int32)
    turn = 0
    some = tl.sum(found) == 0
    while (turn < limit) & some:
        inside = zr * zr + zi * zi <= 4.0
        following = zr * zr - zi * zi + cr
        zi = tl.where(inside, 2.0 * zr * zi + ci, zi)
        zr = tl.where(inside, following, zr)
        found += inside.to(tl.int32)
        some = tl.max(inside.to(tl.int32)) > 0
        turn += 1
    tl.store(turns + at, found, mask=at < side * side)


def mandelbrot(side: int, left: float, top: float, step: float) -> Any:
    turns = torch.empty((side, side), dtype=torch.int32, device=device())
    # One warp to a block, which goes on until its last point has left; the turns have to equal numpy's.
    blocks = (triton.cdiv(side * side, 32),)
    _turns_to_leave[blocks](turns, side, left, top, step, 200, BLOCK=32, num_warps=1, enable_fp_fusion=False)
    return turns


@triton.jit
def _payoff(normal):
    return tl.maximum(100.0 * tl.exp(0.01 + 0.2 * normal) - 105.0, 0.0)


@triton.jit
def _two_payoffs(a, b):
    radius = tl.sqrt(-2.0 * tl.log(((a >> 8).to(tl.float32) + 0.5) * 5.9604645e-8))
    angle = (b >> 8).to(tl.float32) * 3.7450702e-7
    return _payoff(radius * tl.cos(angle)) + _payoff(radius * tl.sin(angle))


@triton.jit
def _sum_payoffs(sums, turns, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    zero = tl.zeros([BLOCK], tl.uint32)
    for turn in range(turns):
        a, b, c, d = tl.philox(0x85A308D3243F6A88, i.to(tl.uint32), zero + turn, zero, zero)
        total += _two_payoffs(a, b) + _two_payoffs(c, d)
    tl.store(sums + i, total, mask=i < n)


def monte_carlo(invocations: int) -> Any:
    sums = torch.empty(invocations, dtype=torch.float32, device=device())
    _sum_payoffs[(triton.cdiv(invocations, 128),)](sums, 16, invocations, BLOCK=128)
    return sums


PROGRAMS: dict[str, Callable[..., Any]] = {
    "saxpy": saxpy,
    "matmul": matmul,
    "reduction": reduction,
    "black_scholes": black_scholes,
    "nbody": nbody,
    "mandelbrot": mandelbrot,
    "monte_carlo": monte_carlo,
}
