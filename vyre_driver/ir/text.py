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

from typing import TYPE_CHECKING

from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferDecl, LinearType, MemoryHints
from vyre_driver.ir.expression_text import bytes_text, expression_pieces, operator_text, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program

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
