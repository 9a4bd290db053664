"""A sparse matrix times a vector, by rows as scipy's ``csr_matrix`` has them: each in a loop of its own length."""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import In, Index, Out, f32, i32, kernel

SIZE = 1 << 16
MOST = 32  # elements in a row


@kernel
def product(i: Index, values: In[f32], columns: In[i32], starts: In[i32], x: In[f32], y: Out[f32]):
    total = 0.0
    for k in range(starts[i], starts[i + 1]):
        total += values[k] * x[columns[k]]
    y[i] = total


def data(size):
    random = np.random.default_rng(0)
    starts = np.zeros(size + 1, np.int32)
    np.cumsum(random.integers(0, MOST, size), out=starts[1:])
    columns = random.integers(0, size, starts[-1]).astype(np.int32)
    return random.random(len(columns), np.float32), columns, starts, random.random(size, np.float32)


def compute(values, columns, starts, x):
    return product.over(len(x))(values, columns, starts, x)


def expected(values, columns, starts, x):
    sums = np.concatenate([[0], np.cumsum(values * x[columns], dtype=np.float64)])
    return sums[starts[1:]] - sums[starts[:-1]]


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-5, atol=1e-6)


def main():
    tell(f"product of a sparse matrix of {SIZE:,} rows", run())


if __name__ == "__main__":
    main()
