"""Find the programs whose results are the same for every workgroup size along x.

A dispatch is about n elements and runs ceil(n / x) workgroups of x invocations, so that with another x other *surplus*
invocations run, whose index along x is n or more. A program is free of its workgroup when it never looks at how the invocations
are grouped, when surplus ones change nothing, and when no result depends on the order of the others. What cannot be proven
counts as bound.

n is what ``dispatch_parameters.dispatch_element_count`` returns: no less than the count of any output; in a program with
atomics no less than that of any buffer; at least 1. A surplus invocation is kept from writing by a condition that only holds
below n, or because it writes at its own index, which is out of range. A let of a literal may be specialized: its value proves
nothing.

The buffers of a call are taken to be different ones.

Source: spec items 6.2 (upstream's rule, which lets surplus invocations do anything), 1.7 (out of range, races), 2.2 (n).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import LITERALS, Binary, Expr, LitI32, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import WIDE_LITERALS, DataType
from vyre_driver.ir.expressions import Atomic, BufLen, Cast, Fma, InvocationId, Load, Select
from vyre_driver.ir.extensions import known_operator
from vyre_driver.ir.loop_ends import ending_if
from vyre_driver.ir.nodes import Assign, Block, If, Let, Loop, Node, ProgramCapability, Region, Return, Store
from vyre_driver.ir.operators import AtomicOp, BinOp, OpaqueOp, UnOp
from vyre_driver.ir.terms import Term, terms_within
from vyre_driver.ir.walks import MAX_EXPRESSION_DEPTH, MAX_NESTING, MAX_NODES, OPERANDS, expressions_within

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program

_STATEMENTS = (Let, Assign, Store, If, Loop, Return, Block, Region)
_UNDERSTOOD: tuple[type[Term], ...] = (
    *(*_STATEMENTS, *LITERALS, Var, Load, BufLen, InvocationId),
    *(Binary, Unary, Select, Cast, Fma, Atomic),
)
_KINDS = frozenset({MemoryKind.GLOBAL, MemoryKind.READONLY, MemoryKind.UNIFORM, MemoryKind.PERSISTENT, MemoryKind.PUSH})
_ACROSS_LANES = frozenset({BinOp.SHUFFLE, BinOp.BALLOT, BinOp.WAVE_REDUCE, BinOp.WAVE_BROADCAST})
_COMMUTING = frozenset({AtomicOp.ADD, AtomicOp.OR, AtomicOp.AND, AtomicOp.XOR, AtomicOp.MIN, AtomicOp.MAX})
_DIVISIONS = frozenset({BinOp.DIV, BinOp.MOD})
_OWN, _ANY = "own", "any"  # which elements an access reaches: that of the invocation's index, or whichever


def why_workgroup_is_fixed(program: Program, *, is_checked: bool = True) -> str | None:
    """Return why the outputs of a valid program may depend on its workgroup's size along x; None if they never do.

    None is a promise for every input, every count of elements and the grid that covers them; text is for people. A grid of the
    caller's own counts workgroups, and there the promise ends. ``is_checked`` says that a write out of range does nothing.
    """
    found = _of_program(program) or _of_buffers(program) or _of_terms(program)
    if found is not None:
        return found
    try:
        _DataFlow(program, is_checked=is_checked).check()
    except _Bound as bound:
        return str(bound)
    if ProgramCapability.GRID_AXES in program.stats().capabilities:
        return "it looks at y or z of an index, and nobody knows its grid"
    return None


class _Bound(Exception):
    """The program depends on its workgroup, or is not known not to; says why, and never leaves this module."""


def _of_program(program: Program) -> str | None:
    x, y, z = program.workgroup_size
    if (y, z) != (1, 1):
        return f"its workgroup of {x}x{y}x{z} invocations has more than one axis"
    if program.non_composable_with_self:
        return "it is not composable with itself"
    stats = program.stats()
    limits = ((stats.nesting, MAX_NESTING), (stats.node_count, MAX_NODES), (stats.expression_depth, MAX_EXPRESSION_DEPTH))
    if any(value > limit for value, limit in limits):
        return "it is larger than a valid program"
    return None


def _of_buffers(program: Program) -> str | None:
    for buffer in program.buffers:
        if buffer.is_shared:
            return f"buffer {buffer.name!r} is workgroup memory"
        if buffer.kind not in _KINDS and not buffer.is_local:
            return f"buffer {buffer.name!r} is {buffer.kind.name.lower()} memory"
    return None


def _of_terms(program: Program) -> str | None:
    """Return what the program holds whose meaning depends on the workgroup, or is not known here."""
    for term in terms_within(*program.entry):
        op = getattr(term, "op", None)
        if isinstance(term, OpaqueExpr) and term.kind in WIDE_LITERALS:
            continue
        if not isinstance(term, _UNDERSTOOD):
            return f"it uses {type(term).__name__}"
        if isinstance(op, OpaqueOp) and known_operator(op) is None:
            return "it uses an operator of an extension"
        if op in _ACROSS_LANES:
            return f"it uses {op.name}, which reaches other lanes"
    return None


@dataclass(frozen=True, slots=True)
class _AbstractValue:
    """What is known of a value, whichever invocation has it.

    ``is_index``: it is the invocation's index along x. ``at_most_n`` and ``below_n``: it is a u32 of at most n, or below n.
    ``alike``: all invocations have the same. ``if_true`` and ``if_false``: where it holds, or does not, the index is below n.
    """

    is_index: bool = False
    at_most_n: bool = False
    below_n: bool = False
    alike: bool = False
    if_true: bool = False
    if_false: bool = False


_NOTHING = _AbstractValue()
_ALIKE = _AbstractValue(alike=True)


class _Path(NamedTuple):
    """The invocations that reach a statement. ``below_n``: no surplus invocation. ``alike``: all invocations, or none."""

    below_n: bool
    alike: bool


def _is_output(buffer: BufferDecl) -> bool:
    """Return whether the binding plan has it as an output, so that its count counts for n."""
    written = buffer.access in {BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY}
    return buffer.kind is not MemoryKind.PERSISTENT and (buffer.is_output or written)


def _has_whole_elements(dtype: DataType) -> bool:
    """Return whether elements are whole bytes side by side: a write of one leaves the others alone, and all count alike."""
    return dtype.bit_width == 8 * dtype.min_bytes


class _DataFlow:
    """A walk along the paths through one program, with what is known of its variables."""

    def __init__(self, program: Program, *, is_checked: bool) -> None:
        """Look at the whole program for what is assigned, read and written."""
        terms = list(terms_within(*program.entry))
        self._entry = program.entry
        self._is_checked = is_checked
        self._buffers = {one.name: one for one in program.buffers}
        self._pushed = {one.name for one in program.buffers if one.is_pushed}
        self._local = {one.name for one in program.buffers if one.is_local}
        self._assigned = {term.name for term in terms if isinstance(term, Assign)}
        self._read = {term.name for term in terms if isinstance(term, Var)}
        self._written = {term.buffer for term in terms if isinstance(term, Store | Atomic)}
        self._uses: dict[str, set[str]] = {}
        self._scope: dict[str, _AbstractValue] = {}
        self._values: dict[int, _AbstractValue] = {}  # of the expressions of the statement at hand, by id
        self._returns = 0
        has_atomics = bool(program.stats().capabilities & ProgramCapability.ATOMICS)
        asked = [one for one in program.buffers if _is_output(one) or (has_atomics and not one.is_pushed and not one.is_local)]
        counted = [one for one in asked if _has_whole_elements(one.element)]
        self._at_most_n = {one.name for one in counted}
        self._least_n = max([1, *(one.count for one in counted)])

    def check(self) -> None:
        """Raise _Bound if the program may depend on its workgroup."""
        if not self._written - self._local:
            raise _Bound("it writes nothing")
        self._body(self._entry, _Path(below_n=False, alike=True))
        for name in sorted((self._written - self._local) & self._uses.keys()):
            uses = self._uses[name]
            if uses != {_OWN} and (len(uses) > 1 or uses == {_ANY}):
                raise _Bound(f"invocations may meet at an element of {name!r}, where their order decides")

    def _body(self, nodes: tuple[Node, ...], path: _Path) -> _Path | None:
        """Walk a body in a scope of its own, and return the path that goes on after it; None if none does."""
        outside = dict(self._scope)
        after: _Path | None = path
        for node in nodes:
            if after is None:
                break
            self._values.clear()
            after = self._node(node, after)
        self._scope = outside
        return after

    def _node(self, node: Node, path: _Path) -> _Path | None:
        if isinstance(node, Return):
            self._returns += 1
            return None
        if isinstance(node, Block | Region):
            return self._body(node.body, path)
        if isinstance(node, If):
            return self._if(node, path)
        if isinstance(node, Loop):
            return self._loop(node, path)
        if isinstance(node, Store):
            self._look(path, node.index, node.value)
            self._effect(node.buffer, node.index, path, None)
        elif isinstance(node, Let | Assign):
            self._assign(node, path)
        return path

    def _assign(self, node: Let | Assign, path: _Path) -> None:
        value = node.value
        if isinstance(value, Atomic) and node.name not in self._read:
            self._look(path, *OPERANDS[Atomic](value))
            self._atomic(value, path)
        else:
            self._look(path, value)
        if isinstance(node, Let):
            known = _ALIKE if isinstance(value, LITERALS) else self._value(value)
            self._scope[node.name] = _NOTHING if node.name in self._assigned else known

    def _if(self, node: If, path: _Path) -> _Path | None:
        self._look(path, node.cond)
        known, returns = self._value(node.cond), self._returns
        alike = path.alike and known.alike
        paths = [
            self._body(node.then, _Path(path.below_n or known.if_true, alike)),
            self._body(node.otherwise, _Path(path.below_n or known.if_false, alike)),
        ]
        left = [one for one in paths if one is not None]
        return _Path(all(one.below_n for one in left), path.alike and self._returns == returns) if left else None

    def _loop(self, node: Loop, path: _Path) -> _Path:
        """Walk a loop. Surplus invocations may not take more turns than others: they could hold the dispatch up for ever."""
        self._look(path, node.start, node.stop)
        alike, ending = self._value(node.start).alike and self._value(node.stop).alike, ending_if(node, self._pushed)
        returns, outside = self._returns, dict(self._scope)
        self._scope[node.var] = _AbstractValue(alike=alike)
        alike = alike and (ending is None or self._value(ending.cond).alike)
        self._body(node.body, path)
        self._scope = outside
        if not path.below_n and (self._returns != returns or not (alike and path.alike)):
            raise _Bound(f"invocations past the last element may take more turns of the loop over {node.var!r}")
        return path

    def _look(self, path: _Path, *roots: Expr) -> None:
        """Note what the expressions of a statement read, and refuse what they may not do."""
        for expr in expressions_within(*roots):
            if isinstance(expr, Load):
                self._uses.setdefault(expr.buffer, set()).add(_OWN if self._value(expr.index).is_index else _ANY)
            elif isinstance(expr, Atomic):
                raise _Bound(f"what an atomic finds in {expr.buffer!r} depends on the order")
            elif isinstance(expr, Binary) and expr.op in _DIVISIONS and not path.below_n and self._may_fault(expr):
                raise _Bound("invocations past the last element may divide i32 by zero")

    def _may_fault(self, expr: Binary) -> bool:
        """Return whether a division may have no result, as it is with i32: by 0, and of the least number by -1."""
        if isinstance(expr.right, LitI32) and expr.right.value not in {0, -1}:
            return False
        types = {self._type(expr.left), self._type(expr.right)} - {None}
        return not types or DataType.I32 in types

    def _type(self, expr: Expr) -> DataType | None:
        """Return a type that does not rest on what a load or a variable was declared to be, which may be wrong."""
        declared = self._buffers.get(expr.buffer) if isinstance(expr, Load) else None
        if declared is not None:
            return declared.element
        return expr.dtype if isinstance(expr, (*LITERALS, BufLen, InvocationId, Cast)) else None

    def _atomic(self, expr: Atomic, path: _Path) -> None:
        """Note an atomic whose result is unused."""
        if not isinstance(expr.op, AtomicOp) or expr.op not in _COMMUTING:
            raise _Bound(f"what is left in {expr.buffer!r} depends on the order of its atomics")
        buffer = self._buffers.get(expr.buffer)
        if expr.op is AtomicOp.ADD and buffer is not None and buffer.element == DataType.F32:
            raise _Bound(f"the sums in {expr.buffer!r} are rounded in the order of its atomics")
        self._effect(expr.buffer, expr.index, path, expr.op)

    def _effect(self, name: str, index: Expr, path: _Path, op: AtomicOp | None) -> None:
        """Note a write of an element; a surplus invocation must not write, but to memory of its own."""
        if name in self._local:
            return
        is_own = self._value(index).is_index
        buffer = self._buffers.get(name)
        if buffer is None or not _has_whole_elements(buffer.element):
            raise _Bound(f"elements of {name!r} may share bytes")
        if not path.below_n and not (self._is_checked and is_own and name in self._at_most_n):
            raise _Bound(f"invocations past the last element may write to {name!r}")
        use = (_OWN if is_own else _ANY) if op is None else op.name
        self._uses.setdefault(name, set()).add(use)

    def _value(self, expr: Expr) -> _AbstractValue:
        found = self._values.get(id(expr))
        if found is None:
            found = self._values[id(expr)] = self._derived(expr)
        return found

    def _derived(self, expr: Expr) -> _AbstractValue:
        if isinstance(expr, InvocationId):
            return _AbstractValue(is_index=True) if expr.axis == 0 else _ALIKE  # whatever the grid, no axis but x is divided
        if isinstance(expr, LitU32):
            return _AbstractValue(at_most_n=expr.value <= self._least_n, below_n=expr.value < self._least_n, alike=True)
        if isinstance(expr, BufLen):
            return _AbstractValue(at_most_n=expr.buffer in self._at_most_n, alike=True)
        if isinstance(expr, Var):
            return self._scope.get(expr.name, _NOTHING)
        known = tuple(map(self._value, _operands(expr)))
        alike = all(one.alike for one in known)
        if isinstance(expr, Load):
            return _ALIKE if alike and expr.buffer not in self._written else _NOTHING
        if isinstance(expr, Binary):
            return replace(_of_binary(expr, *known), alike=alike)
        if isinstance(expr, Unary) and expr.op is UnOp.LOGICAL_NOT:
            return _AbstractValue(alike=alike, if_true=known[0].if_false, if_false=known[0].if_true)
        return _ALIKE if alike else _NOTHING


def _operands(expr: Expr) -> tuple[Expr, ...]:
    operands = OPERANDS.get(type(expr))
    return () if operands is None else operands(expr)


def _of_binary(expr: Binary, left: _AbstractValue, right: _AbstractValue) -> _AbstractValue:
    """Return what an operator's result is, apart from being alike."""
    if expr.op in _COMPARED:
        return _compared(expr.op, left, right)
    divides = isinstance(expr.right, LitU32) and expr.right.value > 0  # by 0 it would be all ones
    match expr.op:
        case BinOp.AND:
            return _AbstractValue(if_true=left.if_true or right.if_true, if_false=left.if_false and right.if_false)
        case BinOp.OR:
            return _AbstractValue(if_true=left.if_true and right.if_true, if_false=left.if_false or right.if_false)
        case BinOp.MIN | BinOp.BIT_AND:
            return _AbstractValue(at_most_n=left.at_most_n or right.at_most_n, below_n=left.below_n or right.below_n)
        case BinOp.DIV if divides:
            return _AbstractValue(at_most_n=left.at_most_n, below_n=left.below_n)
        case BinOp.SATURATING_SUB | BinOp.SHR | BinOp.MOD:  # no difference, which wraps
            return _AbstractValue(at_most_n=left.at_most_n, below_n=left.below_n)
    return _NOTHING


_COMPARED = frozenset({BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE, BinOp.EQ, BinOp.NE})


def _compared(op: object, left: _AbstractValue, right: _AbstractValue) -> _AbstractValue:
    """Return on which sides of a comparison the index is below n."""
    less, more = left.is_index and right.at_most_n, right.is_index and left.at_most_n  # left < right, right < left
    not_more, not_less = left.is_index and right.below_n, right.is_index and left.below_n  # left <= right, right <= left
    match op:
        case BinOp.LT:
            return _AbstractValue(if_true=less, if_false=not_less)
        case BinOp.GT:
            return _AbstractValue(if_true=more, if_false=not_more)
        case BinOp.LE:
            return _AbstractValue(if_true=not_more, if_false=more)
        case BinOp.GE:
            return _AbstractValue(if_true=not_less, if_false=less)
        case BinOp.EQ:
            return _AbstractValue(if_true=not_more or not_less)
    return _AbstractValue(if_false=not_more or not_less)
