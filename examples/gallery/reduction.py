"""A sum: each workgroup sums 2,048 numbers as a tree in shared memory, and the sums are summed so until one is left."""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import Group, In, Out, cdiv, default_driver, f32, kernel, static_range

SIZE = 1 << 22
WIDTH = 256
EACH = 8  # numbers an invocation


@kernel
def sums_of_groups(g: Group[WIDTH], x: In[f32], sums: Out[f32]):
    part = g.shared(f32, WIDTH)
    t = g.local
    total = 0.0
    for k in range(EACH):
        total += x[(g.id * EACH + k) * WIDTH + t]  # beyond the end: 0
    part[t] = total
    g.barrier()
    for k in static_range(8):
        half = WIDTH >> k + 1
        if t < half:
            part[t] += part[t + half]
        g.barrier()
    if t == 0:
        sums[g.id] = part[0]


def data(size):
    return (np.random.default_rng(0).random(size, np.float32),)


def compute(x):
    driver = default_driver()
    values = driver.buffer(x)  # stays on the device
    while len(values) > 1:
        groups = cdiv(len(values), WIDTH * EACH)
        values = sums_of_groups.groups(groups)(values, driver.empty(groups, np.float32))
    return values.read()


def expected(x):
    return np.array([x.sum(dtype=np.float64)])


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-6)


def main():
    tell(f"sum of {SIZE:,} numbers", run())


if __name__ == "__main__":
    main()
