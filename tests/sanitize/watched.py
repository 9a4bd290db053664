"""One of everything that reaches the C layer, on one thread, for memcheck to watch."""

from __future__ import annotations

import numpy as np

from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module

X = np.arange(8, dtype=np.float32)
PUSH = {"alpha": 2, "count": X.size}

for _ in range(2):
    with Driver(allow_software=True) as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        np.testing.assert_array_equal(kernel(X, X, push_constants=PUSH), 3 * X, strict=True)
        x, y = driver.buffer(X), driver.buffer(X)
        kernel.bind(x, y, push_constants=PUSH).run()
        np.testing.assert_array_equal(y.read(), 3 * X, strict=True)
        kernel.bind(x, y, push_constants=PUSH).submit()
