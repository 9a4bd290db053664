"""Heat in a plate whose edge stays as it is: 100 steps from one buffer into another and back, as one submission."""

import numpy as np
from checked import run_checked, tell
from picture import coloured, write_png

from vyre_driver.lang import In, Index, Out, default_driver, f32, kernel

SIZE = 512
STEPS = 100
RATE = 0.2


@kernel
def warm(i: Index, j: Index, now: In[f32], then: Out[f32], rate: f32):
    height, width = now.shape
    if 0 < i < height - 1 and 0 < j < width - 1:
        around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
        then[i, j] = now[i, j] + rate * (around - 4.0 * now[i, j])
    else:
        then[i, j] = now[i, j]


def data(size):
    """Return a cold plate with a warm edge above and two hot spots."""
    plate = np.zeros((size, size), np.float32)
    plate[0] = 50
    plate[size // 3 : size // 2, size // 5 : size // 3] = 100
    plate[size // 2 : size // 2 + 8, size // 2 : size - 8] = 80
    return (plate,)


def compute(plate):
    driver = default_driver()
    now, then = driver.buffer(plate), driver.empty(plate.shape, np.float32)
    there, back = warm.bind(now, then, RATE), warm.bind(then, now, RATE)
    with driver.batch() as batch:
        for _ in range(STEPS // 2):
            batch.add(there)
            batch.add(back)
    return now.read()


def expected(plate):
    now = plate.copy()
    for _ in range(STEPS):
        inner = now[1:-1, 1:-1]
        around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        then = now.copy()
        then[1:-1, 1:-1] = inner + np.float32(RATE) * (around - np.float32(4) * inner)
        now = then
    return now


def run(size=SIZE):
    return run_checked(data(size), compute, expected, atol=1e-3)


def main():
    found = run()
    tell(f"{STEPS} steps of heat in {SIZE} x {SIZE} cells", found)
    write_png("heat.png", coloured(found.result))


if __name__ == "__main__":
    main()
