"""y = a x + y: one element an invocation. The call is written as numpy's, and changes ``y`` in place."""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import In, Index, InOut, f32, kernel

SIZE = 1 << 20


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32):
    y[i] = a * x[i] + y[i]


def data(size):
    random = np.random.default_rng(0)
    return random.random(size, np.float32), random.random(size, np.float32), 2.5


def compute(x, y, a):
    return saxpy(x, y.copy(), a)


def expected(x, y, a):
    return np.float32(a) * x + y


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    tell(f"saxpy of {SIZE:,} elements", run())


if __name__ == "__main__":
    main()
