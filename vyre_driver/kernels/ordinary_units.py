"""What is told where a kernel for tensor cores runs on ordinary units."""

from __future__ import annotations

import warnings

_said: set[str] = set()


class PerformanceWarning(UserWarning):
    """A kernel runs, and slower than on a device that has what it is made for."""


def warn_once(text: str, stacklevel: int) -> None:
    """Warn with a text, unless this process has before; ``stacklevel`` counts from the caller, as ``warnings.warn`` has it."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, PerformanceWarning, stacklevel=stacklevel + 1)
