"""Compute saxpy and tell as JSON whether it was right, with features of the layer's, or what opening a driver raised.

Usage: report.py SAXPY.spv
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

import vyre_driver
from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import VyreError
from vyre_driver.vulkan import enumerate_devices, select_device

X = np.arange(100, dtype=np.float32)


def seen() -> dict[str, object]:
    try:
        driver = Driver()
    except VyreError as error:
        return {
            "raised": type(error).__name__,
            "says": str(error),
            "device": select_device(enumerate_devices(), allow_software=True).name,
        }
    with driver:
        kernel = driver.compile(SpirvModule.from_file(sys.argv[1]))
        right = all(np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X) for _ in range(2))
        report = driver.report()["layer"]
    assert isinstance(report, dict)
    return {"right": right, "features": bool(report["features"]), "counters": bool(report["counters"])}


def main() -> None:
    package = str(Path(vyre_driver.__file__).parent)
    json.dump({"package": package, "secure": os.getegid() != os.getgid(), **seen()}, sys.stdout)


if __name__ == "__main__":
    main()
