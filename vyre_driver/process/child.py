"""What a child process of ours does first: it ends with its parent, and keeps its standard output to its answers."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even while a driver hangs in it."""
    with suppress(OSError, AttributeError):  # another system has other means
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def take_over_stdout() -> Callable[[object], None]:
    """Return the function that answers: it writes one line of JSON to what was standard output.

    What drivers and libraries print there goes to standard error from now on. The process ends with the thread that started it.
    """
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    return answer
