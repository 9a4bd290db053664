"""Work that runs on after its objects were freed: its memory is freed when it has ended, and the exit waits for it."""

from __future__ import annotations

import atexit
import time

from vyre_driver.vulkan.layer import _layer

_POLL_S = 0.01
_MEMORY_POLL_S = 0.001


def drop_ended() -> bool:
    """Let go of such work that has ended, with the memory and the device that it held; return whether any still runs.

    It never waits.
    """
    return _layer.drop_ended() > 0


def wait_for_one_end(ends: float) -> bool:
    """Wait until such work has ended, and let go of it; return False where none runs, and at ``ends``, of time.monotonic."""
    left = _layer.drop_ended()
    while left and time.monotonic() < ends:
        time.sleep(_MEMORY_POLL_S)
        before, left = left, _layer.drop_ended()
        if left < before:
            return True
    return False


@atexit.register
def _wait_at_exit() -> None:
    """Wait for it: the device must not run on while the process is torn down. Ctrl-C ends the wait."""
    _layer.begin_exit()
    while drop_ended():
        time.sleep(_POLL_S)
