"""A radix sort by digits of 4 bits: workgroups count digits, running sums give each its place, and all numbers move there.

Equal digits keep their order: in a workgroup, the place of a number among those of its digit is how many bits are set before
its own in a mask of 256 bits, which the workgroup makes with atomics in shared memory.
"""

import numpy as np
from checked import run_checked, tell
from scan import running_sums

from vyre_driver.lang import (
    Group,
    In,
    Out,
    atomic_add,
    atomic_load,
    atomic_or,
    cdiv,
    default_driver,
    i32,
    kernel,
    popcount,
    u32,
)

SIZE = 1 << 18
WIDTH = 256
DIGITS = 16


@kernel
def count_digits(g: Group[WIDTH], keys: In[u32], counts: Out[u32], shift: i32):
    own = g.shared(u32, DIGITS)
    if g.index < len(keys):
        atomic_add(own, keys[g.index] >> shift & DIGITS - 1, 1)
    g.barrier()
    if g.local < DIGITS:
        counts[g.local * g.groups + g.id] = own[g.local]


@kernel
def move(g: Group[WIDTH], keys: In[u32], ends: In[u32], counts: In[u32], moved: Out[u32], shift: i32):
    masks = g.shared(u32, DIGITS, WIDTH // 32)
    word, bit = g.local // 32, g.local % 32
    key = keys[g.index]
    digit = key >> shift & DIGITS - 1
    if g.index < len(keys):
        atomic_or(masks, (digit, word), u32(1) << bit)
    g.barrier()
    if g.index < len(keys):
        place = popcount(atomic_load(masks, (digit, word)) & (u32(1) << bit) - 1)
        for before in range(word):
            place += popcount(atomic_load(masks, (digit, before)))
        at = digit * u32(g.groups) + u32(g.id)
        moved[ends[at] - counts[at] + u32(place)] = key


def data(size):
    return (np.random.default_rng(0).integers(0, 2**32, size, np.uint32),)


def compute(keys):
    driver = default_driver()
    groups = cdiv(len(keys), WIDTH)
    here, there = driver.buffer(keys), driver.empty(len(keys), np.uint32)
    counts = driver.empty(DIGITS * groups, np.uint32)
    for shift in range(0, 32, 4):
        count_digits.groups(groups)(here, counts, shift)
        ends = running_sums(counts)
        move.groups(groups)(here, ends, counts, there, shift)
        here, there = there, here
    return here.read()


def expected(keys):
    return np.sort(keys)


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    tell(f"radix sort of {SIZE:,} numbers", run())


if __name__ == "__main__":
    main()
