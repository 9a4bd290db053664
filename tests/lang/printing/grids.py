"""How a kernel that is a program says where an invocation is: by ``Index`` parameters under a guard, or by a ``Group``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitU32, Var
from vyre_driver.ir.expressions import BufLen, InvocationId, LocalId, Select, WorkgroupId
from vyre_driver.ir.nodes import Barrier, If, Let
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.translate import WORKGROUPS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from printing.parameters import Given
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term

_ATTRIBUTES: dict[type[Expr], str] = {InvocationId: "index", LocalId: "local", WorkgroupId: "id"}
_INDEXES = "ijk"


@dataclass(slots=True)
class Grid:
    """The leading parameters: names of indices, slowest axis first, or the name and size of the workgroup."""

    indexes: tuple[str, ...] = ()
    group: str = ""
    sizes: tuple[int, ...] = ()
    uses: dict[int, list[tuple[str, int]]] = field(default_factory=dict)  # by axis: the arrays' axes that it is used on

    @property
    def axes(self) -> int:
        """How many axes there are."""
        return len(self.indexes) or len(self.sizes)

    def place(self, expr: InvocationId | LocalId | WorkgroupId) -> str:
        """Return where an invocation is, as text."""
        at = self.axes - 1 - expr.axis
        if self.indexes:
            return self.indexes[at]
        return self.each(_ATTRIBUTES[type(expr)], at)

    def each(self, attribute: str, at: int) -> str:
        """Return an attribute of the workgroup along one axis."""
        return f"{self.group}.{attribute}" if self.axes == 1 else f"{self.group}.{attribute}[{at}]"

    def note(self, array: str, axis: int, index: Expr) -> None:
        """Keep that an index of the grid is used on an axis of an array as it is."""
        if isinstance(index, InvocationId):
            known = self.uses.setdefault(index.axis, [])
            if (array, axis) not in known:
                known.append((array, axis))


def group_of(program: Program, terms: Sequence[Term], name: str) -> Grid:
    """Return the workgroup that a program is written for: as many axes as it has and uses."""
    used = [one.axis for one in terms if isinstance(one, (InvocationId, LocalId, WorkgroupId))]
    wide = [axis for axis in range(3) if program.workgroup_size[axis] > 1]
    axes = max([0, *used, *wide]) + 1
    return Grid(group=name, sizes=tuple(reversed(program.workgroup_size[:axes])))


@dataclass(frozen=True, slots=True)
class Guarded:
    """The body of a program that goes over indices, and what its guard holds each of them against, by axis."""

    body: tuple[Node, ...]
    limits: dict[int, list[Expr]]


def guarded(program: Program, body: Sequence[Node], terms: Sequence[Term], numbers: Mapping[str, str]) -> Guarded | None:
    """Return what stands under the guard of a program that the front end made of indices; None of any other.

    ``numbers`` are the variables in front that hold pushed numbers.
    """
    rest = [node for node in body if not (isinstance(node, Let) and node.name in numbers)]
    if len(rest) != 1 or not isinstance(rest[0], If) or rest[0].otherwise:
        return None
    if program.workgroup_size not in WORKGROUPS.values():
        return None
    if any(isinstance(one, (LocalId, WorkgroupId, Barrier)) for one in terms):
        return None
    limits: dict[int, list[Expr]] = {}
    for test in parts(rest[0].cond):
        match test:
            case Binary(BinOp.LT, InvocationId(axis), (BufLen() | Var()) as limit):
                limits.setdefault(axis, []).append(limit)
            case _:
                return None
    axes = len(limits)
    if list(limits) != list(reversed(range(axes))) or WORKGROUPS.get(axes) != program.workgroup_size:
        return None
    return Guarded(rest[0].then, limits)


def along_axes(index: Expr, shape: Sequence[Container[str]]) -> tuple[Expr, ...] | None:
    """Return the indices that a flat place in an array was made of; None if it was not.

    ``shape`` has for each axis the variables that may hold its length.

    That an index is held against its axis is left out: the language does so itself.
    """
    if len(shape) < 2:
        return (index,)
    flat = index.true_value if isinstance(index, Select) and index.false_value == LitU32(U32_MAX) else index
    found: list[Expr] = []
    for names in reversed(shape[1:]):
        match flat:
            case Binary(BinOp.ADD, Binary(BinOp.MUL, row, Var(count)), last) if count in names:
                found.insert(0, last)
                flat = row
            case Binary(BinOp.MUL, row, Var(count)) if count in names:
                found.insert(0, LitU32(0))
                flat = row
            case _:
                return None
    return (flat, *found)


def parts(test: Expr) -> list[Expr]:
    """Return the conditions that are joined with ``and``."""
    if isinstance(test, Binary) and test.op is BinOp.AND:
        return [*parts(test.left), *parts(test.right)]
    return [test]


def index_names(given: Sequence[Given], axes: int) -> tuple[str, ...]:
    """Return the names of indices, slowest axis first: as pushed extents have them, else i, j and k."""
    found = [one.owner for one in given if one.what == "extent"]
    others = [name for name in _INDEXES if name not in found]
    return tuple(found) if len(found) == axes else tuple(others[:axes])
