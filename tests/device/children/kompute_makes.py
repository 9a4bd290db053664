"""Everything of a driver that makes memory and pipelines, once: test_device_kompute_makes.py looks who calls Vulkan for it."""

from __future__ import annotations

import numpy as np

from vyre_driver import Driver, kernels
from vyre_driver.lang import In, Index, Out, f32, kernel
from vyre_driver.spirv.shipped import shipped_module


@kernel
def double(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] * 2.0


def main() -> None:
    x = np.arange(1 << 20, dtype=np.float32)
    with Driver() as driver:
        short = [driver.buffer(x[:count]) for count in (1, 1000, 1000, 300_000)]
        driver.zeros(70 << 20, np.uint8).close()
        saxpy = kernels.saxpy(driver)
        saxpy(x, x, alpha=2.0)
        saxpy.bind(short[1], short[2], out=short[2], alpha=2.0).run()
        bound = driver.compile(shipped_module("saxpy")).bind(short[1], short[2], push_constants={"alpha": 2.0, "count": 1000})
        bound.submit().result()
        batch = driver.batch()
        batch.add(bound)
        batch.run()
        double.on(driver)(x)
        pinned = driver.pinned(1 << 20, np.float32)
        driver.buffer(pinned).read(out=pinned)
        kernels.reduce_sum(driver)(x)
        driver.trim()


if __name__ == "__main__":
    main()
