"""How often and how a program uses its buffers: the fusion hazard and linear types.

Source: spec item 1.8.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import LinearType
from vyre_driver.ir.expressions import Atomic
from vyre_driver.ir.validation.rules import Findings, Rule, quoted
from vyre_driver.ir.walks import BODY_FIELDS, BUFFER_FIELDS, OPERANDS, NodeWalk, expressions_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term

Uses = tuple[frozenset[str], frozenset[str]]
"""The names of buffers that are used plainly, and by atomics."""

_WRITTEN_FIELDS: dict[type[Term], str] = {
    nd.Store: "buffer",
    nd.AsyncLoad: "destination",
    nd.AsyncStore: "destination",
    nd.AllReduce: "buffer",
    nd.Broadcast: "buffer",
    nd.AllGather: "output",
    nd.ReduceScatter: "output",
}
_NO_USES: Uses = (frozenset(), frozenset())


def check_hazards(program: Program, findings: Findings) -> None:
    """Refuse a buffer that is used plainly and by an atomic with no barrier between, in the order the nodes stand in."""
    walk = NodeWalk(program)
    known: dict[int, Uses] = {}
    seen: tuple[dict[str, str], dict[str, str]] = ({}, {})
    refused: set[str] = set()
    for step, node in walk.steps():
        if step != "node" or node is None:
            continue
        if isinstance(node, nd.Barrier):
            seen[0].clear()
            seen[1].clear()
            refused.clear()
            continue
        uses = uses_of(node, known)
        for kind in (0, 1):
            for name in uses[kind]:  # not the difference of the sets, which takes as long as all that was seen
                if name not in seen[kind]:
                    seen[kind][name] = walk.path()
        for name in sorted((uses[0] | uses[1]) - refused):
            if name in seen[0] and name in seen[1]:
                refused.add(name)
                here = walk.path()
                other = seen[0][name] if seen[0][name] != here else seen[1][name]
                where = "here" if other == here else f"at {other[:200]}"
                text = f"buffer {quoted(name)} is used by atomics and plainly, here and {where}, with no barrier between"
                text = text.replace("here and here", "both here")
                findings.add(Rule.HAZARD, here, text, "put a barrier between, or use atomics only")


def uses_of(node: nd.Node, known: dict[int, Uses]) -> Uses:
    """Return the buffers that a node and its expressions use, nodes inside left out; ``known`` has those of expressions."""
    operands = OPERANDS.get(type(node))
    names = _names(node)
    if operands is None:
        return frozenset(names), frozenset()
    roots = operands(node)
    found = [_uses_of(root, known) for root in roots]
    return frozenset(names).union(*(one[0] for one in found)), frozenset().union(*(one[1] for one in found))


def _uses_of(root: Term, known: dict[int, Uses]) -> Uses:
    waiting: list[Term] = [root]
    while waiting:
        term = waiting[-1]
        if id(term) in known:
            waiting.pop()
            continue
        operands = OPERANDS.get(type(term))
        inside: Iterable[Term] = operands(term) if operands is not None else ()
        pending = [one for one in inside if id(one) not in known]
        if pending:
            waiting.extend(pending)
            continue
        own: Uses = _NO_USES
        if type(term) in BUFFER_FIELDS:
            names = frozenset(_names(term))
            own = (frozenset(), names) if isinstance(term, Atomic) else (names, frozenset())
        parts = [own, *(known[id(one)] for one in inside)]
        known[id(term)] = _joined(parts)
        waiting.pop()
    return known[id(root)]


def _joined(parts: list[Uses]) -> Uses:
    some = [one for one in parts if one is not _NO_USES]
    if len(some) <= 1:
        return some[0] if some else _NO_USES
    return frozenset().union(*(one[0] for one in some)), frozenset().union(*(one[1] for one in some))


def _names(term: Term) -> list[str]:
    return [getattr(term, field) for field in BUFFER_FIELDS.get(type(term), ())]


def written_by(node: nd.Node) -> set[str]:
    """Return the names of the buffers that a node itself writes, and its expressions by atomics."""
    name = _WRITTEN_FIELDS.get(type(node))
    written = set() if name is None else {getattr(node, name)}
    operands = OPERANDS.get(type(node))
    if operands is not None:
        written.update(term.buffer for term in expressions_within(*operands(node)) if isinstance(term, Atomic))
    return written


def check_linear_types(program: Program, findings: Findings) -> None:
    """Refuse a buffer that is named more or less often than its linear type says; every reference counts."""
    if all(buffer.linear_type is LinearType.UNRESTRICTED for buffer in program.buffers):
        return
    counts = _reference_counts(program)
    for place, buffer in enumerate(program.buffers):
        count, linear = counts[buffer.name], buffer.linear_type
        too_few = count == 0 and linear in {LinearType.LINEAR, LinearType.RELEVANT}
        too_many = count > 1 and linear in {LinearType.LINEAR, LinearType.AFFINE}
        if too_few or too_many:
            times = f"{count} times" if count < 1 << 64 else "more than 2**64 times"
            text = f"{linear.name} buffer {quoted(buffer.name)} is named {times}"
            wanted = {LinearType.LINEAR: "once", LinearType.AFFINE: "once at most", LinearType.RELEVANT: "once at least"}
            findings.add(Rule.LINEAR, f"buffers[{place}]", text, f"name it {wanted[linear]}")


def _reference_counts(program: Program) -> Counter[str]:
    """Count the references to each name, those in shared parts as often as these stand in the program."""
    order, inside = _post_order(program)
    times: Counter[int] = Counter(id(node) for node in program.entry)
    counts: Counter[str] = Counter()
    for term in reversed(order):
        for one in inside[id(term)]:
            times[id(one)] += times[id(term)]
        for name in _names(term):
            counts[name] += times[id(term)]
    return counts


def _post_order(program: Program) -> tuple[list[Term], dict[int, list[Term]]]:
    """Return every term once, parts before what they are part of, and what is directly inside each."""
    order: list[Term] = []
    inside: dict[int, list[Term]] = {}
    waiting: list[tuple[Term, bool]] = [(node, False) for node in program.entry]
    while waiting:
        term, expanded = waiting.pop()
        if expanded:
            order.append(term)
        elif id(term) not in inside:
            operands = OPERANDS.get(type(term))
            parts: list[Term] = list(operands(term)) if operands is not None else []
            parts.extend(one for field in BODY_FIELDS.get(type(term), ()) for one in getattr(term, field))
            inside[id(term)] = parts
            waiting.append((term, True))
            waiting.extend((one, False) for one in parts)
    return order, inside
