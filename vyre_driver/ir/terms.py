"""The base of expressions and nodes: a term holds the bytes that encode it.

Each term keeps a *key*: its encoding (docs/ir.md, the byte table), with every part whose encoding is longer than KEY_BYTES
replaced by ``FF`` and the BLAKE3 of that encoding. Keys make terms equal, hash them, and are what the strong program digest is
made of. So equality and hashing cost the same for a leaf and for a tree of a million nodes, never recurse, and shared subtrees
cost once.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from blake3 import blake3

from vyre_driver.ir._seal import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vyre_driver.ir.layout import Layout

KEY_BYTES = 256
_FOLD = b"\xff"  # no wire tag

_REPR_CHARACTERS = 2000


class Traits:
    """What is known of a whole term without walking it; bits, and a term has a trait when all its parts have it."""

    PLAIN: Final = 1  # the key is the encoding itself, with the float literals of the wire
    CANONICAL: Final = 2  # operands and blocks stand in canonical order
    CANONICAL_FLOATS: Final = 4  # every float literal has the bits that stand on the wire
    SIGNED: Final = 8  # no float literal would lose its sign on the wire
    NO_READS: Final = 16  # no memory is read
    NO_WRITES: Final = 32  # no memory is written, nor anything called that may do so
    ORDER_SAFE: Final = 64  # canonical order swaps no two operands of which one may change what the other reads
    ALL: Final = 127
    SWAPPED: Final = 128  # of the term alone: canonical order swaps its operands


SETTLED = Traits.CANONICAL | Traits.CANONICAL_FLOATS
_PLAIN_AND_SETTLED = SETTLED | Traits.PLAIN
_put = object.__setattr__


class Term:
    """Base of expressions and nodes: immutable, compared and hashed by structure.

    ``term_count`` counts the terms of the whole tree, shared ones as often as they stand in it. ``wire`` is the encoding of the
    canonical form (:mod:`vyre_driver.ir.canonical`) where that takes at most KEY_BYTES, else None.
    """

    __slots__ = ("key", "term_count", "traits", "wire")

    __match_args__: ClassVar[tuple[str, ...]]  # the names of the fields
    wire_tag: ClassVar[int]
    _layout: ClassVar[Layout] = ()
    key: bytes
    wire: bytes | None
    term_count: int
    traits: int

    def parts(self) -> Parts:
        """Return the encoding in wire order: literal bytes, and the terms inside."""
        return parts_of(self)

    def canonical_parts(self) -> Parts:
        """Return :meth:`parts` of the canonical form; the terms inside are not yet canonical."""
        return self.parts()

    @property
    def children(self) -> tuple[Term, ...]:
        """The terms directly inside, in wire order."""
        return tuple(part for part in self.parts() if not isinstance(part, bytes))

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same kind of term with equal parts; nothing is evaluated."""
        return self is other or (isinstance(other, Term) and self.__class__ is other.__class__ and self.key == other.key)

    def __hash__(self) -> int:
        """Hash the key."""
        return hash(self.key)

    def __copy__(self) -> Term:
        """Return itself: it cannot change."""
        return self

    def __deepcopy__(self, memo: object) -> Term:
        """Return itself: it cannot change."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse pickle, which would recurse."""
        raise TypeError(f"{type(self).__name__} is not pickled. Fix: carry the program, with to_wire() and from_wire().")

    def __repr__(self) -> str:
        """Return the constructor calls, cut at 2000 characters."""
        text: list[str] = []
        length = 0
        for piece in _repr_pieces(self):
            text.append(piece)
            length += len(piece)
            if length > _REPR_CHARACTERS:
                return "".join(text)[:_REPR_CHARACTERS] + "..."
        return "".join(text)


Parts = tuple["bytes | Term", ...]


def complete(term: Term, key: bytes, count: int, traits: int, *, short: bool = True) -> None:
    """Give a new term its key, which is folded when it is long, the number of its terms, its traits and its wire form.

    One that is not ``short`` gets no wire form: looking for it at each of many levels would take the square of their number.
    """
    wire: bytes | None = key
    if len(key) > KEY_BYTES:
        key, wire = _FOLD + blake3(key).digest(), None
        traits &= ~Traits.PLAIN
    _put(term, "traits", traits)
    if traits & _PLAIN_AND_SETTLED != _PLAIN_AND_SETTLED:
        wire = None if not short or traits & SETTLED == SETTLED else _wire_of(term)
    _put(term, "key", key)
    _put(term, "term_count", count)
    _put(term, "wire", wire)


def _wire_of(term: Term) -> bytes | None:
    """Return the wire form of a term that is not its key: None when a part has none, or it is long."""
    if None in [part.wire for part in term.parts() if not isinstance(part, bytes)]:
        return None
    wire = b"".join([part if isinstance(part, bytes) else part.wire or b"" for part in term.canonical_parts()])
    return wire if len(wire) <= KEY_BYTES else None


def stands_after(left: Term, right: Term) -> bool:
    """Return whether the canonical form of one term, as bytes, is greater than the other's.

    Fields delimit themselves, so two encodings that are equal up to some byte have the same terms up to there: both trees are
    walked side by side, past what is equal, to the first difference.
    """
    equal: set[tuple[int, int]] = set()
    waiting: list[tuple[bytes | Term, bytes | Term]] = [(left, right)]
    while waiting:
        mine, yours = waiting.pop()
        if isinstance(mine, bytes) or isinstance(yours, bytes):
            if mine != yours:
                return mine > yours  # type: ignore[operator]
        elif mine.key != yours.key and (id(mine), id(yours)) not in equal:
            if mine.wire is not None and yours.wire is not None:
                waiting.append((mine.wire, yours.wire))
                continue
            equal.add((id(mine), id(yours)))  # or the walk ends inside
            waiting.extend(reversed(list(zip(mine.canonical_parts(), yours.canonical_parts(), strict=False))))
    return False


def terms_within(*roots: Term) -> Iterator[Term]:
    """Yield every different term object of these trees once, parents before their children."""
    return _walk(roots, without_small=False)


def large_terms_within(*roots: Term) -> Iterator[Term]:
    """Yield the same without the terms whose canonical form takes at most KEY_BYTES."""
    return _walk(roots, without_small=True)


def _walk(roots: tuple[Term, ...], *, without_small: bool) -> Iterator[Term]:
    """Yield the terms of trees; leave small ones out, with all that is in them, on request."""
    seen: set[int] = set()
    waiting = list(reversed(roots))
    while waiting:
        term = waiting.pop()
        if id(term) in seen or (without_small and term.wire is not None):
            continue
        seen.add(id(term))
        yield term
        waiting.extend(reversed(term.children))


def _repr_pieces(root: Term) -> Iterator[str]:
    waiting: list[object] = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Term):
            yield type(one).__name__
            waiting.extend(reversed(list(_call_pieces(one))))
        elif isinstance(one, tuple):
            waiting.extend(reversed(list(_tuple_pieces(one))))


def _call_pieces(term: Term) -> Iterator[object]:
    yield "("
    for place, field in enumerate(dataclasses.fields(term)):  # type: ignore[arg-type]
        yield f"{', ' if place else ''}{field.name}="
        yield _repr_piece(getattr(term, field.name))
    yield ")"


def _tuple_pieces(values: Iterable[object]) -> Iterator[object]:
    yield "("
    for value in values:
        yield _repr_piece(value)
        yield ", "
    yield ")"


def _repr_piece(value: object) -> object:
    if isinstance(value, Term | tuple):
        return value
    return str(value) if isinstance(value, enum.Enum) else repr(value)
