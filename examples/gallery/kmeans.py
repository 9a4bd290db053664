"""K-means: each point finds its nearest centre, then a workgroup for each centre averages its points; all one submission."""

import math

import numpy as np
from checked import run_checked, tell
from picture import dots, write_png

from vyre_driver.lang import Group, In, Index, Out, cdiv, default_driver, f32, i32, kernel, static_range

SIZE = 1 << 16
CENTRES = 16
ROUNDS = 10
WIDTH = 128


@kernel(signature="(n,d),(k,d)->(n)")
def assign(i: Index, points: In[f32], centres: In[f32], labels: Out[i32]):
    nearest, least = 0, math.inf
    for k in range(centres.shape[0]):
        distance = 0.0
        for axis in range(centres.shape[1]):
            distance += (points[i, axis] - centres[k, axis]) ** 2
        if distance < least:
            nearest, least = k, distance
    labels[i] = nearest


@kernel
def average(g: Group[WIDTH], points: In[f32], labels: In[i32], centres: Out[f32]):
    """Average the points of one centre: workgroup ``g.id`` does centre ``g.id``."""
    sums, t = g.shared(f32, 3, WIDTH), g.local
    x = y = count = 0.0
    for turn in range(cdiv(len(labels), WIDTH)):
        i = turn * WIDTH + t
        if i < len(labels) and labels[i] == g.id:
            x += points[i, 0]
            y += points[i, 1]
            count += 1.0
    sums[0, t], sums[1, t], sums[2, t] = x, y, count
    g.barrier()
    for k in static_range(7):
        half = WIDTH >> k + 1
        if t < half:
            for row in static_range(3):
                sums[row, t] += sums[row, t + half]
        g.barrier()
    if t < 2:
        centres[g.id, t] = sums[t, 0] / sums[2, 0]


def data(size):
    """Return points around 16 places, and one point of each as the first centres."""
    random = np.random.default_rng(0)
    places = np.stack(np.divmod(np.arange(CENTRES), 4), 1) / 4 + 0.125
    points = places[np.arange(size) % CENTRES] + random.normal(0, 0.02, (size, 2))
    return points.astype(np.float32), points[:CENTRES].astype(np.float32)


def compute(points, centres):
    driver = default_driver()
    all_points, found = driver.buffer(points), driver.buffer(centres)
    labels = driver.empty(len(points), np.int32)
    assigning = assign.bind(all_points, found, labels)
    averaging = average.groups(len(centres)).bind(all_points, labels, found)
    with driver.batch() as batch:
        for _ in range(ROUNDS):
            batch.add(assigning)
            batch.add(averaging)
    return labels.read(), found.read()


def expected(points, centres):
    for _ in range(ROUNDS):
        labels = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(-1).argmin(1)
        counts = np.bincount(labels, minlength=len(centres))
        sums = [np.bincount(labels, points[:, axis], len(centres)) for axis in range(2)]
        centres = (np.stack(sums, 1) / counts[:, None]).astype(np.float32)
    return labels, centres


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-4)


def main():
    found = run()
    tell(f"{ROUNDS} rounds of {SIZE:,} points and {CENTRES} centres", found)
    write_png("kmeans.png", dots(data(SIZE)[0], found.result[0] * 7 % CENTRES, 512))


if __name__ == "__main__":
    main()
