"""The canonical form of a program's nodes, as upstream's encoder puts them on the wire.

Float literals get one NaN, no subnormals and no negative zero. In a commutative operator a literal goes to the right, and two
literals, or both operands of the operators that are fully sorted, stand in the order of their wire bytes. A block without a let
of its own is spliced into its parent.

Source: spec items 1.6 and 3.4.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

from vyre_driver.ir.arithmetic import LITERALS, Binary, LitF32, OpaqueExpr
from vyre_driver.ir.dtypes import wire_problem
from vyre_driver.ir.expressions import Atomic, Call, Cast, Load
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.literal_types import WIDE_LITERALS, canonical_f32_bits
from vyre_driver.ir.operators import COMMUTATIVE, FULLY_SORTED
from vyre_driver.ir.statements import Block, Let, Node
from vyre_driver.ir.terms import Term, Traits, terms_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.arithmetic import Expr

MAX_WIRE_BYTES = 64 << 20

_SETTLED = Traits.CANONICAL | Traits.CANONICAL_FLOATS


def canonical_nodes(nodes: tuple[Node, ...]) -> tuple[tuple[Node, ...], tuple[Binary, ...]]:
    """Return nodes in canonical form, and the operators (as they were) whose operands had to be swapped.

    Parts that are in canonical form already are kept as they are.

    Raises
    ------
    InvalidProgram
        1006 if an operand that has to be compared takes more than 2**26 bytes.
    """
    swapped: list[Binary] = []

    def rule(term: Term) -> Term:
        if isinstance(term, Binary):
            ordered = _ordered(term)
            if ordered is not term:
                swapped.append(term)
            return ordered
        return _canonical_float(term) if isinstance(term, LitF32) else _with_spliced_bodies(term)

    rewritten = tuple(cast("Node", rewrite(node, rule, _SETTLED)) for node in nodes)
    return _spliced(rewritten), tuple(swapped)


def canonical_floats(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return nodes with the float literals that stand on the wire, and nothing else changed."""
    return tuple(cast("Node", rewrite(node, _canonical_float, Traits.CANONICAL_FLOATS)) for node in nodes)


def order_matters(term: Binary) -> bool:
    """Return whether one operand may change what the other one reads."""
    left, right = _memory_use(term.left), _memory_use(term.right)
    return bool(left and right and "write" in left | right)


def rewrite(root: Term, rule: Callable[[Term], Term], settled: Traits) -> Term:
    """Return a tree with ``rule`` applied to every term, children first; terms that have the traits ``settled`` stay.

    A term that stands in several places is rewritten once.
    """
    done: dict[int, Term] = {}
    waiting = [root]
    while waiting:
        term = waiting[-1]
        if term.traits & settled == settled:
            done[id(term)] = term
        if id(term) in done:
            waiting.pop()
            continue
        pending = [child for child in term.children if id(child) not in done]
        if pending:
            waiting.extend(pending)
            continue
        done[id(term)] = rule(_with_children(term, done))
        waiting.pop()
    return done[id(root)]


def wire_bytes(*roots: Term) -> bytes:
    """Return the encoding of terms one after the other, float literals as they are.

    Raises
    ------
    InvalidProgram
        1006 if it passes 2**26 bytes, or a cast has a target without encoding.
    """
    pieces: list[bytes] = []
    total = sum(root.term_count for root in roots)  # a term takes a byte at least
    waiting: list[bytes | Term] = list(reversed(roots))
    while waiting and total <= MAX_WIRE_BYTES:
        part = waiting.pop()
        if isinstance(part, bytes):
            pieces.append(part)
            total += len(part)
        elif part.traits & Traits.PLAIN:
            pieces.append(part.key)
            total += len(part.key)
        else:
            if isinstance(part, Cast) and (problem := wire_problem(part.target)) is not None:
                refuse(f"the cast to {part.target} cannot be encoded: {problem}", "cast to a storage that is allowed")
            waiting.extend(reversed(part.parts()))
    if total > MAX_WIRE_BYTES:
        refuse(f"the nodes take more than {MAX_WIRE_BYTES} bytes", "split the program")
    return b"".join(pieces)


def _with_children(term: Term, done: dict[int, Term]) -> Term:
    """Return the term with its children replaced, itself when none is."""
    values = []
    changed = False
    for field in dataclasses.fields(term):  # type: ignore[arg-type]
        value = getattr(term, field.name)
        new = value
        if isinstance(value, Term):
            new = done[id(value)]
            changed = changed or new is not value
        elif isinstance(value, tuple):
            new = tuple(done[id(one)] for one in value)
            changed = changed or any(one is not old for one, old in zip(new, value, strict=True))
        values.append(new)
    if not changed:
        return term
    if isinstance(term, Load):
        return Load(term.buffer, cast("Expr", done[id(term.index)]), term.dtype)
    return type(term)(*values)


def _canonical_float(term: Term) -> Term:
    return LitF32(canonical_f32_bits(term.bits)) if isinstance(term, LitF32) else term


def _ordered(term: Binary) -> Binary:
    """Return the operator with its operands in canonical order; they are canonical themselves."""
    left, right = term.left, term.right
    left_is_literal, right_is_literal = isinstance(left, LITERALS), isinstance(right, LITERALS)
    if term.op not in COMMUTATIVE or term.traits & Traits.CANONICAL:
        return term
    if left_is_literal != right_is_literal:
        return Binary(term.op, right, left) if left_is_literal else term
    if not left_is_literal and term.op not in FULLY_SORTED:
        return term
    return term if wire_bytes(left) <= wire_bytes(right) else Binary(term.op, right, left)


def _with_spliced_bodies(term: Term) -> Term:
    if not isinstance(term, Node):
        return term
    values = [getattr(term, field.name) for field in dataclasses.fields(term)]  # type: ignore[arg-type]
    spliced = [_spliced(value) if isinstance(value, tuple) else value for value in values]
    return term if spliced == values else type(term)(*spliced)


def _spliced(body: tuple[Node, ...]) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in body:
        if isinstance(node, Block) and not any(isinstance(inner, Let) for inner in node.body):
            result.extend(node.body)
        else:
            result.append(node)
    return tuple(result)


def _memory_use(root: Term) -> set[str]:
    """Return what evaluating an expression may do: "read" and "write"."""
    use = set()
    for term in terms_within(root):
        if isinstance(term, Load):
            use.add("read")
        elif isinstance(term, Atomic | Call) or (isinstance(term, OpaqueExpr) and term.kind not in WIDE_LITERALS):
            use.add("write")
    return use
