"""A bitonic sort: each step compares elements whose places differ in one bit, and all steps are one submission."""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import Index, InOut, default_driver, i32, kernel, u32

SIZE = 1 << 16  # a power of two


@kernel
def exchange(i: Index, values: InOut[u32], bit: i32, run_length: i32):
    other = i ^ bit
    if other > i:
        a, b = values[i], values[other]
        if (a > b) == (i & run_length == 0):
            values[i], values[other] = b, a


def data(size):
    return (np.random.default_rng(0).integers(0, 2**32, size, np.uint32),)


def compute(values):
    driver = default_driver()
    sorted_here = driver.buffer(values)
    with driver.batch() as batch:
        run_length = 2
        while run_length <= len(values):
            bit = run_length // 2
            while bit:
                batch.add(exchange.bind(sorted_here, bit, run_length))
                bit //= 2
            run_length *= 2
    return sorted_here.read()


def expected(values):
    return np.sort(values)


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    tell(f"bitonic sort of {SIZE:,} numbers", run())


if __name__ == "__main__":
    main()
