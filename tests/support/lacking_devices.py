"""A device that lacks what Vulkan does not promise."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from vyre_driver import driver as driver_module
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    import pytest

    from vyre_driver.vulkan.devices import PhysicalDevice


def lack_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have drivers open devices without a feature, an extension or a float control."""
    nothing: frozenset[str] = frozenset()

    def select(*arguments: object, **options: bool) -> PhysicalDevice:
        device = select_device(*arguments, **options)  # type: ignore[arg-type]
        return dataclasses.replace(device, features=nothing, extensions=nothing, float_controls=nothing)

    monkeypatch.setattr(driver_module, "select_device", select)
