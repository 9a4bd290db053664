"""Print programs as indented pseudo-code, for reviews, errors and snapshots.

    program saxpy, workgroup 64 x 1 x 1
      buffer x: f32[] at 0, read_only
      buffer y: f32[] at 1, read_write

      region vyre.program.root:
        if gid.x < len(y):
          y[gid.x] = 2.0 * x[gid.x] + y[gid.x]

Operators bind as in Python, u32 literals are plain, others have a suffix or a point. There is no way back from text; the wire
format is for that.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, cast

import numpy as np

from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferDecl, LinearType, MemoryHints
from vyre_driver.ir.dtypes import DataType, canonical_f32_bits
from vyre_driver.ir.extensions import application
from vyre_driver.ir.operators import BinOp, MemoryOrdering, OpaqueOp, Operator, UnOp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term


_NAME = re.compile(r"[^\W\d][\w.:/-]*")
_SHOWN_BYTES = 16

# Operator to symbol and how tightly it binds; the right operand must bind tighter.
_INFIX = {
    BinOp.OR: ("or", 1),
    BinOp.AND: ("and", 2),
    BinOp.EQ: ("==", 3),
    BinOp.NE: ("!=", 3),
    BinOp.LT: ("<", 3),
    BinOp.GT: (">", 3),
    BinOp.LE: ("<=", 3),
    BinOp.GE: (">=", 3),
    BinOp.BIT_OR: ("|", 4),
    BinOp.BIT_XOR: ("^", 5),
    BinOp.BIT_AND: ("&", 6),
    BinOp.SHL: ("<<", 7),
    BinOp.SHR: (">>", 7),
    BinOp.ADD: ("+", 8),
    BinOp.SUB: ("-", 8),
    BinOp.MUL: ("*", 9),
    BinOp.DIV: ("/", 9),
    BinOp.MOD: ("%", 9),
}
_COMPARISON = 3
_PREFIX = {UnOp.NEGATE: "-", UnOp.BIT_NOT: "~", UnOp.LOGICAL_NOT: "not "}
_PREFIX_BINDING = 10
_IDS: dict[type[Expr], str] = {ex.InvocationId: "gid", ex.WorkgroupId: "wid", ex.LocalId: "lid"}
_WIDE = {DataType.U64: "<Q", DataType.I64: "<q", DataType.F64: "<d"}

_CALLS: dict[type[Expr], str] = {
    ex.Select: "select",
    ex.Fma: "fma",
    ex.SubgroupShuffle: "subgroup_shuffle",
    ex.SubgroupBallot: "subgroup_ballot",
    ex.SubgroupLocalId: "subgroup_local_id",
    ex.SubgroupSize: "subgroup_size",
}

Pieces = list["str | tuple[Expr, int]"]


def expression_pieces(root: Expr) -> Iterator[str]:
    """Yield an expression as pseudo-code, piece by piece."""
    waiting: Pieces = [(root, 0)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        else:
            waiting.extend(reversed(_pieces(*one)))


def spelled(name: str) -> str:
    """Return a name for the text: unchanged if it is an identifier, else quoted and escaped."""
    return name if _NAME.fullmatch(name) and name.isprintable() else ascii(name)


def bytes_text(payload: bytes) -> str:
    """Return the number of bytes and the first of them."""
    shown = payload[:_SHOWN_BYTES].hex() + ("..." if len(payload) > _SHOWN_BYTES else "")
    return f"{len(payload)} bytes {shown}" if payload else "0 bytes"


def operator_text(op: Operator | OpaqueOp) -> str:
    """Return the lower-case name of an operator."""
    return f"extension_{op.extension_id:08x}" if isinstance(op, OpaqueOp) else op.name.lower()


def _pieces(term: Expr, binding: int) -> Pieces:
    """Return what an expression is made of, in an operand place that wants at least ``binding``."""
    if isinstance(term, ex.Binary) and isinstance(term.op, BinOp) and term.op in _INFIX:
        symbol, own = _INFIX[term.op]
        # Comparisons do not chain here as they would in Python.
        pieces: Pieces = [(term.left, own + (own == _COMPARISON)), f" {symbol} ", (term.right, own + 1)]
        return ["(", *pieces, ")"] if own < binding else pieces
    if isinstance(term, ex.Unary) and isinstance(term.op, UnOp) and term.op in _PREFIX:
        pieces = [_PREFIX[term.op], (term.operand, _PREFIX_BINDING + 1)]
        return ["(", *pieces, ")"] if binding > _PREFIX_BINDING else pieces
    leaf = _leaf(term)
    return [leaf] if leaf is not None else _call_pieces(term)


def _leaf(term: Expr) -> str | None:
    match term:
        case ex.LitU32():
            return str(term.value)
        case ex.LitI32():
            return f"{term.value}i32"
        case ex.LitBool():
            return str(term.value).lower()
        case ex.LitF32():
            return _float_text(term)
        case ex.Var():
            return spelled(term.name)
        case ex.BufLen():
            return f"len({spelled(term.buffer)})"
        case ex.BufferRef():
            return f"buffer {spelled(term.buffer)}"
        case ex.InvocationId() | ex.WorkgroupId() | ex.LocalId():
            return f"{_IDS[type(term)]}.{'xyz'[term.axis] if term.axis < 3 else term.axis}"
        case ex.OpaqueExpr():
            return _opaque_text(term)
    return None


def _call_pieces(term: Expr) -> Pieces:
    match term:
        case ex.Load():
            return [spelled(term.buffer), "[", (term.index, 0), "]"]
        case ex.Atomic():
            return _atomic(term)
        case ex.Binary() | ex.Unary():
            return _call(operator_text(term.op), *term.children)
        case ex.SubgroupReduce():
            return _call(f"subgroup_{operator_text(term.op)}", term.value)
        case ex.Call():
            return _call(f"call {spelled(term.op_id)}", *term.args)
        case ex.Cast():
            found = application(term)
            return _call(f"cast<{term.target}>", term.value) if found is None else _call(found.operator.name, *found.operands)
    return _call(_CALLS[type(term)], *term.children)


def _call(name: str, *arguments: Term) -> Pieces:
    pieces: Pieces = [name, "("]
    for place, argument in enumerate(arguments):
        if place:
            pieces.append(", ")
        pieces.append((cast("Expr", argument), 0))
    return [*pieces, ")"]


def _atomic(term: ex.Atomic) -> Pieces:
    ordering = "" if term.ordering is MemoryOrdering.SEQ_CST else f"<{term.ordering.name.lower()}>"
    pieces: Pieces = [f"atomic_{operator_text(term.op)}{ordering}({spelled(term.buffer)}[", (term.index, 0), "], "]
    if term.expected is not None:
        pieces += ["expected ", (term.expected, 0), ", "]
    return [*pieces, (term.value, 0), ")"]


def _float_text(term: ex.LitF32) -> str:
    if term.bits & 0x7FFF_FFFF > 0x7F80_0000 and canonical_f32_bits(term.bits) != term.bits:
        return f"f32_bits({term.bits:#010x})"
    return str(np.float32(term.value))


def _opaque_text(term: ex.OpaqueExpr) -> str:
    if term.dtype is not None and len(term.payload) == 8:
        return f"{struct.unpack(_WIDE[term.dtype], term.payload)[0]}{term.dtype}"
    return f"opaque {spelled(term.kind)}({bytes_text(term.payload)})"


MAX_CHARACTERS = 1_000_000

_INDENT = "  "


def program_text(program: Program) -> str:
    """Return a program as pseudo-code, cut at MAX_CHARACTERS with a last line that says so."""
    lines: list[str] = []
    left = MAX_CHARACTERS
    for line in _lines(program):
        lines.append(line)
        left -= len(line) + 1
        if left < 0:
            lines[-1] = line[:80]
            lines.append(f"... cut at {MAX_CHARACTERS} characters: {program!r}")
            break
    return "\n".join(lines)


def _lines(program: Program) -> Iterator[str]:
    name = "anonymous" if program.entry_op_id is None else spelled(program.entry_op_id)
    size = " x ".join(map(str, program.workgroup_size))
    yield f"program {name}, workgroup {size}" + (", not composable with itself" * program.non_composable_with_self)
    for buffer in program.buffers:
        yield _INDENT + buffer_text(buffer)
    if program.buffers:
        yield ""
    # A node, or a line between the bodies of one, with its level.
    waiting: list[tuple[Node | str, int]] = [(node, 1) for node in reversed(program.entry)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, str):
            yield _INDENT * level + node
            continue
        yield _INDENT * level + _head(node)
        for head, body in reversed(_bodies(node)):
            inside: list[Node | str] = list(body) or ["pass"]
            waiting.extend((one, level + 1) for one in reversed(inside))
            if head is not None:
                waiting.append((head, level))


def buffer_text(buffer: BufferDecl) -> str:
    """Return the declaration of a buffer as one line; what has its default value is left out."""
    count = buffer.count or ""
    notes = [f"buffer {spelled(buffer.name)}: {buffer.element}[{count}] at {buffer.binding}", buffer.access.name.lower()]
    if buffer.kind is not BufferDecl.storage("", 0, buffer.access, buffer.element).kind:
        notes.append(f"in {buffer.kind.name.lower()} memory")
    flags = ("is_output", "pipeline_live_out", "bytes_extraction")
    notes.extend(flag.removeprefix("is_").removeprefix("pipeline_") for flag in flags if getattr(buffer, flag))
    if buffer.output_byte_range is not None:
        notes.append("reads back bytes {} to {}".format(*buffer.output_byte_range))
    if buffer.hints != MemoryHints():
        hints = buffer.hints
        axis = "" if hints.coalesce_axis is None else f"axis {hints.coalesce_axis} "
        notes.append(f"hints {axis}align {hints.preferred_alignment} {hints.cache_locality.name.lower()}")
    if buffer.linear_type is not LinearType.UNRESTRICTED:
        notes.append(buffer.linear_type.name.lower())
    if buffer.shape_predicate is not None:
        notes.append(f"where {buffer.shape_predicate.describe()}")
    return ", ".join(notes)


def _head(node: Node) -> str:
    """Return the line of a node without its bodies."""
    text: list[str] = []
    left = MAX_CHARACTERS
    for part in _head_parts(node):
        for piece in [part] if isinstance(part, str) else expression_pieces(part):
            text.append(piece)
            left -= len(piece)
            if left < 0:
                return "".join(text)
    return "".join(text)


def _head_parts(node: Node) -> list[str | Expr]:
    match node:
        case nd.Let():
            return [f"let {spelled(node.name)} = ", node.value]
        case nd.Assign():
            return [f"{spelled(node.name)} = ", node.value]
        case nd.Store():
            return [f"{spelled(node.buffer)}[", node.index, "] = ", node.value]
        case nd.If():
            return ["if ", node.cond, ":"]
        case nd.Loop():
            return [f"for {spelled(node.var)} in ", node.start, " .. ", node.stop, ":"]
        case nd.Return():
            return ["return"]
        case nd.Block():
            return ["block:"]
        case nd.Barrier():
            return [f"barrier({node.ordering.name.lower()})"]
        case nd.Region():
            source = "" if node.source is None else f" from {spelled(node.source)}"
            return [f"region {spelled(node.generator)}{source}:"]
    return _rare_head_parts(node)


def _rare_head_parts(node: Node) -> list[str | Expr]:
    match node:
        case nd.IndirectDispatch():
            return [f"indirect_dispatch({spelled(node.count_buffer)}, offset {node.count_offset})"]
        case nd.AsyncLoad() | nd.AsyncStore():
            names = f"{spelled(node.source)} to {spelled(node.destination)}"
            verb = node.op_id.removeprefix("vyre.node.")
            return [f"{verb} {names}, offset ", node.offset, ", size ", node.size, f", tag {spelled(node.tag)}"]
        case nd.AsyncWait() | nd.Resume():
            return [f"{node.op_id.removeprefix('vyre.node.')} {spelled(node.tag)}"]
        case nd.Trap():
            return ["trap ", node.address, f", tag {spelled(node.tag)}"]
        case nd.AllReduce():
            return [f"all_reduce {operator_text(node.op)} {spelled(node.buffer)}, group {node.group}"]
        case nd.AllGather():
            return [f"all_gather {spelled(node.input)} to {spelled(node.output)}, group {node.group}"]
        case nd.ReduceScatter():
            names = f"{spelled(node.input)} to {spelled(node.output)}"
            return [f"reduce_scatter {operator_text(node.op)} {names}, group {node.group}"]
        case nd.Broadcast():
            return [f"broadcast {spelled(node.buffer)} from {node.root}, group {node.group}"]
        case nd.OpaqueNode():
            return [f"opaque {spelled(node.kind)}({bytes_text(node.payload)})"]
    return [repr(node)]


def _bodies(node: Node) -> list[tuple[str | None, tuple[Node, ...]]]:
    """Return the bodies of a node, each with the line that stands above it, if there is one beside the head."""
    match node:
        case nd.If():
            return [(None, node.then), ("else:", node.otherwise)] if node.otherwise else [(None, node.then)]
        case nd.Loop() | nd.Block() | nd.Region():
            return [(None, node.body)]
    return []
