"""Programs as values: wrapping, rewriting, equality, stats; and what the wire refuses to lose."""

from __future__ import annotations

import copy

import pytest
from every_term import CARRIED, CARRIED_BUFFERS, REQUIRING_BUFFERS, SHAPED, WHOLE

import vyre_driver
from vyre_driver import DataType, Program
from vyre_driver.errors import InvalidProgram
from vyre_driver.identity import normalized_program_cache_digest, program_digest, program_vsa_fingerprint_words
from vyre_driver.ir import builders as ir
from vyre_driver.ir import examine
from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, LinearType
from vyre_driver.ir.nodes import ProgramCapability, ProgramStats
from vyre_driver.ir.operators import AtomicOp, BinOp
from vyre_driver.ir.predicates import AtLeast
from vyre_driver.ir.program import ROOT_GENERATOR
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.specialization import vsa_specialization_key

OUT = BufferDecl.output("out", 0, DataType.F32).with_count(4)
X, Y = ir.var("x"), ir.var("y")
RETURN = nd.Return()


def program(*nodes: nd.Node, buffers: list[BufferDecl] | None = None) -> Program:
    return Program.wrapped(buffers or [], (1, 1, 1), nodes)


def value(one: ex.Expr) -> Program:
    return program(nd.Let("v", one))


def test_nodes_are_put_in_a_root_region_unless_all_are_regions() -> None:
    regions = (nd.Region("a", None, ()), nd.Region("b", None, ()))
    root = [Program.wrapped([], (1, 1, 1), nodes).entry for nodes in (regions, (*regions, RETURN), (RETURN,), ())]
    assert root == [
        regions,
        (nd.Region(ROOT_GENERATOR, None, (*regions, RETURN)),),
        (nd.Region(ROOT_GENERATOR, None, (RETURN,)),),
        (nd.Region(ROOT_GENERATOR, None, ()),),
    ]
    assert Program.new([], (1, 1, 1), [RETURN]).entry == (RETURN,)
    assert Program.empty() == Program.wrapped([], (1, 1, 1), [])


def test_rewriters_change_their_field_and_clear_the_validated_flag() -> None:
    start = program(RETURN, buffers=[OUT]).with_structurally_validated(True)
    assert start.structurally_validated
    assert start.with_structurally_validated(True) is start
    root = nd.Region(ROOT_GENERATOR, None, (RETURN,))
    rewritten = [
        start.with_rewritten_entry([RETURN]),
        start.with_rewritten_wrapped_entry([RETURN, RETURN]),
        start.with_rewritten_buffers([]),
        start.with_rewritten_workgroup_size_and_entry((2, 3, 4), [RETURN]),
        start.with_workgroup_size((2, 3, 4)),
        start.with_entry_op_id("op"),
        start.with_non_composable_with_self(True),
        start.map_entry(lambda entry: [*entry, *entry]),
    ]
    assert rewritten == [
        Program([OUT], (1, 1, 1), [RETURN]),  # type: ignore[arg-type]
        Program((OUT,), (1, 1, 1), (nd.Region(ROOT_GENERATOR, None, (RETURN, RETURN)),)),
        Program((), (1, 1, 1), (root,)),
        Program((OUT,), (2, 3, 4), (RETURN,)),
        Program((OUT,), (2, 3, 4), (root,)),
        Program((OUT,), (1, 1, 1), (root,), "op"),
        Program((OUT,), (1, 1, 1), (root,), None, True),
        Program((OUT,), (1, 1, 1), (root, root)),
    ]
    assert [one.structurally_validated for one in rewritten] == [False] * len(rewritten)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Program("buffers", (1, 1, 1), ()),  # type: ignore[arg-type]
        lambda: Program((1,), (1, 1, 1), ()),  # type: ignore[arg-type]
        lambda: Program((), (1, 1), ()),  # type: ignore[arg-type]
        lambda: Program((), (1, 1, -1), ()),
        lambda: Program((), (1, 1, 2**32), ()),
        lambda: Program((), 64, ()),  # type: ignore[arg-type]
        lambda: Program((), (1, 1, 1), (X,)),  # type: ignore[arg-type]
        lambda: Program((), (1, 1, 1), RETURN),  # type: ignore[arg-type]
        lambda: Program((), (1, 1, 1), (), 7),  # type: ignore[arg-type]
        lambda: Program((), (1, 1, 1), (), "\udfff"),
        lambda: Program((), (1, 1, 1), (), None, 1),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidProgram, match="Fix: "):
        make()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (value(ir.f32(0.0)), value(ir.f32(-0.0))),
        (value(ir.f32(0.0)), value(ex.LitF32(1))),
        (value(ir.f32(float("nan"))), value(ex.LitF32(0xFFC0_0001))),
        (value(X + 1.0), value(1.0 + X)),
        (value(X ^ Y), value(Y ^ X)),
        (program(nd.Block((RETURN,))), program(RETURN)),
        (program(nd.Block((nd.Block((RETURN,)), RETURN))), program(RETURN, RETURN)),
        (program(buffers=[OUT, *CARRIED_BUFFERS]), program(buffers=[*reversed(CARRIED_BUFFERS), OUT])),
        (program(), program().with_structurally_validated(True)),
    ],
)
def test_programs_are_equal_when_their_canonical_forms_are(one: Program, other: Program) -> None:
    assert (one, hash(one), one.fingerprint()) == (other, hash(other), other.fingerprint())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (value(X + Y), value(Y + X)),
        (value(X - 1.0), value(1.0 - X)),
        (value(ir.f32(1.0)), value(ir.u32(1))),
        (program(nd.Block((nd.Let("x", X),))), program(nd.Let("x", X))),
        (program(buffers=[OUT]), program(buffers=[OUT, OUT])),
        (program(buffers=[OUT]), program(buffers=[OUT.with_count(5)])),
        (program(), program().with_entry_op_id("")),
    ],
)
def test_other_programs_are_unequal(one: Program, other: Program) -> None:
    assert one != other


def test_a_program_is_no_other_thing_and_cannot_be_changed() -> None:
    assert CARRIED.to_wire() != CARRIED
    with pytest.raises(AttributeError):
        CARRIED.entry = ()  # type: ignore[misc]
    assert copy.copy(CARRIED) is CARRIED


def test_outputs_are_what_may_be_written_and_outlives_the_program() -> None:
    buffers = [BufferDecl.storage(access.name, 0, access, DataType.U32) for access in BufferAccess]
    assert program(buffers=buffers).output_buffer_indices() == (1, 3)
    assert (program(buffers=buffers).buffer("UNIFORM"), program(buffers=buffers).buffer("x")) == (buffers[2], None)


def test_a_program_knows_whether_it_does_nothing() -> None:
    idle = [Program.empty(), program(RETURN, nd.Block((RETURN,))), program(nd.Let("x", X))]
    assert [one.is_explicit_noop for one in idle] == [True, True, False]
    assert [CARRIED.has_indirect_dispatch, idle[1].has_indirect_dispatch] == [True, False]


def test_memory_is_estimated_from_what_is_known() -> None:
    shared = BufferDecl.workgroup("shared", 1000, DataType.F32)
    assert program(buffers=[OUT, shared, BufferDecl.read("x", 1, DataType.F32)]).estimate_peak_vram_bytes() == 16


def test_stats_count_the_tree_and_name_what_it_uses() -> None:
    every = CARRIED.stats()
    assert (every.node_count, every.nesting, every.expression_depth, every.buffer_count) == (78, 3, 3, 11)
    assert every is CARRIED.stats()
    assert every.capabilities == ~ProgramCapability.F16 & ~ProgramCapability.BF16
    assert program(ir.store(OUT, 0, 1), buffers=[OUT]).stats() == ProgramStats(2, 2, 2, 1, 1, ProgramCapability.NONE)
    half = program(buffers=[BufferDecl.read("h", 0, DataType.F16), BufferDecl.read("b", 1, DataType.BF16)])
    assert half.stats().capabilities == ProgramCapability.F16 | ProgramCapability.BF16


def test_a_program_shows_its_name_and_size_in_short() -> None:
    assert repr(CARRIED) == "<Program every.term: 11 buffers, 78 nodes, workgroup (8, 4, 2)>"
    assert repr(Program.empty()) == "<Program anonymous: 0 buffers, 1 nodes, workgroup (1, 1, 1)>"


def test_digests_are_made_once() -> None:
    fresh = program(RETURN)
    for name in ("digest", "fingerprint", "normalized_cache_digest", "to_wire", "canonical_wire_bytes"):
        assert getattr(fresh, name)() is getattr(fresh, name)()


def test_the_keys_of_other_modules_are_those_of_the_program() -> None:
    for version in (4, 6):
        words = program_vsa_fingerprint_words(CARRIED, version)
        assert b"".join(word.to_bytes(4, "little") for word in words) == CARRIED.fingerprint(version)
        assert vsa_specialization_key(CARRIED, 7, version) == (words[1] << 32 | words[0]) << 64 | 7
    digests = [normalized_program_cache_digest(CARRIED), normalized_program_cache_digest(CARRIED, 3), program_digest(CARRIED)]
    assert digests == [CARRIED.normalized_cache_digest(2), CARRIED.normalized_cache_digest(3), CARRIED.digest()]
    assert len(set(digests)) == 3


def test_keys_are_of_formats_that_upstreams_0_6_has_unless_another_is_asked_for() -> None:
    assert program_vsa_fingerprint_words(CARRIED) == program_vsa_fingerprint_words(CARRIED, 4)
    assert vsa_specialization_key(CARRIED, 7) == vsa_specialization_key(CARRIED, 7, 4)
    assert normalized_program_cache_digest(CARRIED) == normalized_program_cache_digest(CARRIED, 2)


def test_every_kind_of_term_survives_the_wire() -> None:
    read = Program.from_wire(CARRIED.to_wire())
    assert (read, read.to_wire(), str(read)) == (CARRIED, CARRIED.to_wire(), str(CARRIED.canonical()))


@pytest.mark.parametrize("buffer", [*REQUIRING_BUFFERS, SHAPED], ids=lambda buffer: buffer.name)
def test_a_buffer_of_which_format_4_would_lose_something_is_refused(buffer: BufferDecl) -> None:
    one = program(buffers=[buffer])
    with pytest.raises(InvalidProgram, match=f"wire format 4 has no place for .* of buffer '{buffer.name}'"):
        one.to_wire(4)
    assert len(one.canonical_wire_bytes(4)) > 40
    assert one.fingerprint(4) != Program.empty().fingerprint(4)


def test_an_element_type_whose_parameters_no_format_has_a_place_for_is_refused() -> None:
    one = program(buffers=[SHAPED])
    with pytest.raises(InvalidProgram, match=r"wire format 6 has no place for the parameters of the element type .* 'shaped'"):
        one.to_wire()
    assert one.fingerprint() != program(buffers=[BufferDecl.read("shaped", 8, DataType.F32)]).fingerprint()


def test_the_region_around_a_program_has_two_names_that_paths_leave_out() -> None:
    wrong = nd.Let("v", ir.load("nowhere", 0))
    paths = [
        [problem.path for problem in examine(Program.new([], (1, 1, 1), [nd.Region(name, None, (wrong,))])).problems]
        for name in (ROOT_GENERATOR, f"anonymous::{ROOT_GENERATOR}", "mine")
    ]
    assert paths == [["body[0].value"], ["body[0].value"], ["entry[0].body[0].value"]]


@pytest.mark.parametrize("bits", [0x8000_0000, 0x8000_0001, 0x807F_FFFF])
def test_a_literal_whose_sign_the_wire_would_drop_is_refused(bits: int) -> None:
    with pytest.raises(InvalidProgram, match="drops the sign"):
        value(ex.LitF32(bits)).to_wire()


@pytest.mark.parametrize("bits", [0, 1, 0x7FC0_0001, 0xFF80_0001, 0x8080_0000])
def test_other_literals_are_carried(bits: int) -> None:
    assert Program.from_wire(value(ex.LitF32(bits)).to_wire()) == value(ex.LitF32(bits))


def count(by: int) -> ex.Expr:
    return ir.atomic(AtomicOp.ADD, "counts", 0, by)


@pytest.mark.parametrize(
    "one",
    [
        count(1) ^ ir.load("counts", 0),
        count(2) ^ count(1),
        ex.Call("f", ()) ^ ir.load("counts", 0),
        ex.OpaqueExpr("f", b"") ^ count(1),
    ],
)
def test_operands_whose_order_matters_are_not_swapped_on_the_wire(one: ex.Expr) -> None:
    assert value(one).canonical().entry != value(one).entry
    with pytest.raises(InvalidProgram, match="would swap the operands of Binary"):
        value(one).to_wire()


@pytest.mark.parametrize(
    "one",
    [
        count(1) ^ X,
        ir.load("counts", 0) ^ count(1) ^ X,
        count(1) ^ ir.u64(3),
        count(1) - count(2),
        ir.load("a", 0) ^ ir.load("A", 0),
    ],
)
def test_operands_whose_order_does_not_matter_are_carried(one: ex.Expr) -> None:
    assert Program.from_wire(value(one).to_wire()) == value(one)


ILLEGAL = DataType.quantized(DataType.F32, QuantizationScale.per_tensor(), QuantizationZeroPoint.absent())


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (program().with_workgroup_size((1, 0, 1)), "has a 0"),
        (program(buffers=[BufferDecl.workgroup("w", 0, DataType.U32)]), "is workgroup memory of 0 elements"),
        (program(buffers=[OUT.with_count(0)]), "lives on after the program and has 0 elements"),
        (program(buffers=[OUT.with_output_byte_range((9, 8))]), "of 16 bytes has the output range 9 to 8"),
        (program(buffers=[OUT.with_output_byte_range((0, 17))]), "of 16 bytes has the output range 0 to 17"),
        (program(buffers=[BufferDecl.read("s", 0, DataType.sparse_csr(DataType.U32))]), "does not carry"),
        (program(buffers=[BufferDecl.read("s", 0, DataType.device_mesh((1,)))]), "does not carry"),
        (program(buffers=[BufferDecl.read("q", 0, ILLEGAL)]), "cannot be encoded"),
        (value(ex.Cast(ILLEGAL, X)), "cannot be encoded"),
        (value(ex.Cast(DataType.vec(ILLEGAL, 2), X)), "cannot be encoded"),
        (value(ex.Call("f", [X] * (wire_format.MAX_CALL_ARGS + 1))), "4097 arguments of a call"),  # type: ignore[arg-type]
        (value(ir.var("v" * (wire_format.MAX_STRING_BYTES + 1))), "1048577 bytes of a text"),
        (value(ex.OpaqueExpr("k", bytes(wire_format.MAX_PAYLOAD_BYTES + 1))), "4194305 bytes of an opaque payload"),
        (value(ex.Cast(DataType.device_mesh((1,) * (wire_format.MAX_AXES + 1)), X)), "4097 dimensions of a data type"),
        (value(ex.Cast(DataType.sparse_csr(DataType.tensor_shaped(DataType.F32, (1,) * 4097)), X)), "4097 dimensions"),
        (program().with_entry_op_id("é" * (wire_format.MAX_STRING_BYTES // 2 + 1)), "1048578 bytes of a text"),
        (program(buffers=[BufferDecl.read("b" * (wire_format.MAX_STRING_BYTES + 1), 0, DataType.U32)]), "of a text"),
    ],
)
def test_what_the_format_refuses_is_refused_with_both_numbers_and_still_has_a_fingerprint(one: Program, says: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        one.to_wire()
    assert says in str(caught.value)
    assert len(one.fingerprint()) == 32
    assert one.fingerprint() != one.with_entry_op_id("another").fingerprint()


def test_depth_is_carried_to_the_limits_and_refused_above() -> None:
    expression, node = X, nd.Block((nd.Let("x", X),))
    for _ in range(wire_format.MAX_EXPRESSION_DEPTH - 1):
        expression = -expression  # type: ignore[assignment]
    for _ in range(wire_format.MAX_NESTING - 3):
        node = nd.Block((nd.Let("x", X), node))
    deepest = program(node, nd.Let("deep", expression))
    assert Program.from_wire(deepest.to_wire()) == deepest
    for deeper, says in (
        (value(-expression), "129 levels of expressions"),
        (program(nd.Block((nd.Let("x", X), node))), "65 levels of nodes"),
    ):
        with pytest.raises(InvalidProgram, match=says):
            deeper.to_wire()


def test_predicates_and_linear_types_change_the_strong_digest_and_the_fingerprint_of_format_6() -> None:
    plain = BufferDecl.read("x", 0, DataType.F32)
    programs = [
        program(buffers=[one])
        for one in (
            plain,
            plain.with_linear_type(LinearType.AFFINE),
            plain.with_shape_predicate(AtLeast(1)),
            plain.with_bytes_extraction(True),
        )
    ]
    names = [
        {program.digest() for program in programs},
        {program.fingerprint() for program in programs},
        {program.fingerprint(4) for program in programs},
        {program.normalized_cache_digest(3) for program in programs},
    ]
    assert [len(name) for name in names] == [4, 4, 1, 1]


def test_commutative_operators_put_literals_right_and_sort_fully_only_where_they_may() -> None:
    def canonical(op: BinOp, left: ex.Expr, right: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        region = value(ex.Binary(op, left, right)).canonical().entry[0]
        assert isinstance(region, nd.Region)
        (let,) = region.body
        assert isinstance(let, nd.Let)
        assert isinstance(let.value, ex.Binary)
        return let.value.left, let.value.right

    one, two = ir.u32(1), ir.u32(2)
    cases = {
        BinOp.ADD: [(X, one), (Y, X), (one, two)],
        BinOp.MIN: [(X, one), (Y, X), (one, two)],
        BinOp.BIT_XOR: [(X, one), (X, Y), (one, two)],
        BinOp.ABS_DIFF: [(X, one), (X, Y), (one, two)],
        BinOp.SATURATING_MUL: [(X, one), (X, Y), (one, two)],
        BinOp.SUB: [(one, X), (Y, X), (two, one)],
        BinOp.MUL_HIGH: [(one, X), (Y, X), (two, one)],
        BinOp.SATURATING_SUB: [(one, X), (Y, X), (two, one)],
        BinOp.LT: [(one, X), (Y, X), (two, one)],
    }
    assert {op: [canonical(op, one, X), canonical(op, Y, X), canonical(op, two, one)] for op in cases} == cases


def test_the_package_names_program_and_data_type() -> None:
    from vyre_driver.ir import dtypes, program

    assert (vyre_driver.Program, vyre_driver.DataType) == (program.Program, dtypes.DataType)
    with pytest.raises(AttributeError, match="no attribute 'Programme'"):
        vyre_driver.Programme  # type: ignore[attr-defined]  # noqa: B018 -- asking is the test
    assert WHOLE.digest() != CARRIED.digest()
