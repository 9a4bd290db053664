"""The device through kompute: device, buffers, recorded dispatches. Every argument is checked before it reaches kp."""

from vyre_driver.process.imports import import_numpy

import_numpy()  # before the modules below do, for whoever imports them with nothing else

from vyre_driver.kompute.array_dispatch import RecordedDispatch, StageTimes  # noqa: E402
from vyre_driver.kompute.device import BACKEND_ID, KomputeDevice  # noqa: E402

__all__ = ["BACKEND_ID", "KomputeDevice", "RecordedDispatch", "StageTimes"]
