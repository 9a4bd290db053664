"""What tests of loops that llvmpipe ends early have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vyre_driver import Driver

LIMIT = 65_535


def skip_unless_limited(driver: Driver) -> None:
    """Skip the test on a device whose driver does not end loops at ``LIMIT``."""
    opened = driver.context.device
    if opened.loop_limit(opened) != LIMIT:
        pytest.skip(f"the driver of this device does not end loops after {LIMIT:,} turns")
