"""Programs of examples/gallery in Taichi, on its Vulkan backend; arrays on the device are ``ti.ndarray``.

Each takes what ``data`` of its program returns, with the arrays on the device, and makes its results once. It returns what
launches its kernels, and its results. A program of one kernel takes arrays of numpy too, which Taichi itself moves there and
back. Taichi reads the types of a kernel from its annotations, which therefore are no strings.
"""

import functools

import taichi as ti  # type: ignore[import-not-found] # where it is installed

from benchmarks.gallery_taichi_arrays import FLOATS, GRID, INTEGERS, on_device, on_host
from benchmarks.gallery_taichi_blocks import histogram, kmeans, matmul, reduction, scan


@ti.func
def rounded(product, zero):
    """Return a product as numpy rounds it: an operation on its bits keeps a compiler from fusing it with a sum."""
    return ti.bit_cast(ti.bit_cast(product, ti.i32) ^ zero, ti.f32)


@ti.kernel
def _saxpy(x: FLOATS, y: FLOATS, z: FLOATS, a: ti.f32, zero: ti.i32):
    for i in z:
        z[i] = rounded(a * x[i], zero) + y[i]


def saxpy(x, y, a, empty=on_device):
    z = empty(ti.f32, y.shape)
    return lambda: _saxpy(x, y, z, a, 0), (z,)


@ti.kernel
def _turns_to_leave(
    turns: ti.types.ndarray(dtype=ti.i32, ndim=2), left: ti.f32, top: ti.f32, step: ti.f32, limit: ti.i32, zero: ti.i32
):
    for i, j in turns:
        cr, ci = left + rounded(j * step, zero), top + rounded(i * step, zero)
        zr, zi, n = 0.0, 0.0, 0
        while n < limit:
            rr, ii = rounded(zr * zr, zero), rounded(zi * zi, zero)
            if rr + ii > 4.0:
                break
            zi = rounded(2.0 * zr * zi, zero) + ci
            zr = rr - ii + cr
            n += 1
        turns[i, j] = n


def mandelbrot(side, left, top, step, empty=on_device):
    turns = empty(ti.i32, (side, side))
    return lambda: _turns_to_leave(turns, left, top, step, 200, 0), (turns,)


@ti.func
def normal_below(x):
    k = 1.0 / (1.0 + 0.2316419 * abs(x))
    w = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    above = 0.3989422804 * ti.exp(-0.5 * x * x) * w
    return 1.0 - above if x >= 0.0 else above


@ti.kernel
def _prices(spot: FLOATS, strike: FLOATS, years: FLOATS, call: FLOATS, put: FLOATS, rate: ti.f32, sigma: ti.f32):
    for i in spot:
        deviation = sigma * ti.sqrt(years[i])
        d1 = (ti.log(spot[i] / strike[i]) + (rate + 0.5 * sigma * sigma) * years[i]) / deviation
        a, b = normal_below(d1), normal_below(d1 - deviation)
        discounted = strike[i] * ti.exp(-rate * years[i])
        call[i] = spot[i] * a - discounted * b
        put[i] = discounted * (1.0 - b) - spot[i] * (1.0 - a)


def black_scholes(spot, strike, years, empty=on_device):
    call, put = empty(ti.f32, spot.shape), empty(ti.f32, spot.shape)
    return lambda: _prices(spot, strike, years, call, put, 0.02, 0.3), (call, put)


@ti.kernel
def _accelerate(places: GRID, speeds: GRID, step: ti.f32):
    ti.loop_config(block_dim=32)
    for i in range(places.shape[0]):
        here = ti.Vector([places[i, 0], places[i, 1], places[i, 2]])
        pull = ti.Vector([0.0, 0.0, 0.0])
        for j in range(places.shape[0]):
            away = ti.Vector([places[j, 0], places[j, 1], places[j, 2]]) - here
            inverse = ti.rsqrt(away.dot(away) + 0.0004)
            pull += away * (inverse * inverse * inverse)
        for axis in ti.static(range(3)):
            speeds[i, axis] = speeds[i, axis] + pull[axis] * step  # += would be atomic


@ti.kernel
def _move(places: GRID, speeds: GRID, step: ti.f32):
    for i, axis in places:
        places[i, axis] = places[i, axis] + speeds[i, axis] * step


def nbody(places, speeds):
    count = places.shape[0]

    def run():
        for _ in range(20):
            _accelerate(places, speeds, 0.002 / count)
            _move(places, speeds, 0.002)

    return run, (places,)


@ti.kernel
def _convolve(source: GRID, weights: GRID, found: GRID):
    for i, j in source:
        total = 0.0
        for di, dj in ti.static(ti.ndrange((-2, 3), (-2, 3))):
            y = ti.math.clamp(i + di, 0, source.shape[0] - 1)
            x = ti.math.clamp(j + dj, 0, source.shape[1] - 1)
            total += source[y, x] * weights[di + 2, dj + 2]
        found[i, j] = total


def conv2d(source, weights, empty=on_device):
    found = empty(ti.f32, source.shape)
    return lambda: _convolve(source, weights, found), (found,)


@ti.func
def pixel(picture: ti.template(), i, j):
    found = 0.0
    if 0 <= i < picture.shape[0] and 0 <= j < picture.shape[1]:
        found = picture[i, j]
    return found


@ti.kernel
def _edges(picture: GRID, strength: GRID):
    for i, j in picture:
        right = pixel(picture, i - 1, j + 1) + 2.0 * pixel(picture, i, j + 1) + pixel(picture, i + 1, j + 1)
        left = pixel(picture, i - 1, j - 1) + 2.0 * pixel(picture, i, j - 1) + pixel(picture, i + 1, j - 1)
        below = pixel(picture, i + 1, j - 1) + 2.0 * pixel(picture, i + 1, j) + pixel(picture, i + 1, j + 1)
        above = pixel(picture, i - 1, j - 1) + 2.0 * pixel(picture, i - 1, j) + pixel(picture, i - 1, j + 1)
        strength[i, j] = ti.sqrt((right - left) ** 2 + (below - above) ** 2)


def sobel(picture, empty=on_device):
    strength = empty(ti.f32, picture.shape)
    return lambda: _edges(picture, strength), (strength,)


@ti.kernel
def _warm(now: GRID, then: GRID, rate: ti.f32):
    for i, j in now:
        warmth = now[i, j]
        if 0 < i < now.shape[0] - 1 and 0 < j < now.shape[1] - 1:
            warmth += rate * (now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j])
        then[i, j] = warmth


def heat(now):
    then = ti.ndarray(ti.f32, now.shape)

    def run():
        for _ in range(50):
            _warm(now, then, 0.2)
            _warm(then, now, 0.2)

    return run, (now,)


@ti.kernel
def _product(values: FLOATS, columns: INTEGERS, starts: INTEGERS, x: FLOATS, y: FLOATS):
    for i in y:
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total


def spmv(values, columns, starts, x, empty=on_device):
    y = empty(ti.f32, x.shape)
    return lambda: _product(values, columns, starts, x, y), (y,)


@ti.func
def high_product(a, b):
    return ti.cast(ti.cast(a, ti.u64) * ti.cast(b, ti.u64) >> 32, ti.u32)


@ti.func
def payoff(normal):
    return ti.max(100.0 * ti.exp(0.01 + 0.2 * normal) - 105.0, 0.0)


@ti.func
def two_payoffs(a, b):
    radius = ti.sqrt(-2.0 * ti.log((ti.cast(a >> 8, ti.f32) + 0.5) * 5.9604645e-8))
    angle = ti.cast(b >> 8, ti.f32) * 3.7450702e-7
    return payoff(radius * ti.cos(angle)) + payoff(radius * ti.sin(angle))


@ti.kernel
def _sum_payoffs(sums: FLOATS, turns: ti.i32):
    m0, m1 = ti.u32(0xD2511F53), ti.u32(0xCD9E8D57)
    for i in sums:
        total = 0.0
        for turn in range(turns):
            a, b, c, d = ti.cast(i, ti.u32), ti.cast(turn, ti.u32), ti.u32(0), ti.u32(0)
            k0, k1 = ti.u32(0x243F6A88), ti.u32(0x85A308D3)
            for _ in ti.static(range(10)):
                high0, low0, high1, low1 = high_product(m0, a), m0 * a, high_product(m1, c), m1 * c
                a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
                k0, k1 = k0 + ti.u32(0x9E3779B9), k1 + ti.u32(0xBB67AE85)
            total += two_payoffs(a, b) + two_payoffs(c, d)
        sums[i] = total


def monte_carlo(invocations, empty=on_device):
    sums = empty(ti.f32, invocations)
    return lambda: _sum_payoffs(sums, 16), (sums,)


PROGRAMS = {
    "saxpy": saxpy,
    "mandelbrot": mandelbrot,
    "matmul": matmul,
    "black_scholes": black_scholes,
    "reduction": reduction,
    "nbody": nbody,
    "histogram": histogram,
    "conv2d": conv2d,
    "sobel": sobel,
    "heat": heat,
    "spmv": spmv,
    "kmeans": kmeans,
    "monte_carlo": monte_carlo,
    "scan": scan,
}
SEVERAL_KERNELS = {"reduction", "nbody", "heat", "kmeans", "scan"}
FROM_HOST = {name: functools.partial(run, empty=on_host) for name, run in PROGRAMS.items() if name not in SEVERAL_KERNELS}
