"""Plans by the rules of upstream's 0.7: what differs from 0.4.1's, and what is said where something does not fit."""

from __future__ import annotations

import pickle

import pytest
from literals import refusal

from vyre_driver.binding import Binding, BindingPlan, BindingRole, BindingSetFingerprint, binding_plans_share_layout
from vyre_driver.errors import InvalidInput, InvalidProgram
from vyre_driver.ir import BufferDecl, DataType, MemoryHints, Program

HIGH = BufferDecl.read("high", 9, DataType.F32)
NIBBLES = BufferDecl.read("nibbles", 1, DataType.I4).with_count(3)
FLAGGED = BufferDecl.read_write("flagged", 4, DataType.U32).with_count(2).with_pipeline_live_out(True)


def program(*buffers: BufferDecl) -> Program:
    return Program.wrapped(list(buffers), (1, 1, 1), [])


def facts(binding: Binding) -> tuple[str, BindingRole, int | None, int | None, int | None]:
    return binding.name, binding.role, binding.static_byte_len, binding.input_index, binding.output_index


def test_the_rules_of_0_7_number_as_declared_pack_elements_and_make_what_is_live_out_an_output() -> None:
    made = program(HIGH, FLAGGED, NIBBLES)
    older, newer = BindingPlan.build(made), BindingPlan.build(made, rules="0.7")
    assert [facts(binding) for binding in older.bindings] == [
        ("nibbles", BindingRole.INPUT, 3, 0, None),
        ("flagged", BindingRole.INPUT_OUTPUT, 8, 1, 0),
        ("high", BindingRole.INPUT, None, 2, None),
    ]
    assert [facts(binding) for binding in newer.bindings] == [
        ("nibbles", BindingRole.INPUT, 2, 1, None),
        ("flagged", BindingRole.OUTPUT, 8, None, 0),
        ("high", BindingRole.INPUT, None, 0, None),
    ]
    assert (older.input_indices, newer.input_indices) == ((2, 1, 0), (0, 2))
    assert (older.rules.version, newer.rules.version) == ("0.4.1", "0.7")
    assert (BindingPlan.build(made, rules="0.4.1"), older == newer) == (older, False)


def test_fingerprints_differ_where_roles_do() -> None:
    newer = BindingPlan.build(program(FLAGGED), rules="0.7")
    assert BindingSetFingerprint.from_plan(newer).slots == ((4, BindingRole.OUTPUT, 4),)
    assert not binding_plans_share_layout(newer, BindingPlan.build(program(FLAGGED)))
    assert binding_plans_share_layout(
        BindingPlan.build(program(HIGH, NIBBLES), rules="0.7"), BindingPlan.build(program(NIBBLES, HIGH))
    )


@pytest.mark.parametrize(
    ("element", "byte_len", "older", "newer"),
    [(DataType.I4, 3, 3, 6), (DataType.F32, 12, 3, 3), (DataType.Bytes, 5, 0, 5), (DataType.array(8), 24, 0, 3)],
)
def test_elements_of_a_length_left_to_run_time_are_counted_by_their_bits(
    element: DataType, byte_len: int, older: int, newer: int
) -> None:
    made = program(BufferDecl.read("x", 0, element))
    counts = [
        BindingPlan.from_program(made, [bytes(byte_len)], rules=rules).bindings[0].element_count for rules in ("0.4.1", "0.7")
    ]
    assert counts == [older, newer]


def test_a_count_of_bytes_has_a_length() -> None:
    made = program(BufferDecl.read("x", 0, DataType.Bytes).with_count(3))
    assert BindingPlan.build(made, rules="0.7").bindings[0].static_byte_len == 3


def test_an_element_of_an_array_has_the_bytes_that_its_encoding_holds() -> None:
    made = program(BufferDecl.read("x", 0, DataType.array(2**64 - 1)).with_count(3))
    assert BindingPlan.build(made, rules="0.7").bindings[0].static_byte_len == 3 * (2**32 - 1)


def test_a_plan_of_0_7_survives_pickling() -> None:
    plan = BindingPlan.build(program(HIGH, FLAGGED, NIBBLES), rules="0.7")
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301 -- our own


def test_rules_that_are_not_there_are_refused() -> None:
    assert refusal(lambda: BindingPlan.build(program(HIGH), rules="0.5")) == (
        InvalidInput,
        2201,
        'there are no rules \'0.5\' for binding plans. Fix: use "0.4.1" or "0.7".',
    )


def test_lengths_of_residents_may_pass_the_static_ones_and_inputs_may_not() -> None:
    plan = BindingPlan.build(program(HIGH, NIBBLES), rules="0.7")
    plan.validate_input_byte_lengths([4, 16])
    assert refusal(lambda: plan.validate_inputs([bytes(4), bytes(16)])) == (
        InvalidProgram,
        1006,
        "input 'nibbles' has 16 bytes, and the program fixes it at 2 bytes (3 elements, packed). Fix: pass 2 bytes.",
    )
    assert refusal(lambda: plan.validate_input_byte_lengths([4, 1])) == (
        InvalidProgram,
        1006,
        (
            "input 'nibbles' has 1 bytes, and the program fixes it at 2 bytes or more (3 elements, packed). "
            "Fix: pass 2 bytes or more."
        ),
    )


def test_inputs_are_named_in_the_order_that_they_are_given_in() -> None:
    plan = BindingPlan.build(program(HIGH, NIBBLES), rules="0.7")
    assert refusal(lambda: plan.validate_inputs([b""])) == (
        InvalidProgram,
        1006,
        (
            "the program takes 2 input(s): 'high', 'nibbles'; and got 1. "
            "Fix: pass one for each, in the order of their declarations."
        ),
    )


WIDE = DataType.vec(DataType.vec(DataType.vec(DataType.vec(DataType.F64, 255), 255), 255), 255)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            BufferDecl.read("x", 0, DataType.array(0)),
            (
                "buffer 'x': the data type array<0B> cannot be laid out: Array element_size must be > 0. "
                "Fix: give sizes above 0 and a storage that is allowed."
            ),
        ),
        (
            BufferDecl.read("x", 0, WIDE).with_count(2**32 - 1),
            (
                "buffer 'x': 4294967295 elements of vec<vec<vec<vec<f64, 255>, 255>, 255>, 255> take "
                "145281585195506475000 bytes, over the limit of 18446744073709551615 bits. Fix: use fewer elements."
            ),
        ),
        (
            BufferDecl.read("x", 0, DataType.opaque(7)).with_count(2),
            (
                "buffer 'x' declares 2 elements of opaque<7>, a type that fixes 0 bytes an element. "
                "Fix: leave the count at 0, or use an element type of a fixed size."
            ),
        ),
        (
            BufferDecl.read("x", 0, DataType.F32).with_count(2).with_hints(MemoryHints(preferred_alignment=6)),
            (
                "buffer 'x' asks for preferred_alignment=6 bytes, which is not a power of two. "
                "Fix: use 0, or a power of two such as 4."
            ),
        ),
    ],
)
def test_what_cannot_be_planned_by_0_7_is_refused_with_the_reason(declared: BufferDecl, message: str) -> None:
    assert refusal(lambda: BindingPlan.build(program(declared), rules="0.7")) == (InvalidProgram, 1006, message)


def test_a_vector_whose_bytes_pass_64_bits_is_planned_without_a_count_and_refused_with_it() -> None:
    too_wide = WIDE
    for _ in range(5):
        too_wide = DataType.vec(too_wide, 255)
    declared = BufferDecl.read("x", 0, too_wide)
    assert BindingPlan.build(program(declared), rules="0.7").bindings[0].static_byte_len is None
    assert refusal(lambda: BindingPlan.build(program(declared.with_count(2)), rules="0.7"))[:2] == (InvalidProgram, 1006)
