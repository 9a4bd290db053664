"""Programs of upstream 0.7's vectors, from their descriptions: nodes and expressions are lists that begin with their kind."""

from __future__ import annotations

import json
import lzma
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vectors import dtype, snake

from vyre_driver import ir
from vyre_driver.ir import predicates
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, SubgroupOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "upstream-0.7"


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file of vectors."""
    data = (DATA / name).read_bytes()
    return json.loads(lzma.decompress(data) if name.endswith(".xz") else data)["cases"]  # type: ignore[no-any-return]


def predicate(facts: list[Any] | None) -> predicates.ShapePredicate | None:
    """A shape predicate, or None."""
    if facts is None:
        return None
    name, *values = facts
    return getattr(predicates, name)(*(predicate(value) if isinstance(value, list) else value for value in values))  # type: ignore[no-any-return]


def element(facts: dict[str, Any]) -> ir.DataType:
    """A data type; the kinds of a quantized one are lists here."""
    kinds = {key: {"kind": facts[key][0], "axis": facts[key][1]} for key in ("scale", "zero_point") if key in facts}
    return dtype(facts | kinds)


def buffer(facts: dict[str, Any]) -> ir.BufferDecl:
    """A buffer with all of its fields."""
    hints, byte_range = facts["hints"], facts["output_byte_range"]
    return ir.BufferDecl(
        name=facts["name"],
        binding=facts["binding"],
        access=ir.BufferAccess[snake(facts["access"])],
        kind=ir.MemoryKind[snake(facts["kind"])],
        element=element(facts["element"]),
        count=facts["count"],
        is_output=facts["is_output"],
        pipeline_live_out=facts["pipeline_live_out"],
        output_byte_range=None if byte_range is None else tuple(byte_range),
        hints=ir.MemoryHints(
            hints["coalesce_axis"], hints["preferred_alignment"], ir.CacheLocality[snake(hints["cache_locality"])]
        ),
        bytes_extraction=facts["bytes_extraction"],
        linear_type=ir.LinearType[snake(facts["linear_type"])],
        shape_predicate=predicate(facts["shape_predicate"]),
    )


def operator(table: Any, facts: Any) -> Any:  # noqa: ANN401 -- a table of operators and a name, or the id of an extension's
    """An operator by its name, or that of an extension by its number."""
    return OpaqueOp(facts[1]) if isinstance(facts, list) else table[snake(facts)]


def expression(facts: list[Any]) -> ir.Expr:
    """An expression: its kind and its fields."""
    return EXPRESSIONS[facts[0]](*facts[1:])


def body(facts: list[Any]) -> list[ir.Node]:
    """The nodes of a body."""
    return [NODES[kind](*fields) for kind, *fields in facts]


e = expression
EXPRESSIONS: dict[str, Callable[..., ir.Expr]] = {
    "u32": ir.LitU32,
    "i32": ir.LitI32,
    "bool": ir.LitBool,
    "f32": lambda bits: ir.LitF32(int(bits, 16)),
    "u64": lambda number: ir.u64(int(number)),
    "i64": lambda number: ir.i64(int(number)),
    "f64": lambda bits: ir.f64(struct.unpack(">d", bytes.fromhex(bits))[0]),
    "var": ir.Var,
    "load": lambda name, index: ir.Load(name, e(index)),
    "buf_len": ir.BufLen,
    "buffer_ref": ir.BufferRef,
    "gid": ir.InvocationId,
    "wid": ir.WorkgroupId,
    "lid": ir.LocalId,
    "bin": lambda op, left, right: ir.Binary(operator(BinOp, op), e(left), e(right)),
    "un": lambda op, operand: ir.Unary(operator(UnOp, op), e(operand)),
    "call": lambda op_id, args: ir.Call(op_id, tuple(map(e, args))),
    "select": lambda cond, yes, no: ir.Select(e(cond), e(yes), e(no)),
    "cast": lambda target, value: ir.Cast(element(target), e(value)),
    "atomic": lambda op, ordering, name, index, expected, value: ir.Atomic(
        operator(AtomicOp, op),
        MemoryOrdering[snake(ordering)],
        name,
        e(index),
        None if expected is None else e(expected),
        e(value),
    ),
    "fma": lambda a, b, c: ir.Fma(e(a), e(b), e(c)),
    "subgroup_reduce": lambda op, value: ir.SubgroupReduce(SubgroupOp[snake(op)], e(value)),
    "subgroup_shuffle": lambda value, lane: ir.SubgroupShuffle(e(value), e(lane)),
    "subgroup_ballot": lambda cond: ir.SubgroupBallot(e(cond)),
    "subgroup_local_id": ir.SubgroupLocalId,
    "subgroup_size": ir.SubgroupSize,
}
NODES: dict[str, Callable[..., ir.Node]] = {
    "let": lambda name, value: ir.Let(name, e(value)),
    "assign": lambda name, value: ir.Assign(name, e(value)),
    "store": lambda name, index, value: ir.Store(name, e(index), e(value)),
    "if": lambda cond, then, otherwise: ir.If(e(cond), body(then), body(otherwise)),
    "loop": lambda name, start, stop, inside: ir.Loop(name, e(start), e(stop), body(inside)),
    "return": ir.Return,
    "block": lambda inside: ir.Block(body(inside)),
    "barrier": lambda ordering: ir.Barrier(MemoryOrdering[snake(ordering)]),
    "region": lambda generator, source, inside: ir.Region(generator, source, body(inside)),
    "indirect_dispatch": lambda name, offset: ir.IndirectDispatch(name, int(offset)),
    "async_load": lambda source, target, offset, size, tag: ir.AsyncLoad(source, target, e(offset), e(size), tag),
    "async_store": lambda source, target, offset, size, tag: ir.AsyncStore(source, target, e(offset), e(size), tag),
    "async_wait": ir.AsyncWait,
    "trap": lambda address, tag: ir.Trap(e(address), tag),
    "resume": ir.Resume,
    "all_reduce": lambda name, op, group: ir.AllReduce(name, CollectiveOp[snake(op)], group),
    "all_gather": ir.AllGather,
    "reduce_scatter": lambda source, target, op, group: ir.ReduceScatter(source, target, CollectiveOp[snake(op)], group),
    "broadcast": ir.Broadcast,
}


def program(facts: dict[str, Any]) -> ir.Program:
    """A program as the vectors describe it."""
    make = ir.Program.new if facts["raw"] else ir.Program.wrapped
    made = make([buffer(declared) for declared in facts["buffers"]], facts["workgroup_size"], body(facts["body"]))
    return made.with_entry_op_id(facts["entry_op_id"]).with_non_composable_with_self(facts["non_composable_with_self"])
