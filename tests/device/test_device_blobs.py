"""What the driver compiled goes into the entry and back into the driver, byte for byte, or not at all.

A layer of the test's stands between ours and the driver, as one that compiles 1000 bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from witnessed import seen

from vyre_driver import Driver
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import DeviceType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = [pytest.mark.device, pytest.mark.cold_mesa]

PAYLOAD = bytes(i * 7 & 255 for i in range(1000))
X = np.arange(100, dtype=np.float32)


def header(device: PhysicalDevice) -> bytes:
    return struct.pack("<IIII16s", 32, 1, device.vendor_id, device.device_id, device.pipeline_cache_uuid)


def use_driver() -> tuple[bool, dict[str, int]]:
    """Whether a driver of its own computes right, and how often a blob went in and came out."""
    with Driver() as driver:
        right = np.array_equal(driver.compile(shipped_module("saxpy"))(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)
        counters = driver.context.device.report()["counters"]
    assert isinstance(counters, dict)
    return bool(right), {name: counters.get(name, 0) for name in ("blobs_given", "blobs_taken")}


def plant(blob: bytes) -> None:
    """Store the entry of the shader with a blob in it."""
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        key = kernel._pipelines.key  # noqa: SLF001 -- the entry's key
        driver.cache.put(key, PipelineEntry(key.manifest, kernel.source.lower(), blob))


def test_what_the_driver_compiled_comes_back_to_it_in_the_next_process_byte_for_byte(
    witness: Path, physical_device: PhysicalDevice
) -> None:
    first = use_driver()
    assert (first, seen(witness)) == ((True, {"blobs_given": 0, "blobs_taken": 1}), [b""])
    second = use_driver()
    assert (second, seen(witness)) == ((True, {"blobs_given": 1, "blobs_taken": 1}), [header(physical_device) + PAYLOAD])


def test_rule_c16_a_blob_that_grows_while_it_is_fetched_is_fetched_again(
    witness: Path, physical_device: PhysicalDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WITNESS_GROWS", "1")
    assert [use_driver()[0] for _ in range(2)] == [True, True]
    assert seen(witness) == [b"", header(physical_device) + PAYLOAD]


@pytest.mark.parametrize("size", [1, 3, 4096, 1_000_003])
def test_a_blob_of_any_size_reaches_the_driver_unharmed(witness: Path, physical_device: PhysicalDevice, size: int) -> None:
    blob = header(physical_device) + np.random.default_rng(size).bytes(size)
    plant(blob)
    assert (use_driver()[0], seen(witness)) == (True, [blob])


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head[:-1] + bytes([head[-1] ^ 1]),
        lambda head: head[:8] + bytes([head[8] ^ 1]) + head[9:],
        lambda head: head[:12] + bytes([head[12] ^ 1]) + head[13:],
        lambda head: b"\x21" + head[1:],
        lambda head: head[:4] + b"\x02" + head[5:],
        lambda head: bytes(len(head)),
    ],
    ids=["cache UUID", "vendor", "device", "header length", "header version", "zeros"],
)
def test_a_blob_with_another_header_is_kept_from_the_driver(
    witness: Path, physical_device: PhysicalDevice, change: Callable[[bytes], bytes]
) -> None:
    plant(change(header(physical_device)) + PAYLOAD)
    assert (use_driver(), seen(witness)) == ((True, {"blobs_given": 0, "blobs_taken": 1}), [b""])


def test_a_header_alone_is_kept_from_the_driver(witness: Path, physical_device: PhysicalDevice) -> None:
    plant(header(physical_device))
    assert (use_driver()[0], seen(witness)) == (True, [b""])


def test_random_bytes_behind_a_right_header_do_no_harm_in_the_real_driver(physical_device: PhysicalDevice) -> None:
    if physical_device.device_type is not DeviceType.CPU:
        pytest.skip("Vulkan lets a driver trust a blob with its header; the entry's digest is what protects it")
    plant(header(physical_device) + PAYLOAD)
    right, counters = use_driver()
    assert (right, counters["blobs_given"]) == (True, 1)
