"""Ctrl-C at a chosen bytecode, for the tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


def interrupted_at(step: int, codes: set[CodeType], call: Callable[[], object]) -> bool:
    """Raise KeyboardInterrupt before the ``step``-th bytecode that is run of these functions; whether there was one.

    One that is raised in a finalizer is told to nobody.
    """
    left = step

    def trace(frame: FrameType, event: str, _: Any) -> Any:  # noqa: ANN401 -- as sys.settrace has it
        nonlocal left
        if frame.f_code not in codes:
            return None
        frame.f_trace, frame.f_trace_opcodes = trace, True  # in this order for Python 3.13
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # noqa: SLF001 -- Python 3.12 tells of bytecodes from the first settrace behind this
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0
