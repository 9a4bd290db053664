"""The job of the demo whose kernel is a Python function: the edges of a picture, each of whose pixels is checked with numpy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.cli.demo_jobs import JobResult
from vyre_driver.lang import In, Index, Out, f32, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.driver import Driver

SIDE = 2048


@kernel
def edges(i: Index, j: Index, picture: In[f32], strength: Out[f32]) -> None:
    """Sobel's filter; what lies outside of the picture is loaded as 0."""
    right = picture[i - 1, j + 1] + 2.0 * picture[i, j + 1] + picture[i + 1, j + 1]
    left = picture[i - 1, j - 1] + 2.0 * picture[i, j - 1] + picture[i + 1, j - 1]
    below = picture[i + 1, j - 1] + 2.0 * picture[i + 1, j] + picture[i + 1, j + 1]
    above = picture[i - 1, j - 1] + 2.0 * picture[i - 1, j] + picture[i - 1, j + 1]
    dx, dy = right - left, below - above
    strength[i, j] = math.sqrt(dx * dx + dy * dy)


def find_edges(driver: Driver) -> JobResult:
    """Find the edges of rings on a picture of 2048 x 2048 pixels; equal to numpy but for the last bits of a square root."""
    along = np.linspace(-1, 1, SIDE, dtype=np.float32)
    picture = np.sin(np.float32(40) * (along[:, None] ** 2 + along[None, :] ** 2))
    result = JobResult(verified=False, summary=f"{SIDE}x{SIDE} pixels, a kernel in Python", kernel=edges.compiled_for(driver))
    got = edges.on(driver)(picture)
    result.add_trace()
    result.verified = bool(np.allclose(got, expected_edges(picture), rtol=1e-5, atol=1e-5))
    return result


def expected_edges(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what numpy finds."""
    wide = np.pad(picture, 1)
    columns = wide[:-2] + np.float32(2) * wide[1:-1] + wide[2:]
    rows = wide[:, :-2] + np.float32(2) * wide[:, 1:-1] + wide[:, 2:]
    found: NDArray[np.float32] = np.hypot(columns[:, 2:] - columns[:, :-2], rows[2:] - rows[:-2])
    return found
