"""Programs of examples/gallery in Taichi whose kernels are written for blocks, with memory that a block shares.

They have the form of those in ``gallery_taichi``.
"""

import taichi as ti  # type: ignore[import-not-found] # where it is installed

from benchmarks.gallery_taichi_arrays import FLOATS, GRID, INTEGERS, WORDS, on_device

TILE = 16
WIDTH = 256
EACH = 8


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
def _assign(points: GRID, centres: GRID, labels: INTEGERS):
    for i in labels:
        nearest, least = 0, ti.math.inf
        for k in range(centres.shape[0]):
            distance = (points[i, 0] - centres[k, 0]) ** 2 + (points[i, 1] - centres[k, 1]) ** 2
            if distance < least:
                nearest, least = k, distance
        labels[i] = nearest


@ti.kernel
def _average(points: GRID, labels: INTEGERS, centres: GRID):
    ti.loop_config(block_dim=WIDTH)
    for at in range(centres.shape[0] * WIDTH):
        sums = ti.simt.block.SharedArray((3, WIDTH), ti.f32)
        centre, t = at // WIDTH, at % WIDTH
        total = ti.Vector([0.0, 0.0, 0.0])
        for turn in range((labels.shape[0] + WIDTH - 1) // WIDTH):
            i = turn * WIDTH + t
            if i < labels.shape[0] and labels[i] == centre:
                total += ti.Vector([points[i, 0], points[i, 1], 1.0])
        for row in ti.static(range(3)):
            sums[row, t] = total[row]
        ti.simt.block.sync()
        half = WIDTH // 2
        while half > 0:
            if t < half:
                for row in ti.static(range(3)):
                    sums[row, t] = sums[row, t] + sums[row, t + half]
            ti.simt.block.sync()
            half //= 2
        if t < 2:
            centres[centre, t] = sums[t, 0] / sums[2, 0]


def kmeans(points, centres):
    labels = ti.ndarray(ti.i32, points.shape[0])

    def run():
        for _ in range(10):
            _assign(points, centres, labels)
            _average(points, labels, centres)

    return run, (labels, centres)


@ti.kernel
def _sums_in_blocks(values: WORDS, sums: WORDS, totals: WORDS):
    ti.loop_config(block_dim=WIDTH)
    for i in range(totals.shape[0] * WIDTH):
        part = ti.simt.block.SharedArray((WIDTH,), ti.u32)
        t = i % WIDTH
        total = ti.u32(0)
        if i < values.shape[0]:
            total = values[i]
        part[t] = total
        ti.simt.block.sync()
        for k in ti.static(range(8)):
            before = ti.u32(0)
            if t >= 1 << k:
                before = part[t - (1 << k)]
            ti.simt.block.sync()
            total += before
            part[t] = total
            ti.simt.block.sync()
        if i < sums.shape[0]:
            sums[i] = total
        if t == WIDTH - 1:
            totals[i // WIDTH] = total


@ti.kernel
def _add_totals(sums: WORDS, totals: WORDS):
    for i in sums:
        if i >= WIDTH:
            sums[i] = sums[i] + totals[i // WIDTH - 1]


def running_sums(values):
    """Return what launches the kernels, and where the running sums are."""
    blocks = -(-values.shape[0] // WIDTH)
    sums, totals = ti.ndarray(ti.u32, values.shape), ti.ndarray(ti.u32, blocks)
    if blocks == 1:
        return lambda: _sums_in_blocks(values, sums, totals), sums
    of_totals, found = running_sums(totals)

    def run():
        _sums_in_blocks(values, sums, totals)
        of_totals()
        _add_totals(sums, found)

    return run, sums


def scan(values):
    run, sums = running_sums(values)
    return run, (sums,)
