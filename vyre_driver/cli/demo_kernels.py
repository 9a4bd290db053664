"""The kernel of the demo that is a Python function: the edges of a picture."""

from __future__ import annotations

import math

from vyre_driver.lang import In, Index, Out, f32, kernel


@kernel
def edges(i: Index, j: Index, picture: In[f32], strength: Out[f32]) -> None:
    """Sobel's filter; what lies outside of the picture is loaded as 0."""
    right = picture[i - 1, j + 1] + 2.0 * picture[i, j + 1] + picture[i + 1, j + 1]
    left = picture[i - 1, j - 1] + 2.0 * picture[i, j - 1] + picture[i + 1, j - 1]
    below = picture[i + 1, j - 1] + 2.0 * picture[i + 1, j] + picture[i + 1, j + 1]
    above = picture[i - 1, j - 1] + 2.0 * picture[i - 1, j] + picture[i - 1, j + 1]
    dx, dy = right - left, below - above
    strength[i, j] = math.sqrt(dx * dx + dy * dy)
