"""The device through kompute: device, buffers, recorded dispatches. Every argument is checked before it reaches kp."""

from vyre_driver.kompute.array_dispatch import RecordedDispatch, StageTimes
from vyre_driver.kompute.device import BACKEND_ID, KomputeDevice

__all__ = ["BACKEND_ID", "KomputeDevice", "RecordedDispatch", "StageTimes"]
