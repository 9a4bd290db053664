"""What expressions and nodes have in common: a term is the bytes that write it down.

Each term keeps a *key*: its encoding (docs/ir.md, the byte table), with every part whose encoding is longer than KEY_BYTES
replaced by ``FF`` and the BLAKE3 of that encoding. Keys make terms equal, hash them, and are what the strong program digest is
made of. So equality and hashing cost the same for a leaf and for a tree of a million nodes, never recurse, and shared subtrees
cost once.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, ClassVar, NoReturn

from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEY_BYTES = 256
_FOLD = b"\xff"  # no wire tag

_REPR_CHARACTERS = 2000


class Traits(enum.IntFlag):
    """What is known of a whole term without walking it; a term has a trait when all its parts have it."""

    PLAIN = 1  # the key is the wire encoding of the term as it stands
    CANONICAL = 2  # the canonical order of operands and blocks is the one it has
    SIGNED = 4  # no float literal would lose its sign on the wire
    CANONICAL_FLOATS = 8  # every float literal has the bits that stand on the wire


ALL_TRAITS = int(Traits.PLAIN | Traits.CANONICAL | Traits.SIGNED | Traits.CANONICAL_FLOATS)
_PLAIN = int(Traits.PLAIN)


class Term:
    """Base of expressions and nodes: immutable, compared and hashed by structure.

    ``term_count`` counts the terms of the whole tree, shared ones as often as they stand in it.
    """

    __slots__ = ("key", "term_count", "traits")

    wire_tag: ClassVar[int]
    key: bytes
    term_count: int
    traits: int

    def parts(self) -> Parts:
        """Return the encoding in wire order: literal bytes, and the terms inside."""
        raise NotImplementedError

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


def complete(term: Term, pieces: list[bytes], count: int, traits: int) -> None:
    """Give a new term its key, made of ``pieces``, the number of its terms and its traits."""
    key = b"".join(pieces)
    if len(key) > KEY_BYTES:
        key = _FOLD + blake3(key).digest()
        traits &= ~_PLAIN
    put = object.__setattr__
    put(term, "key", key)
    put(term, "term_count", count)
    put(term, "traits", traits)


def terms_within(*roots: Term) -> Iterator[Term]:
    """Yield every different term object of these trees once, parents before their children."""
    seen: set[int] = set()
    waiting = list(reversed(roots))
    while waiting:
        term = waiting.pop()
        if id(term) in seen:
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
