"""Typed values and maps of them: what each takes, what is equal, their order and text, and what is no name or no value."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literals import refusal

from vyre_driver.autotune import AutotuneKey
from vyre_driver.errors import InvalidKey, InvalidSpecialization
from vyre_driver.identity import encode_manifest, spec_map_fields
from vyre_driver.ir.dtypes import DataType
from vyre_driver.specialization import (
    SpecCacheKey,
    SpecKind,
    SpecMap,
    SpecValue,
    versioned_specialization_artifact_key,
    vsa_specialization_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable


ONE, TWO = SpecValue.u32(1), SpecValue.u32(2)

names = st.text(max_size=8) | st.sampled_from(["", "\0", "a\0", "\uffff", "\U00010000", "é", "e\u0301"])
values = (
    st.integers(0, 2**32 - 1).map(SpecValue.u32)
    | st.integers(-(2**31), 2**31 - 1).map(SpecValue.i32)
    | st.integers(0, 2**32 - 1).map(SpecValue.f32_bits)
    | st.booleans().map(SpecValue.bool)
    | st.sampled_from([DataType.F32, DataType.vec(DataType.U8, 3), DataType.array(2**32 - 1)]).map(SpecValue.dtype)
)
entries = st.lists(st.tuples(names, values), max_size=20)


def test_the_empty_map_is_empty_and_hashes_to_its_basis() -> None:
    made = SpecMap.new()
    assert (len(made), made.is_empty, list(made), made.to_numeric_constants(), made.cache_hash()) == (
        0,
        True,
        [],
        {},
        0xCBF2_9CE4_8422_2325,
    )


@given(entries)
def test_a_map_is_a_table_in_the_byte_order_of_its_names(pairs: list[tuple[str, SpecValue]]) -> None:
    made, model = SpecMap(pairs), dict(pairs)
    in_order = sorted(model.items(), key=lambda pair: pair[0].encode())
    assert (list(made), len(made), made.is_empty) == (in_order, len(model), not model)
    assert [made.get(name) for name in model] == list(model.values())
    assert (made.get("no such name"), "no such name" in made) == (None, False)
    assert all(name in made for name in model)
    assert list(made.to_numeric_constants()) == [name for name, _ in in_order]


@given(entries)
def test_maps_of_the_same_entries_are_equal_whatever_made_them(pairs: list[tuple[str, SpecValue]]) -> None:
    model = dict(pairs)
    others = [SpecMap(model), SpecMap(SpecMap(pairs)), SpecMap(reversed(model.items())), copy.copy(SpecMap(pairs))]
    assert others == [SpecMap(pairs)] * 4
    assert {one.cache_hash() for one in others} == {SpecMap(pairs).cache_hash()}


@given(entries, entries)
def test_maps_are_equal_only_when_their_entries_are(
    some: list[tuple[str, SpecValue]], others: list[tuple[str, SpecValue]]
) -> None:
    assert (SpecMap(some) == SpecMap(others)) is (dict(some) == dict(others))


few_names = st.sampled_from(["a", "b", "ab", "a\0", ""])
few_values = st.sampled_from(
    [
        SpecValue.u32(0),
        SpecValue.u32(1),
        SpecValue.i32(1),
        SpecValue.bool(True),
        SpecValue.f32(0.0),
        SpecValue.f32(-0.0),
        SpecValue.dtype(DataType.U32),
        SpecValue.dtype(DataType.vec(DataType.U32, 2)),
        SpecValue.dtype(DataType.vec(DataType.U32, 3)),
    ]
)
few_entries = st.lists(st.tuples(few_names, few_values), max_size=3)


@given(few_entries, few_entries)
def test_maps_have_one_manifest_only_when_they_are_equal(
    some: list[tuple[str, SpecValue]], others: list[tuple[str, SpecValue]]
) -> None:
    a, b = SpecMap(some), SpecMap(others)
    assert (
        (encode_manifest(spec_map_fields(a)) == encode_manifest(spec_map_fields(b))) is (a == b) is (dict(some) == dict(others))
    )


def test_a_map_equals_nothing_but_a_map() -> None:
    assert (SpecMap() == {}, SpecMap() != {}) == (False, True)


def test_a_map_cannot_be_hashed_because_it_can_change() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'SpecMap'"):
        hash(SpecMap())


def test_inserting_a_name_again_replaces_its_value_and_changes_the_hash() -> None:
    made = SpecMap({"a": ONE, "b": ONE})
    before = made.cache_hash()
    made.insert("a", TWO)
    assert (list(made), made.cache_hash() == before) == ([("a", TWO), ("b", ONE)], False)
    made.insert("a", ONE)
    assert made.cache_hash() == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])  # noqa: S301 -- our own
def test_a_copy_has_the_entries_and_changes_alone(copied: object) -> None:
    made = SpecMap({"a": ONE})
    twin = copied(made)  # type: ignore[operator]
    twin.insert("b", TWO)
    assert (list(made), list(twin)) == ([("a", ONE)], [("a", ONE), ("b", TWO)])


def test_entries_may_be_inserted_while_a_map_is_walked() -> None:
    made = SpecMap({"a": ONE, "c": ONE})
    seen = []
    for name, _ in made:
        seen.append(name)
        made.insert(name + "b", TWO)
    assert (seen, [name for name, _ in made]) == (["a", "c"], ["a", "ab", "c", "cb"])


def test_a_map_shows_the_call_that_makes_it() -> None:
    assert repr(SpecMap({"b": ONE, "a": SpecValue.bool(True)})) == "SpecMap({'a': SpecValue.bool(True), 'b': SpecValue.u32(1)})"


@pytest.mark.parametrize("name", ["\ud800", "a\udfff", "\ud800\udc00"])
def test_a_name_without_utf_8_is_refused_and_leaves_the_map_as_it_was(name: str) -> None:
    made = SpecMap({"a": ONE})
    problem = f"a specialization constant is named {name!a}, which has a lone surrogate and so no UTF-8 form"
    expected = (InvalidSpecialization, 2102, f"{problem}. Fix: give well-formed Unicode.")
    assert (refusal(lambda: made.insert(name, ONE)), refusal(lambda: made.get(name))) == (expected, expected)
    assert list(made) == [("a", ONE)]


@pytest.mark.parametrize("name", [b"a", 1, None])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    message = f"a specialization constant is named {name!r}, which is not a str. Fix: give a str."
    assert refusal(lambda: SpecMap({name: ONE})) == (InvalidSpecialization, 2102, message)  # type: ignore[dict-item]
    assert name not in SpecMap({"a": ONE})


@pytest.mark.parametrize("value", [16, True, 1.5, DataType.F32, None])
def test_a_value_without_a_type_is_refused(value: object) -> None:
    problem = f"specialization constant 'TILE' was given {value!r}, which has no type"
    message = f"{problem}. Fix: give a SpecValue, for example SpecValue.u32(16)."
    assert refusal(lambda: SpecMap({"TILE": value})) == (InvalidSpecialization, 2102, message)  # type: ignore[dict-item]


KEY = SpecCacheKey(1, 2, (3, 4, 5), 6)


def test_a_key_folds_the_map_into_its_hash() -> None:
    made = SpecMap({"TILE": SpecValue.u32(16)})
    assert SpecCacheKey.new(1, 2, (64, 1, 1), made) == SpecCacheKey(1, 2, (64, 1, 1), 0x1EE5_B4EE_7772_5139)


@pytest.mark.parametrize(
    "other",
    [
        SpecCacheKey(7, 2, (3, 4, 5), 6),
        SpecCacheKey(1, 7, (3, 4, 5), 6),
        SpecCacheKey(1, 2, (7, 4, 5), 6),
        SpecCacheKey(1, 2, (3, 7, 5), 6),
        SpecCacheKey(1, 2, (3, 4, 7), 6),
        SpecCacheKey(1, 2, (3, 4, 5), 7),
    ],
)
def test_each_field_of_a_key_tells_keys_apart(other: SpecCacheKey) -> None:
    assert (other == KEY, len({other, KEY, SpecCacheKey(1, 2, (3, 4, 5), 6)})) == (False, 2)


def test_a_key_takes_any_three_numbers_for_a_workgroup() -> None:
    assert SpecCacheKey(1, 2, [3, 4, 5], 6) == KEY  # type: ignore[arg-type]


U32S = "an integer from 0 to 4294967295"
U64S = "an integer from 0 to 18446744073709551615"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ((-1, 0, (1, 1, 1), 0), f"shader_hash is -1, which is not {U64S}. Fix: give {U64S}."),
        ((0, 2**64, (1, 1, 1), 0), f"binding_sig is 18446744073709551616, which is not {U64S}. Fix: give {U64S}."),
        ((0, 0, (1, 1, 1), 0.0), f"spec_hash is 0.0, which is not {U64S}. Fix: give {U64S}."),
        ((0, 0, (1, -1, 1), 0), f"workgroup_size is -1, which is not {U32S}. Fix: give {U32S}."),
        ((0, 0, (1, 1), 0), "workgroup_size is (1, 1), which is not 3 numbers. Fix: give (x, y, z)."),
        ((True, 0, (1, 1, 1), 0), f"shader_hash is True, which is not {U64S}. Fix: give {U64S}."),
    ],
)
def test_a_field_of_a_key_out_of_its_range_is_refused(parts: tuple[object, ...], problem: str) -> None:
    assert refusal(lambda: SpecCacheKey(*parts)) == (InvalidKey, 2203, problem)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec_hash", [-1, 2**64, "1"])
def test_a_vsa_key_of_no_u64_is_refused(spec_hash: object) -> None:
    message = f"spec_hash is {spec_hash!r}, which is not {U64S}. Fix: give {U64S}."
    assert refusal(lambda: vsa_specialization_key(None, spec_hash)) == (InvalidKey, 2203, message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ((-1, "", ""), f"cache_version is -1, which is not {U32S}. Fix: give {U32S}."),
        ((2**32, "", ""), f"cache_version is 4294967296, which is not {U32S}. Fix: give {U32S}."),
        ((1, b"", ""), "spec_hash is b'', which is not a str. Fix: give a str."),
        ((1, "", None), "backend_fingerprint is None, which is not a str. Fix: give a str."),
        (
            (1, "", "\udc80"),
            "backend_fingerprint is '\\udc80', which has a lone surrogate and so no UTF-8 form. Fix: give well-formed Unicode.",
        ),
    ],
)
def test_an_artifact_key_of_parts_out_of_range_is_refused(parts: tuple[object, ...], problem: str) -> None:
    refused = refusal(lambda: versioned_specialization_artifact_key(*parts))  # type: ignore[arg-type]
    assert refused == (InvalidKey, 2203, problem)


def test_an_autotune_key_has_the_digits_of_the_kernel_and_the_adapter_as_given() -> None:
    spec = SpecCacheKey(0xFEDC_BA98_7654_3210, 0x1122_3344_5566_7788, (8, 8, 4), 0x0123_4567_89AB_CDEF)
    assert AutotuneKey.new(spec, "native-sm_90") == AutotuneKey("e7cda3896345230198453223dc89feef", "native-sm_90")


def test_autotune_keys_are_ordered_by_digits_then_adapter_in_bytes() -> None:
    in_order = [AutotuneKey("0", "z"), AutotuneKey("1", "Z"), AutotuneKey("1", "z"), AutotuneKey("1", "\uffff")]
    assert sorted([*reversed(in_order), AutotuneKey("1", "\U00010000")]) == [*in_order, AutotuneKey("1", "\U00010000")]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ((b"00", "a"), "key_hex is b'00', which is not a str. Fix: give a str."),
        (("00", 7), "adapter_id is 7, which is not a str. Fix: give a str."),
        (
            ("00", "\ud800"),
            "adapter_id is '\\ud800', which has a lone surrogate and so no UTF-8 form. Fix: give well-formed Unicode.",
        ),
    ],
)
def test_an_autotune_key_that_no_file_can_hold_is_refused(parts: tuple[object, ...], problem: str) -> None:
    assert refusal(lambda: AutotuneKey(*parts)) == (InvalidKey, 2203, problem)  # type: ignore[arg-type]


def test_8_threads_hash_and_key_the_same_maps_at_once() -> None:
    maps = [SpecMap({f"n\0{place:03d}é": SpecValue.u32(place * size) for place in range(size)}) for size in range(0, 64, 3)]

    def work(index: int) -> list[object]:
        found = []
        for made in maps * 20:
            key = SpecCacheKey.new(index, made.cache_hash(), (64, index, 1), made)
            artifact = versioned_specialization_artifact_key(index, str(key.spec_hash), "adapter")
            found.append((AutotuneKey.new(key, "adapter"), artifact, SpecMap(made) == made))
        return found

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, range(8)))
    assert together == [work(index) for index in range(8)]


def test_a_map_may_be_hashed_while_another_thread_inserts() -> None:
    made = SpecMap()
    hashes = [SpecMap({f"{place:04d}": ONE for place in range(size)}).cache_hash() for size in range(301)]

    def insert() -> None:
        for place in range(300):
            made.insert(f"{place:04d}", ONE)

    with ThreadPoolExecutor(2) as pool:
        done = pool.submit(insert)
        seen = {made.cache_hash()}
        while not done.done():
            seen.add(made.cache_hash())
        done.result()
    assert (seen <= set(hashes), made.cache_hash()) == (True, hashes[-1])


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
