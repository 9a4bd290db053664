"""What is packed, refused or left as it is: values for padded elements, masked arrays, and arrays without elements."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from literals import F32, U32, buffer, reflection, refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Array, Matrix, Member, Struct, Vector, shape_of_views

VEC3 = Vector(F32, 3)
ITEM = Struct("Item", (Member("at", 0, VEC3), Member("id", 12, U32), Member("turn", 16, Matrix(F32, 2, 2, 8, False))), 32)


def block(*members: Member) -> Struct:
    return Struct("B", members, max(one.offset + one.type.byte_len for one in members))


VECTORS = block(Member("pos", 0, Array(VEC3, None, 16)))
ITEMS = block(Member("items", 0, Array(ITEM, None, 32)))
HEADED = block(Member("count", 0, U32), Member("items", 16, Array(ITEM, None, 32)))
SETTINGS = block(Member("gain", 0, F32), Member("seen", 16, Vector(U32, 3)), Member("box", 32, ITEM))
FLOATS = block(Member("y", 0, Array(F32, None, 4)))
MIXED = block(Member("count", 0, U32), Member("y", 4, Array(F32, None, 4)))
WORDS = block(Member("count", 0, U32), Member("y", 4, Array(U32, None, 4)))
SQUARES = block(Member("m", 0, Array(Matrix(F32, 4, 4, 16, False), None, 64)))
ITEM_GIVEN = {"at": (1, 2, 3), "id": 4, "turn": [[5, 6], [7, 8]]}


def plan_of(declared: Struct, access: str = "rw") -> BindingPlan:
    header, element, count, least = shape_of_views([declared])
    made = buffer("b", 0, access, header_bytes=header, element=element, count=count, least_bytes=least, block=declared)
    return BindingPlan.from_reflection(reflection(made))


def refused(declared: Struct, given: object) -> str:
    kind, code, text = refusal(lambda: plan_of(declared).check_arguments([given], {}))
    assert (kind, code) == (InvalidInput, 2201)
    return str(text)


class CItem(ctypes.Structure):
    """The structure ``Item`` as a C compiler lays it out."""

    _fields_ = (("at", ctypes.c_float * 3), ("id", ctypes.c_uint32), ("turn", ctypes.c_float * 4))


def test_a_structure_is_packed_as_c_lays_it_out() -> None:
    expected = CItem((1, 2, 3), 4, (5, 7, 6, 8))  # column by column
    assert plan_of(ITEMS).pack("b", [ITEM_GIVEN]).tobytes() == bytes(expected)
    dtype = plan_of(ITEMS).element_dtype("b")
    assert dtype is not None
    assert dtype.fields is not None
    assert {name: dtype.fields[name][1] for name in dtype.fields} == {"at": 0, "id": CItem.id.offset, "turn": CItem.turn.offset}
    assert plan_of(ITEMS).unpack("b", bytes(expected))["turn"].tolist() == [[[5, 6], [7, 8]]]


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        (
            SETTINGS,
            {"gain": 1, "seen": (1, 2, 3), "box": ITEM_GIVEN, "gian": 2},
            "input_output 'b' has no member 'gian'. Fix: give only what it declares: 'gain', 'seen', 'box'.",
        ),
        (
            SETTINGS,
            {"gain": 1, "box": ITEM_GIVEN},
            "member 'seen' of input_output 'b' (vec3<u32>) was not given. Fix: give it, 3 x u32.",
        ),
        (
            SETTINGS,
            {"gain": 1, "seen": (1, 2), "box": ITEM_GIVEN},
            "member 'seen' of input_output 'b' is 3 x u32 and got 2 value(s). Fix: give 3 value(s).",
        ),
        (
            SETTINGS,
            {"gain": 1, "seen": (1, 2, 2.5), "box": ITEM_GIVEN},
            (
                "member 'seen' of input_output 'b' is 3 x u32, and 'float' object cannot be interpreted as an integer. "
                "Fix: give 3 x u32."
            ),
        ),
        (
            SETTINGS,
            {"gain": np.ma.masked_array([1.0], mask=[True]), "seen": (1, 2, 3), "box": ITEM_GIVEN},
            "member 'gain' of input_output 'b' is f32, and None is not a real number. Fix: give f32.",
        ),
        (
            SETTINGS,
            {"gain": 1, "seen": (1, 2, 3), "box": {**ITEM_GIVEN, "turn": np.eye(3)}},
            "member 'box.turn' of input_output 'b' is f32 of shape (2, 2) and got shape (3, 3). Fix: give f32 of shape (2, 2).",
        ),
        (
            SETTINGS,
            {"gain": 1, "seen": (1, 2, 3), "box": np.zeros((), [("at", "f4", 3), ("id", "i4"), ("turn", "f4", (2, 2))])},
            (
                "member 'box.id' of input_output 'b' is uint32, and the array has int32. "
                "Fix: give the fields that the shader declares."
            ),
        ),
        (
            HEADED,
            {"count": 1, "items": [ITEM_GIVEN, 3]},
            (
                "member 'items[1]' of input_output 'b' is a structure and got something of type int. "
                "Fix: give a mapping with 'at', 'id', 'turn'."
            ),
        ),
        (
            HEADED,
            {"count": 1, "items": 3},
            "member 'items' of input_output 'b' is Item[1] and got something of type int. Fix: give a sequence of 1 elements.",
        ),
        (
            HEADED,
            {"count": 1, "items": []},
            "input_output 'b' has 16 bytes, less than the 48 bytes of one element. Fix: pass at least one element.",
        ),
        (
            ITEMS,
            [ITEM_GIVEN, {"at": (1, 2, 3), "id": 4}],
            "member '[1].turn' of input_output 'b' (mat2x2<f32>) was not given. Fix: give it, f32 of shape (2, 2).",
        ),
        (
            ITEMS,
            np.zeros(2, [("at", "f4", 3), ("id", "u4"), ("turns", "f4", (2, 2))]),
            (
                "input_output 'b' has the fields 'at', 'id', 'turn', and got an array of 'at', 'id', 'turns'. Fix: name the "
                "fields as the shader names its members, or pass bytes with .view(numpy.uint8)."
            ),
        ),
        (
            ITEMS,
            np.zeros(2, [("at", "f4", 4), ("id", "u4"), ("turn", "f4", (2, 2))]),
            (
                "member 'at' of input_output 'b' is ('<f4', (3,)), and the array has ('<f4', (4,)). "
                "Fix: give the fields that the shader declares."
            ),
        ),
        (
            ITEMS,
            np.zeros(2, [("at", ">f4", 3), ("id", "u4"), ("turn", "f4", (2, 2))]),
            (
                "member 'at' of input_output 'b' is ('<f4', (3,)), and the array has ('>f4', (3,)). "
                "Fix: give the fields that the shader declares."
            ),
        ),
        (
            ITEMS,
            np.zeros((2, 8), np.float32),
            (
                "input_output 'b' holds Item[n] and got an array of shape (2, 8) and type float32, which does not tell which "
                "of its numbers is which. Fix: pass a mapping with 'at', 'id', 'turn', or a structured array of "
                "kernel.plan.element_dtype('b'), or bytes laid out as print(module) shows."
            ),
        ),
        (
            MIXED,
            np.zeros(4, np.float32),
            (
                "input_output 'b' holds {count: u32, y: f32[n]} and got an array of shape (4,) and type float32, which does "
                "not tell which of its numbers is which. Fix: pass a mapping with 'count', 'y', or bytes laid out as "
                "print(module) shows."
            ),
        ),
        (
            SQUARES,
            np.zeros((2, 4, 4)),
            (
                "input_output 'b' holds mat4x4<f32>[n] and got an array of shape (2, 4, 4) and type float64, which does not "
                "tell which of its numbers is which. Fix: pass float32 of shape (n, 4, 4), or bytes laid out as "
                "print(module) shows."
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_the_path_of_the_member(declared: Struct, given: object, message: str) -> None:
    assert refused(declared, given) == message


def test_plain_numbers_are_packed_as_themselves() -> None:
    plan = plan_of(FLOATS)
    packed = plan.pack("b", {"y": [1, 2]})
    assert (packed.dtype, packed.tolist(), plan.unpack("b", packed).tolist()) == (np.float32, [1, 2], [1, 2])
    assert plan.check_resident([Held(packed)])[0].byte_len == 8


@pytest.mark.parametrize(
    ("member", "value"), [(F32, 2.5), (Vector(F32, 2), (1, 2)), (Vector(U32, 4), (1, 2, 3, 4)), (Array(F32, 3, 4), [1, 2, 3])]
)
def test_a_block_of_one_member_is_packed_as_its_numbers(member: Any, value: object) -> None:  # noqa: ANN401 -- of layout.py
    plan = plan_of(block(Member("only", 0, member)))
    packed = plan.pack("b", {"only": value})
    assert packed.dtype == (np.uint32 if member == Vector(U32, 4) else np.float32)
    assert packed.tolist() == np.atleast_1d(np.array(value)).tolist()
    assert plan.check_resident([Held(packed)])[0].byte_len == packed.nbytes


def test_a_structure_may_hold_one_that_ends_in_an_array_of_structures() -> None:
    light = Struct("Light", (Member("at", 0, VEC3),), 12)
    scene = Struct("Scene", (Member("gain", 0, F32), Member("lights", 16, Array(light, 2, 16))), 48)
    plan = plan_of(block(Member("scene", 0, scene)))
    lights = [{"at": (1, 2, 3)}, {"at": (4, 5, 6)}]
    packed = plan.pack("b", {"scene": {"gain": 7, "lights": lights}})
    assert packed.view(np.float32).tolist() == [[7, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6, 0]]
    assert plan.unpack("b", packed)["scene"]["lights"]["at"].tolist() == [[1, 2, 3], [4, 5, 6]]
    dtype = plan.element_dtype("b")
    assert dtype is not None
    given = np.zeros((), dtype)
    given["scene"]["gain"], given["scene"]["lights"]["at"] = 7, [(1, 2, 3), (4, 5, 6)]
    assert plan.pack("b", given).tobytes() == packed.tobytes()


@pytest.mark.parametrize("given", [{"y": [1, 2]}, {"y": np.array([1, 2])}, {"y": (1.0, np.float32(2))}])
def test_a_mapping_for_plain_numbers_comes_back_as_the_numbers(given: object) -> None:
    (found,) = plan_of(FLOATS).check_arguments([given], {})
    assert (found.shape, found.dtype, found.byte_len, found.is_packed) == ((2,), np.float32, 8, True)
    assert found.result.finish(np.float32([3, 4])).tolist() == [3, 4]
    assert found.data is not None
    assert found.data.tolist() == [1, 2]


def test_numbers_of_one_type_without_gaps_are_memory_as_before() -> None:
    (found,) = plan_of(WORDS).check_arguments([np.arange(4, dtype=np.uint32)], {})
    assert (found.shape, found.is_packed, found.element_count) == ((4,), False, 3)
    (found,) = plan_of(SQUARES).check_arguments([np.zeros((3, 16), np.float32)], {})
    assert (found.shape, found.is_packed) == ((3, 16), False)
    (found,) = plan_of(SQUARES).check_arguments([np.zeros((3, 4, 4), np.float32)], {})
    assert (found.shape, found.is_packed, found.result.shape) == ((3, 4, 4), True, (3, 64))


@pytest.mark.parametrize("member", [U32, Vector(U32, 4)])
def test_a_structure_of_one_unsigned_member_takes_the_bits_of_any_type(member: Any) -> None:  # noqa: ANN401 -- of layout.py
    word = Struct("Word", (Member("bits", 0, member),), member.byte_len)
    plan = plan_of(block(Member("words", 0, Array(word, None, word.byte_len))))
    given = np.zeros((8, 2), np.float32)
    (found,) = plan.check_arguments([given], {})
    assert (found.data is given, found.shape, found.dtype) == (True, (8, 2), np.float32)
    assert plan.check_resident([Held(given)])[0].byte_len == 64


def test_an_array_that_lies_as_memory_does_is_not_copied() -> None:
    plain = block(Member("items", 0, Array(Struct("P", (Member("at", 0, VEC3), Member("id", 12, U32)), 16), None, 16)))
    dtype = plan_of(plain).element_dtype("b")
    given = np.zeros(3, dtype)
    (found,) = plan_of(plain).check_arguments([given], {})
    assert (found.data is given, found.is_packed, found.result.elements, found.result.dtype) == (True, False, None, dtype)


class Held:
    """A resident buffer as far as a plan knows it."""

    def __init__(self, array: Any) -> None:  # noqa: ANN401 -- of numpy
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes


@pytest.mark.parametrize(
    ("declared", "array"),
    [
        (VECTORS, np.zeros((4, 3), np.float32)),
        (SQUARES, np.zeros((4, 4, 4), np.float32)),
        (ITEMS, np.zeros(2, plan_of(ITEMS).element_dtype("b"))),
        (HEADED, plan_of(HEADED).unpack("b", bytes(48))),
    ],
)
def test_values_in_a_resident_buffer_are_refused_and_what_pack_makes_of_them_is_bound(
    declared: Struct,
    array: Any,  # noqa: ANN401 -- of numpy
) -> None:
    plan = plan_of(declared)
    with pytest.raises(InvalidInput, match=r"make the buffer of kernel.plan.pack\('b', a\), where a is the array"):
        plan.check_resident([Held(array)])
    packed = plan.pack("b", array)
    (found,) = plan.check_resident([Held(packed)])
    assert found.byte_len == packed.nbytes
    assert plan.unpack("b", packed).tobytes() == array.tobytes()
    with pytest.raises(InvalidInput, match=r"the shader has no buffer 'c'. Fix: name one of \['b'\]"):
        plan.pack("c", array)


EMPTY = [
    (VECTORS, np.zeros((0, 3), np.float32)),
    (VECTORS, np.zeros((0, 4), np.float32)),
    (VECTORS, np.zeros(0, np.float32)),
    (VECTORS, b""),
    (VECTORS, {"pos": []}),
    (ITEMS, np.zeros(0, plan_of(ITEMS).element_dtype("b"))),
    (HEADED, {"count": 0, "items": []}),
    (HEADED, bytes(16)),
    (FLOATS, np.zeros((3, 0), np.float32)),
]


@pytest.mark.parametrize(("declared", "given"), EMPTY)
def test_no_elements_are_taken_only_where_that_is_asked_for(declared: Struct, given: object) -> None:
    plan = plan_of(declared)
    (found,) = plan.check_arguments([given], {}, of_kernel=True)
    assert (found.is_empty, found.byte_len) == (True, found.binding.header_bytes)
    if isinstance(given, np.ndarray):
        assert (found.shape, found.dtype) == (given.shape, given.dtype)
    assert found.data is not None
    back = found.result.finish(found.data.reshape(-1).view(np.uint8).view(found.result.dtype).reshape(found.result.shape))
    assert (back.shape, back.dtype) == (found.shape, found.dtype)
    with pytest.raises(InvalidInput, match="pass at least one element"):
        plan.check_arguments([given], {})


def test_an_output_of_no_elements_is_taken_only_where_that_is_asked_for() -> None:
    plan = plan_of(VECTORS, "w")
    (found,) = plan.check_arguments([], {"b": 0}, of_kernel=True)
    assert (found.is_empty, found.shape, found.dtype, found.byte_len) == (True, (0, 3), np.float32, 0)
    assert refusal(lambda: plan.check_arguments([], {"b": 0}))[2] == (
        "out_shapes gives 'b' 0 elements, and the shader wants 1 or more. Fix: give 1 or more."
    )
    assert refusal(lambda: plan.check_arguments([], {"b": -1}, of_kernel=True))[2] == (
        "out_shapes gives 'b' -1 elements, and the shader wants 0 or more. Fix: give 0 or more."
    )
    fixed = plan_of(block(Member("y", 0, Array(F32, 4, 4))))
    with pytest.raises(InvalidInput, match="fixes it at 16 bytes"):
        fixed.check_arguments([np.zeros(0, np.float32)], {}, of_kernel=True)


def test_a_masked_array_is_refused_if_anything_is_masked() -> None:
    whole = np.ma.masked_array(np.float32([1, 2]), mask=[False, False])
    (found,) = plan_of(FLOATS).check_arguments([whole], {})
    assert found.data is not None
    assert found.data.tolist() == [1, 2]
    message = (
        "input_output 'b' got a masked array with elements that are missing. "
        "Fix: pass array.filled(value), with what they stand for."
    )
    assert refused(FLOATS, np.ma.masked_array(np.float32([1, 2]), mask=[False, True])) == message
    structured = np.ma.zeros(2, plan_of(ITEMS).element_dtype("b"))
    assert plan_of(ITEMS).check_arguments([structured], {})[0].byte_len == 64
    structured[1] = np.ma.masked
    assert refused(ITEMS, structured) == message
