"""What belongs to a device of this process is neither copied nor pickled, and says what to do instead."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver import DriverPool, kernels
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from vyre_driver import Driver
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device
X = np.ones(3, np.float32)


def test_nothing_of_a_device_is_copied_or_pickled(layered: Driver, physical_device: PhysicalDevice) -> None:
    kernel, saxpy = layered.compile(shipped_module("saxpy")), kernels.saxpy(layered)
    x, y = layered.buffer(X), layered.buffer(X)
    bound = kernel.bind(x, y, alpha=1.0, count=3)
    with DriverPool([f"uuid:{physical_device.device_uuid.hex()}"]) as pool:
        pooled = pool.compile(shipped_module("saxpy"))
        things: list[Any] = [layered, kernel, bound, layered.batch(), saxpy, saxpy.bind(x, x, out=y), pool, pooled]
        for one in things:
            for take in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError) as caught:
                    take(one)
                assert str(caught.value) == (
                    f"a {type(one).__name__} belongs to a device that this process has open, and is neither copied nor "
                    "pickled. Fix: make another where it is needed; the cache keeps what is compiled."
                )
    assert kernel(X, X, alpha=1.0, count=3).tolist() == [2.0] * 3


def test_a_label_is_text(layered: Driver) -> None:
    kernel = layered.compile(shipped_module("saxpy"))
    for label in (5, b"x", ["x"]):
        assert refusal(lambda label=label: kernel(X, X, alpha=1.0, count=3, label=label)) == (
            InvalidInput,
            2201,
            f"label is of type {type(label).__name__}, and must be text. Fix: give label as text.",
        )
    assert kernel(X, X, alpha=1.0, count=3, label="").tolist() == [2.0] * 3
