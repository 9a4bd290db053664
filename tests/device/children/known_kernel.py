"""Run a kernel, and print which modules that needed: the emitter and the tuning store only where nothing is known of it."""

import json
import sys

import numpy as np

from vyre_driver.lang import In, Index, InOut, f32, kernel
from vyre_driver.spirv.validator import verdicts


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


ones = np.ones(64, np.float32)
assert list(saxpy(ones, ones.copy(), 2.0)) == [3.0] * 64
late = ("vyre_driver.lowering.emit.entry", "vyre_driver.autotune.store.store")
sys.stdout.write(json.dumps({"modules": [one for one in late if one in sys.modules], "judged": len(verdicts._kept)}))  # noqa: SLF001 -- what it was asked
