"""Use Vulkan beside a driver of ours, and tell as JSON what that did to either; test_device_strangers.py runs it.

Usage: beside.py LIBRARY, which is stranger.c compiled
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.layer.enable import create_under_layer, layer_config

X = np.arange(100, dtype=np.float32)
# As a driver sets them while it is made, and here for every instance of this process.
LAYER_FOR_ALL = {"VK_ADD_LAYER_PATH": str(Path(_layer.__file__).parent), "VK_INSTANCE_LAYERS": _layer.LAYER_NAME}


def is_right(driver: Driver) -> bool:
    got = driver.compile(shipped_module("saxpy"))(X, X, push_constants={"alpha": 2, "count": 100})
    return bool(np.array_equal(got, 3 * X))


def main() -> None:
    stranger = ctypes.CDLL(sys.argv[1]).stranger
    found: dict[str, object] = {"alone": stranger()}
    with Driver() as driver, ThreadPoolExecutor(1) as pool:
        found["right before"] = is_right(driver)
        before = driver.context.device.layer.counters()
        found["beside a driver"] = stranger()
        os.environ.update(LAYER_FOR_ALL)
        found["under the layer"] = stranger()
        config = layer_config(driver.device, ())
        found["while a driver is made"], created = create_under_layer(
            config, driver.device.loader_version, pool.submit(stranger).result
        )
        found["a device for the driver"] = created is not None
        for call in _layer.CALLS[1:]:
            _layer.inject(call, 1, -4)
        found["while our calls fail"], _, found["failure"] = _layer.call_and_note(lambda _: stranger(), None)
        for call in _layer.CALLS[1:]:
            _layer.inject(call, 0, 0)
        found["counters moved"] = driver.context.device.layer.counters() != before
        found["right after"] = is_right(driver)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
