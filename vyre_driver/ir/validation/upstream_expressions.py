"""The rules of upstream 0.7 about expressions, in the order in which it walks them, and the types that it gives these.

Types differ from ours where upstream's are not those of the values: remainders, bit operators and distances are u32 whatever
the operands are, functions are f32, and arithmetic between types is u32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.ir import expressions as ex
from vyre_driver.ir.arithmetic import Binary, Expr, LitF32, LitI32, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.buffers import BufferAccess, BufferDecl
from vyre_driver.ir.dtypes import BYTES, WIDE_LITERALS, DataType
from vyre_driver.ir.operators import BITWISE_REDUCTIONS, AtomicOp, BinOp, MemoryOrdering, OpaqueOp, UnOp
from vyre_driver.ir.validation.call_rules import OperationSignature, call_problems
from vyre_driver.ir.validation.operator_types import is_castable, narrows
from vyre_driver.ir.validation.rules import Rule, quoted, spelled
from vyre_driver.ir.walks import MAX_EXPRESSION_DEPTH, OPERANDS, NodeWalk, OperandPlaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    Finding = tuple[str, str]
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.validation.profile_rules import DeviceCapabilities
    from vyre_driver.ir.validation.upstream import UpstreamFindings


_U32, _I32, _F32, _BOOL = DataType.U32, DataType.I32, DataType.F32, DataType.Bool
_WIDE = frozenset({DataType.U64, DataType.I64})
_INTEGERS = frozenset({_U32, _I32})
_NUMBERS = frozenset({_U32, _I32, _F32})
_WAVE = frozenset({BinOp.SHUFFLE, BinOp.BALLOT, BinOp.WAVE_REDUCE, BinOp.WAVE_BROADCAST})
_SATURATING = frozenset({BinOp.SATURATING_ADD, BinOp.SATURATING_SUB, BinOp.SATURATING_MUL})
_NUMERIC = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.DIV, BinOp.MIN, BinOp.MAX, BinOp.ABS_DIFF}) | _SATURATING
_TYPED_BY_OPERANDS = _NUMERIC - {BinOp.ABS_DIFF}
_BITS = frozenset({BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR})
_SHIFTS = frozenset({BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT})
_LOGIC = frozenset({BinOp.AND, BinOp.OR})
_COMPARISONS = frozenset({BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE})
_COUNTING = frozenset({UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS})
_UNPACKING = frozenset({UnOp.UNPACK4_LOW, UnOp.UNPACK4_HIGH, UnOp.UNPACK8_LOW, UnOp.UNPACK8_HIGH})
_TRUTHS = frozenset({UnOp.LOGICAL_NOT, UnOp.IS_NAN, UnOp.IS_INF, UnOp.IS_FINITE})


def binary_type(op: BinOp | OpaqueOp, left: DataType | None, right: DataType | None) -> DataType:
    """Return the type that upstream gives ``left op right``."""
    if op in _COMPARISONS or op in _LOGIC:
        return _BOOL
    return left if op in _TYPED_BY_OPERANDS and left is not None and left == right else _U32


def unary_type(op: UnOp | OpaqueOp, operand: DataType | None) -> DataType | None:
    """Return the type that upstream gives ``op operand``, None where it has none."""
    if op in _TRUTHS:
        return _BOOL
    if op is UnOp.NEGATE or op in _COUNTING:
        return operand
    return None if isinstance(op, OpaqueOp) or op in _UNPACKING else _F32


def binary_findings(op: BinOp | OpaqueOp, left: DataType | None, right: DataType | None) -> Iterator[Finding]:
    """Yield what upstream refuses of operands of these types."""
    if isinstance(op, OpaqueOp):
        return
    name, pair = op.name, f"{spelled(left)} and {spelled(right)}"
    known = [dtype for dtype in (left, right) if dtype is not None]
    both, alike = len(known) == 2, left == right
    if op in _NUMERIC:
        yield from _numeric_findings(op, known)
    elif op is BinOp.MOD or (op in _BITS and both):
        codes = ("V089", "V089", "V090") if op is BinOp.MOD else ("V091", "V092", "V093")
        sides = zip(codes, known, strict=False)
        yield from ((code, f"{name} takes u32 or i32, and got {dtype}") for code, dtype in sides if dtype not in _INTEGERS)
        if both and not alike and (op in _BITS or _INTEGERS.issuperset(known)):
            yield codes[2], f"{name} takes operands of one type, and got {pair}"
    elif op in _SHIFTS:
        yield from (("V094", f"{name} takes u32, and got {dtype}") for dtype in known if dtype != _U32)
    elif op in _LOGIC:
        yield from (("V095", f"{name} takes u32 or bool, and got {dtype}") for dtype in known if dtype not in {_U32, _BOOL})
    elif op in _COMPARISONS and both and not alike:
        yield "V096", f"{name} compares operands of one type, and got {pair}"
    elif op in _WAVE:
        yield "V097", f"{name} is not an operator of two operands"


def _numeric_findings(op: BinOp, known: list[DataType]) -> Iterator[Finding]:
    if len(known) == 2:
        pair = f"{spelled(known[0])} and {spelled(known[1])}"
        if not _WIDE.isdisjoint(known):
            yield "V084", f"{op.name} does not take 64 bits, and got {pair}"
        if op in _SATURATING and any(dtype != _U32 for dtype in known):
            yield "V085", f"{op.name} takes u32, and got {pair}"
        if op is BinOp.ABS_DIFF and _I32 in known:
            yield "V086", f"{op.name} does not take i32, whose distances may not fit, and got {pair}"
    yield from (("V087", f"{op.name} takes u32, i32 or f32, and got {dtype}") for dtype in known if dtype == _BOOL)
    if len(known) == 2 and known[0] != known[1] and _NUMBERS.issuperset(known):
        yield "V088", f"{op.name} takes operands of one type, and got {spelled(known[0])} and {spelled(known[1])}"


def unary_finding(op: UnOp | OpaqueOp, operand: DataType | None) -> Finding | None:
    """Return what upstream refuses of an operand of this type."""
    if operand is None:
        return None
    if isinstance(op, OpaqueOp):
        return "V104", f"upstream knows no opaque operator {op.extension_id:#010x} of one operand"
    text = f"{op.name} does not take {spelled(operand)}"
    if op is UnOp.NEGATE:
        code = "V098" if operand == _I32 else "V099"
        return None if operand in {_U32, _F32} else (code, text)
    for code, ops, types in _TAKES:
        if op in ops:
            return None if operand in types else (code, text)
    return None if operand == _F32 else ("V102", text)


_TAKES: tuple[tuple[str, frozenset[UnOp], frozenset[DataType]], ...] = (
    ("V100", frozenset({UnOp.LOGICAL_NOT}), frozenset({_U32, _BOOL})),
    ("V101", _COUNTING, _INTEGERS | {DataType.U64}),
    ("V103", _UNPACKING, _INTEGERS),
)


_MOST_TERMS = 10_000  # of an expression whose shared parts are looked at in each place where they stand
_DIVISIONS = frozenset({BinOp.DIV, BinOp.MOD})
_UNKNOWN: Any = object()


class Binding(NamedTuple):
    """A variable: its type (u32 where upstream does not know it), whether that is known, and whether all have one value."""

    dtype: DataType
    is_known: bool = True
    is_loop: bool = False
    is_uniform: bool = False


class UpstreamExpressions:
    """Checks the expressions of one program; ``scope`` holds the variables that may be named."""

    def __init__(
        self,
        buffers: Mapping[str, BufferDecl],
        findings: UpstreamFindings,
        walk: NodeWalk,
        capabilities: DeviceCapabilities | None,
        operations: Mapping[str, OperationSignature] | None,
    ) -> None:
        """Check against these buffers and, unless None, a device and operations."""
        self.scope: dict[str, Binding] = {}
        self._buffers = buffers
        self._findings = findings
        self._walk = walk
        self._capabilities = capabilities
        self._operations = operations
        self._types: dict[int, DataType | None] = {}
        self._node: Node | None = None
        self._places: OperandPlaces | None = None  # of the expressions of the node, once a finding asks
        self._handlers: dict[type[Expr], Callable[[Any], Iterator[tuple[str, str]]]] = {
            cls: getattr(self, name) for cls, name in _HANDLERS.items()
        }

    def begin(self, node: Node) -> None:
        """Begin a statement: what was found out of expressions held for the scope before it."""
        self._node = node
        self._places = None
        self._types.clear()

    def type_of(self, expr: Expr) -> DataType | None:
        """Return the type that upstream gives an expression; of one that is too deep, None."""
        if expr.depth > MAX_EXPRESSION_DEPTH + 1:
            return None
        known = self._types.get(id(expr), _UNKNOWN)
        if known is _UNKNOWN:
            known = self._types[id(expr)] = self._inferred(expr)
        return known  # type: ignore[no-any-return]

    def _inferred(self, expr: Expr) -> DataType | None:
        if isinstance(expr, Var):
            binding = self.scope.get(expr.name)
            return None if binding is None else binding.dtype
        if isinstance(expr, ex.Load):
            buffer = self._buffers.get(expr.buffer)
            return None if buffer is None else buffer.element
        if isinstance(expr, Binary):
            return binary_type(expr.op, self.type_of(expr.left), self.type_of(expr.right))
        if isinstance(expr, Unary):
            return unary_type(expr.op, self.type_of(expr.operand))
        if isinstance(expr, ex.Select):
            chosen = self.type_of(expr.true_value)
            return chosen if chosen == self.type_of(expr.false_value) else None
        if isinstance(expr, ex.Fma):
            return _F32 if all(self.type_of(operand) == _F32 for operand in (expr.a, expr.b, expr.c)) else None
        if isinstance(expr, ex.SubgroupReduce | ex.SubgroupShuffle):
            return self.type_of(expr.value)
        if isinstance(expr, OpaqueExpr):
            return WIDE_LITERALS.get(expr.kind)
        return _U32 if isinstance(expr, ex.Atomic) else expr.dtype

    def check(self, expr: Expr) -> None:
        """Check an expression of the statement at hand, its operands first; an atomic before its operands.

        Shared parts are checked in each place where they stand, as upstream does, but not those of a huge expression.
        """
        self._check(expr, 0, set() if expr.term_count > _MOST_TERMS else None)

    def _check(self, expr: Expr, depth: int, seen: set[int] | None) -> None:
        if depth > MAX_EXPRESSION_DEPTH:
            self._add(expr, "V033", f"expressions nest over {MAX_EXPRESSION_DEPTH + 1} deep")
            return
        if seen is not None:
            if id(expr) in seen:
                return
            seen.add(id(expr))
        if isinstance(expr, ex.Atomic):
            self._report(expr)
        operands = OPERANDS.get(type(expr))
        for operand in () if operands is None else operands(expr):
            if not (isinstance(operand, ex.BufferRef) and isinstance(expr, ex.Call)):
                self._check(operand, depth + 1, seen)
        if not isinstance(expr, ex.Atomic):
            self._report(expr)

    def _report(self, expr: Expr) -> None:
        handler = self._handlers.get(type(expr))
        if handler is not None:
            for code, message in handler(expr):
                self._add(expr, code, message)

    def _add(self, expr: Expr, code: str, message: str) -> None:
        note = self._findings.note_warning if code == "V035" else self._findings.note
        note(code, lambda: f"{self._walk.path()}.{self._place(expr)}", message)

    def _place(self, expr: Expr) -> str:
        if self._node is None:
            return ""
        if self._places is None:
            self._places = OperandPlaces(self._node)
        return self._places.path(expr)

    def _var(self, term: Var) -> Iterator[tuple[str, str]]:
        if term.name not in self.scope:
            yield "V066", f"no variable {quoted(term.name)} is in scope"

    def _buffer_ref(self, term: ex.BufferRef) -> Iterator[tuple[str, str]]:
        yield "V051", f"a reference to buffer {quoted(term.buffer)} stands where a value does"

    def _load(self, term: ex.Load) -> Iterator[tuple[str, str]]:
        buffer = self._buffers.get(term.buffer)
        if buffer is None:
            yield "V065", f"there is no buffer {quoted(term.buffer)}"
        elif buffer.element.wire_tag == BYTES and not buffer.bytes_extraction:
            yield "V013", f"buffer {quoted(term.buffer)} holds bytes, which are not loaded"

    def _buf_len(self, term: ex.BufLen) -> Iterator[tuple[str, str]]:
        if term.buffer not in self._buffers:
            yield "V067", f"there is no buffer {quoted(term.buffer)}"

    def _id(self, term: ex.InvocationId | ex.WorkgroupId | ex.LocalId) -> Iterator[tuple[str, str]]:
        if term.axis > 2:
            yield "V068", f"there is no axis {term.axis}"

    def _binary(self, term: Binary) -> Iterator[tuple[str, str]]:
        if term.op in _DIVISIONS and _is_static_zero(term.right):
            yield "V044", f"the divisor of {term.op.name} is the literal 0"
        yield from binary_findings(term.op, self.type_of(term.left), self.type_of(term.right))

    def _unary(self, term: Unary) -> Iterator[tuple[str, str]]:
        finding = unary_finding(term.op, self.type_of(term.operand))
        if finding is not None:
            yield finding

    def _call(self, term: ex.Call) -> Iterator[tuple[str, str]]:
        signature = None if self._operations is None else self._operations.get(term.op_id)
        types = [None if isinstance(argument, ex.BufferRef) else self.type_of(argument) for argument in term.args]
        for problem in call_problems(term, types, self._buffers, signature):
            if problem.rule is not Rule.CALL_DEPTH:
                yield problem.rule.code, problem.message
        if signature is not None:
            references = (argument.buffer for argument in term.args if isinstance(argument, ex.BufferRef))
            yield from (("V052", f"there is no buffer {quoted(name)}") for name in references if name not in self._buffers)

    def _fma(self, term: ex.Fma) -> Iterator[tuple[str, str]]:
        for operand in (term.a, term.b, term.c):
            dtype = self.type_of(operand)
            if dtype is not None and dtype != _F32:
                yield "V028", f"an operand of fma must be f32, and is {spelled(dtype)}"

    def _select(self, term: ex.Select) -> Iterator[tuple[str, str]]:
        first, second = self.type_of(term.true_value), self.type_of(term.false_value)
        if first is not None and second is not None and first != second:
            yield "V029", f"a select between {spelled(first)} and {spelled(second)}"

    def _cast(self, term: ex.Cast) -> Iterator[tuple[str, str]]:
        source, target = self.type_of(term.value), term.target
        lacking = None if self._capabilities is None else self._capabilities.lacks(target)
        if lacking is not None:
            yield "V034", f"the device has no {lacking}"
        if source is None:
            return
        text = f"from {spelled(source)} to {spelled(target)}"
        if not is_castable(source, target):
            yield "V023" if target.wire_tag == BYTES else "V012", f"there is no cast {text}"
        elif narrows(source, target):
            yield "V035", f"the cast {text} drops the upper bits"

    def _atomic(self, term: ex.Atomic) -> Iterator[tuple[str, str]]:
        if term.ordering is MemoryOrdering.GRID_SYNC:
            yield "V042", "an atomic cannot be ordered GRID_SYNC"
        dtype, name = self.type_of(term.index), quoted(term.buffer)
        if dtype is not None and dtype != _U32:
            yield "V027", f"the index of an atomic must be u32, and is {spelled(dtype)}"
        buffer = self._buffers.get(term.buffer)
        if buffer is None:
            yield "V061", f"there is no buffer {name}"
            return
        if buffer.access is BufferAccess.WORKGROUP:
            yield "V025", f"{name} is workgroup memory, which has no atomics"
        elif buffer.access is not BufferAccess.READ_WRITE:
            yield "V009", f"{name} is {buffer.access.name}, and an atomic wants READ_WRITE"
        if buffer.element.wire_tag == BYTES:
            yield "V013", f"{name} holds bytes, which have no atomics"
        if buffer.element != _U32:
            yield "V014", f"{name} holds {spelled(buffer.element)}, and atomics work on u32"
        dtype = self.type_of(term.value)
        if dtype is not None and dtype != _U32:
            yield "V057", f"the value of an atomic must be u32, and is {spelled(dtype)}"
        yield from self._expected(term)

    def _expected(self, term: ex.Atomic) -> Iterator[tuple[str, str]]:
        if term.op is not AtomicOp.COMPARE_EXCHANGE:
            if term.expected is not None:
                yield "V060", "an expected value stands with an atomic that is no COMPARE_EXCHANGE"
        elif term.expected is None:
            yield "V059", "a COMPARE_EXCHANGE has no expected value"
        else:
            dtype = self.type_of(term.expected)
            if dtype is not None and dtype != _U32:
                yield "V058", f"the expected value of an atomic must be u32, and is {spelled(dtype)}"

    def _subgroup(self, term: Expr) -> Iterator[tuple[str, str]]:
        if self._capabilities is None or not self._capabilities.supports_subgroup_ops:
            yield "V041", "upstream takes subgroup operations for a device that has them only"
        if isinstance(term, ex.SubgroupReduce) and term.op in BITWISE_REDUCTIONS and self.type_of(term.value) == _F32:
            yield "V047", f"a subgroup reduction by {term.op.name} takes no f32"

    def _opaque(self, term: OpaqueExpr) -> Iterator[tuple[str, str]]:
        if not term.kind:
            yield "V030", "an opaque expression has no kind"


_HANDLERS: dict[type[Expr], str] = {
    Var: "_var",
    ex.BufferRef: "_buffer_ref",
    ex.Load: "_load",
    ex.BufLen: "_buf_len",
    **dict.fromkeys((ex.InvocationId, ex.WorkgroupId, ex.LocalId), "_id"),
    Binary: "_binary",
    Unary: "_unary",
    ex.Call: "_call",
    ex.Fma: "_fma",
    ex.Select: "_select",
    ex.Cast: "_cast",
    ex.Atomic: "_atomic",
    OpaqueExpr: "_opaque",
    **dict.fromkeys(ex.SUBGROUP_EXPRESSIONS, "_subgroup"),
}


def _is_static_zero(expr: Expr) -> bool:
    while isinstance(expr, ex.Cast):
        expr = expr.value
    if isinstance(expr, LitF32):
        return expr.bits & 0x7FFF_FFFF == 0
    return isinstance(expr, LitU32 | LitI32) and expr.value == 0
