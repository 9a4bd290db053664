"""Find out after how many turns a device's driver ends loops, which some drivers of CPU devices do."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.errors import BackendError
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.kompute.pipeline import BoundPipeline
from vyre_driver.kompute.recording import record_alone
from vyre_driver.kompute.views import Pieces
from vyre_driver.vulkan.devices import DeviceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.kompute.device import KomputeDevice

ASSUMED_LIMIT = 65_535
"""What counts as found where the kernel does not run: that of llvmpipe."""
_LOG = logging.getLogger("vyre_driver.loops")
_WORDS = 2  # of the kernel's buffer: the turns that are asked for, and those that were made


def loop_limit(known_or: Callable[[Callable[[], int]], int], device: KomputeDevice) -> int:
    """Return after how many turns the driver of an open device ends loops, 0 where it ends none.

    ``known_or`` returns what is known, else what the function that it is given finds. Only the drivers of CPU devices are
    asked: on others a loop ends by itself, or the device is lost.
    """
    return known_or(partial(probed_limit, device)) if device.physical.device_type is DeviceType.CPU else 0


def probed_limit(device: KomputeDevice) -> int:
    """Run a kernel that counts its turns, and return how many it made where they are fewer than asked for, else 0."""
    from vyre_driver.lowering.loop_probe import TURNS, loop_probe  # late: once a driver version

    try:
        buffer = TensorBuffer(device, 4 * _WORDS, 4)
        buffer.write(np.array([TURNS, 0], np.uint32))
        pipeline = BoundPipeline(device, loop_probe(), Pieces((buffer,)), (1, 1, 1))
        record_alone(pipeline, ()).run()
        turns = int(buffer.read((_WORDS,), np.dtype(np.uint32))[1])
    except BackendError as error:
        _LOG.warning("loops of %s are taken to end after %d turns: %s", device.physical.name, ASSUMED_LIMIT, error)
        return ASSUMED_LIMIT
    return turns if turns < TURNS else 0
