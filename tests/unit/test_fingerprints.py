"""Devices and policies as upstream names them, and bytes as hex."""

from __future__ import annotations

import array
import mmap
from typing import Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver.backends import DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre_driver.errors import InvalidKey
from vyre_driver.identity import (
    PipelineDeviceFingerprint,
    dispatch_policy_cache_string,
    dispatch_policy_digest,
    hex_encode,
)

DEVICE = PipelineDeviceFingerprint.from_parts(0x10DE, 0x2B85, "driver-1.0", "mesa")
PROGRAM = b"\x11" * 32


def test_a_device_is_told_by_its_ids_and_a_digest_of_its_drivers_texts() -> None:
    assert (DEVICE.vendor, DEVICE.device, DEVICE.driver_digest.hex()) == (
        0x10DE,
        0x2B85,
        "d890aed049bb3b1f5c2f6084c8f8691b532acd6bf1d3b4fe17a093bf67398011",
    )
    assert DEVICE.cache_key(PROGRAM).hex() == "a8cf2d85c052bf769b0273c83b85f94a3093fffd99d942decb279b13dcb65f4c"


def test_equal_devices_are_one_and_each_part_tells_devices_and_their_keys_apart() -> None:
    others = [
        PipelineDeviceFingerprint.from_parts(0x10DF, 0x2B85, "driver-1.0", "mesa"),
        PipelineDeviceFingerprint.from_parts(0x10DE, 0x2B86, "driver-1.0", "mesa"),
        PipelineDeviceFingerprint.from_parts(0x10DE, 0x2B85, "driver-1.1", "mesa"),
        PipelineDeviceFingerprint.from_parts(0x10DE, 0x2B85, "driver-1.0", "mesa2"),
    ]
    again = PipelineDeviceFingerprint(0x10DE, 0x2B85, bytearray(DEVICE.driver_digest))  # type: ignore[arg-type]
    assert (again, len({again, DEVICE, *others})) == (DEVICE, 5)
    assert len({one.cache_key(PROGRAM) for one in (again, DEVICE, *others)}) == 5


def test_another_program_has_another_key() -> None:
    assert DEVICE.cache_key(bytes(32)) != DEVICE.cache_key(PROGRAM)


def test_a_revision_that_holds_the_separator_is_not_told_from_the_pair_it_imitates() -> None:
    """Upstream's weakness, kept with its digest; the pipeline key has every text of the driver with its length."""
    pairs = [("a\0extra\0b", "c"), ("a", "b\0extra\0c")]
    assert len({PipelineDeviceFingerprint.from_parts(1, 2, *pair) for pair in pairs}) == 1


U32S = "an integer from 0 to 4294967295"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ((-1, 0, bytes(32)), f"vendor is -1, which is not {U32S}. Fix: give {U32S}."),
        ((0, 2**32, bytes(32)), f"device is 4294967296, which is not {U32S}. Fix: give {U32S}."),
        ((0, 0, bytes(31)), "driver_digest has 31 bytes, not 32. Fix: give a 32-byte digest."),
        ((0, 0, 32), "driver_digest is an int, not bytes. Fix: give a 32-byte digest."),
    ],
)
def test_a_part_of_a_device_out_of_its_range_is_refused(parts: tuple[Any, ...], problem: str) -> None:
    assert refusal(lambda: PipelineDeviceFingerprint(*parts)) == (InvalidKey, 2203, problem)


def test_a_program_digest_of_another_size_is_refused() -> None:
    message = "program_digest has 33 bytes, not 32. Fix: give a 32-byte digest."
    assert refusal(lambda: DEVICE.cache_key(bytes(33))) == (InvalidKey, 2203, message)


@pytest.mark.parametrize(("texts", "field"), [((b"a", "b"), "revision"), (("a", None), "extra")])
def test_a_driver_told_by_no_text_is_refused(texts: tuple[Any, Any], field: str) -> None:
    wrong = texts[field == "extra"]
    message = f"{field} is {wrong!r}, which is not a str. Fix: give a str."
    assert refusal(lambda: PipelineDeviceFingerprint.from_parts(0, 0, *texts)) == (InvalidKey, 2203, message)


def test_a_policy_is_written_as_upstream_prints_it() -> None:
    assert [
        dispatch_policy_cache_string(config)
        for config in (DispatchConfig(), DispatchConfig(ulp_budget=0), DispatchConfig.new(None, 1, None, None))
    ] == ["ulp=None:wg=None", "ulp=Some(0):wg=None", "ulp=Some(1):wg=None"]
    assert dispatch_policy_cache_string(DispatchConfig(workgroup_override=(64, 1, 1))) == "ulp=None:wg=Some([64, 1, 1])"


POLICIES = [
    {},
    {"ulp_budget": 0},
    {"ulp_budget": 1},
    {"ulp_budget": 255},
    {"workgroup_override": (64, 1, 1)},
    {"workgroup_override": (1, 64, 1)},
    {"workgroup_override": (1, 1, 64)},
    {"ulp_budget": 1, "workgroup_override": (64, 1, 1)},
]


def test_each_policy_has_a_digest_and_a_text_of_its_own() -> None:
    configs = [DispatchConfig(**policy) for policy in POLICIES]
    assert len({dispatch_policy_digest(config) for config in configs}) == len(POLICIES)
    assert len({dispatch_policy_cache_string(config) for config in configs}) == len(POLICIES)


@pytest.mark.parametrize(
    "other",
    [
        {"profile": "fast"},
        {"timeout": 1},
        {"label": "x"},
        {"max_output_bytes": 0},
        {"grid_override": (1, 1, 1)},
        {"fixpoint_iterations": 2},
        {"speculation": SpeculationMode.DISABLE},
        {"persistent_thread": PersistentThreadMode.FORCE},
        {"cooperative": True},
    ],
    ids=lambda other: next(iter(other)),
)
def test_no_other_field_changes_the_policys_digest_or_text(other: dict[str, Any]) -> None:
    for policy in POLICIES:
        one, two = DispatchConfig(**policy), DispatchConfig(**policy, **other)
        assert one != two
        assert dispatch_policy_digest(one) == dispatch_policy_digest(two)
        assert dispatch_policy_cache_string(one) == dispatch_policy_cache_string(two)


MAPPED = mmap.mmap(-1, 3)
MAPPED[:] = b"\x00\xab\xff"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xab\xff",
        bytearray(b"\x00\xab\xff"),
        memoryview(b"\x00\xab\xff"),
        memoryview(b"\x00..\xab..\xff")[::3],
        memoryview(b"\xff\xab\x00")[::-1],
        array.array("B", [0, 0xAB, 0xFF]),
        MAPPED,
        np.array([0, 0xAB, 0xFF], np.uint8),
        np.array([0, 1, 0xAB, 1, 0xFF, 1], np.uint8)[::2],
        np.array([[0], [0xAB], [0xFF]], np.uint8),
    ],
    ids=lambda data: type(data).__name__,
)
def test_the_hex_of_any_buffer_is_that_of_its_bytes_in_order(data: object) -> None:
    assert hex_encode(data) == "00abff"


def test_the_hex_of_a_table_is_row_by_row_however_it_lies_in_memory() -> None:
    table = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
    frozen = table.copy()
    frozen.setflags(write=False)
    assert [hex_encode(table), hex_encode(np.asfortranarray(table)), hex_encode(table.T), hex_encode(frozen)] == [
        "010203040506",
        "010203040506",
        "010402050306",
        "010203040506",
    ]


def test_the_hex_of_wide_elements_is_that_of_their_bytes() -> None:
    assert hex_encode(np.array([0x0102, 0x0304], ">u2")) == "01020304"


def test_the_hex_of_nothing_is_empty() -> None:
    assert [hex_encode(b""), hex_encode(np.zeros((0, 4)))] == ["", ""]


@pytest.mark.parametrize("wrong", ["ff", None, 7, [1, 2]])
def test_what_has_no_buffer_has_no_hex(wrong: object) -> None:
    with pytest.raises(TypeError, match="bytes-like object is required"):
        hex_encode(wrong)
