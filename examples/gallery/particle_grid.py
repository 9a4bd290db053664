"""How many particles each has near it: they are sorted into cells first, so that each looks at nine cells, not at all."""

import numpy as np
from checked import run_checked, tell
from picture import dots, write_png

from vyre_driver.lang import In, Index, InOut, Out, atomic_add, default_driver, f32, i32, kernel, u32

SIZE = 1 << 13
CELLS = 64  # along each axis of the unit square
RADIUS = 1 / CELLS


def cell_of(x, y):
    return min(i32(y * CELLS), CELLS - 1) * CELLS + min(i32(x * CELLS), CELLS - 1)


@kernel
def count(i: Index, places: In[f32], counts: InOut[u32]):
    atomic_add(counts, cell_of(places[i, 0], places[i, 1]), 1)


@kernel
def sort(i: Index, places: In[f32], ends: InOut[u32], order: Out[u32]):
    """Put each particle into the first free place of its cell; ``ends`` hold the starts before, and the ends behind."""
    slot = atomic_add(ends, cell_of(places[i, 0], places[i, 1]), 1)
    order[slot] = u32(i)


@kernel
def count_near(i: Index, places: In[f32], starts: In[u32], order: In[u32], near: Out[i32], radius: f32):
    x, y = places[i, 0], places[i, 1]
    cell = cell_of(x, y)
    row, column = cell // CELLS, cell % CELLS
    found = 0
    for r in range(max(row - 1, 0), min(row + 2, CELLS)):
        for c in range(max(column - 1, 0), min(column + 2, CELLS)):
            for k in range(starts[r * CELLS + c], starts[r * CELLS + c + 1]):
                other = order[k]
                dx, dy = places[other, 0] - x, places[other, 1] - y
                if other != i and dx * dx + dy * dy <= radius * radius:
                    found += 1
    near[i] = found


def data(size):
    random = np.random.default_rng(0)
    centres = random.random((12, 2))
    places = centres[random.integers(0, 12, size)] + random.normal(0, 0.1, (size, 2))
    return ((places % 1).astype(np.float32).clip(0, 0.9999),)


def compute(places):
    driver = default_driver()
    here, counts = driver.buffer(places), driver.buffer(np.zeros(CELLS * CELLS, np.uint32))
    count(here, counts)
    starts = np.zeros(CELLS * CELLS + 1, np.uint32)
    np.cumsum(counts.read(), out=starts[1:])
    order = driver.empty(len(places), np.uint32)
    sort(here, driver.buffer(starts[:-1]), order)
    return count_near(here, driver.buffer(starts), order, radius=RADIUS).read()


def expected(places):
    x, y = places.T
    near = np.empty(len(places), np.int32)
    for i in range(len(places)):
        dx, dy = x - x[i], y - y[i]
        near[i] = np.count_nonzero(dx * dx + dy * dy <= np.float32(RADIUS) * np.float32(RADIUS)) - 1
    return near


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    found = run()
    tell(f"neighbours of {SIZE:,} particles", found)
    write_png("particle_grid.png", dots(data(SIZE)[0], found.result, 256))


if __name__ == "__main__":
    main()
