"""Names and values become the words of specialization and push constants."""

from __future__ import annotations

import numpy as np
import pytest
from literals import BOOL, F32, I32, U32, refusal

from vyre_driver.binding.push_constants import pack_push_constants
from vyre_driver.errors import InvalidPushConstant, InvalidSpecialization
from vyre_driver.ir.dtypes import DataType
from vyre_driver.specialization import (
    Specialization,
    SpecializedConstant,
    SpecMap,
    SpecValue,
    specialize,
)
from vyre_driver.spirv.interface import SpecConstant
from vyre_driver.spirv.layout import Member, Vector

COUNT = SpecConstant("count", 0, U32, 256)
SHIFT = SpecConstant("shift", 2, I32, 0xFFFF_FFFF)
SCALE = SpecConstant("scale", 5, F32, 0x3F80_0000)
FAST = SpecConstant("fast", 6, BOOL, 1)
DECLARED = (COUNT, SHIFT, SCALE, FAST)

ALPHA = Member("alpha", 0, F32)
SIZE = Member("size", 8, Vector(U32, 2))
OFFSET = Member("offset", 20, I32)
PUSH = (ALPHA, SIZE, OFFSET)


def test_without_values_every_constant_keeps_the_shaders_default() -> None:
    assert specialize(DECLARED, {}) == Specialization(
        (
            SpecializedConstant("count", 0, "u32", 256),
            SpecializedConstant("shift", 2, "i32", 0xFFFF_FFFF),
            SpecializedConstant("scale", 5, "f32", 0x3F80_0000),
            SpecializedConstant("fast", 6, "bool", 1),
        )
    )


def test_a_given_value_takes_the_place_of_the_default() -> None:
    given = {"fast": False, "scale": -0.5, "count": 7}
    assert [constant.bits for constant in specialize(DECLARED, given).constants] == [7, 0xFFFF_FFFF, 0xBF00_0000, 0]


def test_words_stand_at_their_ids_and_gaps_are_zero() -> None:
    assert specialize(DECLARED, {}).words == (256, 0, 0xFFFF_FFFF, 0, 0, 0x3F80_0000, 1)


def test_a_shader_without_constants_has_no_words() -> None:
    assert specialize((), {}).words == ()


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (DECLARED, "the shader has no specialization constant 'depth'; it has count, shift, scale, fast"),
        ((), "the shader has no specialization constant 'depth'; it has none"),
    ],
)
def test_a_constant_that_the_shader_does_not_declare_is_refused(declared: tuple[SpecConstant, ...], problem: str) -> None:
    message = f"{problem}. Fix: give only constants that the shader declares."
    assert refusal(lambda: specialize(declared, {"width": 1, "depth": 2})) == (InvalidSpecialization, 2102, message)


@pytest.mark.parametrize(
    ("name", "value", "problem", "fix"),
    [
        ("count", -1, "is a u32, and -1 is not between 0 and 4294967295", "give a u32"),
        ("count", 1.5, "is a u32, and 'float' object cannot be interpreted as an integer", "give a u32"),
        ("count", True, "is a u32, and True is a truth value, not a number", "give a u32"),
        ("shift", 2**31, "is an i32, and 2147483648 is not between -2147483648 and 2147483647", "give an i32"),
        ("scale", "1", "is an f32, and '1' is not a real number", "give an f32"),
        ("scale", 1e39, "is an f32, and float too large to pack with f format", "give an f32"),
        ("fast", 1, "is a bool, and 1 is not True or False", "give a bool"),
    ],
)
def test_a_specialization_value_that_does_not_fit_is_refused(name: str, value: object, problem: str, fix: str) -> None:
    message = f"specialization constant {name!r} {problem}. Fix: {fix}."
    assert refusal(lambda: specialize(DECLARED, {name: value})) == (InvalidSpecialization, 2102, message)


def test_push_constants_are_packed_at_their_offsets_with_zeros_between() -> None:
    given = {"offset": -2, "size": (640, 480), "alpha": 0.5}
    assert pack_push_constants(PUSH, 24, given) == (0x3F00_0000, 0, 640, 480, 0, 0xFFFF_FFFE)


def test_the_order_in_which_push_constants_are_given_does_not_count() -> None:
    given = {"alpha": 1.0, "size": [1, 2], "offset": 3}
    assert pack_push_constants(PUSH, 24, given) == pack_push_constants(PUSH, 24, dict(reversed(given.items())))


def test_a_shader_without_push_constants_packs_none() -> None:
    assert pack_push_constants((), 0, {}) == ()


VECTORS = [[3, 4], (3, 4), range(3, 5), np.array([3, 4]), np.array([3, 4], np.uint32), [np.uint32(3), np.int64(4)]]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: type(vector).__name__)
def test_a_vector_is_given_as_any_sequence(vector: object) -> None:
    assert pack_push_constants((Member("size", 0, Vector(U32, 2)),), 8, {"size": vector}) == (3, 4)


@pytest.mark.parametrize("value", [0.5, [0.5], np.float32(0.5)])
def test_a_scalar_is_given_alone_or_as_a_sequence_of_one(value: object) -> None:
    assert pack_push_constants((ALPHA,), 4, {"alpha": value}) == (0x3F00_0000,)


def test_a_push_constant_that_the_shader_does_not_declare_is_refused() -> None:
    given = {"alpha": 1.0, "zeta": 1, "beta": 2}
    message = "the shader has no push constant 'beta'. Fix: give only what it declares: 'alpha'."
    assert refusal(lambda: pack_push_constants((ALPHA,), 4, given)) == (InvalidPushConstant, 2103, message)


def test_a_push_constant_that_is_not_given_is_refused() -> None:
    message = "push constant 'offset' (i32) was not given. Fix: give it, for example offset=1, or --push offset=1."
    given = {"alpha": 1.0, "size": (1, 2)}
    assert refusal(lambda: pack_push_constants(PUSH, 24, given)) == (InvalidPushConstant, 2103, message)


@pytest.mark.parametrize(
    ("name", "value", "problem", "fix"),
    [
        ("size", 5, "is 2 x u32 and got 1 value(s)", "give 2 value(s)"),
        ("size", (1, 2, 3), "is 2 x u32 and got 3 value(s)", "give 2 value(s)"),
        ("size", (), "is 2 x u32 and got 0 value(s)", "give 2 value(s)"),
        ("size", "12", "is 2 x u32 and got 1 value(s)", "give 2 value(s)"),
        ("size", b"12", "is 2 x u32 and got 1 value(s)", "give 2 value(s)"),
        ("alpha", (1.0, 2.0), "is f32 and got 2 value(s)", "give 1 value(s)"),
        ("alpha", "1", "is f32, and '1' is not a real number", "give f32"),
        ("size", (1, -1), "is 2 x u32, and -1 is not between 0 and 4294967295", "give 2 x u32"),
        ("size", (1, 2.5), "is 2 x u32, and 'float' object cannot be interpreted as an integer", "give 2 x u32"),
        ("offset", True, "is i32, and True is a truth value, not a number", "give i32"),
        ("alpha", 1e39, "is f32, and float too large to pack with f format", "give f32"),
    ],
)
def test_a_push_value_that_does_not_fit_is_refused(name: str, value: object, problem: str, fix: str) -> None:
    given = {"alpha": 1.0, "size": (1, 2), "offset": 0, name: value}
    message = f"push constant {name!r} {problem}. Fix: {fix}."
    assert refusal(lambda: pack_push_constants(PUSH, 24, given)) == (InvalidPushConstant, 2103, message)


TYPED = SpecMap(
    {
        "count": SpecValue.u32(7),
        "shift": SpecValue.i32(-2),
        "scale": SpecValue.f32_bits(0x7F80_0001),
        "fast": SpecValue.bool(False),
    }
)


def test_typed_values_are_taken_by_their_bits_whatever_nan_they_are() -> None:
    assert [constant.bits for constant in specialize(DECLARED, TYPED).constants] == [7, 0xFFFF_FFFE, 0x7F80_0001, 0]


def test_a_mapping_may_hold_typed_and_plain_values() -> None:
    mixed = {"count": SpecValue.u32(7), "shift": -2, "scale": SpecValue.f32_bits(0x7F80_0001), "fast": False}
    assert specialize(DECLARED, mixed) == specialize(DECLARED, TYPED)


def test_an_empty_map_keeps_every_default() -> None:
    assert specialize(DECLARED, SpecMap()) == specialize(DECLARED, {})


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("count", SpecValue.i32(7), "is a u32, and SpecValue.i32(7) is an i32. Fix: give a u32."),
        ("shift", SpecValue.u32(7), "is an i32, and SpecValue.u32(7) is a u32. Fix: give an i32."),
        ("scale", SpecValue.u32(7), "is an f32, and SpecValue.u32(7) is a u32. Fix: give an f32."),
        ("fast", SpecValue.u32(1), "is a bool, and SpecValue.u32(1) is a u32. Fix: give a bool."),
        ("count", SpecValue.bool(True), "is a u32, and SpecValue.bool(True) is a bool. Fix: give a u32."),
        (
            "count",
            SpecValue.dtype(DataType.F32),
            f"is a u32, and SpecValue.dtype({DataType.F32!r}) is a dtype. Fix: give a u32.",
        ),
    ],
)
def test_a_typed_value_of_another_type_than_the_constant_is_refused(name: str, value: SpecValue, problem: str) -> None:
    message = f"specialization constant {name!r} {problem}"
    assert refusal(lambda: specialize(DECLARED, SpecMap({name: value}))) == (InvalidSpecialization, 2102, message)


def test_a_typed_value_for_a_constant_that_is_not_declared_is_refused() -> None:
    message = (
        "the shader has no specialization constant 'depth'; it has none. Fix: give only constants that the shader declares."
    )
    assert refusal(lambda: specialize((), SpecMap({"depth": SpecValue.u32(1)}))) == (InvalidSpecialization, 2102, message)
