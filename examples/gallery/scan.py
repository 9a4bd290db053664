"""Running sums, as ``numpy.cumsum``: of 256 numbers in each workgroup, then of the totals, which are added to all."""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import Group, In, Index, InOut, Out, cdiv, default_driver, kernel, static_range, u32

SIZE = 1 << 20
WIDTH = 256


@kernel
def sums_in_groups(g: Group[WIDTH], values: In[u32], sums: Out[u32], totals: Out[u32]):
    shared = g.shared(u32, WIDTH)
    t = g.local
    total = values[g.index]
    shared[t] = total
    g.barrier()
    for k in static_range(8):
        before = u32(0)
        if t >= 1 << k:
            before = shared[t - (1 << k)]
        g.barrier()
        total += before
        shared[t] = total
        g.barrier()
    sums[g.index] = total
    if t == WIDTH - 1:
        totals[g.id] = total


@kernel
def add_totals(i: Index, sums: InOut[u32], totals: In[u32]):
    if i >= WIDTH:
        sums[i] += totals[i // WIDTH - 1]


def running_sums(values):
    """Return the running sums of a buffer, as a buffer."""
    driver = default_driver()
    groups = cdiv(len(values), WIDTH)
    sums, totals = driver.empty(len(values), np.uint32), driver.empty(groups, np.uint32)
    sums_in_groups.groups(groups)(values, sums, totals)
    return sums if groups == 1 else add_totals(sums, running_sums(totals))


def data(size):
    return (np.random.default_rng(0).integers(0, 1000, size, np.uint32),)


def compute(values):
    return running_sums(default_driver().buffer(values)).read()


def expected(values):
    return np.cumsum(values, dtype=np.uint32)


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    tell(f"running sums of {SIZE:,} numbers", run())


if __name__ == "__main__":
    main()
