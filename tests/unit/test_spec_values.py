"""Typed values: what each takes, what it is equal to, and how it is written."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from literals import refusal

from vyre_driver.errors import InvalidSpecialization
from vyre_driver.ir.dtypes import DataType
from vyre_driver.specialization import SpecKind, SpecValue

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = {
    "SpecValue.u32(4294967295)": (SpecValue.u32(2**32 - 1), "u32", 0xFFFF_FFFF, 2**32 - 1, 0xFFFF_FFFF_00),
    "SpecValue.i32(-1)": (SpecValue.i32(-1), "i32", 0xFFFF_FFFF, -1, 0xFFFF_FFFF_01),
    "SpecValue.i32(-2147483648)": (SpecValue.i32(-(2**31)), "i32", 0x8000_0000, -(2**31), 0x8000_0000_01),
    "SpecValue.i32(2147483647)": (SpecValue.i32(2**31 - 1), "i32", 0x7FFF_FFFF, 2**31 - 1, 0x7FFF_FFFF_01),
    "SpecValue.f32(1.5)": (SpecValue.f32(1.5), "f32", 0x3FC0_0000, 1.5, 0x3FC0_0000_02),
    "SpecValue.f32(-0.0)": (SpecValue.f32(-0.0), "f32", 0x8000_0000, -0.0, 0x8000_0000_02),
    "SpecValue.f32(inf)": (SpecValue.f32(math.inf), "f32", 0x7F80_0000, math.inf, 0x7F80_0000_02),
    "SpecValue.bool(True)": (SpecValue.bool(True), "bool", 1, True, 0x103),
    "SpecValue.bool(False)": (SpecValue.bool(False), "bool", 0, False, 0x003),
    "SpecValue.dtype(DataType.F32)": (SpecValue.dtype(DataType.F32), "dtype", 0x0B, DataType.F32, 0x0B04),
}


@pytest.mark.parametrize("text", VALUES)
def test_a_value_tells_its_type_bits_value_hash_and_the_call_that_makes_it(text: str) -> None:
    made, *expected = VALUES[text]
    assert [made.type_name, made.bits, made.value, made.cache_hash()] == expected
    assert (type(made.value), repr(made)) == (type(expected[2]), text if made.kind is not SpecKind.DTYPE else repr(made))


def test_a_data_type_is_shown_as_it_shows_itself() -> None:
    assert repr(SpecValue.dtype(DataType.F32)) == f"SpecValue.dtype({DataType.F32!r})"


@pytest.mark.parametrize("text", VALUES)
def test_a_value_survives_copies_and_a_process_boundary(text: str) -> None:
    made = VALUES[text][0]
    assert [copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))] == [made] * 3  # noqa: S301 -- our own


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (SpecValue.u32(2**32 - 1), 4294967295.0),
        (SpecValue.i32(-(2**31)), -2147483648.0),
        (SpecValue.f32_bits(1), 2.0**-149),
        (SpecValue.bool(True), 1.0),
        (SpecValue.dtype(DataType.opaque(7)), 128.0),
    ],
)
def test_a_value_is_carried_by_a_float_exactly(value: SpecValue, number: float) -> None:
    assert (value.as_pipeline_f64(), type(value.as_pipeline_f64())) == (number, float)


@pytest.mark.parametrize(
    ("bits", "wide"),
    [
        (0x7FC0_0000, 0x7FF8_0000_0000_0000),
        (0x7F80_0001, 0x7FF8_0000_2000_0000),
        (0xFFFF_FFFF, 0xFFFF_FFFF_E000_0000),
        (0xFF80_0000, 0xFFF0_0000_0000_0000),
        (0x8000_0000, 0x8000_0000_0000_0000),
        (0x8000_0001, 0xB6A0_0000_0000_0000),
    ],
)
def test_a_nans_sign_and_payload_and_a_zeros_sign_are_carried_too(bits: int, wide: int) -> None:
    value = SpecValue.f32_bits(bits)
    assert (value.bits, struct.pack(">d", value.as_pipeline_f64()).hex()) == (bits, f"{wide:016x}")


def test_floats_are_compared_by_bits() -> None:
    """A departure on purpose: upstream's +0.0 equals -0.0 and its NaN does not equal itself, so that no hash fits them."""
    zeros = [SpecValue.f32(0.0), SpecValue.f32(-0.0)]
    nans = [SpecValue.f32(math.nan), SpecValue.f32_bits(0x7FC0_0001), SpecValue.f32_bits(0x7FC0_0000)]
    assert (zeros[0] == zeros[1], nans[0] == nans[1], nans[0] == nans[2]) == (False, False, True)
    assert (len(set(zeros)), len(set(nans))) == (2, 2)
    assert repr(nans[1]) == "SpecValue.f32_bits(0x7fc00001)"


def test_values_of_different_types_differ_though_their_bits_are_one() -> None:
    ones = [SpecValue.u32(1), SpecValue.i32(1), SpecValue.f32_bits(1), SpecValue.bool(True), SpecValue.dtype(DataType.U32)]
    assert len(set(ones)) == len({one.cache_hash() for one in ones}) == 5
    assert [one.bits for one in ones] == [1] * 5


def test_data_types_are_compared_whole_though_upstreams_hash_is_of_the_tag_alone() -> None:
    vectors = [SpecValue.dtype(DataType.vec(DataType.U32, count)) for count in (2, 3, 2)]
    assert (vectors[0] == vectors[1], vectors[0] == vectors[2], len(set(vectors))) == (False, True, 2)
    assert len({one.cache_hash() for one in vectors}) == 1


def test_a_float_is_rounded_to_the_nearest_f32() -> None:
    assert [SpecValue.f32(number).bits for number in (0.1, 2**24 + 1, 1e-46, 3.4028235e38)] == [
        0x3DCC_CCCD,
        0x4B80_0000,
        0,
        0x7F7F_FFFF,
    ]


def test_numpys_numbers_are_taken_and_its_floats_of_32_bits_by_their_bits() -> None:
    signalling = np.array([0x7F80_0001], np.uint32).view(np.float32)[0]
    assert [
        SpecValue.u32(np.uint8(7)),
        SpecValue.i32(np.int64(-7)),
        SpecValue.f32(np.float64(0.5)),
        SpecValue.f32(signalling),
        SpecValue.bool(np.True_),
    ] == [SpecValue.u32(7), SpecValue.i32(-7), SpecValue.f32(0.5), SpecValue.f32_bits(0x7F80_0001), SpecValue.bool(True)]


@pytest.mark.parametrize(
    ("make", "value", "problem"),
    [
        (SpecValue.u32, -1, "a u32 specialization value was given -1: -1 is not between 0 and 4294967295. Fix: give a u32."),
        (
            SpecValue.u32,
            2**32,
            "a u32 specialization value was given 4294967296: 4294967296 is not between 0 and 4294967295. Fix: give a u32.",
        ),
        (
            SpecValue.u32,
            True,
            "a u32 specialization value was given True: True is a truth value, not a number. Fix: give a u32.",
        ),
        (
            SpecValue.u32,
            1.0,
            "a u32 specialization value was given 1.0: 'float' object cannot be interpreted as an integer. Fix: give a u32.",
        ),
        (
            SpecValue.i32,
            2**31,
            (
                "a i32 specialization value was given 2147483648: 2147483648 is not between -2147483648 and 2147483647. "
                "Fix: give a i32."
            ),
        ),
        (
            SpecValue.f32,
            1e39,
            "a f32 specialization value was given 1e+39: float too large to pack with f format. Fix: give a f32.",
        ),
        (SpecValue.f32, "1", "a f32 specialization value was given '1': '1' is not a real number. Fix: give a f32."),
        (
            SpecValue.f32_bits,
            -1,
            "a u32 specialization value was given -1: -1 is not between 0 and 4294967295. Fix: give a u32.",
        ),
        (SpecValue.bool, 1, "a bool specialization value was given 1: 1 is not True or False. Fix: give a bool."),
        (
            SpecValue.dtype,
            SimpleNamespace(wire_tag=1),
            (
                "a dtype specialization value was given namespace(wire_tag=1), which is not a DataType. "
                "Fix: give a DataType, for example DataType.F32."
            ),
        ),
        (
            SpecValue.dtype,
            "f32",
            (
                "a dtype specialization value was given 'f32', which is not a DataType. "
                "Fix: give a DataType, for example DataType.F32."
            ),
        ),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused(
    make: Callable[[object], SpecValue], value: object, problem: str
) -> None:
    assert refusal(lambda: make(value)) == (InvalidSpecialization, 2102, problem)


@pytest.mark.parametrize(
    "parts",
    [
        (0, 1),
        (SpecKind.U32, -1),
        (SpecKind.U32, 2**32),
        (SpecKind.I32, -1),
        (SpecKind.F32, 1.0),
        (SpecKind.BOOL, 2),
        (SpecKind.BOOL, True),
        (SpecKind.DTYPE, 0x0B),
        (SpecKind.DTYPE, 0x0A, DataType.F32),
        (SpecKind.U32, 0x0B, DataType.F32),
    ],
)
def test_parts_that_no_constructor_gives_are_refused(parts: tuple[object, ...]) -> None:
    shown = f"{parts[1]!r} with data type {parts[2] if len(parts) == 3 else None!r} are not of kind {parts[0]!r}"
    assert refusal(lambda: SpecValue(*parts)) == (  # type: ignore[arg-type]
        InvalidSpecialization,
        2102,
        f"{shown}. Fix: use SpecValue.u32 and its like.",
    )
