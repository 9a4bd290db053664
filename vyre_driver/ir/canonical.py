"""The canonical form of a program's nodes, as upstream's encoder writes them.

Float literals get one NaN, no subnormals and no negative zero. In a commutative operator a literal goes to the right, and two
literals, or both operands of the operators that are fully sorted, stand in the order of their wire bytes. A block without a let
of its own is spliced into its parent.

Source: spec items 1.6 and 3.4.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, cast

from vyre_driver.ir.arithmetic import Binary, Expr, LitF32, order_matters
from vyre_driver.ir.dtypes import canonical_f32_bits, wire_problem
from vyre_driver.ir.expressions import Cast, Load, SubgroupReduce
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.nodes import Node, spliced
from vyre_driver.ir.terms import SETTLED, Term, Traits, terms_within

if TYPE_CHECKING:
    from collections.abc import Callable


MAX_WIRE_BYTES = 64 << 20
_PLAIN_AND_SETTLED = Traits.PLAIN | SETTLED
_UNLIKE_KEYS = (LitF32, SubgroupReduce)  # of which the canonical form of the term alone is another than the key


def canonical_nodes(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return nodes in canonical form; parts that are in it already are kept as they are.

    Raises
    ------
    InvalidProgram
        If an operand that has to be compared takes more than 2**26 bytes.
    """
    rewritten = tuple(cast("Node", rewrite(node, _canonical, SETTLED)) for node in nodes)
    return spliced(rewritten)


def canonical_floats(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return nodes with the float literals that stand on the wire, and nothing else changed."""
    return tuple(cast("Node", rewrite(node, _canonical_float, Traits.CANONICAL_FLOATS)) for node in nodes)


def effects_out_of_order(nodes: tuple[Node, ...]) -> Binary | None:
    """Return an operator whose operands canonical order swaps although one may change what the other reads, or None."""
    for term in terms_within(*nodes):
        if isinstance(term, Binary) and term.traits & Traits.SWAPPED and order_matters(term.left, term.right):
            return term
    return None


def rewrite(root: Term, rule: Callable[[Term], Term], settled: int) -> Term:
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
    """Return the encoding of terms one after the other in the order they have, float literals as they stand on the wire.

    Raises
    ------
    InvalidProgram
        If it passes 2**26 bytes, or a cast has a target without encoding.
    """
    return _written(roots, _plain_key, lambda term: term.canonical_parts() if isinstance(term, _UNLIKE_KEYS) else term.parts())


def wire_bytes_of_format_4(*roots: Term) -> bytes:
    """Return the same as wire format 4 has it, in which a subgroup reduction is a sum and has no operator.

    Raises
    ------
    InvalidProgram
        As :func:`wire_bytes`.
    """
    return _written(roots, _plain_key, lambda term: term.canonical_parts() if isinstance(term, LitF32) else term.parts())


def _plain_key(term: Term) -> bytes | None:
    return term.key if term.traits & Traits.PLAIN else None


def canonical_bytes(*roots: Term) -> bytes:
    """Return the encoding of the canonical form of terms one after the other.

    Raises
    ------
    InvalidProgram
        If it passes 2**26 bytes, or a cast has a target without encoding.
    """
    return _written(roots, attrgetter("wire"), methodcaller("canonical_parts"))


def canonical_bytes_of_format_4(*roots: Term) -> bytes:
    """Return the same as wire format 4 has it, in which a subgroup reduction is a sum and has no operator.

    Raises
    ------
    InvalidProgram
        As :func:`canonical_bytes`.
    """
    return _written(
        roots,
        lambda term: term.key if term.traits & _PLAIN_AND_SETTLED == _PLAIN_AND_SETTLED else None,
        lambda term: term.parts() if isinstance(term, SubgroupReduce) else term.canonical_parts(),
    )


def _written(
    roots: tuple[Term, ...], known: Callable[[Term], bytes | None], parts: Callable[[Term], tuple[bytes | Term, ...]]
) -> bytes:
    pieces: list[bytes] = []
    total = sum(root.term_count for root in roots)  # a term takes a byte at least
    waiting: list[bytes | Term] = list(reversed(roots))
    while waiting and total <= MAX_WIRE_BYTES:
        part = waiting.pop()
        piece = part if isinstance(part, bytes) else known(part)
        if piece is not None:
            pieces.append(piece)
            total += len(piece)
        elif isinstance(part, Term):
            if isinstance(part, Cast) and (problem := wire_problem(part.target)) is not None:
                refuse(f"the cast to {part.target} cannot be encoded: {problem}", "cast to a storage that is allowed")
            waiting.extend(reversed(parts(part)))
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


def _canonical(term: Term) -> Term:
    """Return the canonical form of a term whose children have it."""
    if isinstance(term, Binary):
        return Binary(term.op, term.right, term.left) if term.traits & Traits.SWAPPED else term
    return _with_spliced_bodies(term) if isinstance(term, Node) else _canonical_float(term)


def _with_spliced_bodies(node: Node) -> Node:
    values = [getattr(node, field.name) for field in dataclasses.fields(node)]  # type: ignore[arg-type]
    dissolved = [spliced(value) if isinstance(value, tuple) else value for value in values]
    return node if dissolved == values else type(node)(*dissolved)
