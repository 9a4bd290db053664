"""The programs of examples/gallery in CuPy: by its library where it has one, else a kernel for elements in CUDA C.

Each takes what ``data`` of its program returns, with the arrays on the device, and leaves its results there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cupy  # type: ignore[import-not-found] # where it is installed
from cupyx.scipy import ndimage, sparse  # type: ignore[import-not-found] # the same

from benchmarks.gallery_cupy_raw import PROGRAMS as WITH_RAW_KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable

_EXACT = ("--fmad=false",)  # where the gallery asks for what numpy finds, bit for bit

_saxpy = cupy.ElementwiseKernel("float32 x, float32 y, float32 a", "float32 z", "z = a * x + y", "saxpy", options=_EXACT)

_turns_to_leave = cupy.ElementwiseKernel(
    "int32 side, float32 left, float32 top, float32 step, int32 limit",
    "int32 turns",
    """
    float cr = left + (float)(i % side) * step, ci = top + (float)(i / side) * step;
    float zr = 0.0f, zi = 0.0f;
    int n = 0;
    while (n < limit && zr * zr + zi * zi <= 4.0f) {
        float next = zr * zr - zi * zi + cr;
        zi = 2.0f * zr * zi + ci;
        zr = next;
        n++;
    }
    turns = n;
    """,
    "turns_to_leave",
    options=_EXACT,
)

_prices = cupy.ElementwiseKernel(
    "float32 spot, float32 strike, float32 years, float32 rate, float32 sigma",
    "float32 call, float32 put",
    """
    float deviation = sigma * sqrtf(years);
    float d1 = (logf(spot / strike) + (rate + 0.5f * sigma * sigma) * years) / deviation;
    float a = normal_below(d1), b = normal_below(d1 - deviation);
    float discounted = strike * expf(-rate * years);
    call = spot * a - discounted * b;
    put = discounted * (1.0f - b) - spot * (1.0f - a);
    """,
    "prices",
    preamble="""
    __device__ float normal_below(float x) {
        float k = 1.0f / (1.0f + 0.2316419f * fabsf(x));
        float w = 1.781477937f + k * (-1.821255978f + k * 1.330274429f);
        w = k * (0.319381530f + k * (-0.356563782f + k * w));
        float above = 0.3989422804f * expf(-0.5f * x * x) * w;
        return x >= 0.0f ? 1.0f - above : above;
    }
    """,
)

_sum_payoffs = cupy.ElementwiseKernel(
    "int32 turns",
    "float32 sums",
    """
    float total = 0.0f;
    for (int turn = 0; turn < turns; turn++) {
        unsigned int c[4] = {(unsigned int)i, (unsigned int)turn, 0u, 0u};
        philox(c);
        total += two_payoffs(c[0], c[1]) + two_payoffs(c[2], c[3]);
    }
    sums = total;
    """,
    "sum_payoffs",
    preamble="""
    __device__ void philox(unsigned int* c) {
        unsigned int k0 = 0x243F6A88u, k1 = 0x85A308D3u;
        for (int n = 0; n < 10; n++) {
            unsigned int high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
            unsigned int high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
            c[0] = high1 ^ c[1] ^ k0;
            c[1] = low1;
            c[2] = high0 ^ c[3] ^ k1;
            c[3] = low0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
    }
    __device__ float payoff(float normal) {
        return fmaxf(100.0f * expf(0.01f + 0.2f * normal) - 105.0f, 0.0f);
    }
    __device__ float two_payoffs(unsigned int a, unsigned int b) {
        float radius = sqrtf(-2.0f * logf(((float)(a >> 8) + 0.5f) * 5.9604645e-8f));
        float angle = (float)(b >> 8) * 3.7450702e-7f;
        return payoff(radius * cosf(angle)) + payoff(radius * sinf(angle));
    }
    """,
)


def mandelbrot(side: int, left: float, top: float, step: float) -> Any:
    return _turns_to_leave(side, left, top, step, 200, cupy.empty((side, side), cupy.int32))


def spmv(values: Any, columns: Any, starts: Any, x: Any) -> Any:
    matrix = sparse.csr_matrix((values, columns, starts), shape=(len(x), len(x)))
    matrix.has_canonical_format = True  # else each product sorts the rows first, which it does not need
    return matrix @ x


def sobel(picture: Any) -> Any:
    return cupy.hypot(ndimage.sobel(picture, 0, mode="constant"), ndimage.sobel(picture, 1, mode="constant"))


def components(picture: Any) -> Any:
    """Return for each pixel the least place in its component, counted from 1; the library's labels count components."""
    labels, count = ndimage.label(picture)
    least = cupy.full(count + 1, picture.size + 1, cupy.int32)
    cupy.minimum.at(least, labels.ravel(), cupy.arange(1, picture.size + 1, dtype=cupy.int32))
    least[0] = 0  # the background
    return least[labels]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "saxpy": _saxpy,
    "mandelbrot": mandelbrot,
    "matmul": lambda a, b: a @ b,
    "reduction": lambda x: x.sum(keepdims=True),
    "scan": lambda values: cupy.cumsum(values, dtype=cupy.uint32),
    "black_scholes": lambda spot, strike, years: _prices(spot, strike, years, 0.02, 0.3),
    "histogram": lambda values: cupy.bincount(values, minlength=256),
    "conv2d": lambda source, weights: ndimage.correlate(source, weights, mode="nearest"),
    "sobel": sobel,
    "spmv": spmv,
    "bitonic_sort": cupy.sort,
    "radix_sort": cupy.sort,
    "components": components,
    "monte_carlo": lambda invocations: _sum_payoffs(16, cupy.empty(invocations, cupy.float32)),
    **WITH_RAW_KERNELS,
}
