"""Bodies that attract each other: each step sums the pull of all on each, then moves them. 20 steps are one submission."""

import numpy as np
from checked import run_checked, tell
from picture import dots, write_png

from vyre_driver.lang import In, Index, InOut, default_driver, f32, kernel, rsqrt

SIZE = 2048
STEPS = 20
STEP = 0.002
SOFT = 0.0004  # keeps the pull of close ones finite


def pull(dx, dy, dz):
    inverse = rsqrt(dx * dx + dy * dy + dz * dz + SOFT)
    return inverse * inverse * inverse


@kernel(signature="(n,3)->(n,3)")
def accelerate(i: Index, places: In[f32], speeds: InOut[f32], step: f32):
    x, y, z = places[i, 0], places[i, 1], places[i, 2]
    ax = ay = az = 0.0
    for j in range(places.shape[0]):
        dx, dy, dz = places[j, 0] - x, places[j, 1] - y, places[j, 2] - z
        w = pull(dx, dy, dz)
        ax += dx * w
        ay += dy * w
        az += dz * w
    speeds[i, 0] += ax * step
    speeds[i, 1] += ay * step
    speeds[i, 2] += az * step


@kernel(signature="(n,3)->(n,3)")
def move(i: Index, j: Index, places: InOut[f32], speeds: In[f32], step: f32):
    places[i, j] += speeds[i, j] * step


def data(size):
    """Return a turning disc."""
    random = np.random.default_rng(0)
    angle, radius = random.random(size) * 2 * np.pi, np.sqrt(random.random(size)) * 0.4
    x, y = np.cos(angle) * radius, np.sin(angle) * radius
    places = np.stack([x + 0.5, y + 0.5, random.normal(0.5, 0.02, size)], 1)
    speeds = np.stack([-y, x, np.zeros(size)], 1) * 2
    return places.astype(np.float32), speeds.astype(np.float32)


def compute(places, speeds):
    driver = default_driver()
    here, now = driver.buffer(places), driver.buffer(speeds)
    faster = accelerate.bind(here, now, STEP / len(places))
    moved = move.bind(here, now, STEP)
    with driver.batch() as batch:
        for _ in range(STEPS):
            batch.add(faster)
            batch.add(moved)
    return here.read()


def expected(places, speeds):
    places, speeds = places.copy(), speeds.copy()
    step = np.float32(STEP / len(places))
    for _ in range(STEPS):
        away = places[None, :, :] - places[:, None, :]
        w = ((away**2).sum(-1) + np.float32(SOFT)) ** np.float32(-1.5)
        speeds += np.einsum("ijk,ij->ik", away, w) * step
        places += speeds * np.float32(STEP)
    return places


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-4, atol=1e-4)


def main():
    found = run()
    tell(f"{STEPS} steps of {SIZE:,} bodies", found)
    write_png("nbody.png", dots(found.result, found.result[:, 2], 256))


if __name__ == "__main__":
    main()
