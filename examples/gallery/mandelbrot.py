"""The Mandelbrot set: how many turns a point takes to leave a circle, each in a ``while`` of its own length."""

import numpy as np
from checked import run_checked, tell
from picture import coloured, write_png

from vyre_driver.lang import Index, Out, f32, i32, kernel

SIZE = 512
LIMIT = 200


@kernel
def turns_to_leave(i: Index, j: Index, turns: Out[i32], left: f32, top: f32, step: f32, limit: i32):
    cr, ci = left + j * step, top + i * step
    zr = zi = 0.0
    n = 0
    while n < limit and zr * zr + zi * zi <= 4.0:
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        n += 1
    turns[i, j] = n


def data(size):
    return size, -2.0, -1.25, 2.5 / size


def compute(size, left, top, step):
    return turns_to_leave.over(size, size)(left=left, top=top, step=step, limit=LIMIT)


def expected(size, left, top, step):
    along = np.arange(size, dtype=np.float32) * np.float32(step)
    cr, ci = np.float32(left) + along[None, :], np.float32(top) + along[:, None]
    zr, zi = np.zeros((2, size, size), np.float32)
    turns = np.zeros((size, size), np.int32)
    for _ in range(LIMIT):
        inside = zr * zr + zi * zi <= 4.0
        turns += inside
        zr, zi = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, np.float32(2) * zr * zi + ci, zi)
    return turns


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    found = run()
    tell(f"Mandelbrot set of {SIZE} x {SIZE} points", found)
    write_png("mandelbrot.png", coloured(np.log1p(found.result) * (found.result < LIMIT)))


if __name__ == "__main__":
    main()
