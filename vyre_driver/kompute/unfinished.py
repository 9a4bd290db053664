"""Work that runs on after its objects were freed: its memory is freed when it has ended, and the exit waits for it."""

from __future__ import annotations

import atexit
import time

from vyre_driver.vulkan.layer import _layer

_POLL_S = 0.01


def drop_ended() -> bool:
    """Let go of such work that has ended, with the memory and the device that it held; return whether any still runs.

    It never waits.
    """
    return _layer.drop_ended() > 0


@atexit.register
def _wait_at_exit() -> None:
    """Wait for it: the device must not run on while the process is torn down. Ctrl-C ends the wait."""
    _layer.begin_exit()
    while drop_ended():
        time.sleep(_POLL_S)
