"""The warning that a kernel for tensor cores runs on ordinary units."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]
_said: set[str] = set()


class PerformanceWarning(UserWarning):
    """A kernel runs, and slower than on a device that has what it is made for."""


def warn_once(text: str) -> None:
    """Warn with a text, unless this process has before, at the line that called into this package."""
    if text in _said:
        return
    _said.add(text)
    frame, level = sys._getframe(1), 2  # noqa: SLF001 -- how deep it is depends on whether a call brings buffers
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, PerformanceWarning, stacklevel=level)
