"""Which buffer is what, and the proof that arrays fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import FLOATS, UINTS, buffer, refusal
from shader_buffers import BY_VALUE, FIXED, HEADED, RAW, VECTORS, X, Y, Z, check, floats, invalid, only, plan, summary

from vyre_driver.binding import Binding, BindingPlan, BindingRole
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Element, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.spirv.reflection import BufferInterface

ROLES = {
    BindingRole.INPUT: (True, False),
    BindingRole.OUTPUT: (False, True),
    BindingRole.INPUT_OUTPUT: (True, True),
    BindingRole.UNIFORM: (True, False),
    BindingRole.SHARED: (False, False),
    BindingRole.PERSISTENT: (False, False),
}


@pytest.mark.parametrize("role", BindingRole)
def test_a_role_says_whether_contents_come_in_and_go_out(role: BindingRole) -> None:
    assert (role.consumes_input, role.produces_output) == ROLES[role]


def test_a_plan_gives_each_buffer_its_role_and_its_places() -> None:
    assert plan(X, Y, Z, FIXED) == BindingPlan(
        (
            Binding("x", 0, 0, BindingRole.INPUT, 4, 4, 0, None, 0, None, 0, FLOATS),
            Binding("y", 2, 1, BindingRole.INPUT_OUTPUT, 4, 4, 0, None, 1, 0, 0, FLOATS),
            Binding("z", 5, 2, BindingRole.OUTPUT, 4, 4, 0, None, None, 1, 0, FLOATS),
            Binding("fixed", 7, 3, BindingRole.OUTPUT, 4, 4, 3, 12, None, 2, 0, FLOATS),
        ),
        (0, 1),
        (1, 2, 3),
        (),
        "shader",
    )


def test_a_buffer_that_is_neither_read_nor_written_is_an_input() -> None:
    assert only(buffer("x", 0, "")).role is BindingRole.INPUT


@pytest.mark.parametrize(
    ("given", "byte_len"),
    [(X, None), (FIXED, 12), (buffer("b", header_bytes=8, count=2), 16), (HEADED, None)],
)
def test_a_buffers_bytes_are_known_where_the_shader_fixes_them(given: BufferInterface, byte_len: int | None) -> None:
    assert only(given).static_byte_len == byte_len


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (X, "float32"),
        (buffer("b", element=UINTS), "uint32"),
        (buffer("b", element=Element(8, Scalar("i", 64), 1)), "int64"),
        (buffer("b", element=Element(2, Scalar("f", 16), 1)), "float16"),
        (VECTORS, "float32"),
        (HEADED, "None"),
        (RAW, "None"),
    ],
)
def test_a_buffers_numpy_type_is_its_scalars_unless_it_is_raw_or_has_a_header(given: BufferInterface, dtype: str) -> None:
    assert str(only(given).dtype) == dtype


def test_one_array_a_buffer_is_taken_in_binding_order() -> None:
    assert summary(check([X, Y, Z], floats(1), floats(2, 3), floats(4))) == [
        ("x", [1], 4, (1,), "float32"),
        ("y", [2, 3], 8, (2,), "float32"),
        ("z", [4], 4, (1,), "float32"),
    ]


def test_an_outputs_array_may_be_left_out_when_its_count_is_given() -> None:
    assert summary(check([X, Z, Y], floats(1), floats(2), z=5)) == [
        ("x", [1], 4, (1,), "float32"),
        ("z", None, 20, (5,), "float32"),
        ("y", [2], 4, (1,), "float32"),
    ]


def test_an_outputs_array_may_be_left_out_when_the_shader_fixes_its_size() -> None:
    assert summary(check([X, FIXED], floats(1))) == [
        ("x", [1], 4, (1,), "float32"),
        ("fixed", None, 12, (3,), "float32"),
    ]


def test_an_output_of_fixed_size_takes_an_array_all_the_same() -> None:
    assert summary(check([X, FIXED], floats(1), floats(2, 3, 4)))[1] == ("fixed", [2, 3, 4], 12, (3,), "float32")


def test_an_output_of_fixed_size_takes_its_count_all_the_same() -> None:
    assert summary(check([X, FIXED], floats(1), fixed=3))[1] == ("fixed", None, 12, (3,), "float32")


def test_a_read_write_buffer_of_fixed_size_cannot_be_left_out() -> None:
    changed = buffer("changed", 1, "rw", count=3)
    assert refusal(lambda: check([X, changed], floats(1))) == invalid(
        "the shader takes 2 array(s), 'x' (input), 'changed' (input_output), and got 1",
        "pass them in binding order; an output's may be left out when out_shapes gives its shape",
    )


@pytest.mark.parametrize(
    ("buffers", "count", "wanted"),
    [
        ([X, Y], 0, "2 array(s), 'x' (input), 'y' (input_output), and got 0"),
        ([X, Y], 3, "2 array(s), 'x' (input), 'y' (input_output), and got 3"),
        ([X, Z], 1, "2 array(s), 'x' (input), 'z' (output), and got 1"),
        ([X, FIXED], 0, "1 array(s), 'x' (input), and got 0"),
        ([X, FIXED], 3, "1 array(s), 'x' (input), and got 3"),
    ],
)
def test_a_wrong_number_of_arrays_is_refused_with_the_buffers_that_want_one(
    buffers: list[BufferInterface], count: int, wanted: str
) -> None:
    assert refusal(lambda: check(buffers, *[floats(1)] * count)) == invalid(
        f"the shader takes {wanted}",
        "pass them in binding order; an output's may be left out when out_shapes gives its shape",
    )


@pytest.mark.parametrize(
    ("buffers", "name", "fix"),
    [
        ([X, Z, FIXED], "other", "name one of ['fixed', 'z']"),
        ([X, Z], "x", "name one of ['z']"),
        ([Y], "y", "pass an array for every buffer"),
    ],
)
def test_a_count_for_what_is_no_write_only_buffer_is_refused(buffers: list[BufferInterface], name: str, fix: str) -> None:
    problem = f"out_shapes names {name!r}, which is not a write-only buffer of the shader"
    assert refusal(lambda: check(buffers, **{name: 1})) == invalid(problem, fix)


@pytest.mark.parametrize(
    ("name", "count", "wanted"),
    [("z", 0, "1 or more"), ("z", -1, "1 or more"), ("fixed", 2, "3"), ("fixed", 4, "3"), ("fixed", 0, "3")],
)
def test_a_count_that_the_buffer_cannot_have_is_refused(name: str, count: int, wanted: str) -> None:
    problem = f"out_shapes gives {name!r} {count} elements, and the shader wants {wanted}"
    assert refusal(lambda: check([X, Z, FIXED], floats(1), **{name: count})) == invalid(problem, f"give {wanted}")


@pytest.mark.parametrize("count", [2.5, "3", None, np.array([1, 2])], ids=repr)
def test_a_count_that_is_no_whole_number_is_refused(count: Any) -> None:  # noqa: ANN401 -- deliberately wrong
    problem = f"out_shapes gives 'z' {count!r} elements, and the shader wants 1 or more"
    assert refusal(lambda: check([X, Z], floats(1), z=count)) == invalid(problem, "give 1 or more")


def test_a_count_of_a_numpy_type_is_the_same_count() -> None:
    counted = check([Z], z=np.int64(2**61))[0]
    assert (counted.byte_len, type(counted.byte_len), counted.shape) == (2**63, int, (2**61,))


@pytest.mark.parametrize(
    ("given", "count", "expected"),
    [
        (VECTORS, 3, ("vectors", None, 48, (3, 4), "float32")),
        (RAW, 3, ("raw", None, 36, (36,), "uint8")),
        (buffer("headed", 0, "w", header_bytes=8), 3, ("headed", None, 20, (20,), "uint8")),
    ],
)
def test_a_fresh_output_has_the_shape_of_its_elements(given: BufferInterface, count: int, expected: object) -> None:
    assert summary(check([given], **{given.name: count})) == [expected]


KEEPS = ", which keeps the numbers, or with .view(numpy.float32), which keeps the bits"


@pytest.mark.parametrize(
    ("array", "dtype", "fix"),
    [
        (np.zeros(1, np.float64), "float64", BY_VALUE),
        (np.zeros(1, np.int32), "int32", BY_VALUE + KEEPS),
        (np.zeros(1, ">f4"), ">f4", BY_VALUE),
        ([1.0], "float64", "pass numpy.asarray(..., numpy.float32)"),
        ([1], "int64", "pass numpy.asarray(..., numpy.float32)"),
        (np.zeros(1, "S4"), "|S4", "pass an array of numbers"),
        (np.zeros(1, [("a", np.float32)]), "[('a', '<f4')]", BY_VALUE),
    ],
)
def test_an_array_of_another_type_is_refused_with_both_types(array: object, dtype: str, fix: str) -> None:
    assert refusal(lambda: check([Y], array)) == invalid(f"input_output 'y' holds float32 and got an array of {dtype}", fix)


@pytest.mark.parametrize("given", [Y, RAW, HEADED])
def test_an_array_of_python_objects_is_refused(given: BufferInterface) -> None:
    role = only(given).role.value
    problem = f"{role} {given.name!r} got an array of Python objects"
    assert refusal(lambda: check([given], np.array([None] * 12))) == invalid(problem, "pass an array of numbers")


def test_a_call_tells_of_each_argument_where_it_stood_among_the_arrays() -> None:
    assert [one.position for one in check([X, Z, Y, FIXED], floats(1), floats(2), z=5)] == [0, None, 1, None]


def test_nested_lists_that_are_no_array_are_refused() -> None:
    assert refusal(lambda: check([Y], [[1.0, 2.0], [3.0]]))[:2] == (InvalidInput, 2201)


@pytest.mark.parametrize(
    ("given", "array", "problem", "fix"),
    [
        (
            Y,
            np.zeros(0, np.float32),
            "input_output 'y' has 0 bytes, less than the 4 bytes of one element",
            "pass at least one element",
        ),
        (
            HEADED,
            np.zeros(8, np.uint8),
            "input_output 'headed' has 8 bytes, less than the 12 bytes of one element",
            "pass at least one element",
        ),
        (
            HEADED,
            np.zeros(14, np.uint8),
            "input_output 'headed' has 14 bytes, which is not a whole number of 4-byte elements after a header of 8 bytes",
            "pass whole elements",
        ),
        (
            VECTORS,
            np.zeros(6, np.float32),
            "output 'vectors' has 24 bytes, which is not a whole number of 16-byte elements",
            "pass whole elements",
        ),
        (
            FIXED,
            np.zeros(4, np.float32),
            "output 'fixed' has 16 bytes, and the shader fixes it at 12 bytes (3 elements of 4 bytes)",
            "pass 12 bytes",
        ),
        (
            FIXED,
            np.zeros(0, np.float32),
            "output 'fixed' has 0 bytes, and the shader fixes it at 12 bytes (3 elements of 4 bytes)",
            "pass 12 bytes",
        ),
    ],
)
def test_an_array_of_a_size_that_does_not_fit_is_refused(
    given: BufferInterface, array: np.ndarray[Any, Any], problem: str, fix: str
) -> None:
    assert refusal(lambda: check([given], array)) == invalid(problem, fix)


@pytest.mark.parametrize(
    ("array", "contents", "shape"),
    [
        (np.float32(7), [7], ()),
        (np.arange(6, dtype=np.float32).reshape(2, 3), [0, 1, 2, 3, 4, 5], (2, 3)),
        (np.arange(6, dtype=np.float32).reshape(2, 3).T, [0, 3, 1, 4, 2, 5], (3, 2)),
        (np.arange(6, dtype=np.float32)[::-2], [5, 3, 1], (3,)),
        (np.asfortranarray(np.arange(4, dtype=np.float32).reshape(2, 2)), [0, 1, 2, 3], (2, 2)),
        (np.broadcast_to(np.float32(2), (3,)), [2, 2, 2], (3,)),
    ],
)
def test_an_array_of_any_layout_travels_in_row_order_and_keeps_its_shape(
    array: np.ndarray[Any, Any], contents: list[float], shape: tuple[int, ...]
) -> None:
    (found,) = check([Y], array)
    assert found.data is not None
    assert (found.data.ravel().tolist(), found.data.flags.c_contiguous, found.shape) == (contents, True, shape)


def test_an_array_that_may_not_be_written_is_accepted() -> None:
    array = floats(1, 2)
    array.flags.writeable = False
    assert summary(check([Y], array)) == [("y", [1, 2], 8, (2,), "float32")]


def test_a_contiguous_array_is_not_copied() -> None:
    array = floats(1, 2)
    assert check([Y], array)[0].data is array


def test_a_raw_buffer_takes_an_array_of_any_type() -> None:
    pairs = np.zeros(3, [("key", np.uint32), ("weight", np.float64)])
    assert summary(check([RAW], pairs))[0][2:] == (36, (3,), "[('key', '<u4'), ('weight', '<f8')]")


@pytest.mark.parametrize(
    ("given", "array", "count"), [(Y, floats(1, 2), 2), (HEADED, np.zeros(24, np.uint8), 4), (VECTORS, floats(*range(8)), 2)]
)
def test_the_elements_of_an_argument_are_those_after_its_header(
    given: BufferInterface, array: np.ndarray[Any, Any], count: int
) -> None:
    assert check([given], array)[0].element_count == count


@pytest.mark.parametrize(
    ("given", "expected"),
    [(Y, floats(1, 2)), (HEADED, np.frombuffer(floats(1, 2).tobytes() * 2, np.uint8))],
)
def test_bytes_become_an_array_that_fits(given: BufferInterface, expected: np.ndarray[Any, Any]) -> None:
    found = only(given).from_bytes(expected.tobytes())
    assert (found.tolist(), found.dtype, found.flags.writeable) == (expected.tolist(), expected.dtype, False)


def test_bytes_that_do_not_fit_are_refused() -> None:
    problem = "input_output 'y' has 6 bytes, which is not a whole number of 4-byte elements"
    assert refusal(lambda: only(Y).from_bytes(bytes(6))) == invalid(problem, "pass whole elements")


@pytest.mark.parametrize(
    ("given", "expected"),
    [(Y, ([0.0, 0.0, 0.0], "float32")), (HEADED, ([0] * 20, "uint8")), (VECTORS, ([0.0] * 12, "float32"))],
)
def test_zeros_are_whole_elements_after_a_zero_header(given: BufferInterface, expected: tuple[list[float], str]) -> None:
    found = only(given).zeros(3)
    assert (found.tolist(), str(found.dtype)) == expected


COUNTS: list[Mapping[str, int]] = [{}, {"z": 2}]


@pytest.mark.parametrize("counts", COUNTS)
def test_arguments_come_back_in_binding_order_however_they_were_given(counts: Mapping[str, int]) -> None:
    given = plan(X, Z, Y)
    arrays = [floats(1)] * (3 - len(counts))
    assert [one.binding for one in given.check_arguments(arrays, counts)] == list(given.bindings)
