"""Wire formats 4 to 7: requirements of buffers, subgroup reductions, tiles; and the limits that 6 brought."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from made_containers import PLAIN, SMALL, body_of, record, signed, text, verdict, with_buffers, with_node

from vyre_driver import DataType, Program
from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.ir import (
    BufferDecl,
    BufferRef,
    Cast,
    Expr,
    InvocationId,
    LinearType,
    Return,
    SubgroupAdd,
    SubgroupLocalId,
    SubgroupReduce,
    call,
    f32,
    i32,
    let,
    subgroup_reduce,
    u32,
    var,
)
from vyre_driver.ir.operators import SubgroupOp
from vyre_driver.ir.predicates import (
    AffineRange,
    And,
    AtLeast,
    AtMost,
    Exactly,
    ModEquals,
    MultipleOf,
    Not,
    Or,
    ShapePredicate,
)
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire.format import leb

SEVEN = struct.pack("<I", 7)
MINUS_ONE = leb(2**64 - 1)


def with_predicate(predicate: bytes) -> bytes:
    """A container of one buffer that has a shape predicate."""
    return with_buffers(b"\3\0" + predicate)


def predicate_of(data: bytes) -> ShapePredicate | None:
    """The shape predicate of the one buffer of a container."""
    (buffer,) = Program.from_wire(data).buffers
    return buffer.shape_predicate


@pytest.mark.parametrize(
    ("written", "predicate"),
    [
        (b"\0", None),
        (b"\1" + SEVEN, AtLeast(7)),
        (b"\2" + SEVEN, AtMost(7)),
        (b"\3" + SEVEN, Exactly(7)),
        (b"\4" + SEVEN, MultipleOf(7)),
        (b"\5" + SEVEN + struct.pack("<I", 2**32 - 1), ModEquals(7, 2**32 - 1)),
        (b"\6\1\0" + MINUS_ONE + leb(2**63 - 1), AffineRange(1, 0, -1, 2**63 - 1)),
        (b"\6" + leb(2**63) + b"\0\0\0", AffineRange(-(2**63), 0, 0, 0)),
        (b"\7\1" + SEVEN + b"\2" + SEVEN, And(AtLeast(7), AtMost(7))),
        (b"\x08\1" + SEVEN + b"\2" + SEVEN, Or(AtLeast(7), AtMost(7))),
        (b"\x09\7\1" + SEVEN + b"\x09\2" + SEVEN, Not(And(AtLeast(7), Not(AtMost(7))))),
    ],
)
def test_each_shape_predicate_is_read_and_written(written: bytes, predicate: ShapePredicate | None) -> None:
    data = with_predicate(written)
    assert predicate_of(data) == predicate
    assert Program.from_wire(data).to_wire() == data


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (b"\x0a", "a shape predicate has the unknown tag 0x0a"),
        (b"\x09\0", "a shape predicate has the unknown tag 0x00"),
        (b"\7\1" + SEVEN + b"\0", "a shape predicate has the unknown tag 0x00"),
        (b"\6\0\0\0" + b"\xff" * 9 + b"\2", "or passes 64 bits"),
        (b"\0\0", "the metadata ends at byte"),
        (b"\1", "the metadata ends at byte"),
    ],
)
def test_what_is_no_shape_predicate_is_refused(written: bytes, says: str) -> None:
    with pytest.raises(InvalidContainer, match="Fix: ") as caught:
        Program.from_wire(with_predicate(written))
    assert says in str(caught.value)


@pytest.mark.parametrize("levels", [31, 32, 33, 10_000])
def test_shape_predicates_are_read_32_deep(levels: int) -> None:
    said = verdict(with_predicate(b"\x09" * (levels - 1) + b"\1" + SEVEN))
    assert said is None if levels <= 32 else "shape predicates nest deeper than 32" in str(said)


@pytest.mark.parametrize("levels", [31, 32, 33])
def test_shape_predicates_are_written_32_deep(levels: int) -> None:
    predicate: ShapePredicate = AtLeast(7)
    while predicate.depth < levels:
        predicate = Or(Exactly(0), predicate) if predicate.depth % 2 else Not(predicate)
    program = Program.wrapped([BufferDecl.read("x", 0, DataType.U32).with_shape_predicate(predicate)], (1, 1, 1), [])
    if levels <= 32:
        assert predicate_of(program.to_wire()) == predicate
        return
    for write in (program.to_wire, lambda: program.canonical_wire_bytes(6)):
        with pytest.raises(InvalidProgram, match=r"nests 33 deep, over the wire format's limit of 32. Fix: use fewer levels"):
            write()
    assert len(program.fingerprint()) == 32


def test_linear_types_and_extraction_are_what_their_bytes_say() -> None:
    ends = [bytes((tag, tag % 2, 0)) for tag in range(4)]
    buffers = Program.from_wire(with_buffers(*ends)).buffers
    assert [(buffer.linear_type, buffer.bytes_extraction) for buffer in buffers] == [
        (LinearType.LINEAR, False),
        (LinearType.AFFINE, True),
        (LinearType.RELEVANT, False),
        (LinearType.UNRESTRICTED, True),
    ]
    assert "a linear type has the unknown tag 0x04" in str(verdict(with_buffers(b"\4\0\0")))
    assert "bytes_extraction is 2" in str(verdict(with_buffers(b"\3\2\0")))


@pytest.mark.parametrize(("version", "end"), [(4, b""), (5, b""), (6, PLAIN), (7, PLAIN)])
def test_buffers_have_requirements_since_format_6(version: int, end: bytes) -> None:
    plain = Program.from_wire(with_buffers(PLAIN, PLAIN))
    assert Program.from_wire(with_buffers(end, end, version=version)) == plain
    other = b"" if end else PLAIN
    assert verdict(with_buffers(other, other, version=version)) is not None


@pytest.mark.parametrize("version", [4, 5, 6, 7])
def test_a_program_is_the_same_in_every_format(version: int) -> None:
    read = Program.from_wire(signed(body_of(SMALL), version))
    assert (read, read.to_wire()) == (Program.from_wire(SMALL), SMALL)


@pytest.mark.parametrize("version", [0, 1, 3, 8, 65535])
def test_other_formats_are_refused_by_their_number(version: int) -> None:
    assert f"is of format {version}, and this reads formats 4 to 7" in str(verdict(signed(body_of(SMALL), version)))


@pytest.mark.parametrize(("tag", "name"), wire_format.TILE_NODES.items())
def test_tiles_are_refused_by_name_in_format_7_and_unknown_before(tag: int, name: str) -> None:
    within = b"\6\1\0\0\0" + bytes((tag,))
    assert f"the node {name} of tiles is not read" in str(verdict(with_node(b"vyre.node.block", within, 7)))
    assert f"a node has the unknown tag {tag:#04x}" in str(verdict(with_node(b"vyre.node.block", within, 6)))


def test_an_expression_of_the_tag_of_a_tile_is_no_tile() -> None:
    node = b"\0" + text(b"x") + b"\x17"
    assert "an expression has the unknown tag 0x17" in str(verdict(with_node(b"vyre.node.let", node, 7)))


def reduction(*inner: int, version: int = 4) -> bytes:
    """A container of ``let x = `` a subgroup reduction, with the bytes after its tag."""
    return with_node(b"vyre.node.let", b"\0" + text(b"x") + bytes((17, *inner)), version)


def read_value(data: bytes, *, subgroup_sums: bool | None = None) -> Expr:
    """The value that the only statement of a container assigns."""
    (node,) = Program.from_wire(data, subgroup_sums=subgroup_sums).entry
    return node.value  # type: ignore[attr-defined, no-any-return]


ONE = (0, 1, 0, 0, 0)  # the literal 1


@pytest.mark.parametrize("op", SubgroupOp)
def test_reductions_of_format_4_that_can_be_read_one_way_are_read_that_way(op: SubgroupOp) -> None:
    for sums in (None, True):
        assert read_value(reduction(*ONE), subgroup_sums=sums) == SubgroupAdd(u32(1))
    for sums in (None, False):
        assert read_value(reduction(op.value, *ONE), subgroup_sums=sums) == SubgroupReduce(op, u32(1))
    for data, sums in ((reduction(*ONE), False), (reduction(op.value, *ONE), True)):
        with pytest.raises(InvalidContainer):
            Program.from_wire(data, subgroup_sums=sums)


def test_reductions_of_format_4_that_can_be_read_two_ways_are_refused_until_it_is_said_which() -> None:
    data = reduction(6, 20)  # the sum of the invocation's index along axis 20, or OR of the number of the lane
    with pytest.raises(InvalidContainer) as caught:
        Program.from_wire(data)
    assert str(caught.value) == (
        "the bytes are of wire format 4, and their subgroup reductions can be read with an operator and without one. "
        "Fix: give subgroup_sums=True for what upstream up to 0.6.3 or vyre_driver 0.2 wrote, "
        "False for what 0.6.4 or 0.6.5 did."
    )
    assert (caught.value.code, caught.value.context) == (2105, {"offset": 4})
    assert read_value(data, subgroup_sums=True) == SubgroupAdd(InvocationId(20))
    assert read_value(data, subgroup_sums=False) == SubgroupReduce(SubgroupOp.OR, SubgroupLocalId())


def test_a_sum_of_a_variable_of_one_letter_is_such_a_one() -> None:
    data = value(SubgroupAdd(var("x"))).to_wire(
        4
    )  # the length of its name is the tag of an i32, its letter the last byte of that
    assert "can be read with an operator and without one" in str(verdict(data))
    assert Program.from_wire(data, subgroup_sums=True) == value(SubgroupAdd(var("x")))
    assert Program.from_wire(data, subgroup_sums=False) == value(SubgroupReduce(SubgroupOp.MIN, i32(ord("x") << 24)))


@pytest.mark.parametrize("version", [5, 6, 7])
@pytest.mark.parametrize("sums", [None, True, False])
def test_reductions_have_an_operator_since_format_5(version: int, sums: bool | None) -> None:  # noqa: FBT001 -- a parameter
    data = reduction(6, 20, version=version)
    assert read_value(data, subgroup_sums=sums) == SubgroupReduce(SubgroupOp.OR, SubgroupLocalId())


def test_bytes_of_format_4_that_no_way_reads_are_refused_for_what_is_wrong_in_the_older_way() -> None:
    assert "an expression has the unknown tag 0x63" in str(verdict(reduction(99)))


@pytest.mark.parametrize("version", [4, 6])
def test_buffer_references_are_read_in_every_format(version: int) -> None:
    node = b"\0" + text(b"x") + b"\x0b" + text(b"f") + struct.pack("<I", 1) + b"\x16" + text(b"table")
    data = with_node(b"vyre.node.let", node, version)
    assert read_value(data) == call("f", BufferRef("table"))


def axes(count: int, tag: int) -> bytes:
    """A container with a cast to a shaped tensor of u32 or to a mesh, of so many axes."""
    element = b"\1" if tag == 0x15 else b""
    dtype = bytes((tag,)) + element + struct.pack("<I", count) + struct.pack("<I", 1) * count
    return with_node(b"vyre.node.let", b"\0" + text(b"x") + b"\x0d" + dtype + b"\2\1")


@pytest.mark.parametrize("tag", [0x15, 0x1E], ids=["tensor", "mesh"])
def test_a_data_type_has_4096_axes_at_most(tag: int) -> None:
    data = axes(wire_format.MAX_AXES, tag)
    read = read_value(data)
    assert isinstance(read, Cast)
    assert len(read.target.parameters) == wire_format.MAX_AXES
    assert Program.from_wire(data).to_wire() == data
    assert "a data type has 4097 dimensions, over the limit of 4096" in str(verdict(axes(wire_format.MAX_AXES + 1, tag)))
    longer = DataType(tag, read.target.element, (1,) * (wire_format.MAX_AXES + 1))
    with pytest.raises(InvalidProgram, match="has 4097 dimensions of a data type, over the wire format's limit of 4096"):
        Program.wrapped([], (1, 1, 1), [let("x", Cast(longer, u32(1)))]).to_wire()


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_workgroup_of_no_invocations_is_refused(size: tuple[int, int, int]) -> None:
    head = b"VYRE-META" + b"\0" + struct.pack("<III", *size) + b"\0" + leb(0)
    data = signed(leb(1) + record(b"vyre.program.metadata", head) + leb(0) + leb(0))
    assert f"the workgroup size {size} has a 0" in str(verdict(data))


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((0, 0), None),
        ((1, 0), None),
        ((0, 1), "buffer 'a' lives on after the program and has 0 elements"),
        ((1, 1), "buffer 'a' lives on after the program and has 0 elements"),
    ],
)
def test_what_lives_on_has_elements_and_an_output_may_have_none(version: int, flags: tuple[int, int], says: str | None) -> None:
    row = text(b"a") + bytes(8) + bytes((*flags, 0)) + bytes(6) + (PLAIN if version == 6 else b"")
    head = b"VYRE-META" + b"\0" + struct.pack("<III", 1, 1, 1) + b"\0" + leb(1) + row
    region = leb(0) + bytes((0, 1, 1, 0)) + leb(1) + leb(0) + leb(6) + bytes(6)
    body = leb(1) + record(b"vyre.program.metadata", head) + leb(1) + region + leb(1) + leb(0)
    said = verdict(signed(body, version))
    assert said is None if says is None else says in str(said)


def value(one: Expr) -> Program:
    """A program of one statement."""
    return Program.wrapped([], (1, 1, 1), [let("v", one)])


@pytest.mark.parametrize(
    ("one", "lost"),
    [
        (subgroup_reduce(SubgroupOp.MUL, u32(1)), "a subgroup reduction by MUL"),
        (f32(1.0) + subgroup_reduce(SubgroupOp.XOR, var("x")), "a subgroup reduction by XOR"),
        (call("f", BufferRef("table")), "the reference to buffer 'table'"),
    ],
)
def test_a_term_that_format_4_has_no_name_for_is_refused_there_and_written_in_format_6(one: Expr, lost: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        value(one).to_wire(4)
    assert str(caught.value) == f"wire format 4 has no place for {lost}. Fix: write format 6."
    assert Program.from_wire(value(one).to_wire()) == value(one)
    assert value(one).fingerprint(4) != value(one).fingerprint()


@pytest.mark.parametrize("version", [1, 5, 7, "6", None, 6.0, 2.0, True, []])
def test_no_other_version_is_written_or_named(version: object) -> None:
    one = Program.wrapped([], (1, 1, 1), [Return()])
    for name, says in (
        ("to_wire", "is not written. Fix: give 6 or 4."),
        ("canonical_wire_bytes", "is not written. Fix: give 6 or 4."),
        ("fingerprint", "is not written. Fix: give 6 or 4."),
        ("normalized_cache_digest", "there is no program digest of version"),
    ):
        with pytest.raises(InvalidProgram, match=says):
            getattr(one, name)(version)


def test_a_sum_over_the_subgroup_has_an_operator_in_format_6_alone() -> None:
    wires = [value(SubgroupAdd(u32(7))).to_wire(version) for version in (4, 6)]
    assert [wire[4] for wire in wires] == [4, 6]
    assert [bytes((17, 1, 0, 7, 0, 0, 0)) in wire for wire in wires] == [False, True]
    assert [bytes((17, 0, 7, 0, 0, 0)) in wire for wire in wires] == [True, False]
    assert [Program.from_wire(wire) for wire in wires] == [value(SubgroupAdd(u32(7)))] * 2


@pytest.mark.parametrize("other", [{"linear_type": LinearType.LINEAR}, {"shape_predicate": AtLeast(1)}], ids=str)
def test_the_order_of_buffers_that_differ_in_their_requirements_alone_does_not_matter(other: dict[str, Any]) -> None:
    plain = BufferDecl.read_write("x", 0, DataType.U32)
    required = replace(plain, **other)
    programs = [Program.wrapped(buffers, (1, 1, 1), []) for buffers in ([plain, required], [required, plain])]
    assert programs[0] == programs[1]
    assert (programs[0].to_wire(), programs[0].fingerprint()) == (programs[1].to_wire(), programs[1].fingerprint())


@pytest.mark.parametrize("value", [0, 1, "no"])
def test_how_sums_are_written_is_true_false_or_not_said(value: object) -> None:
    with pytest.raises(InvalidProgram, match=r"subgroup_sums is .* where bool is wanted. Fix: give bool"):
        Program.from_wire(Program.empty().to_wire(4), subgroup_sums=value)  # type: ignore[arg-type]


def test_format_4_names_the_format_that_has_a_place_for_a_requirement() -> None:
    program = Program.wrapped([BufferDecl.read("x", 0, DataType.U32).with_shape_predicate(AtLeast(1))], (1, 1, 1), [])
    with pytest.raises(InvalidProgram) as caught:
        program.to_wire(4)
    assert str(caught.value) == (
        "wire format 4 has no place for the shape predicate count >= 1 of buffer 'x'. "
        "Fix: write format 6, or declare the buffer without it."
    )


def test_no_more_parts_of_predicates_are_written_than_are_read() -> None:
    predicate: ShapePredicate = AtLeast(0)
    while predicate.size < 2048:
        predicate = And(predicate, predicate)
    buffers = [BufferDecl.read(f"b{place}", place, DataType.U32).with_shape_predicate(predicate) for place in range(25)]
    most = Program.wrapped(buffers[:24], (1, 1, 1), [])
    assert Program.from_wire(most.to_wire()) == most
    over = "the program has 102375 parts of shape predicates, over the wire format's limit of 100000. Fix: split it."
    with pytest.raises(InvalidProgram) as caught:
        Program.wrapped(buffers, (1, 1, 1), []).to_wire()
    assert str(caught.value) == over
