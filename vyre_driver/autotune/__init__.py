"""What the tuner found best, by kernel and adapter."""

from vyre_driver.autotune.record import AutotuneKey

__all__ = ["AutotuneKey"]
