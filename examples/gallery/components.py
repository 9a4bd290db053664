"""Connected components of a picture: the least label around each pixel goes on to all that have its label, to a fixed point."""

import numpy as np
from checked import run_checked, tell
from picture import coloured, write_png

from vyre_driver.lang import In, Index, InOut, Out, atomic_min, atomic_or, default_driver, i32, kernel, u32

SIZE = 256


@kernel
def join(i: Index, j: Index, labels: In[i32], found: InOut[i32], changed: InOut[u32]):
    """Give the least label around a pixel to it, and to the pixel that its label names; the background has 0."""
    height, width = labels.shape
    own = labels[i, j]
    least = own
    if own > 0:
        if i > 0 and labels[i - 1, j] > 0:
            least = min(least, labels[i - 1, j])
        if i + 1 < height and labels[i + 1, j] > 0:
            least = min(least, labels[i + 1, j])
        if j > 0 and labels[i, j - 1] > 0:
            least = min(least, labels[i, j - 1])
        if j + 1 < width and labels[i, j + 1] > 0:
            least = min(least, labels[i, j + 1])
        atomic_min(found, (i, j), least)
        if least < own:
            atomic_min(found, ((own - 1) // width, (own - 1) % width), least)
            atomic_or(changed, 0, 1)


@kernel
def jump(i: Index, j: Index, labels: In[i32], found: Out[i32]):
    """Take the label of the pixel that a label names, which is of the same component."""
    label = labels[i, j]
    at = label - 1
    found[i, j] = labels[at // labels.shape[1], at % labels.shape[1]] if label > 0 else 0


def data(size):
    """Return blobs: smoothed noise above its mean."""
    noise = np.random.default_rng(0).random((size, size))
    for axis in (0, 1):
        noise = sum(np.roll(noise, shift, axis) for shift in range(7))
    return (noise > noise.mean(),)


def compute(picture):
    driver = default_driver()
    first = np.arange(1, picture.size + 1, dtype=np.int32).reshape(picture.shape) * picture
    now, then = driver.buffer(first), driver.buffer(first)
    changed = driver.buffer(np.ones(1, np.uint32))
    joining, jumping = join.bind(now, then, changed), jump.bind(then, now)
    while changed.read()[0]:
        changed.fill(0)
        with driver.batch() as batch:
            for _ in range(4):
                batch.add(joining)
                batch.add(jumping)
    return now.read()


def expected(picture):
    far = picture.size + 1
    labels = np.where(picture, np.arange(1, far, dtype=np.int32).reshape(picture.shape), far)
    while True:
        wide = np.pad(labels, 1, constant_values=far)
        around = np.minimum.reduce([labels, wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]])
        found = np.where(picture, around, far)
        if np.array_equal(found, labels):
            return np.where(picture, labels, 0)
        labels = found


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    found = run()
    tell(f"{len(np.unique(found.result)) - 1:,} components of {SIZE} x {SIZE} pixels", found)
    write_png("components.png", coloured(np.where(found.result > 0, found.result * 37 % 251 + 60, 0)))


if __name__ == "__main__":
    main()
