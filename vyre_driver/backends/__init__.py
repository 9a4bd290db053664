"""What can run a compiled program; so far kompute."""

from vyre_driver.backends.dispatch_config import DispatchConfig, PersistentThreadMode, SpeculationMode

__all__ = ["DispatchConfig", "PersistentThreadMode", "SpeculationMode"]
