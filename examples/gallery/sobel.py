"""Edges of a picture by Sobel's filter: what lies outside of the picture is 0, as is every load out of range."""

import math

import numpy as np
from checked import run_checked, tell
from picture import write_png

from vyre_driver.lang import In, Index, Out, f32, kernel

SIZE = 512


@kernel
def edges(i: Index, j: Index, picture: In[f32], strength: Out[f32]):
    right = picture[i - 1, j + 1] + 2.0 * picture[i, j + 1] + picture[i + 1, j + 1]
    left = picture[i - 1, j - 1] + 2.0 * picture[i, j - 1] + picture[i + 1, j - 1]
    below = picture[i + 1, j - 1] + 2.0 * picture[i + 1, j] + picture[i + 1, j + 1]
    above = picture[i - 1, j - 1] + 2.0 * picture[i - 1, j] + picture[i - 1, j + 1]
    dx, dy = right - left, below - above
    strength[i, j] = math.sqrt(dx * dx + dy * dy)


def data(size):
    """Return rings that grow narrower outwards."""
    i, j = np.mgrid[:size, :size] / size - 0.5
    return (np.sin(120 * (i * i + j * j)).astype(np.float32),)


def compute(picture):
    return edges(picture)


def expected(picture):
    wide = np.pad(picture, 1)
    columns = wide[:-2] + np.float32(2) * wide[1:-1] + wide[2:]
    rows = wide[:, :-2] + np.float32(2) * wide[:, 1:-1] + wide[:, 2:]
    dx, dy = columns[:, 2:] - columns[:, :-2], rows[2:] - rows[:-2]
    return np.sqrt(dx * dx + dy * dy)


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-5, atol=1e-5)


def main():
    found = run()
    tell(f"edges of {SIZE} x {SIZE} pixels", found)
    write_png("sobel.png", np.clip(found.result * 60, 0, 255))


if __name__ == "__main__":
    main()
