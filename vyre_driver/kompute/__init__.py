"""The kompute backend: device, buffers, recorded dispatches. Nothing unchecked reaches kp from here."""

from vyre_driver.kompute.device import BACKEND_ID, KomputeDevice
from vyre_driver.kompute.pipeline import RecordedDispatch, StageTimes

__all__ = ["BACKEND_ID", "KomputeDevice", "RecordedDispatch", "StageTimes"]
