"""c = a @ b in tiles: a workgroup of 16 x 16 loads a tile of each matrix into memory that it shares, and multiplies them there.

Matrices of any size: an element that a tile has beyond its matrix is loaded as 0, and one beyond ``c`` is not stored.
"""

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import Group, In, Out, cdiv, f32, fma, kernel

SIZE = 512
TILE = 16


@kernel(signature="(m,k),(k,n)->(m,n)", over="m, n")
def matmul(g: Group[TILE, TILE], a: In[f32], b: In[f32], c: Out[f32]):
    tile_a, tile_b = g.shared(f32, TILE, TILE), g.shared(f32, TILE, TILE)
    row, column = g.index
    y, x = g.local
    total = 0.0
    for t in range(cdiv(a.shape[1], TILE)):
        tile_a[y, x] = a[row, t * TILE + x]
        tile_b[y, x] = b[t * TILE + y, column]
        g.barrier()
        for k in range(TILE):
            total = fma(tile_a[y, k], tile_b[k, x], total)
        g.barrier()
    c[row, column] = total


def data(size):
    random = np.random.default_rng(0)
    return random.random((size, size + 7), np.float32), random.random((size + 7, size), np.float32)


def compute(a, b):
    return matmul(a, b)  # the signature says what shape c has


def expected(a, b):
    return a @ b


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-4)


def main():
    tell(f"product of matrices of {SIZE} rows", run())


if __name__ == "__main__":
    main()
