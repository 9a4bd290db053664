"""A picture blurred with weights of 5 x 5, its edge repeated outwards: the loops over the weights have constant bounds."""

import numpy as np
from checked import run_checked, tell
from picture import write_png

from vyre_driver.lang import In, Index, Out, f32, kernel

SIZE = 512
REACH = 2
WIDTH = 2 * REACH + 1


@kernel(signature=f"(h,w),({WIDTH},{WIDTH})->(h,w)")
def convolve(i: Index, j: Index, source: In[f32], weights: In[f32], result: Out[f32]):
    height, width = source.shape
    total = 0.0
    for di in range(-REACH, REACH + 1):
        for dj in range(-REACH, REACH + 1):
            y = min(max(i + di, 0), height - 1)
            x = min(max(j + dj, 0), width - 1)
            total += source[y, x] * weights[di + REACH, dj + REACH]
    result[i, j] = total


def data(size):
    """Return a noisy chessboard, and a bell of weights."""
    i, j = np.mgrid[:size, :size]
    board = ((i // 32 + j // 32) % 2).astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 0.3, board.shape).astype(np.float32)
    along = np.exp(-((np.arange(-REACH, REACH + 1) / 1.5) ** 2))
    weights = np.outer(along, along)
    return board + noise, (weights / weights.sum()).astype(np.float32)


def compute(source, weights):
    return convolve.over(*source.shape)(source, weights)


def expected(source, weights):
    height, width = source.shape
    wide = np.pad(source, REACH, mode="edge")
    shifted = [wide[di : di + height, dj : dj + width] * w for (di, dj), w in np.ndenumerate(weights)]
    return np.sum(shifted, axis=0)


def run(size=SIZE):
    return run_checked(data(size), compute, expected, atol=1e-5)


def main():
    found = run()
    tell(f"blur of {SIZE} x {SIZE} pixels", found)
    write_png("conv2d.png", np.clip(found.result * 255, 0, 255))


if __name__ == "__main__":
    main()
