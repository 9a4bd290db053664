"""How values become the 32 bits of a constant, and how texts become values."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from literals import BOOL, F32, I32, U32

from vyre_driver.spirv.layout import Scalar

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

ENCODED = [
    (U32, 0, 0),
    (U32, 2**32 - 1, 0xFFFF_FFFF),
    (U32, np.uint8(255), 255),
    (U32, np.int64(2**31), 0x8000_0000),
    (I32, 0, 0),
    (I32, -1, 0xFFFF_FFFF),
    (I32, -(2**31), 0x8000_0000),
    (I32, 2**31 - 1, 0x7FFF_FFFF),
    (I32, np.int8(-2), 0xFFFF_FFFE),
    (F32, 1.0, 0x3F80_0000),
    (F32, -0.0, 0x8000_0000),
    (F32, 0, 0),
    (F32, 3, 0x4040_0000),
    (F32, 0.1, 0x3DCC_CCCD),
    (F32, 1e-50, 0),
    (F32, -1e-50, 0x8000_0000),
    (F32, 1.401298464324817e-45, 1),
    (F32, 3.4028234663852886e38, 0x7F7F_FFFF),
    (F32, math.inf, 0x7F80_0000),
    (F32, -math.inf, 0xFF80_0000),
    (F32, np.float32(0.1), 0x3DCC_CCCD),
    (F32, np.float64(0.1), 0x3DCC_CCCD),
    (F32, np.float16(0.5), 0x3F00_0000),
    (F32, np.int32(-3), 0xC040_0000),
    (BOOL, True, 1),
    (BOOL, False, 0),
    (BOOL, np.bool_(True), 1),
]


@pytest.mark.parametrize(("scalar", "value", "bits"), ENCODED)
def test_a_value_is_encoded_as_its_bits(scalar: Scalar, value: object, bits: int) -> None:
    assert scalar.encode(value) == bits


def test_every_encoded_float_is_the_nearest_that_numpy_knows() -> None:
    values = [0.1, 1 / 3, 1e30, 16777217.0, 5e-45, -2.5]
    assert [F32.encode(value) for value in values] == np.array(values, np.float32).view(np.uint32).tolist()


def test_a_float_that_is_no_number_stays_one() -> None:
    assert math.isnan(struct.unpack("<f", struct.pack("<I", F32.encode(math.nan)))[0])


BF16, E4M3, E5M2 = Scalar("bf", 16), Scalar("e4m3", 8), Scalar("e5m2", 8)


def test_floats_that_numpy_lacks_are_told_apart_and_lie_as_their_bits() -> None:
    found = [(str(one), one.byte_len, one.dtype, one.stored, one.is_encoded, one.of_ml_dtypes) for one in (BF16, E4M3, E5M2)]
    assert found == [
        ("bf16", 2, "<u2", Scalar("u", 16), True, "bfloat16"),
        ("f8e4m3", 1, "<u1", Scalar("u", 8), True, "float8_e4m3fn"),
        ("f8e5m2", 1, "<u1", Scalar("u", 8), True, "float8_e5m2"),
    ]
    assert (F32.is_encoded, F32.of_ml_dtypes, F32.has_bits_in(np.dtype(np.uint32))) == (False, None, False)


HOLDING = [
    (BF16, np.uint16, True),
    (BF16, ml_dtypes.bfloat16, True),
    (BF16, np.float16, False),
    (BF16, np.int16, False),
    (BF16, ">u2", False),
    (BF16, "V2", False),
    (BF16, ml_dtypes.float8_e5m2, False),
    (E4M3, np.uint8, True),
    (E4M3, ml_dtypes.float8_e4m3fn, True),
    (E4M3, ml_dtypes.float8_e4m3, False),
    (E4M3, ml_dtypes.float8_e5m2, False),
    (E4M3, np.int8, False),
    (E5M2, ml_dtypes.float8_e5m2, True),
    (E5M2, ml_dtypes.float8_e5m2fnuz, False),
]


@pytest.mark.parametrize(("scalar", "dtype", "expected"), HOLDING)
def test_bits_of_an_encoded_float_are_unsigned_words_or_ml_dtypes_own_type(
    scalar: Scalar, dtype: DTypeLike, expected: object
) -> None:
    assert scalar.has_bits_in(np.dtype(dtype)) is expected


@pytest.mark.parametrize(
    ("scalar", "value", "bits"),
    [
        (BF16, np.uint16(0x3F80), 0x3F80),
        (BF16, ml_dtypes.bfloat16(-2.0), 0xC000),
        (E4M3, ml_dtypes.float8_e4m3fn(1.0), 0x38),
        (E5M2, np.uint8(0x3C), 0x3C),
    ],
)
def test_an_encoded_float_is_encoded_from_what_has_its_bits(scalar: Scalar, value: object, bits: int) -> None:
    assert scalar.encode(value) == bits


@pytest.mark.parametrize("value", [1, 1.0, True, np.float16(1), np.float32(1), np.int64(1), np.uint8(1)])
def test_a_number_that_may_be_value_or_bits_of_an_encoded_float_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"does not have the bits of one \(ml_dtypes\.bfloat16, numpy\.uint16\)$"):
        BF16.encode(value)


@pytest.mark.parametrize("value", [2**32, 2**64, 2**1000])
def test_a_number_over_u32_overflows(value: int) -> None:
    with pytest.raises(OverflowError, match=rf"^{value} is not between 0 and 4294967295$"):
        U32.encode(value)


@pytest.mark.parametrize(
    ("scalar", "value", "message"),
    [
        (U32, -1, "-1 is not between 0 and 4294967295"),
        (I32, 2**31, "2147483648 is not between -2147483648 and 2147483647"),
        (I32, -(2**31) - 1, "-2147483649 is not between -2147483648 and 2147483647"),
        (I32, np.uint32(2**31), "2147483648 is not between -2147483648 and 2147483647"),
        (F32, 3.5e38, "float too large to pack with f format"),
        (F32, -1e300, "float too large to pack with f format"),
        (F32, np.float64(1e300), "float too large to pack with f format"),
        pytest.param(F32, 10**400, "int too large to convert to float", id="f32-10**400"),
    ],
)
def test_a_number_out_of_range_overflows(scalar: Scalar, value: object, message: str) -> None:
    with pytest.raises(OverflowError) as error:
        scalar.encode(value)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("scalar", "value", "message"),
    [
        (U32, True, "True is a truth value, not a number"),
        (I32, np.bool_(False), f"{np.bool_(False)!r} is a truth value, not a number"),
        (F32, True, "True is a truth value, not a number"),
        (U32, 1.0, "'float' object cannot be interpreted as an integer"),
        (I32, np.float32(1), "'numpy.float32' object cannot be interpreted as an integer"),
        (U32, "1", "'str' object cannot be interpreted as an integer"),
        (I32, None, "'NoneType' object cannot be interpreted as an integer"),
        (F32, "1.0", "'1.0' is not a real number"),
        (F32, 1j, "1j is not a real number"),
        (F32, None, "None is not a real number"),
        (BOOL, 1, "1 is not True or False"),
        (BOOL, 0.0, "0.0 is not True or False"),
        (BOOL, "true", "'true' is not True or False"),
    ],
)
def test_a_value_of_another_kind_is_refused(scalar: Scalar, value: object, message: str) -> None:
    with pytest.raises(TypeError) as error:
        scalar.encode(value)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("scalar", "text", "value"),
    [
        (U32, "12", 12),
        (U32, "0xff", 255),
        (U32, "0b101", 5),
        (U32, "4294967296", 2**32),
        (I32, "-1", -1),
        (I32, " 7 ", 7),
        (F32, "2.5", 2.5),
        (F32, "-1e3", -1000.0),
        (F32, "3", 3.0),
        (F32, "inf", math.inf),
        (BOOL, "true", True),
        (BOOL, "TRUE", True),
        (BOOL, "1", True),
        (BOOL, "false", False),
        (BOOL, "0", False),
    ],
)
def test_a_text_means_a_value_of_the_scalars_kind(scalar: Scalar, text: str, value: object) -> None:
    parsed = scalar.parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("scalar", "text", "message"),
    [
        (U32, "1.5", "invalid literal for int() with base 0: '1.5'"),
        (U32, "", "invalid literal for int() with base 0: ''"),
        (I32, "twelve", "invalid literal for int() with base 0: 'twelve'"),
        (I32, "010", "invalid literal for int() with base 0: '010'"),
        (F32, "0xff", "could not convert string to float: '0xff'"),
        (F32, "", "could not convert string to float: ''"),
        (BOOL, "yes", "'yes' is not true or false"),
        (BOOL, "2", "'2' is not true or false"),
    ],
)
def test_a_text_that_is_no_value_is_refused(scalar: Scalar, text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 -- the whole message is compared
        scalar.parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("scalar", "name", "dtype"),
    [
        (U32, "u32", "<u4"),
        (I32, "i32", "<i4"),
        (F32, "f32", "<f4"),
        (Scalar("f", 64), "f64", "<f8"),
        (Scalar("f", 16), "f16", "<f2"),
        (Scalar("u", 8), "u8", "<u1"),
        (Scalar("i", 64), "i64", "<i8"),
        (BOOL, "bool", None),
    ],
)
def test_a_scalar_has_a_short_name_and_a_numpy_type_where_there_is_one(scalar: Scalar, name: str, dtype: str | None) -> None:
    assert (str(scalar), scalar.dtype) == (name, dtype)
