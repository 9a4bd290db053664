"""Open so many drivers at once, use each, close every second one and then the others backwards; prints what came of it.

Usage: many_drivers.py COUNT
"""

from __future__ import annotations

import json
import sys

import numpy as np

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed
from vyre_driver.spirv.shipped import shipped_module

X = np.arange(8, dtype=np.float32)


def main(count: int) -> None:
    drivers: list[Driver] = []
    refusal = None
    try:
        while len(drivers) < count:
            drivers.append(Driver())
    except DispatchFailed as refused:  # the Vulkan driver's own limit
        refusal = str(refused)
    module, right = shipped_module("saxpy"), 0
    for number, driver in enumerate(drivers):
        got = driver.compile(module)(X, X, push_constants={"alpha": number, "count": X.size})
        right += bool(np.array_equal(got, number * X + X))
    for driver in [*drivers[::2], *reversed(drivers[1::2])]:
        driver.close()
        right -= driver.context.device.layer.is_alive
    with Driver() as last:
        usable = bool(np.array_equal(last.compile(module)(X, X, push_constants={"alpha": 2, "count": X.size}), 3 * X))
    found = {"opened": len(drivers), "right": right, "refusal": refusal, "usable": usable}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
