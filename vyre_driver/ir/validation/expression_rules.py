"""The types of expressions, and the rules about them.

Source: spec items 1.8 (static type inference, operator typing, V009 to V045) and 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.ir import expressions as ex
from vyre_driver.ir.arithmetic import LITERALS, Binary, Expr, OpaqueExpr, Unary, Var
from vyre_driver.ir.buffers import BufferAccess, BufferDecl
from vyre_driver.ir.dtypes import BYTES, WIDE_LITERALS, DataType
from vyre_driver.ir.extensions import ExtensionOperator, known_operator, operands_of
from vyre_driver.ir.operators import BITWISE_REDUCTIONS, AtomicOp, BinOp, MemoryOrdering
from vyre_driver.ir.validation import call_rules, operator_types
from vyre_driver.ir.validation.rules import Findings, Rule, quoted, spelled
from vyre_driver.ir.walks import MAX_EXPRESSION_DEPTH, OPERANDS, NodeWalk, operand_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.terms import Term
    from vyre_driver.ir.validation.call_rules import OperationSignature


_ANYWHERE = frozenset({*AtomicOp})
_OF_FLOATS = frozenset(
    {AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.EXCHANGE, AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK}
)
ATOMICS_OF = {
    DataType.U32.wire_tag: _ANYWHERE,
    DataType.I32.wire_tag: _ANYWHERE - {AtomicOp.LRU_UPDATE},
    DataType.F32.wire_tag: _OF_FLOATS,
}
"""The operators that elements of a type have, by its wire tag."""

_UPSTREAM = "upstream's validator refuses"
_EXPECTING = frozenset({AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK})


class AtomicProblem(NamedTuple):
    """What a rule refuses about an atomic, or warns of."""

    rule: Rule
    message: str
    fix: str
    is_warning: bool = False


def atomic_problems(term: ex.Atomic, buffer: BufferDecl | None) -> Iterator[AtomicProblem]:
    """Yield what is wrong with an atomic on a buffer, None where that is not known, apart from the types of its operands."""
    if isinstance(term.op, AtomicOp) and (term.op in _EXPECTING) != (term.expected is not None):
        text = f"{term.op.name} {'has no' if term.expected is None else 'has an'} expected value"
        yield AtomicProblem(Rule.ATOMIC_OPERAND, text, "give one to the compare-exchanges, and to no other")
    if term.ordering is MemoryOrdering.GRID_SYNC:
        text = "an atomic cannot be ordered GRID_SYNC"
        yield AtomicProblem(Rule.ATOMIC_ORDERING, text, "use RELAXED, ACQUIRE, RELEASE, ACQ_REL or SEQ_CST")
    if buffer is not None:
        yield from _buffer_problems(term, buffer)


def _buffer_problems(term: ex.Atomic, buffer: BufferDecl) -> Iterator[AtomicProblem]:
    name = quoted(buffer.name)
    if buffer.is_local:
        text = f"{name} is memory of an invocation's own, which no other one changes"
        yield AtomicProblem(Rule.LOCAL, text, "load and store it, or use workgroup memory")
    elif buffer.access is BufferAccess.WORKGROUP:
        text = f"{name} is workgroup memory, on which {_UPSTREAM} atomics"
        yield AtomicProblem(
            Rule.ATOMIC_WORKGROUP, text, "use a read-write buffer, if the program is for others too", is_warning=True
        )
    elif buffer.access is not BufferAccess.READ_WRITE:
        text = f"{name} is {buffer.access.name}, and an atomic wants READ_WRITE"
        yield AtomicProblem(Rule.ATOMIC_ACCESS, text, "declare it read-write")
    element = buffer.element
    if element.wire_tag == BYTES:
        text = f"{name} holds bytes, which have no atomics"
        yield AtomicProblem(Rule.BYTES_ELEMENT, text, "use a buffer of u32")
    elif element.wire_tag not in ATOMICS_OF:
        text = f"{name} holds {spelled(element)}, and atomics work on u32, i32 and f32"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, "use a buffer of one of them")
    elif isinstance(term.op, AtomicOp) and term.op not in ATOMICS_OF[element.wire_tag]:
        takers = [str(one) for one in (DataType.U32, DataType.I32) if term.op in ATOMICS_OF[one.wire_tag]]
        text = f"{name} holds {element}, and {term.op.name} works on {' and '.join(takers)}"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, f"use a buffer of {takers[0]}")
    elif element != DataType.U32:
        text = f"{name} holds {element}, on which {_UPSTREAM} atomics"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, "use a buffer of u32, if the program is for others too", is_warning=True)


_U32, _I32, _F32, _BOOL = (one.wire_tag for one in (DataType.U32, DataType.I32, DataType.F32, DataType.Bool))
_CONDITIONS = frozenset({_U32, _BOOL})
_SUMMABLE = frozenset({_U32, _I32, _F32, DataType.U64.wire_tag})
_NOT_EVERYWHERE = frozenset(one.wire_tag for one in (DataType.U64, DataType.I64, DataType.F16, DataType.BF16))
_DIVISIONS = frozenset({BinOp.DIV.wire_tag, BinOp.MOD.wire_tag})
_UNSEEN: Any = object()
# The operands that are values: a buffer reference is none, and stands in a call only.
_VALUES: dict[type[Term], Callable[[Any], tuple[Expr, ...]]] = {
    **OPERANDS,
    ex.Call: lambda term: tuple(argument for argument in term.args if not isinstance(argument, ex.BufferRef)),
}


class Variable(NamedTuple):
    """A variable in scope; the type is None when it is not known."""

    dtype: DataType | None
    is_loop: bool


class _Found(NamedTuple):
    term: Expr
    suffix: str
    rule: Rule
    message: str
    fix: str
    is_warning: bool


class ExpressionChecker:
    """Finds the types of the expressions of one program; ``variables`` are those in scope.

    What was found out of an expression object is kept as long as the variables in it stay the same, so that a shared part costs
    once and is reported once.
    """

    def __init__(
        self,
        buffers: Mapping[str, BufferDecl],
        findings: Findings,
        operations: Mapping[str, OperationSignature] | None,
    ) -> None:
        """Check against these buffers and, unless None, these operations."""
        self.variables: dict[str, Variable] = {}
        self.saw_atomic = False
        self.asks_device = False  # whether there is anything that not every device has
        self._undeclared: set[str] = set()
        self._buffers = buffers
        self._findings = findings
        self._operations = operations
        self._types: dict[int, DataType | None] = {}
        self._scoped: list[int] = []
        self._saw_variable = False
        self._found: list[_Found] = []
        self._handlers: dict[type[Expr], Callable[[Any], DataType | None]] = {
            cls: getattr(self, name) for cls, name in _HANDLERS.items()
        }

    def declare(self, name: str, variable: Variable) -> None:
        """Put a variable in scope."""
        if name in self.variables or name in self._undeclared:
            self.forget()
        self.variables[name] = variable

    def forget(self) -> None:
        """Drop what is known of expressions with variables: their scope ends."""
        for key in self._scoped:
            self._types.pop(key, None)
        self._scoped.clear()

    def type_of(self, root: Expr) -> DataType | None:
        """Return the type of an expression, None when it is not known; problems wait for :meth:`report`."""
        types = self._types
        known = types.get(id(root), _UNSEEN)
        if known is not _UNSEEN:
            return known  # type: ignore[no-any-return]
        cls = type(root)
        if cls not in OPERANDS and cls is not Var:
            types[id(root)] = known = self._handlers.get(cls, self._unknown)(root)
            return known
        if root.depth > MAX_EXPRESSION_DEPTH:
            text = f"expressions nest {root.depth} deep, over the limit of {MAX_EXPRESSION_DEPTH}"
            self._note(root, Rule.EXPRESSION_DEPTH, text, "put parts of it into variables")
            return None
        self._saw_variable = False
        fresh = self._walk(root)
        if self._saw_variable:
            self._scoped += fresh
        return types[id(root)]

    def _walk(self, root: Expr) -> list[int]:
        """Find the types of all parts, operands first; return the ids of what was new."""
        types, handlers, operands = self._types, self._handlers, _VALUES
        fresh: list[int] = []
        waiting: list[Expr] = [root]
        while waiting:
            term = waiting[-1]
            key = id(term)
            if key in types:
                waiting.pop()
                continue
            inside = operands.get(type(term))
            if inside is not None:
                ready = True
                for one in inside(term):
                    inner = id(one)
                    if inner in types:
                        continue
                    cls = type(one)
                    if cls in operands:
                        waiting.append(one)
                        ready = False
                    else:
                        types[inner] = handlers.get(cls, self._unknown)(one)
                        fresh.append(inner)
                if not ready:
                    continue
            waiting.pop()
            types[key] = handlers.get(type(term), self._unknown)(term)
            fresh.append(key)
        return fresh

    def report(self, node: Node, walk: NodeWalk) -> None:
        """Hand on the problems of the expressions of a node."""
        found = self._found
        if not found:
            return
        self._found = []
        places = operand_paths(node, {id(one.term) for one in found})
        here = walk.path()
        order = {key: place for place, key in enumerate(places)}
        for one in sorted(found, key=lambda one: order[id(one.term)]):
            path = f"{here}.{places[id(one.term)]}{one.suffix}"
            note = self._findings.warn if one.is_warning else self._findings.add
            note(one.rule, path, one.message, one.fix)

    def _note(self, term: Expr, rule: Rule, message: str, fix: str, suffix: str = "") -> None:
        self._found.append(_Found(term, suffix, rule, message, fix, is_warning=False))

    def _warn(self, term: Expr, rule: Rule, message: str, fix: str) -> None:
        self._found.append(_Found(term, "", rule, message, fix, is_warning=True))

    def _want(self, term: Expr, wanted: frozenset[int], rule: Rule, what: str, fix: str) -> None:
        """Note an operand of a known type that is none of ``wanted``."""
        got = self._types[id(term)]
        if got is not None and got.wire_tag not in wanted:
            self._note(term, rule, f"{what}, and is {spelled(got)}", fix)

    def _want_u32(self, term: Expr, rule: Rule, what: str) -> None:
        got = self._types[id(term)]
        if got is not None and got.wire_tag != _U32:
            self._note(term, rule, f"{what} must be u32, and is {spelled(got)}", "cast it to u32")

    def _buffer(self, term: ex.Load | ex.BufLen | ex.Atomic) -> BufferDecl | None:
        buffer = self._buffers.get(term.buffer)
        if buffer is None:
            self._note(term, Rule.UNKNOWN_BUFFER, f"there is no buffer {quoted(term.buffer)}", "declare it, or name another")
        return buffer

    def _literal(self, term: Expr) -> DataType | None:
        return term.dtype

    def _id(self, term: ex.InvocationId | ex.WorkgroupId | ex.LocalId) -> DataType | None:
        if term.axis > 2:
            self._note(term, Rule.AXIS, f"there is no axis {term.axis}", "use axis 0, 1 or 2")
        return DataType.U32

    def _var(self, term: Var) -> DataType | None:
        self._saw_variable = True
        variable = self.variables.get(term.name)
        if variable is None:
            self._undeclared.add(term.name)
            self._note(term, Rule.UNDECLARED, f"no variable {quoted(term.name)} is in scope", "declare it with let before")
            return None
        return variable.dtype

    def _load(self, term: ex.Load) -> DataType | None:
        self._want_u32(term.index, Rule.INDEX, "the index of a load")
        buffer = self._buffer(term)
        if buffer is None:
            return None
        if buffer.element.wire_tag == BYTES and not buffer.bytes_extraction:
            text = f"buffer {quoted(buffer.name)} holds bytes, which are not loaded"
            self._note(term, Rule.BYTES_ELEMENT, text, "declare it with_bytes_extraction(True)")
        return buffer.element

    def _buf_len(self, term: ex.BufLen) -> DataType | None:
        self._buffer(term)
        return DataType.U32

    def _atomic(self, term: ex.Atomic) -> DataType | None:
        self.saw_atomic = True
        self._want_u32(term.index, Rule.ATOMIC_INDEX, "the index of an atomic")
        self._want_u32(term.value, Rule.ATOMIC_OPERAND, "the value of an atomic")
        if term.expected is not None:
            self._want_u32(term.expected, Rule.ATOMIC_OPERAND, "the expected value of an atomic")
        buffer = self._buffer(term)
        for one in atomic_problems(term, buffer):
            (self._warn if one.is_warning else self._note)(term, one.rule, one.message, one.fix)
        return DataType.U32

    def _binary(self, term: Binary) -> DataType | None:
        types = self._types
        result = operator_types.binary_type(term.op, types[id(term.left)], types[id(term.right)])
        if term.op.wire_tag in _DIVISIONS and operator_types.is_zero(term.right):
            name = "division" if term.op is BinOp.DIV else "remainder"
            self._note(term.right, Rule.ZERO_DIVISOR, f"the divisor of a {name} is the literal 0", "divide by something else")
        if isinstance(result, operator_types.Mismatch):
            self._note(term, Rule.OPERAND, result.message, result.fix)
            return None
        extension = known_operator(term.op) if result is None else None
        return result if extension is None else self._extension(term, extension)

    def _extension(self, term: Binary, operator: ExtensionOperator) -> DataType | None:
        self.asks_device = self.asks_device or operator.needs_f64
        operands = operands_of(operator, term)
        result = operator_types.extension_type(
            operator, None if operands is None else [self._types[id(one)] for one in operands]
        )
        if isinstance(result, operator_types.Mismatch):
            self._note(term, Rule.OPERAND, result.message, result.fix)
            return None
        return result

    def _unary(self, term: Unary) -> DataType | None:
        result = operator_types.unary_type(term.op, self._types[id(term.operand)])
        if isinstance(result, operator_types.Mismatch):
            self._note(term, Rule.OPERAND, result.message, result.fix)
            return None
        return result

    def _call(self, term: ex.Call) -> DataType | None:
        for argument in term.args:
            if isinstance(argument, ex.BufferRef) and argument.buffer not in self._buffers:
                text = f"{quoted(argument.buffer)} is not a buffer of the program"
                self._note(argument, Rule.REFERENCED_BUFFER, text, "declare it, or name one that is declared")
        if self._operations is None:
            return None
        signature = self._operations.get(term.op_id)
        types = [None if isinstance(argument, ex.BufferRef) else self._types[id(argument)] for argument in term.args]
        for problem in call_rules.call_problems(term, types, self._buffers, signature):
            place = "" if problem.argument is None else f".args[{problem.argument}]"
            self._note(term, problem.rule, problem.message, problem.fix, place)
        return call_rules.result_type(signature)

    def _select(self, term: ex.Select) -> DataType | None:
        self._want(term.cond, _CONDITIONS, Rule.CONDITION, "the condition of a select must be u32 or bool", "compare it")
        left, right = self._types[id(term.true_value)], self._types[id(term.false_value)]
        if left is None or right is None:
            return right if left is None else left
        if left is not right and left != right:
            self._note(term, Rule.SELECT_ARMS, f"a select between {spelled(left)} and {spelled(right)}", "cast one of them")
            return None
        return left

    def _cast(self, term: ex.Cast) -> DataType | None:
        source, target = self._types[id(term.value)], term.target
        self.asks_device = self.asks_device or target.wire_tag in _NOT_EVERYWHERE
        if source is None:
            return target
        if not operator_types.is_castable(source, target):
            rule = Rule.CAST_TO_BYTES if target.wire_tag == BYTES else Rule.CAST
            text = f"there is no cast from {spelled(source)} to {spelled(target)}"
            self._note(term, rule, text, "cast by way of u32, or load elements of the type")
        elif operator_types.narrows(source, target):
            text = f"the cast from {spelled(source)} to {spelled(target)} drops the upper bits"
            self._warn(term, Rule.NARROWING, text, "mask the value, if that is meant")
        return target

    def _fma(self, term: ex.Fma) -> DataType | None:
        for operand in (term.a, term.b, term.c):
            self._want(operand, frozenset({_F32}), Rule.FMA, "an operand of fma must be f32", "cast it to f32")
        return DataType.F32

    def _buffer_ref(self, term: ex.BufferRef) -> DataType | None:
        text = f"a reference to buffer {quoted(term.buffer)} stands where a value does"
        self._note(term, Rule.BUFFER_REFERENCE, text, "pass it to a call, or load an element")
        return None

    def _subgroup_reduce(self, term: ex.SubgroupReduce) -> DataType | None:
        self.asks_device = True
        text = "the value of a subgroup reduction must be u32, i32, u64 or f32"
        self._want(term.value, _SUMMABLE, Rule.SUBGROUP_OPERAND, text, "cast it to one of them")
        known = self._types[id(term.value)]
        if known == DataType.F32 and term.op in BITWISE_REDUCTIONS:
            text = f"a subgroup reduction by {term.op.name} takes no f32"
            self._note(term, Rule.SUBGROUP_BITS, text, "take the bits of it, or another operator")
        return known

    def _subgroup_shuffle(self, term: ex.SubgroupShuffle) -> DataType | None:
        self.asks_device = True
        self._want_u32(term.lane, Rule.INDEX, "the lane of a shuffle")
        return self._types[id(term.value)]

    def _subgroup_fact(self, _term: ex.SubgroupLocalId | ex.SubgroupSize) -> DataType | None:
        self.asks_device = True
        return DataType.U32

    def _subgroup_ballot(self, term: ex.SubgroupBallot) -> DataType | None:
        self.asks_device = True
        self._want(term.cond, _CONDITIONS, Rule.CONDITION, "the condition of a ballot must be u32 or bool", "compare it")
        return DataType.U32

    def _opaque(self, term: OpaqueExpr) -> DataType | None:
        dtype = WIDE_LITERALS.get(term.kind)
        self.asks_device = self.asks_device or dtype is not None
        if not term.kind:
            self._note(term, Rule.OPAQUE_EXPRESSION, "an opaque expression has no kind", "name the extension's kind")
        elif dtype is not None and len(term.payload) != 8:
            text = f"the payload of a literal of {dtype} has {len(term.payload)} bytes, not 8"
            self._note(term, Rule.OPAQUE_EXPRESSION, text, f"make it with {dtype}(value)")
        return dtype

    def _unknown(self, term: Expr) -> DataType | None:
        text = f"{type(term).__name__} is not an expression of this language"
        self._note(term, Rule.OPAQUE_EXPRESSION, text, "use OpaqueExpr for what an extension defines")
        return None


_HANDLERS: dict[type[Expr], str] = {
    **dict.fromkeys(LITERALS, "_literal"),
    Var: "_var",
    ex.Load: "_load",
    ex.BufLen: "_buf_len",
    ex.BufferRef: "_buffer_ref",
    ex.InvocationId: "_id",
    ex.WorkgroupId: "_id",
    ex.LocalId: "_id",
    Binary: "_binary",
    Unary: "_unary",
    ex.Call: "_call",
    ex.Select: "_select",
    ex.Cast: "_cast",
    ex.Atomic: "_atomic",
    ex.Fma: "_fma",
    ex.SubgroupReduce: "_subgroup_reduce",
    ex.SubgroupShuffle: "_subgroup_shuffle",
    ex.SubgroupBallot: "_subgroup_ballot",
    ex.SubgroupLocalId: "_subgroup_fact",
    ex.SubgroupSize: "_subgroup_fact",
    OpaqueExpr: "_opaque",
}
