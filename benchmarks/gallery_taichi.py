"""Programs of examples/gallery in Taichi, on its Vulkan backend; arrays on the device are ``ti.ndarray``.

Each takes what ``data`` of its program returns, with the arrays on the device, and makes its results once. It returns what
launches its kernels, and its results. A program of one kernel takes arrays of numpy too, which Taichi itself moves there and
back. Taichi reads the types of a kernel from its annotations, which therefore are no strings.
"""

import functools
import os

import numpy as np
import taichi as ti  # type: ignore[import-not-found] # where it is installed

os.environ["TI_SKIP_VERSION_CHECK"] = "ON"  # which asks a server, on a thread beside what is timed
# Kernels are compiled anew in each process, before anything is timed.
ti.init(arch=ti.vulkan, offline_cache=False, log_level=ti.ERROR)
if ti.lang.impl.current_cfg().arch != ti.vulkan:
    raise NotImplementedError("Taichi finds no Vulkan device, and fell back to the processor")

FLOATS = ti.types.ndarray(dtype=ti.f32, ndim=1)
GRID = ti.types.ndarray(dtype=ti.f32, ndim=2)
INTEGERS = ti.types.ndarray(dtype=ti.i32, ndim=1)
TYPES = {"float32": ti.f32, "int32": ti.i32, "uint8": ti.u8}
TILE = 16
WIDTH = 256
EACH = 8


def upload(array):
    there = ti.ndarray(TYPES[array.dtype.name], array.shape)
    there.from_numpy(array)
    return there


def write(there, array):
    there.from_numpy(array)


def download(there):
    return there.to_numpy()


wait = ti.sync


def on_device(dtype, shape):
    return ti.ndarray(dtype, shape)


def on_host(dtype, shape):
    return np.empty(shape, np.int32 if dtype == ti.i32 else np.float32)


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


@ti.kernel
def _matmul(a: GRID, b: GRID, c: GRID):
    rows, depth, columns = a.shape[0], a.shape[1], b.shape[1]
    across = (columns + TILE - 1) // TILE
    ti.loop_config(block_dim=TILE * TILE)
    for at in range((rows + TILE - 1) // TILE * across * TILE * TILE):
        tile_a = ti.simt.block.SharedArray((TILE, TILE), ti.f32)
        tile_b = ti.simt.block.SharedArray((TILE, TILE), ti.f32)
        block, y, x = at // (TILE * TILE), at // TILE % TILE, at % TILE
        row, column = block // across * TILE + y, block % across * TILE + x
        total = 0.0
        for t in range((depth + TILE - 1) // TILE):
            tile_a[y, x] = 0.0
            tile_b[y, x] = 0.0
            if row < rows and t * TILE + x < depth:
                tile_a[y, x] = a[row, t * TILE + x]
            if t * TILE + y < depth and column < columns:
                tile_b[y, x] = b[t * TILE + y, column]
            ti.simt.block.sync()
            for k in range(TILE):
                total += tile_a[y, k] * tile_b[k, x]
            ti.simt.block.sync()
        if row < rows and column < columns:
            c[row, column] = total


def matmul(a, b, empty=on_device):
    c = empty(ti.f32, (a.shape[0], b.shape[1]))
    return lambda: _matmul(a, b, c), (c,)


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
def _sums(x: FLOATS, sums: FLOATS):
    ti.loop_config(block_dim=WIDTH)
    for at in range(sums.shape[0] * WIDTH):
        part = ti.simt.block.SharedArray((WIDTH,), ti.f32)
        block, t = at // WIDTH, at % WIDTH
        total = 0.0
        for k in range(EACH):
            here = (block * EACH + k) * WIDTH + t
            if here < x.shape[0]:
                total += x[here]
        part[t] = total
        ti.simt.block.sync()
        half = WIDTH // 2
        while half > 0:
            if t < half:
                part[t] = part[t] + part[t + half]  # += would be atomic, which shared memory has not for floats
            ti.simt.block.sync()
            half //= 2
        if t == 0:
            sums[block] = part[0]


def reduction(x):
    pairs = []
    while x.shape[0] > 1:
        sums = ti.ndarray(ti.f32, -(-x.shape[0] // (WIDTH * EACH)))
        pairs.append((x, sums))
        x = sums

    def run():
        for pair in pairs:
            _sums(*pair)

    return run, (x,)


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
def _count(values: ti.types.ndarray(dtype=ti.u8, ndim=1), counts: INTEGERS):
    for i in counts:
        counts[i] = 0
    ti.loop_config(block_dim=WIDTH)
    for at in range((values.shape[0] + WIDTH * EACH - 1) // (WIDTH * EACH) * WIDTH):
        own = ti.simt.block.SharedArray((WIDTH,), ti.i32)
        block, t = at // WIDTH, at % WIDTH
        own[t] = 0
        ti.simt.block.sync()
        for k in range(EACH):
            here = (block * EACH + k) * WIDTH + t
            if here < values.shape[0]:
                own[ti.cast(values[here], ti.i32)] += 1  # atomic
        ti.simt.block.sync()
        counts[t] += own[t]


def histogram(values, empty=on_device):
    counts = empty(ti.i32, 256)
    return lambda: _count(values, counts), (counts,)


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
}
FROM_HOST = {
    name: functools.partial(run, empty=on_host) for name, run in PROGRAMS.items() if name not in {"reduction", "nbody", "heat"}
}
