"""Conway's game of life on a torus, in bytes: 100 generations as one submission."""

import numpy as np
from checked import run_checked, tell
from picture import write_png

from vyre_driver.lang import In, Index, Out, default_driver, kernel, static_range, u8

SIZE = 512
GENERATIONS = 100


@kernel
def generation(i: Index, j: Index, now: In[u8], then: Out[u8]):
    height, width = now.shape
    rows = ((i - 1) % height, i, (i + 1) % height)  # % is Python's: -1 % n is n - 1
    columns = ((j - 1) % width, j, (j + 1) % width)
    alive = 0
    for y in static_range(3):
        for x in static_range(3):
            alive += now[rows[y], columns[x]]
    then[i, j] = 1 if alive == 3 or (alive == 4 and now[i, j] == 1) else 0


def data(size):
    return (np.random.default_rng(0).integers(0, 2, (size, size), np.uint8),)


def compute(cells):
    driver = default_driver()
    now, then = driver.buffer(cells), driver.empty(cells.shape, np.uint8)
    there, back = generation.bind(now, then), generation.bind(then, now)
    with driver.batch() as batch:
        for _ in range(GENERATIONS // 2):
            batch.add(there)
            batch.add(back)
    return now.read()


def expected(cells):
    for _ in range(GENERATIONS):
        rows = cells + np.roll(cells, 1, 0) + np.roll(cells, -1, 0)
        alive = rows + np.roll(rows, 1, 1) + np.roll(rows, -1, 1)
        cells = ((alive == 3) | ((alive == 4) & (cells == 1))).astype(np.uint8)
    return cells


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    found = run()
    tell(f"{GENERATIONS} generations of {SIZE} x {SIZE} cells", found)
    write_png("life.png", found.result * 255)


if __name__ == "__main__":
    main()
