"""What a driver's timeline has besides its events: the stages of calls, compilations and transfers.

The numbers begin behind those of ``EventKind``, by which the events themselves are in it.
"""

from __future__ import annotations

import enum


class Stage(enum.IntEnum):
    """A stage that begins and ends on one thread of the host."""

    COMPILE = 64
    LOWER = 65
    VALIDATE = 66
    STORE = 67
    PIPELINE = 68
    UPLOAD = 69
    EXECUTE = 70
    READ_BACK = 71
    SUBMIT = 72
    WAIT = 73
    WRITE_BUFFER = 74
    READ_BUFFER = 75
    FILL_BUFFER = 76
    COPY_BUFFER = 77
