"""The rules about a program as a whole: its shape, its size, its workgroup and its buffers.

Source: spec item 1.8; the byte range as upstream's encoder has it (3.5), layouts as its planner has them (1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidProgram, with_article
from vyre_driver.ir import dtypes, walks
from vyre_driver.ir.buffers import MAX_LOCAL_BYTES, PUSHED_TYPES, BufferAccess, MemoryKind
from vyre_driver.ir.nodes import Region
from vyre_driver.ir.validation.rules import Rule, quoted, spelled

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.validation.rules import Findings

_ARRAYS = frozenset({dtypes.ARRAY, dtypes.TENSOR})


def check_shape(program: Program, findings: Findings) -> bool:
    """Check entry, limits and workgroup size; return whether nodes and nesting are few enough to walk."""
    if not program.entry:
        findings.add(Rule.ENTRY, "entry", "there are no nodes", "use Program.wrapped")
    for place, node in enumerate(program.entry):
        if not isinstance(node, Region):
            text = f"{with_article(type(node).__name__)} stands where a Region is wanted"
            findings.add(Rule.ENTRY, f"entry[{place}]", text, "use Program.wrapped")
        if node.nesting > walks.MAX_NESTING:
            text = f"nodes nest {node.nesting} deep, over the limit of {walks.MAX_NESTING}"
            findings.add(Rule.NESTING, f"entry[{place}]", text, "nest them less")
    for place, size in enumerate(program.workgroup_size):
        if size == 0:
            text = f"the workgroup has 0 invocations along {'xyz'[place]}"
            findings.add(Rule.WORKGROUP_SIZE, f"workgroup_size[{place}]", text, "use 1 or more")
    if program.non_composable_with_self:
        _check_composition(program, findings)
    count = sum(node.node_count for node in program.entry)
    if count <= walks.MAX_NODES:
        return all(node.nesting <= walks.MAX_NESTING for node in program.entry)
    text = f"there are {_number(count)} nodes, over the limit of {walks.MAX_NODES}"
    findings.add(Rule.NODE_COUNT, "entry", text, "split the program")
    return False


def _number(count: int) -> str:
    return str(count) if count < 1 << 64 else "more than 2**64"


def _check_composition(program: Program, findings: Findings) -> None:
    seen: set[str] = set()
    for place, node in enumerate(program.entry):
        if not isinstance(node, Region):
            continue
        if node.generator in seen:
            text = f"the region {quoted(node.generator)} stands here again, in a program not composable with itself"
            findings.add(Rule.SELF_EXCLUSIVE, f"entry[{place}]", text, "run the program twice instead")
        seen.add(node.generator)


def check_buffers(program: Program, findings: Findings) -> dict[str, BufferDecl]:
    """Check the declarations; return the first of each name."""
    known: dict[str, BufferDecl] = {}
    bound: dict[int, str] = {}
    output: BufferDecl | None = None
    for place, buffer in enumerate(program.buffers):
        path, name = f"buffers[{place}]", quoted(buffer.name)
        if buffer.name in known:
            findings.add(Rule.BUFFER_NAME, path, f"there are two buffers {name}", "give each its own name")
        known.setdefault(buffer.name, buffer)
        if buffer.access is not BufferAccess.WORKGROUP:
            if buffer.binding in bound:
                text = f"binding {buffer.binding} of {name} is that of {quoted(bound[buffer.binding])}"
                findings.add(Rule.BINDING, path, text, "give each its own binding number")
            bound.setdefault(buffer.binding, buffer.name)
        elif buffer.count == 0:
            what = "local" if buffer.is_local else "workgroup"
            findings.add(Rule.WORKGROUP_COUNT, path, f"{what} buffer {name} has 0 elements", "give it a count")
        if buffer.is_output:
            if output is not None:
                text = f"{quoted(output.name)} and {name} are both marked is_output"
                findings.add(Rule.OUTPUTS, path, text, "mark one, and declare the others read_write")
            output = output or buffer
        _check_element(buffer, path, findings)
        if buffer.kind is MemoryKind.PUSH:
            _check_pushed(buffer, path, findings)
    _check_local(program, findings)
    return known


def _check_local(program: Program, findings: Findings) -> None:
    """Check that an invocation has no more memory of its own than it may have, and warn of it."""
    size = 0
    for place, buffer in enumerate(program.buffers):
        if buffer.is_local:
            findings.warn(
                Rule.LOCAL_UPSTREAM,
                f"buffers[{place}]",
                f"{quoted(buffer.name)} is memory of an invocation's own, and workgroup memory to upstream",
                "use variables, if the program is for others too",
            )
            size += buffer.count * max(buffer.element.size_bytes or 4, 4)
    if size > MAX_LOCAL_BYTES:
        text = f"an invocation has {size} bytes of its own, over the limit of {MAX_LOCAL_BYTES}"
        findings.add(Rule.LOCAL, "buffers", text, "use smaller buffers, or a part of one that all share")


def _check_pushed(buffer: BufferDecl, path: str, findings: Findings) -> None:
    name = quoted(buffer.name)
    if buffer.access is not BufferAccess.UNIFORM:
        text = f"push buffer {name} is {buffer.access.name}, and is pushed before the program runs"
        findings.add(Rule.PUSHED, f"{path}.access", text, "use BufferDecl.push, or another kind of memory")
    if buffer.is_output or buffer.pipeline_live_out:
        text = f"push buffer {name} is marked as {'an output' if buffer.is_output else 'living on'}, and nothing is read back"
        findings.add(Rule.PUSHED, path, text, "use BufferDecl.output for what comes back")
    if not buffer.count:
        findings.add(Rule.PUSHED, f"{path}.count", f"push buffer {name} has no count", "give it the number of its elements")
    if buffer.element not in PUSHED_TYPES:
        text = f"push buffer {name} holds {spelled(buffer.element)}, which is not pushed"
        findings.add(
            Rule.PUSHED, f"{path}.element", text, f"use one of {', '.join(map(str, PUSHED_TYPES))}, or a uniform buffer"
        )


def _check_element(buffer: BufferDecl, path: str, findings: Findings) -> None:
    name, element = quoted(buffer.name), buffer.element
    if buffer.is_output and element.wire_tag in _ARRAYS:
        text = f"output {name} has elements of {spelled(element)}"
        findings.add(Rule.OUTPUT_ELEMENT, path, text, "use elements of a fixed type and a count")
    try:
        element.validate_layout()
        length = buffer.static_byte_len()
    except InvalidProgram as error:
        findings.add(Rule.ELEMENT_LAYOUT, path, f"{name}: {error.problem[:200]}", error.fix)
        length = None
    if buffer.output_byte_range is not None:
        start, end = buffer.output_byte_range
        if start > end or (length is not None and end > length):
            size = "unknown size" if length is None else f"{length} bytes"
            text = f"the output range of {name} is {start} to {end} bytes, in a buffer of {size}"
            findings.add(Rule.OUTPUT_RANGE, path, text, "give a range inside the buffer")
    predicate = buffer.shape_predicate
    if predicate is not None and buffer.count and not predicate.holds(buffer.count):
        text = f"{predicate.describe()[:200]} does not hold for {name}: count={buffer.count}"
        findings.add(Rule.SHAPE, path, text, "change the count")
