"""For each rule of the validator a program that it accepts, and one that it refuses, where, and in which words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.backends.profile import DeviceProfile
from vyre_driver.ir import OperationSignature
from vyre_driver.ir.arithmetic import OpaqueExpr, f32
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, LinearType
from vyre_driver.ir.builders import (
    assign,
    atomic,
    atomic_add,
    barrier,
    binop,
    block,
    call,
    cast,
    fma,
    gid_x,
    i32,
    if_,
    let,
    load,
    loop,
    region,
    return_,
    select,
    store,
    subgroup_add,
    subgroup_ballot,
    subgroup_shuffle,
    u32,
    u64,
    unop,
    var,
    wid_x,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import InvocationId
from vyre_driver.ir.nodes import AllGather, AllReduce, AsyncLoad, AsyncWait, IndirectDispatch, OpaqueNode, Trap
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, UnOp
from vyre_driver.ir.predicates import MultipleOf
from vyre_driver.ir.program import Program
from vyre_driver.ir.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.ir.statements import Node

OUT = BufferDecl.read_write("out", 0, DataType.U32).with_count(8)
IN = BufferDecl.read("in", 1, DataType.U32)
FLOATS = BufferDecl.read_write("floats", 2, DataType.F32)
SHARED = BufferDecl.workgroup("shared", 16, DataType.U32)
BYTES = BufferDecl.read_write("bytes", 3, DataType.Bytes)
OPEN_BYTES = BufferDecl.read_write("open_bytes", 4, DataType.Bytes).with_bytes_extraction(True)
SIGNED = BufferDecl.read_write("signed", 5, DataType.I32)
BUFFERS = (OUT, IN, FLOATS, SHARED, BYTES, OPEN_BYTES, SIGNED)

ABLE = DeviceProfile(
    backend="test",
    supports_subgroup_ops=True,
    supports_indirect_dispatch=True,
    supports_distributed_collectives=True,
    supports_f16=True,
    supports_bf16=True,
    supports_trap_propagation=True,
    has_shared_memory=True,
    max_native_int_width=64,
    max_workgroup_size=(64, 64, 64),
    max_invocations_per_workgroup=128,
    max_shared_memory_bytes=1024,
    max_storage_buffer_binding_size=4096,
)
SIGNATURES = {
    "twice": OperationSignature(("u32",), "u32"),
    "strange": OperationSignature(("u33",), "u32"),
    "deep": OperationSignature((), "u32", call_depth=33),
    "deepest": OperationSignature((), "u32", call_depth=32),
}


def program(*nodes: Node, buffers: Sequence[BufferDecl] = BUFFERS, size: tuple[int, int, int] = (64, 1, 1)) -> Program:
    """A wrapped program."""
    return Program.wrapped(buffers, size, nodes)


def declaring(*buffers: BufferDecl) -> Program:
    """A program that does nothing with its buffers."""
    return program(buffers=buffers)


def chain(length: int) -> Any:  # noqa: ANN401 -- an expression
    """An expression of this depth."""
    expr: Any = u32(1)
    for _ in range(length - 1):
        expr = unop(UnOp.BIT_NOT, expr)
    return expr


def nest(levels: int) -> Program:
    """A program whose nodes nest this deep."""
    body: tuple[Node, ...] = (block(),)
    for _ in range(levels - 2):
        body = (block(*body),)
    return program(*body)


@dataclass(frozen=True)
class Case:
    """A rule with its two programs; the last words of ``message`` are all of it."""

    rule: Rule
    accepted: Program
    refused: Program
    path: str
    message: str
    profile: DeviceProfile | None = None
    operations: Mapping[str, OperationSignature] | None = None


X = u32(1)
CASES = [
    Case(
        Rule.SHADOWING,
        program(block(let("x", X)), block(let("x", X))),
        program(let("x", X), block(let("x", X))),
        "body[1].body[0]",
        "variable 'x' hides that of an enclosing body",
    ),
    Case(
        Rule.ATOMIC_ACCESS,
        program(let("x", atomic_add("out", 0, 1))),
        program(let("x", atomic_add("in", 0, 1))),
        "body[0].value",
        "'in' is READ_ONLY, and an atomic wants READ_WRITE",
    ),
    Case(
        Rule.DIVERGENT_BARRIER,
        program(if_(wid_x() < 1, [barrier()])),
        program(if_(gid_x() < 1, [barrier()])),
        "body[0].then[0]",
        "not every invocation of a workgroup is known to reach this barrier",
    ),
    Case(
        Rule.LOOP_VARIABLE,
        program(let("x", X), loop("i", 0, 4, [assign("x", var("i"))])),
        program(loop("i", 0, 4, [assign("i", X)])),
        "body[0].body[0]",
        "'i' is the variable of a loop",
    ),
    Case(
        Rule.CAST,
        program(let("x", cast(DataType.F32, X))),
        program(let("x", cast(DataType.F64, X))),
        "body[0].value",
        "there is no cast from u32 to f64",
    ),
    Case(
        Rule.BYTES_ELEMENT,
        program(store("open_bytes", 0, X), store("out", 0, load("open_bytes", 0))),
        program(store("bytes", 0, X)),
        "body[0].buffer",
        "buffer 'bytes' holds bytes, which are not stored",
    ),
    Case(
        Rule.BYTES_ELEMENT,
        program(let("x", load("open_bytes", 0))),
        program(let("x", load("bytes", 0))),
        "body[0].value",
        "buffer 'bytes' holds bytes, which are not loaded",
    ),
    Case(
        Rule.BYTES_ELEMENT,
        program(let("x", atomic_add("out", 0, 1))),
        program(let("x", atomic_add("open_bytes", 0, 1))),
        "body[0].value",
        "'open_bytes' holds bytes, which have no atomics",
    ),
    Case(
        Rule.ATOMIC_ELEMENT,
        program(let("x", atomic_add("out", 0, 1))),
        program(let("x", atomic_add("floats", 0, 1))),
        "body[0].value",
        "'floats' holds f32, and atomics work on u32",
    ),
    Case(
        Rule.UNKNOWN_CALL,
        program(let("x", call("twice", X))),
        program(let("x", call("thrice", X))),
        "body[0].value",
        "no operation 'thrice' is known",
        operations=SIGNATURES,
    ),
    Case(Rule.NESTING, nest(64), nest(65), "entry[0]", "nodes nest 65 deep, over the limit of 64"),
    Case(
        Rule.NODE_COUNT,
        program(*[block()] * 8191),
        program(*[block()] * 8192),
        "entry",
        "there are 8193 nodes, over the limit of 8192",
    ),
    Case(
        Rule.CALL_ARITY,
        program(let("x", call("twice", X))),
        program(let("x", call("twice", X, X))),
        "body[0].value",
        "'twice' takes 1 arguments, and got 2",
        operations=SIGNATURES,
    ),
    Case(
        Rule.CALL_TYPE_NAME,
        program(let("x", call("twice", X))),
        program(let("x", call("strange", X))),
        "body[0].value",
        "the signature of 'strange' names the type 'u33'",
        operations=SIGNATURES,
    ),
    Case(
        Rule.CALL_ARGUMENT,
        program(let("x", call("twice", X))),
        program(let("x", call("twice", f32(1.0)))),
        "body[0].value.args[0]",
        "'twice' takes u32 for argument 0, and got f32",
        operations=SIGNATURES,
    ),
    Case(
        Rule.OUTPUTS,
        declaring(BufferDecl.output("a", 0, DataType.U32), BufferDecl.read_write("b", 1, DataType.U32)),
        declaring(BufferDecl.output("a", 0, DataType.U32), BufferDecl.output("b", 1, DataType.U32)),
        "buffers[1]",
        "'a' and 'b' are both marked is_output",
    ),
    Case(
        Rule.CAST_TO_BYTES,
        program(let("x", cast(DataType.Bytes, load("open_bytes", 0)))),
        program(let("x", cast(DataType.Bytes, X))),
        "body[0].value",
        "there is no cast from u32 to bytes",
    ),
    Case(
        Rule.ATOMIC_WORKGROUP,
        program(let("x", atomic_add("out", 0, 1))),
        program(let("x", atomic_add("shared", 0, 1))),
        "body[0].value",
        "'shared' is workgroup memory",
    ),
    Case(
        Rule.ATOMIC_INDEX,
        program(let("x", atomic_add("out", u32(0), 1))),
        program(let("x", atomic_add("out", i32(0), 1))),
        "body[0].value.index",
        "the index of an atomic must be u32, and is i32",
    ),
    Case(
        Rule.FMA,
        program(let("x", fma(1.0, 2.0, f32(3.0)))),
        program(let("x", fma(1.0, X, 3.0))),
        "body[0].value.b",
        "an operand of fma must be f32, and is u32",
    ),
    Case(
        Rule.SELECT_ARMS,
        program(let("x", select(True, X, u32(2)))),
        program(let("x", select(True, X, f32(2.0)))),
        "body[0].value",
        "a select between u32 and f32",
    ),
    Case(
        Rule.OPAQUE_EXPRESSION,
        program(let("x", OpaqueExpr("test.extension", b""))),
        program(let("x", OpaqueExpr("", b"\1"))),
        "body[0].value",
        "an opaque expression has no kind",
    ),
    Case(
        Rule.OPAQUE_EXPRESSION,
        program(let("x", u64(7))),
        program(let("x", OpaqueExpr("vyre.literal.u64", bytes(7)))),
        "body[0].value",
        "the payload of a literal of u64 has 7 bytes, not 8",
    ),
    Case(
        Rule.OPAQUE_NODE,
        program(OpaqueNode("test.extension", b"")),
        program(OpaqueNode("", b"\1")),
        "body[0]",
        "an opaque node has no kind",
    ),
    Case(
        Rule.LET_TWICE,
        program(let("x", X), assign("x", X)),
        program(let("x", X), let("x", X)),
        "body[1]",
        "variable 'x' is declared twice in one body",
    ),
    Case(
        Rule.EXPRESSION_DEPTH,
        program(let("x", chain(128))),
        program(let("x", chain(129))),
        "body[0].value",
        "expressions nest 129 deep, over the limit of 128",
    ),
    Case(
        Rule.CAST_TARGET,
        program(let("x", cast(DataType.I32, X))),
        program(let("x", cast(DataType.I64, X))),
        "body[0].value",
        "the device has no 64-bit integers, and so no i64",
        profile=replace(ABLE, max_native_int_width=32),
    ),
    Case(
        Rule.STORE_RANGE,
        program(store("out", 7, X)),
        program(store("out", 8, X)),
        "body[0].index",
        "the index is 8, and buffer 'out' has 8 elements",
    ),
    Case(
        Rule.STORE_RANGE,
        program(store("out", 0, X)),
        program(store("out", i32(-1), X)),
        "body[0].index",
        "the index is -1",
    ),
    Case(
        Rule.SUBGROUP,
        program(store("out", 0, X + 2)),
        program(store("out", 0, X + subgroup_add(X))),
        "body[0].value.right",
        "the device has no subgroup operations",
        profile=replace(ABLE, supports_subgroup_ops=False),
    ),
    Case(
        Rule.ATOMIC_ORDERING,
        program(let("x", atomic(AtomicOp.ADD, "out", 0, 1, ordering=MemoryOrdering.RELAXED))),
        program(let("x", atomic(AtomicOp.ADD, "out", 0, 1, ordering=MemoryOrdering.GRID_SYNC))),
        "body[0].value",
        "an atomic cannot be ordered GRID_SYNC",
    ),
    Case(
        Rule.BARRIER_ORDERING,
        program(barrier(MemoryOrdering.GRID_SYNC)),
        program(barrier(MemoryOrdering.RELAXED)),
        "body[0]",
        "a barrier cannot be ordered RELAXED",
    ),
    Case(
        Rule.ZERO_DIVISOR,
        program(let("x", X / cast(DataType.U32, i32(1)))),
        program(let("x", X / cast(DataType.U32, i32(0)))),
        "body[0].value.right",
        "the divisor of a division is the literal 0",
    ),
    Case(
        Rule.VALUE_TYPE,
        program(let("x", X), assign("x", u32(2))),
        program(let("x", X), assign("x", f32(2.0))),
        "body[1].value",
        "variable 'x' is u32, and is given f32",
    ),
    Case(
        Rule.VALUE_TYPE,
        program(store("floats", 0, f32(1.0))),
        program(store("floats", 0, X)),
        "body[0].value",
        "buffer 'floats' holds f32, and is given u32",
    ),
    Case(
        Rule.COLLECTIVE,
        program(AllReduce("out", CollectiveOp.SUM)),
        program(AllReduce("shared", CollectiveOp.SUM)),
        "body[0].buffer",
        "'shared' is workgroup memory, which other devices do not see",
    ),
    Case(
        Rule.COLLECTIVE,
        program(AllGather("in", "out")),
        program(AllGather("nowhere", "out")),
        "body[0].input",
        "there is no buffer 'nowhere'",
    ),
    Case(
        Rule.COLLECTIVE,
        program(AllGather("in", "out")),
        program(AllGather("in", "floats")),
        "body[0]",
        "a collective from u32 to f32",
    ),
    Case(
        Rule.COLLECTIVE,
        program(),
        program(AllReduce("out", CollectiveOp.SUM)),
        "body[0]",
        "the device has no collectives",
        profile=replace(ABLE, supports_distributed_collectives=False),
    ),
    Case(
        Rule.ENTRY,
        Program.new((), (1, 1, 1), [region("a"), region("b")]),
        Program.new((), (1, 1, 1), [region("a"), block()]),
        "entry[1]",
        "a Block stands where a Region is wanted",
    ),
    Case(Rule.ENTRY, Program.empty(), Program.new((), (1, 1, 1), []), "entry", "there are no nodes"),
    Case(
        Rule.WORKGROUP_SIZE,
        program(size=(1, 1, 1)),
        program(size=(1, 0, 1)),
        "workgroup_size[1]",
        "the workgroup has 0 invocations along y",
    ),
    Case(
        Rule.BUFFER_NAME,
        declaring(OUT, IN),
        declaring(OUT, replace(OUT, binding=7)),
        "buffers[1]",
        "there are two buffers 'out'",
    ),
    Case(
        Rule.BINDING,
        declaring(OUT, SHARED, replace(SHARED, name="more")),
        declaring(OUT, replace(IN, binding=0)),
        "buffers[1]",
        "binding 0 of 'in' is that of 'out'",
    ),
    Case(
        Rule.WORKGROUP_COUNT,
        declaring(SHARED),
        declaring(SHARED.with_count(0)),
        "buffers[0]",
        "workgroup buffer 'shared' has 0 elements",
    ),
    Case(
        Rule.OUTPUT_ELEMENT,
        declaring(BufferDecl.read_write("a", 0, DataType.array(4))),
        declaring(BufferDecl.output("a", 0, DataType.array(4))),
        "buffers[0]",
        "output 'a' has elements of array<4B>",
    ),
    Case(
        Rule.ELEMENT_LAYOUT,
        declaring(BufferDecl.read("a", 0, DataType.vec(DataType.F32, 1))),
        declaring(BufferDecl.read("a", 0, DataType.vec(DataType.F32, 0))),
        "buffers[0]",
        "'a': the data type vec<f32, 0> cannot be laid out: Vec count must be > 0",
    ),
    Case(
        Rule.OUTPUT_RANGE,
        declaring(OUT.with_output_byte_range((4, 32))),
        declaring(OUT.with_output_byte_range((4, 33))),
        "buffers[0]",
        "the output range of 'out' is 4 to 33 bytes, in a buffer of 32 bytes",
    ),
    Case(
        Rule.OUTPUT_RANGE,
        declaring(IN.with_output_byte_range((4, 4))),
        declaring(IN.with_output_byte_range((4, 3))),
        "buffers[0]",
        "the output range of 'in' is 4 to 3 bytes, in a buffer of unknown size",
    ),
    Case(
        Rule.UNDECLARED,
        program(let("x", X), store("out", 0, var("x"))),
        program(store("out", 0, X + var("x"))),
        "body[0].value.right",
        "no variable 'x' is in scope",
    ),
    Case(
        Rule.UNDECLARED,
        program(let("x", X), assign("x", X)),
        program(block(let("x", X)), assign("x", X)),
        "body[1]",
        "no variable 'x' is in scope",
    ),
    Case(
        Rule.UNKNOWN_BUFFER,
        program(let("x", load("in", 0))),
        program(let("x", load("nowhere", 0))),
        "body[0].value",
        "there is no buffer 'nowhere'",
    ),
    Case(
        Rule.UNKNOWN_BUFFER,
        program(store("out", 0, X)),
        program(store("nowhere", 0, X)),
        "body[0].buffer",
        "there is no buffer 'nowhere'",
    ),
    Case(
        Rule.NOT_WRITABLE,
        program(store("shared", 0, X)),
        program(store("in", 0, X)),
        "body[0].buffer",
        "buffer 'in' is READ_ONLY, and is written here",
    ),
    Case(
        Rule.INDEX,
        program(let("x", load("in", u32(0)))),
        program(let("x", load("in", i32(0)))),
        "body[0].value.index",
        "the index of a load must be u32, and is i32",
    ),
    Case(
        Rule.INDEX,
        program(store("out", cast(DataType.U32, load("signed", 0)), X)),
        program(store("out", load("signed", 0), X)),
        "body[0].index",
        "the index of a store must be u32, and is i32",
    ),
    Case(
        Rule.INDEX,
        program(AsyncLoad("in", "shared", u32(0), u32(4), "copy"), AsyncWait("copy")),
        program(AsyncLoad("in", "shared", u32(0), f32(4.0), "copy"), AsyncWait("copy")),
        "body[0].size",
        "the size of a copy must be u32, and is f32",
    ),
    Case(
        Rule.INDEX,
        program(Trap(u32(3), "bad")),
        program(Trap(i32(3), "bad")),
        "body[0].address",
        "the address of a trap must be u32, and is i32",
    ),
    Case(
        Rule.INDEX,
        program(let("x", subgroup_shuffle(X, 0))),
        program(let("x", subgroup_shuffle(X, i32(0)))),
        "body[0].value.lane",
        "the lane of a shuffle must be u32, and is i32",
    ),
    Case(
        Rule.CONDITION,
        program(if_(X, []), if_(True, [])),
        program(if_(i32(1), [])),
        "body[0].cond",
        "the condition of an if must be u32 or bool, and is i32",
    ),
    Case(
        Rule.CONDITION,
        program(let("x", select(X, X, X))),
        program(let("x", select(f32(1.0), X, X))),
        "body[0].value.cond",
        "the condition of a select must be u32 or bool, and is f32",
    ),
    Case(
        Rule.CONDITION,
        program(let("x", subgroup_ballot(X))),
        program(let("x", subgroup_ballot(i32(1)))),
        "body[0].value.cond",
        "the condition of a ballot must be u32 or bool, and is i32",
    ),
    Case(
        Rule.LOOP_BOUND,
        program(loop("i", 0, 4, [])),
        program(loop("i", 0, i32(4), [])),
        "body[0].stop",
        "the stop of a loop must be u32, and is i32",
    ),
    Case(
        Rule.OPERAND,
        program(let("x", X + u32(2))),
        program(let("x", X + i32(2))),
        "body[0].value",
        "ADD takes two operands of one type out of u32, i32 and f32, and got u32 and i32",
    ),
    Case(
        Rule.OPERAND,
        program(let("x", -f32(1.0))),
        program(let("x", -i32(1))),
        "body[0].value",
        "NEGATE takes u32 or f32, and got i32",
    ),
    Case(
        Rule.OPERAND,
        program(let("x", binop(BinOp.BIT_AND, X, X))),
        program(let("x", binop(BinOp.BALLOT, X, X))),
        "body[0].value",
        "BALLOT is no operator of two operands",
    ),
    Case(
        Rule.UNREACHABLE,
        program(if_(True, [return_()]), store("out", 0, X)),
        program(return_(), store("out", 0, X)),
        "body[0]",
        "1 nodes follow a return in its body",
    ),
    Case(
        Rule.AXIS,
        program(let("x", InvocationId(2))),
        program(let("x", InvocationId(3))),
        "body[0].value",
        "there is no axis 3",
    ),
    Case(
        Rule.INDIRECT_OFFSET,
        program(IndirectDispatch("out", 4)),
        program(IndirectDispatch("out", 6)),
        "body[0].count_offset",
        "the offset is 6 bytes, which is no multiple of 4",
    ),
    Case(
        Rule.TAG,
        program(AsyncWait("copy")),
        program(AsyncWait("")),
        "body[0].tag",
        "the tag of an asynchronous copy is empty",
    ),
    Case(
        Rule.HAZARD,
        program(let("x", atomic_add("out", 0, 1)), barrier(), store("out", 0, X)),
        program(let("x", atomic_add("out", 0, 1)), store("out", 0, X)),
        "body[1]",
        "buffer 'out' is used by atomics and plainly, here and at body[0], with no barrier between",
    ),
    Case(
        Rule.HAZARD,
        program(let("x", atomic_add("out", load("in", 0), 1))),
        program(let("x", atomic_add("out", load("out", 0), 1))),
        "body[0]",
        "buffer 'out' is used by atomics and plainly, both here, with no barrier between",
    ),
    Case(
        Rule.SELF_EXCLUSIVE,
        Program.new((), (1, 1, 1), [region("a"), region("b")]).with_non_composable_with_self(True),
        Program.new((), (1, 1, 1), [region("a"), region("b"), region("a")]).with_non_composable_with_self(True),
        "entry[2]",
        "the region 'a' stands here again, in a program not composable with itself",
    ),
    Case(
        Rule.LINEAR,
        program(let("x", load("in", 0)), buffers=[IN.with_linear_type(LinearType.LINEAR)]),
        program(let("x", load("in", 0) + load("in", 1)), buffers=[IN.with_linear_type(LinearType.LINEAR)]),
        "buffers[0]",
        "LINEAR buffer 'in' is named 2 times",
    ),
    Case(
        Rule.LINEAR,
        program(buffers=[IN.with_linear_type(LinearType.AFFINE)]),
        program(*[let("x", load("in", 0))] * 1, let("y", load("in", 0)), buffers=[IN.with_linear_type(LinearType.AFFINE)]),
        "buffers[0]",
        "AFFINE buffer 'in' is named 2 times",
    ),
    Case(
        Rule.LINEAR,
        program(let("x", load("in", 0) + load("in", 0)), buffers=[IN.with_linear_type(LinearType.RELEVANT)]),
        program(buffers=[IN.with_linear_type(LinearType.RELEVANT)]),
        "buffers[0]",
        "RELEVANT buffer 'in' is named 0 times",
    ),
    Case(
        Rule.SHAPE,
        declaring(OUT.with_shape_predicate(MultipleOf(4)), IN.with_shape_predicate(MultipleOf(4))),
        declaring(OUT.with_shape_predicate(MultipleOf(3))),
        "buffers[0]",
        f"{MultipleOf(3).describe()} does not hold for 'out': count=8",
    ),
    Case(
        Rule.ATOMIC_OPERAND,
        program(let("x", atomic_add("out", 0, u32(1)))),
        program(let("x", atomic_add("out", 0, i32(1)))),
        "body[0].value.value",
        "the value of an atomic must be u32, and is i32",
    ),
    Case(
        Rule.ATOMIC_OPERAND,
        program(let("x", atomic(AtomicOp.COMPARE_EXCHANGE, "out", 0, 1, expected=2))),
        program(let("x", atomic(AtomicOp.COMPARE_EXCHANGE, "out", 0, 1, expected=i32(2)))),
        "body[0].value.expected",
        "the expected value of an atomic must be u32, and is i32",
    ),
    Case(
        Rule.ATOMIC_OPERAND,
        program(let("x", atomic(AtomicOp.COMPARE_EXCHANGE_WEAK, "out", 0, 1, expected=2))),
        program(let("x", atomic(AtomicOp.COMPARE_EXCHANGE_WEAK, "out", 0, 1))),
        "body[0].value",
        "COMPARE_EXCHANGE_WEAK has no expected value",
    ),
    Case(
        Rule.ATOMIC_OPERAND,
        program(let("x", atomic(AtomicOp.EXCHANGE, "out", 0, 1))),
        program(let("x", atomic(AtomicOp.EXCHANGE, "out", 0, 1, expected=2))),
        "body[0].value",
        "EXCHANGE has an expected value",
    ),
    Case(
        Rule.SUBGROUP_OPERAND,
        program(let("x", subgroup_add(f32(1.0)))),
        program(let("x", subgroup_add(True))),
        "body[0].value.value",
        "the value of a subgroup sum must be u32, i32, u64 or f32, and is bool",
    ),
    Case(
        Rule.CALL_DEPTH,
        program(let("x", call("deepest"))),
        program(let("x", call("deep"))),
        "body[0].value",
        "'deep' calls 33 deep, over the limit of 32",
        operations=SIGNATURES,
    ),
    Case(
        Rule.DEVICE_WORKGROUP,
        program(size=(64, 2, 1)),
        program(size=(65, 1, 1)),
        "workgroup_size[0]",
        "the workgroup has 65 invocations along x, and the device allows 64",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_WORKGROUP,
        program(size=(64, 2, 1)),
        program(size=(43, 3, 1)),
        "workgroup_size",
        "the workgroup has 129 invocations, and the device allows 128",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_SHARED,
        declaring(SHARED.with_count(256)),
        declaring(SHARED.with_count(200), replace(SHARED, name="more", count=57)),
        "buffers",
        "the workgroup buffers have 1028 bytes together, and the device has 1024",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_SHARED,
        declaring(OUT),
        declaring(SHARED),
        "buffers[0]",
        "'shared' is workgroup memory, and the device has none",
        profile=replace(ABLE, has_shared_memory=False),
    ),
    Case(
        Rule.DEVICE_BUFFER,
        declaring(OUT.with_count(1024)),
        declaring(OUT.with_count(1025)),
        "buffers[0]",
        "buffer 'out' has 4100 bytes, and the device binds 4096",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_TYPE,
        declaring(BufferDecl.read("a", 0, DataType.F16)),
        declaring(BufferDecl.read("a", 0, DataType.F16), BufferDecl.storage("b", 1, BufferAccess.READ_ONLY, DataType.BF16)),
        "buffers[1]",
        "buffer 'b' holds bf16, and the device has no bf16",
        profile=replace(ABLE, supports_bf16=False),
    ),
    Case(
        Rule.DEVICE_TYPE,
        program(let("x", X)),
        program(let("x", u64(1))),
        "body[0].value",
        "the device has no 64-bit integers",
        profile=replace(ABLE, max_native_int_width=32),
    ),
    Case(
        Rule.DEVICE_OPERATION,
        program(store("out", 0, X)),
        program(IndirectDispatch("out", 0)),
        "body[0]",
        "the device has no indirect dispatch",
        profile=replace(ABLE, supports_indirect_dispatch=False),
    ),
    Case(
        Rule.DEVICE_OPERATION,
        program(store("out", 0, X)),
        program(Trap(u32(0), "bad")),
        "body[0]",
        "the device has no traps",
        profile=replace(ABLE, supports_trap_propagation=False),
    ),
]
