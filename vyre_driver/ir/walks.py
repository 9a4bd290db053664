"""Walks over programs without recursion, and the paths of what they visit."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from vyre_driver.ir import expressions as ex
from vyre_driver.ir.arithmetic import Expr, Unary
from vyre_driver.ir.layout import ARGUMENTS, BUFFER, EXPRESSION, OPTIONAL, Kind
from vyre_driver.ir.nodes import BODY, Assign, If, Let, Node, Region, Trap
from vyre_driver.ir.program import ROOT_GENERATORS, Program
from vyre_driver.ir.wire.reader import PLANS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.ir.terms import Term

_Link = tuple[Any, str] | None  # another link, and a label
MAX_NESTING = 64
MAX_NODES = 100_000
MAX_EXPRESSION_DEPTH = 128


def _fields(*kinds: Kind) -> dict[type[Term], tuple[str, ...]]:
    """Return the fields of these kinds in wire order, for the classes that have some."""
    found: dict[type[Term], tuple[str, ...]] = {}
    for cls, plan in PLANS.items():
        names = [name for name, kind in zip(cls.__match_args__, plan, strict=False) if kind in kinds]
        if names:
            found[cls] = tuple(names)
    return found


# The fields that hold expressions; a field may hold a tuple of them, or None.
EXPRESSION_FIELDS = _fields(EXPRESSION, OPTIONAL, ARGUMENTS)
BODY_FIELDS = _fields(BODY)
BUFFER_FIELDS = _fields(BUFFER)  # those that name a buffer

# What gives the expressions directly inside a term, in wire order; classes that hold none are not there.
OPERANDS: dict[type[Term], Callable[[Any], tuple[Expr, ...]]] = {
    **{cls: attrgetter(*fields) for cls, fields in EXPRESSION_FIELDS.items() if len(fields) > 1},
    # Where there is one, an attrgetter gives it alone.
    ex.Load: lambda term: (term.index,),
    Unary: lambda term: (term.operand,),
    ex.Call: lambda term: term.args,
    ex.Cast: lambda term: (term.value,),
    ex.SubgroupReduce: lambda term: (term.value,),
    ex.SubgroupBallot: lambda term: (term.cond,),
    Let: lambda term: (term.value,),
    Assign: lambda term: (term.value,),
    If: lambda term: (term.cond,),
    Trap: lambda term: (term.address,),
    ex.Atomic: lambda term: (term.index, term.value) if term.expected is None else (term.index, term.expected, term.value),
}


def expressions_within(*roots: Expr) -> Iterator[Expr]:
    """Yield every different expression object of these trees once, in no order that means anything."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        term = waiting.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        yield term
        operands = OPERANDS.get(type(term))
        if operands is not None:
            waiting.extend(operands(term))


def operand_paths(node: Term, wanted: set[int]) -> dict[int, str]:
    """Return where in a node the expressions with these ids stand first, for example ``value.left.args[2]``, in that order."""
    found: dict[int, str] = {}
    for term, link in _linked(node):
        if id(term) in wanted:
            found[id(term)] = _chain(link)
            if len(found) == len(wanted):
                break
    return found


class OperandPlaces:
    """The paths of all expressions in a node; the node is walked once, however many are asked for."""

    def __init__(self, node: Term) -> None:
        """Walk a node."""
        self._links = {id(term): link for term, link in _linked(node)}

    def path(self, expr: Expr) -> str:
        """Return where in the node an expression stands first, as :func:`operand_paths`."""
        return _chain(self._links[id(expr)])


def _linked(node: Term) -> Iterator[tuple[Term, _Link]]:
    """Yield a node and every expression in it once, in wire order, each with the labels on the way to it, the last first."""
    seen: set[int] = set()
    waiting: list[tuple[Term, _Link]] = [(node, None)]
    while waiting:
        term, link = waiting.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        yield term, link
        waiting.extend((operand, (link, label)) for label, operand in reversed(_labelled(term)))


def _labelled(term: Term) -> list[tuple[str, Expr]]:
    pairs: list[tuple[str, Expr]] = []
    for field in EXPRESSION_FIELDS.get(type(term), ()):
        value = getattr(term, field)
        if isinstance(value, tuple):
            pairs.extend((f"{field}[{place}]", one) for place, one in enumerate(value))
        elif value is not None:
            pairs.append((field, value))
    return pairs


def _chain(link: _Link) -> str:
    labels = []
    while link is not None:
        link, label = link
        labels.append(label)
    return ".".join(reversed(labels))


class _Frame:
    """A body that is being walked; ``place`` is -1 before it is opened."""

    __slots__ = ("body", "field", "owner", "place")

    def __init__(self, owner: Node | None, field: str, body: tuple[Node, ...]) -> None:
        self.owner = owner
        self.field = field
        self.body = body
        self.place = -1


class NodeWalk:
    """A walk over the nodes of a program in the order they stand in, which can say where it is.

    It is for programs of at most MAX_NODES nodes: nodes that stand in several places are walked in each.
    """

    def __init__(self, program: Program) -> None:
        """Walk the program's entry."""
        entry = program.entry
        self._stack = [_Frame(None, "entry", entry)]
        sole = entry[0] if len(entry) == 1 else None
        self._inside_root = isinstance(sole, Region) and sole.generator in ROOT_GENERATORS

    def steps(self) -> Iterator[tuple[str, Node | None]]:
        """Yield ("open", owner) before the nodes of a body, ("node", node) for each, ("close", owner) after them.

        :attr:`field` says which body of its owner is open; the owner of the entry is None.
        """
        stack = self._stack
        while stack:
            frame = stack[-1]
            body, owner = frame.body, frame.owner
            if frame.place < 0:
                yield "open", owner
            for place in range(frame.place + 1, len(body)):
                frame.place = place
                node = body[place]
                yield "node", node
                fields = BODY_FIELDS.get(type(node))
                if fields is not None:
                    stack += [_Frame(node, field, getattr(node, field)) for field in reversed(fields)]
                    break
            else:
                yield "close", owner
                stack.pop()

    @property
    def field(self) -> str:
        """The field of the body that is open."""
        return self._stack[-1].field

    @property
    def following(self) -> int:
        """How many nodes follow the one at hand in its body."""
        frame = self._stack[-1]
        return len(frame.body) - frame.place - 1

    def path(self) -> str:
        """Return the path of the node at hand."""
        frames = [frame for frame in self._stack if frame.place >= 0]
        if self._inside_root and len(frames) > 1:
            del frames[0]
        return ".".join(f"{frame.field}[{frame.place}]" for frame in frames)
