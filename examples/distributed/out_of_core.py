"""An array larger than memory, normalised, smoothed, counted and clustered on every GPU: out_of_core.py --size 2GiB."""

import argparse
import tempfile

import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from vyre_driver import kernels
from vyre_driver.distributed import FleetPool, LocalFleet, from_npy, map_blocks, plan_chunks, reduce_blocks, store_regions
from vyre_driver.lang import In, Index, Out, elementwise, f32, kernel, select, u8, u32

COLUMNS = 1024


@elementwise
def square(x: f32) -> f32:
    return x * x


@kernel
def smooth(i: Index, x: In[f32], y: Out[u32], mean: f32, scale: f32) -> None:
    around = 2.0 * x[i] + x[i - select(i % COLUMNS > 0, 1, 0)] + x[i + select(i % COLUMNS < COLUMNS - 1, 1, 0)]
    y[i] = u32(min(max((around * 0.25 - mean) * scale * 40.0 + 128.0, 0.0), 255.0))


@elementwise
def nearest(x: u32, a: f32, b: f32, c: f32) -> u8:
    return u8(f32(x) > a) + u8(f32(x) > b) + u8(f32(x) > c)


def bounds_of_clusters(counts: np.ndarray) -> dict[str, float]:
    centres, values = np.linspace(64, 192, 4), np.arange(256)
    for _ in range(20):  # k-means of all elements, for which their histogram is enough
        own = np.abs(values[:, None] - centres).argmin(axis=1)
        centres = np.array([np.average(values[own == k], weights=counts[own == k] + 1e-9) for k in range(4)])
    return dict(zip("abc", (centres[1:] + centres[:-1]) / 2, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=parse_bytes, default="1GiB", help="of the array, which lies in a file of TMPDIR")
    parser.add_argument("--processes", type=int, default=0, help="that share the first device (default: one for each GPU)")
    given = parser.parse_args()
    with LocalFleet([0] * given.processes or None) as fleet, tempfile.TemporaryDirectory() as folder:
        pool, rows = FleetPool(fleet.client), given.size // (4 * COLUMNS)
        lines = plan_chunks(pool, (rows, COLUMNS), "f4", buffers=3, whole=[1], aim_bytes=64 << 20)[0]
        chunks = (tuple(COLUMNS * one for one in lines),)
        noise = da.random.default_rng(1).standard_normal(rows * COLUMNS, chunks=chunks, dtype="f4")
        store_regions(fleet.client, 3 + 2 * noise, f"{folder}/x.npy")
        x, total, squared = from_npy(f"{folder}/x.npy", chunks), pool.compile(kernels.reduce_sum), pool.compile(square)
        sums = [reduce_blocks(chain, x, shape=(), dtype="f8") for chain in ([total], [squared, total])]
        mean, power = (float(one) / (rows * COLUMNS) for one in da.compute(*sums))
        smoothed = pool.compile(smooth), {"mean": mean, "scale": float((power - mean**2) ** -0.5)}
        counts = reduce_blocks([smoothed, pool.compile(kernels.histogram)], x, shape=(256,), dtype="u8").compute()
        labels = map_blocks([smoothed, (pool.compile(nearest), bounds_of_clusters(counts))], x, dtype="u1")
        store_regions(fleet.client, labels, f"{folder}/y.npy")
        print(f"{rows:,} rows, mean {mean:.4f}, {counts.sum():,} counted\n{pool.report()}")
