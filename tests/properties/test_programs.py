"""Programs: what equality, digests, the canonical form and the wire make of any of them."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st
from program_strategies import (
    buffers,
    carried_programs,
    dtypes,
    expressions,
    nodes,
    programs,
    spelled_out,
)
from strategies import words  # its import sets hypothesis up

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.arithmetic import LITERALS, Binary
from vyre_driver.ir.canonical import canonical_bytes, canonical_floats, canonical_nodes, wire_bytes
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import Term, Traits
from vyre_driver.ir.wire.format import Cursor
from vyre_driver.ir.wire.reader import TermReader, read_dtype
from vyre_driver.lowering.recorded import program_of, values_of

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr

assert words is not None


@given(st.lists(expressions, min_size=2, max_size=8))
def test_expressions_are_equal_when_every_field_is(drawn: list[Expr]) -> None:
    for one in drawn:
        for other in drawn:
            same = spelled_out(one) == spelled_out(other)
            assert ((one == other), (one.key == other.key)) == (same, same)
            assert not same or hash(one) == hash(other)


@given(st.lists(programs, min_size=2, max_size=3))
def test_the_strong_digests_of_programs_are_equal_only_when_every_field_is(drawn: list[Program]) -> None:
    told = [(one.digest(), spelled_out(one)) for one in drawn]
    for digest, spelled in told:
        for other_digest, other_spelled in told:
            assert (digest == other_digest) == (spelled == other_spelled)


def variants(value: Any) -> list[Any]:  # noqa: ANN401 -- a field of any kind
    """Other values of the same kind."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1 if value == 0 else value - 1]
        case str():
            return [value + "x", value + "\0"]
        case bytes():
            return [value + b"\0"]
        case None:
            return []
    return [member for member in type(value) if member is not value][:2] if hasattr(type(value), "__members__") else []


def with_one_field_changed(value: Any) -> list[Any]:  # noqa: ANN401 -- a part of a program
    """The value with each of its scalar fields changed in turn, at any depth."""
    if isinstance(value, tuple):
        changed = [
            (*value[:place], new, *value[place + 1 :]) for place, one in enumerate(value) for new in with_one_field_changed(one)
        ]
        return [*changed, value[:-1]] if value else changed
    if not dataclasses.is_dataclass(value):
        return variants(value)
    results = []
    fields = [field.name for field in dataclasses.fields(value) if field.init and field.name != "structurally_validated"]
    for name in fields:
        for new in with_one_field_changed(getattr(value, name)):
            try:
                results.append(dataclasses.replace(value, **{name: new}))  # type: ignore[type-var]
            except (InvalidProgram, ValueError, TypeError):
                continue  # not every neighbour of a value can be made
    return results


@given(programs)
def test_changing_any_one_field_of_a_program_changes_its_strong_digest(program: Program) -> None:
    changed = with_one_field_changed(program)
    assume(changed)
    spelled = spelled_out(program)
    digests = {one.digest() for one in changed if spelled_out(one) != spelled}
    assert program.digest() not in digests


@given(programs)
def test_a_program_equals_its_copy_and_itself_with_its_buffers_reversed(program: Program) -> None:
    reversed_buffers = program.with_rewritten_buffers(tuple(reversed(program.buffers)))
    rebuilt = Program(
        program.buffers, program.workgroup_size, program.entry, program.entry_op_id, program.non_composable_with_self
    )
    assert (program, program, hash(program)) == (reversed_buffers, rebuilt, hash(rebuilt))
    assert copy.deepcopy(program) is program
    assert hash(reversed_buffers) == hash(program)


@given(programs)
def test_any_program_prints_and_has_stats(program: Program) -> None:
    assert str(program).startswith("program ")
    assert str(program).isprintable() or "\n" in str(program)
    assert program.stats().node_count == sum(node.node_count for node in program.entry)
    assert len(program.fingerprint()) == 32


@given(programs)
def test_the_canonical_form_is_canonical_and_equal_and_keeps_the_fingerprint(program: Program) -> None:
    canonical = program.canonical()
    assert (canonical, hash(canonical)) == (program, hash(program))
    assert spelled_out(canonical.canonical()) == spelled_out(canonical)
    try:
        wire = program.canonical_wire_bytes(6)
    except InvalidProgram:
        return
    assert (canonical.canonical_wire_bytes(6), canonical.fingerprint()) == (wire, program.fingerprint())


@given(nodes)
def test_a_node_is_read_as_it_was_written(node: Any) -> None:  # noqa: ANN401 -- a Node
    (node,) = canonical_floats((node,))
    written = wire_bytes(node)
    reader = TermReader(written, 6)
    assert reader.check(0, len(written)) == len(written)
    read = reader.node(0, len(written))
    assert read == node
    assert spelled_out(read) == spelled_out(node)


@given(dtypes)
def test_a_data_type_is_read_as_it_was_written(dtype: Any) -> None:  # noqa: ANN401 -- a DataType
    reader = Cursor(dtype.encoded)
    assert (read_dtype(reader), reader.at) == (dtype, reader.end)


@given(carried_programs)
def test_what_the_wire_carries_comes_back_as_the_canonical_program(program: Program) -> None:
    try:
        wire = program.to_wire()
    except InvalidProgram as error:
        assert "wire format" in str(error) or "cannot be encoded" in str(error)  # noqa: PT017 -- both ways are right
        return
    read = Program.from_wire(wire)
    assert spelled_out(read) == spelled_out(program.canonical())
    assert (read, read.to_wire(), read.fingerprint()) == (program, wire, program.fingerprint())


@given(expressions, expressions)
def test_canonical_operands_stand_in_the_order_of_their_bytes(left: Expr, right: Expr) -> None:
    for op in (BinOp.BIT_XOR, BinOp.ADD, BinOp.SUB):
        written = canonical_bytes(Binary(op, left, right))[2:]
        sides = canonical_bytes(left), canonical_bytes(right)
        literals = [isinstance(side, LITERALS) for side in (left, right)]
        swap = literals[0] if literals[0] != literals[1] else (literals[0] or op.fully_sorted) and sides[0] > sides[1]
        assert written == b"".join(reversed(sides) if swap and op.commutative else sides)


@given(buffers)
def test_a_buffer_survives_the_strong_digest_only_whole(buffer: Any) -> None:  # noqa: ANN401 -- a BufferDecl
    alone = Program((buffer,), (1, 1, 1), ())
    for changed in with_one_field_changed(buffer):
        assert (Program((changed,), (1, 1, 1), ()).digest() == alone.digest()) == (spelled_out(changed) == spelled_out(buffer))


@given(nodes)
def test_traits_tell_the_truth(node: Any) -> None:  # noqa: ANN401 -- a Node
    def walk(term: Term) -> list[Term]:
        return [term, *(inner for child in term.children for inner in walk(child))]

    whole = walk(node)
    assert node.term_count == len(whole)
    if node.traits & Traits.PLAIN:
        assert node.key == wire_bytes(node)
    if node.traits & Traits.CANONICAL and node.traits & Traits.CANONICAL_FLOATS:
        assert spelled_out(canonical_nodes((node,))) == spelled_out((node,))


@given(programs)
def test_a_program_comes_back_from_a_recording_with_the_same_digest(program: Program) -> None:
    assert program_of(json.loads(json.dumps(values_of(program)))).digest() == program.digest()
