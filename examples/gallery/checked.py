"""What every program of the gallery does: run its kernels and numpy on the same data, compare the results, and take times."""

import time
from typing import NamedTuple

import numpy as np

from vyre_driver.lang import default_driver


class Run(NamedTuple):
    """What a program computed, and the milliseconds of its first call (compiling too), of a later one, and of numpy."""

    result: object
    first_ms: float
    device_ms: float
    numpy_ms: float


def run_checked(data, compute, expected, rtol=0.0, atol=0.0):
    """Return the run of ``compute(*data)``; raises AssertionError where it differs from ``expected(*data)``.

    Both return an array or several; each has to be within ``atol + rtol * |expected|``, which without both means equal.
    """
    result, first_ms = _timed(compute, data)
    _, device_ms = _timed(compute, data)
    wanted, numpy_ms = _timed(expected, data)
    for got, want in zip(_arrays(result), _arrays(wanted), strict=True):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    return Run(result, first_ms, device_ms, numpy_ms)


def tell(what, run):
    """Print what was computed and how long it took."""
    device = default_driver().report()["device"]
    print(f"{what}: equal to numpy. {device} {run.device_ms:.2f} ms (first {run.first_ms:.2f}), numpy {run.numpy_ms:.2f} ms")


def _timed(function, data):
    began = time.perf_counter()
    found = function(*data)
    return found, 1000 * (time.perf_counter() - began)


def _arrays(found):
    return found if isinstance(found, tuple) else (found,)
