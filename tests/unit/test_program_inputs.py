"""Which inputs fit a program's buffers, by arrays, by bytes and by lengths."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from literals import buffer, reflection, refusal
from program_buffers import A, B, C, invalid, plan

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput, InvalidProgram
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_count_left_to_run_time_is_taken_from_the_input() -> None:
    program = Program.wrapped([B, A], (64, 1, 1), [])
    found = BindingPlan.from_program(program, [bytes(12), bytes(8)])
    assert [(one.name, one.element_count, one.static_byte_len) for one in found.bindings] == [("b", 3, None), ("a", 2, 8)]
    assert BindingPlan.build(program) != found


@pytest.mark.parametrize("make", [np.asarray, bytes, memoryview, bytearray, lambda data: array("B", data)])
def test_inputs_may_be_arrays_or_bytes_of_any_kind(make: Callable[[Any], object]) -> None:
    given = make(bytearray(8))
    plan(A).validate_inputs([given])
    assert BindingPlan.from_program(Program.wrapped([B], (1, 1, 1), []), [given]).bindings[0].element_count == 2


@pytest.mark.parametrize(
    "given",
    [
        np.zeros((2, 2), np.float16).T,
        np.zeros(8, np.uint8)[::2].repeat(2)[::-1],
        np.zeros(4, ml_dtypes.bfloat16),
        memoryview(bytes(16))[::2],
        np.zeros((), np.complex64),
        np.float64(1),
        np.zeros(8, np.uint8).view(np.recarray),
        np.zeros(4, ml_dtypes.bfloat16).view(np.recarray),
    ],
    ids=lambda given: f"{type(given).__name__} {getattr(given, 'dtype', '')}",
)
def test_an_input_counts_with_all_its_bytes_whatever_its_type_and_layout(given: object) -> None:
    plan(A).validate_inputs([given])
    with pytest.raises(InvalidProgram):
        plan(A.with_count(3)).validate_inputs([given])


class Objects:
    """An array of Python objects, eight bytes long by its pointer."""

    def __array__(self, *_: object, **__: object) -> np.ndarray[Any, Any]:
        return np.array([None])


@pytest.mark.parametrize("given", [[1, 2], 8, None, "12345678", object(), Objects()], ids=lambda given: type(given).__name__)
def test_an_input_that_holds_no_bytes_is_refused(given: object) -> None:
    refused = refusal(lambda: plan(A).validate_inputs([given]))
    assert refused == (
        InvalidInput,
        2201,
        (
            f"an input is of type {type(given).__name__}, which holds no bytes of numbers. "
            "Fix: pass a numpy array, or an object with the buffer protocol, __array_interface__ or DLPack."
        ),
    )


@pytest.mark.parametrize(
    ("lengths", "problem", "fix"),
    [
        ([], "the program takes 2 input(s): 'b', 'a'; and got 0", "pass one for each, in the order of their binding numbers"),
        (
            [4] * 3,
            "the program takes 2 input(s): 'b', 'a'; and got 3",
            "pass one for each, in the order of their binding numbers",
        ),
        ([6, 8], "input_output 'b' has 6 bytes, which is not a whole number of 4-byte elements", "pass whole elements"),
        ([4, 9], "input 'a' has 9 bytes, which is not a whole number of 4-byte elements", "pass whole elements"),
        ([4, 4], "input 'a' has 4 bytes, and the program fixes it at 8 bytes (2 elements of 4 bytes)", "pass 8 bytes"),
        ([4, 12], "input 'a' has 12 bytes, and the program fixes it at 8 bytes (2 elements of 4 bytes)", "pass 8 bytes"),
        ([6, 4], "input_output 'b' has 6 bytes, which is not a whole number of 4-byte elements", "pass whole elements"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_the_same_whether_given_or_measured(
    lengths: list[int], problem: str, fix: str
) -> None:
    found, inputs = plan(A, C, B), [bytes(length) for length in lengths]
    program = Program.wrapped([A, C, B], (64, 1, 1), [])
    refused = [
        refusal(lambda: found.validate_inputs(inputs)),
        refusal(lambda: found.validate_input_byte_lengths(lengths)),
        refusal(lambda: BindingPlan.from_program(program, inputs)),
    ]
    assert refused == [invalid(problem, fix)] * 3


@pytest.mark.parametrize(
    ("lengths", "context"),
    [
        ([4], {"expected": 2, "received": 1}),
        ([6, 8], {"binding": "b", "element_size": 4, "received_bytes": 6}),
        ([4, 12], {"binding": "a", "expected_bytes": 8, "received_bytes": 12}),
    ],
)
def test_a_refusal_of_inputs_carries_its_facts(lengths: list[int], context: dict[str, object]) -> None:
    with pytest.raises(InvalidProgram) as error:
        plan(A, B).validate_input_byte_lengths(lengths)
    assert error.value.context == context


def test_lengths_are_exact_where_later_releases_take_more() -> None:
    """A departure from 0.6.2 on purpose: there a measured length may be above the static one."""
    plan(A).validate_input_byte_lengths([8])
    with pytest.raises(InvalidProgram, match="has 12 bytes, and the program fixes it at 8 bytes"):
        plan(A).validate_input_byte_lengths([12])


def test_an_input_of_no_bytes_fits_where_the_count_is_left_to_run_time() -> None:
    plan(B).validate_inputs([b""])
    assert BindingPlan.from_program(Program.wrapped([B], (1, 1, 1), []), [b""]).bindings[0].element_count == 0


@pytest.mark.parametrize("lengths", [[-8], [2**64], [8.0], ["8"], [None]])
def test_lengths_that_are_no_whole_numbers_are_refused(lengths: list[Any]) -> None:
    kind, code, text = refusal(lambda: plan(A).validate_input_byte_lengths(lengths))
    head, tail = f"the lengths of the inputs are {lengths!r} (", "). Fix: give integers from 0 to 2**64 - 1, in bytes."
    assert (kind, code, text[: len(head)], text[-len(tail) :]) == (InvalidInput, 2201, head, tail)


def test_more_inputs_than_fit_on_the_stack_are_judged_one_by_one() -> None:
    found = plan(*(BufferDecl.read(f"b{place}", place, DataType.U32).with_count(1) for place in range(40)))
    found.validate_inputs([bytes(4)] * 40)
    with pytest.raises(InvalidProgram, match="input 'b39' has 8 bytes"):
        found.validate_inputs([*[bytes(4)] * 39, bytes(8)])
    with pytest.raises(InvalidInput):
        found.validate_inputs([*[bytes(4)] * 39, None])


def test_the_inputs_of_a_shader_are_refused_in_the_words_of_a_call() -> None:
    found = BindingPlan.from_reflection(reflection(buffer("x", 0, "r", header_bytes=8), buffer("y", 1, "r", count=3)))
    found.validate_input_byte_lengths([12, 12])
    refused = [
        refusal(lambda lengths=lengths: found.validate_input_byte_lengths(lengths))
        for lengths in ([12], [8, 12], [14, 12], [12, 8])
    ]
    problems = [
        "the shader takes 2 input(s): 'x', 'y'; and got 1. Fix: pass one for each, in the order of their binding numbers.",
        "input 'x' has 8 bytes, less than the 12 bytes of one element. Fix: pass at least one element.",
        (
            "input 'x' has 14 bytes, which is not a whole number of 4-byte elements after a header of 8 bytes. "
            "Fix: pass whole elements."
        ),
        "input 'y' has 8 bytes, and the shader fixes it at 12 bytes (3 elements of 4 bytes). Fix: pass 12 bytes.",
    ]
    assert refused == [(InvalidInput, 2201, problem) for problem in problems]
