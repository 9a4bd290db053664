"""Counts of byte values: each workgroup counts 2,048 bytes with atomics in memory of its own, and adds its counts to all."""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import Group, In, InOut, atomic_add, cdiv, kernel, u8, u32

SIZE = 1 << 22
BINS = 256
EACH = 8  # bytes an invocation


@kernel
def histogram(g: Group[BINS], values: In[u8], counts: InOut[u32]):
    own = g.shared(u32, BINS)  # zeros
    for k in range(EACH):
        at = (g.id * EACH + k) * BINS + g.local
        if at < len(values):
            atomic_add(own, values[at], 1)
    g.barrier()
    atomic_add(counts, g.local, own[g.local])


def data(size):
    values = np.random.default_rng(0).normal(128, 30, size)
    return (values.clip(0, 255).astype(np.uint8),)


def compute(values):
    groups = cdiv(len(values), BINS * EACH)
    return histogram.groups(groups)(values, np.zeros(BINS, np.uint32))


def expected(values):
    return np.bincount(values, minlength=BINS)


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    tell(f"histogram of {SIZE:,} bytes", run())


if __name__ == "__main__":
    main()
