"""Compute saxpy and tell as JSON whether it was right and what the driver reports of its layer.

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

X = np.arange(100, dtype=np.float32)


def main() -> None:
    with Driver() as driver:
        kernel = driver.compile(SpirvModule.from_file(sys.argv[1]))
        right = all(np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X) for _ in range(2))
        report = driver.report()["layer"]
    assert isinstance(report, dict)
    found = {
        "package": str(Path(vyre_driver.__file__).parent),
        "secure": os.getegid() != os.getgid(),
        "right": right,
        "hooks": report["hooks"],
        "features": bool(report["features"]),
        "counters": bool(report["counters"]),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
