"""Print how many thread-specific keys are left to the process after each of four drivers was opened, used and closed."""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np

from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module

X = np.arange(8, dtype=np.float32)
process = ctypes.CDLL(None)


def keys_left() -> int:
    """Take every key there is, give them back, and return how many they were."""
    keys: list[ctypes.c_uint] = []
    key = ctypes.c_uint()
    while process.pthread_key_create(ctypes.byref(key), None) == 0:
        keys.append(key)
        key = ctypes.c_uint()
    for taken in keys:
        process.pthread_key_delete(taken)
    return len(keys)


left = []
for _ in range(4):
    with Driver() as driver:
        driver.compile(shipped_module("saxpy"))(X, X, push_constants={"alpha": 2, "count": 8})
    left.append(keys_left())
sys.stdout.write(json.dumps(left))
