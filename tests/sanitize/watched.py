"""One of everything that reaches the C layer, on one thread, for memcheck to watch."""

from __future__ import annotations

import numpy as np

from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module

X = np.arange(128, dtype=np.float32)
PUSH = {"alpha": 2, "count": X.size}

for _ in range(2):
    with Driver(allow_software=True) as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        np.testing.assert_array_equal(kernel(X, X, push_constants=PUSH), 3 * X, strict=True)
        x, y = driver.buffer(X), driver.buffer(X)
        kernel.bind(x, y, push_constants=PUSH).run()
        np.testing.assert_array_equal(y.read(), 3 * X, strict=True)
        x[1:10].fill(2)
        x.view(np.uint8)[4:13].fill(7)
        y[3:9].copy_to(x[4:10])
        for first in (1, 64):  # copied around the dispatch, and bound where it lies
            kernel.bind(x[first : first + 8], y[first : first + 8], push_constants=PUSH | {"count": 8}).run()
        kernel.bind(x, y, push_constants=PUSH).submit()
