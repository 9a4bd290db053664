"""A compiled blob is given only to the driver that wrote it."""

from __future__ import annotations

import struct

import pytest
from literals import DEVICE, device

from vyre_driver.vulkan.blob import blob_fits

HEADER = b"\x20\0\0\0" + b"\x01\0\0\0" + b"\xde\x10\0\0" + b"\x30\x23\0\0" + bytes(range(32, 48))


def test_a_blob_with_the_devices_header_fits() -> None:
    assert blob_fits(HEADER + b"x", DEVICE) is True


@pytest.mark.parametrize("size", [0, 1, 31, 32])
def test_a_blob_that_is_no_more_than_a_header_does_not_fit(size: int) -> None:
    assert blob_fits(HEADER[:size], DEVICE) is False


def test_a_blob_with_any_bit_of_its_header_flipped_does_not_fit() -> None:
    for bit in range(8 * len(HEADER)):
        data = bytearray(HEADER + b"code")
        data[bit // 8] ^= 1 << bit % 8
        assert blob_fits(bytes(data), DEVICE) is False


@pytest.mark.parametrize("change", [{"vendor_id": 1}, {"device_id": 1}, {"pipeline_cache_uuid": bytes(16)}])
def test_a_blob_of_another_device_does_not_fit(change: dict[str, object]) -> None:
    assert blob_fits(HEADER + b"code", device(**change)) is False


def test_a_blob_of_another_unit_of_the_same_device_fits() -> None:
    assert blob_fits(HEADER + b"code", device(device_uuid=bytes(16), index=7, pci=None)) is True


def test_a_header_that_calls_itself_longer_does_not_fit() -> None:
    assert blob_fits(struct.pack("<I", 36) + HEADER[4:] + b"more" + b"code", DEVICE) is False
