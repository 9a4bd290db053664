"""Expressions as functions that give the values of the active invocations of a batch.

Source: spec items 1.6 and 1.7. Types are those of the validator, which has passed the program.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from vyre_driver.backends.reference import arithmetic, extensions
from vyre_driver.backends.reference.atomics import SUPPORTED_ATOMICS
from vyre_driver.backends.reference.extensions import FUNCTIONS
from vyre_driver.backends.reference.invocations import InvocationBatch, ballot, shuffled, subgroup_reduced
from vyre_driver.backends.reference.values import INTEGERS, VECTORS, cast, truth, word_of
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import expressions as ex
from vyre_driver.ir.dtypes import WIDE_LITERALS, DataType
from vyre_driver.ir.extensions import Application, application
from vyre_driver.ir.functions.bodies import Body, body_of
from vyre_driver.ir.operators import UNPACKED_BITS, AtomicOp, BinOp, UnOp
from vyre_driver.ir.terms import Traits
from vyre_driver.ir.text import operator_text
from vyre_driver.ir.walks import OPERANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.backends.reference.values import Values

    Evaluate = Callable[[InvocationBatch], Values]
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl


class BodyRun:
    """What evaluates a body; ``operands`` and ``parts`` look at the values before them, which :meth:`at` gives."""

    def __init__(self, operands: Sequence[Evaluate]) -> None:
        """Begin without parts."""
        self._operands = operands
        self._parts: list[Evaluate] = []
        self._values: list[Values] = []

    def at(self, place: int) -> Evaluate:
        """Return what gives the value of an operand, or of a part behind them."""
        return lambda _batch: self._values[place]

    def add(self, part: Evaluate) -> Evaluate:
        """Add the next part, and return what gives its value."""
        self._parts.append(part)
        return self.at(len(self._operands) + len(self._parts) - 1)

    def __call__(self, batch: InvocationBatch) -> Values:
        """Return the value of the last part for the active invocations."""
        values = [evaluate(batch) for evaluate in self._operands]
        self._values = values
        for evaluate in self._parts:  # each of which looks at those before
            values.append(evaluate(batch))  # noqa: PERF401
        return values[-1]


_PURE = Traits.NO_READS | Traits.NO_WRITES
_COMPARISONS: dict[BinOp, Callable[[Any, Any], Any]] = {
    BinOp.EQ: np.equal,
    BinOp.NE: np.not_equal,
    BinOp.LT: np.less,
    BinOp.GT: np.greater,
    BinOp.LE: np.less_equal,
    BinOp.GE: np.greater_equal,
}
_IDS: dict[type[Expr], Callable[[InvocationBatch], tuple[Values, ...]]] = {
    ex.InvocationId: attrgetter("invocation_ids"),
    ex.WorkgroupId: attrgetter("workgroup_ids"),
    ex.LocalId: attrgetter("local_ids"),
}


class Value(NamedTuple):
    """An expression made ready: what evaluates it, its type, and whether an f32 is canonical already."""

    run: Evaluate
    dtype: DataType
    is_canonical: bool = False


class Variable(NamedTuple):
    """A variable in scope: its place among a batch's variables, and its type."""

    slot: int
    dtype: DataType


class ExpressionCompiler:
    """Makes the expressions of one program ready; ``scope`` holds the variables that may be named."""

    def __init__(self, buffers: Mapping[str, tuple[int, BufferDecl]], *, canonical_literals: bool = False) -> None:
        """Name buffers by their places; f32 literals keep their bits unless they are to be canonical."""
        self._canonical_literals = canonical_literals
        self.scope: dict[str, Variable] = {}
        self.has_subgroups = False
        self._buffers = buffers
        self._known: dict[int, Value] = {}
        self._shared: set[int] = set()

    def joint(self, *roots: Expr) -> list[Value]:
        """Make the expressions of one statement ready.

        A part without effects that stands in several places is evaluated once: ``batch.memo`` has it until the next statement.
        """
        writes = not all(root.traits & Traits.NO_WRITES for root in roots)
        wanted = _PURE if writes else Traits.NO_WRITES
        self._known.clear()
        self._shared = _shared_parts(roots, wanted)
        return [self._value(root) for root in roots]

    def _value(self, expr: Expr) -> Value:
        known = self._known.get(id(expr))
        if known is None:
            known = _HANDLERS[type(expr)](self, expr) if type(expr) in _HANDLERS else refuse(type(expr).__name__)
            if id(expr) in self._shared:
                known = known._replace(run=_remembered(id(expr), known.run))
            self._known[id(expr)] = known
        return known

    def literal(self, expr: Any) -> Value:  # noqa: ANN401 -- one of the literals
        """Return one shared value."""
        if isinstance(expr, ex.LitF32):
            values = np.array([expr.bits], np.uint32).view(np.float32)
            canonical = arithmetic.canonical(values)
            if self._canonical_literals:
                values = canonical
            return Value(lambda _batch: values, DataType.F32, values.tobytes() == canonical.tobytes())
        dtype = expr.dtype
        one = np.array([expr.value], word_of(dtype))
        return Value(lambda _batch: one, dtype)

    def opaque(self, expr: ex.OpaqueExpr) -> Value:
        """Return a 64-bit literal; nothing else is known of extensions."""
        dtype = WIDE_LITERALS.get(expr.kind)
        if dtype is None:
            refuse(f"the opaque expression {expr.kind!r}")
        values = np.frombuffer(expr.payload, word_of(dtype))
        return Value(lambda _batch: values, dtype)

    def var(self, expr: ex.Var) -> Value:
        """Return a variable of the active invocations."""
        slot, dtype = self.scope[expr.name]
        return Value(lambda batch: batch.of_active(batch.variables[slot]), dtype)

    def load(self, expr: ex.Load) -> Value:
        """Return elements of a buffer, of a bytes buffer what follows the index."""
        place, declared = self._buffers[expr.buffer]
        index = self._value(expr.index).run
        if declared.element == DataType.Bytes:
            return Value(lambda batch: batch.buffers[place].load_bytes(index(batch)), DataType.Bytes)
        return Value(lambda batch: batch.buffers[place].load(batch, index(batch)), declared.element)

    def buf_len(self, expr: ex.BufLen) -> Value:
        """Return the number of elements."""
        place, _ = self._buffers[expr.buffer]
        return Value(lambda batch: np.array([batch.buffers[place].count & 0xFFFF_FFFF], np.uint32), DataType.U32)

    def index(self, expr: Any) -> Value:  # noqa: ANN401 -- one of the three ids
        """Return an index along an axis."""
        ids, axis = _IDS[type(expr)], expr.axis
        return Value(lambda batch: batch.of_active(ids(batch)[axis]), DataType.U32)

    def binary(self, expr: ex.Binary) -> Value:
        """Return what an operator makes of two values."""
        op = expr.op
        if not isinstance(op, BinOp):
            refuse(f"the opaque operator {op.extension_id:#010x}")
        left, right = self._value(expr.left), self._value(expr.right)
        if op in {BinOp.AND, BinOp.OR}:
            combine = np.logical_and if op is BinOp.AND else np.logical_or
            return Value(_of_two(combine, truth_of(left), truth_of(right)), DataType.Bool)
        if op in _COMPARISONS:
            return Value(_comparison(op, left, right), DataType.Bool)
        if left.dtype == DataType.F32:
            function = arithmetic.FLOAT_BINARY[op]
            first, second = _flushed(left), _flushed(right)
            return Value(
                lambda batch: arithmetic.canonical(function(first(batch), second(batch))), DataType.F32, is_canonical=True
            )
        if op in {BinOp.DIV, BinOp.MOD}:
            return Value(_division(op, left, right), left.dtype)
        return Value(_of_two(arithmetic.INTEGER_BINARY[op], left.run, right.run), left.dtype)

    def unary(self, expr: ex.Unary) -> Value:
        """Return what an operator makes of a value."""
        op = expr.op
        if not isinstance(op, UnOp):
            refuse(f"the opaque operator {op.extension_id:#010x}")
        operand = self._value(expr.operand)
        if op in UNPACKED_BITS:
            return Value(_unpacked(op, operand.run), DataType.U32)
        if op is UnOp.LOGICAL_NOT:
            is_true = truth_of(operand)
            return Value(lambda batch: ~is_true(batch), DataType.Bool)
        if op in arithmetic.FLOAT_PREDICATES:
            test, own = arithmetic.FLOAT_PREDICATES[op], operand.run
            return Value(lambda batch: test(own(batch)), DataType.Bool)
        if operand.dtype == DataType.F32:
            function, flat = arithmetic.FLOAT_UNARY[op], _flushed(operand)
            return Value(lambda batch: arithmetic.canonical(function(flat(batch))), DataType.F32, is_canonical=True)
        of_integer, run = arithmetic.INTEGER_UNARY[op], operand.run
        return Value(lambda batch: of_integer(run(batch)), operand.dtype)

    def select(self, expr: ex.Select) -> Value:
        """Return one value or the other; both are evaluated."""
        is_true = truth_of(self._value(expr.cond))
        first, second = self._value(expr.true_value), self._value(expr.false_value)

        def run(batch: InvocationBatch) -> Values:
            chosen, one, other = is_true(batch), first.run(batch), second.run(batch)
            return np.where(chosen.reshape(-1, *[1] * (one.ndim - 1)), one, other)

        return Value(run, first.dtype, first.is_canonical and second.is_canonical)

    def cast(self, expr: ex.Cast) -> Value:
        """Return a value as another type, or an operator of ours."""
        found = application(expr)
        if found is not None:
            return self._extension(found)
        inner, target = self._value(expr.value), expr.target
        if inner.dtype == target:
            return inner
        run, source = inner.run, inner.dtype
        operator = FUNCTIONS.get(f"{source}_to_{target}")  # of the table only halves have one: they are converted alike
        if operator is not None:
            return Value(lambda batch: operator(run(batch)), target)
        return Value(lambda batch: cast(run(batch), source, target), target, is_canonical=True)

    def _extension(self, found: Application) -> Value:
        """Return what an operator of ours makes of its operands, whose f32 may be any bits."""
        operands = [self._value(one) for one in found.operands]
        body = body_of(found.operator.name)
        if body is not None:
            return self._body(body, operands)
        runs = [one.run for one in operands]
        function = FUNCTIONS[found.operator.name]
        return Value(lambda batch: function(*(run(batch) for run in runs)), found.operator.result)

    def _body(self, body: Body, operands: list[Value]) -> Value:
        """Return what evaluates the body of a function: its operands, and then each part from those before."""
        whole = BodyRun([one.run for one in operands])
        known = {id(one): Value(whole.at(place), DataType.F32) for place, one in enumerate(body.parameters)}
        outside, self._known = self._known, known
        for part in body.parts:
            made = _HANDLERS[type(part)](self, part)
            known[id(part)] = made._replace(run=whole.add(made.run))
        self._known = outside
        return Value(whole, DataType.F32)

    def atomic(self, expr: ex.Atomic) -> Value:
        """Return what an atomic found."""
        return Value(self.atomic_run(expr, is_used=True), DataType.U32)

    def atomic_run(self, expr: ex.Atomic, *, is_used: bool) -> Evaluate:
        """Return what applies an atomic, and whose result may be left out when it is not used."""
        op = expr.op
        if not isinstance(op, AtomicOp) or op not in SUPPORTED_ATOMICS:
            refuse(f"the atomic {operator_text(op)}")
        place, _ = self._buffers[expr.buffer]
        index, value = self._value(expr.index).run, self._value(expr.value).run
        wanted = None if expr.expected is None else self._value(expr.expected).run

        def run(batch: InvocationBatch) -> Values:
            at = index(batch)
            expected = None if wanted is None else wanted(batch)
            return batch.buffers[place].atomic(batch, op, at, value(batch), expected, is_used=is_used)

        return run

    def fma(self, expr: ex.Fma) -> Value:
        """Return a product and sum, rounded once."""
        a, b, c = (_flushed(self._value(one)) for one in (expr.a, expr.b, expr.c))
        return Value(lambda batch: arithmetic.fma(a(batch), b(batch), c(batch)), DataType.F32, is_canonical=True)

    def subgroup_reduce(self, expr: ex.SubgroupReduce) -> Value:
        """Return the values of the subgroup, combined."""
        self.has_subgroups = True
        inner, op = self._value(expr.value), expr.op
        return Value(lambda batch: subgroup_reduced(batch, op, inner.run(batch)), inner.dtype, is_canonical=True)

    def subgroup_shuffle(self, expr: ex.SubgroupShuffle) -> Value:
        """Return the value of another lane."""
        self.has_subgroups = True
        inner, lane = self._value(expr.value), self._value(expr.lane)
        return Value(lambda batch: shuffled(batch, inner.run(batch), lane.run(batch)), inner.dtype)

    def subgroup_ballot(self, expr: ex.SubgroupBallot) -> Value:
        """Return a bit a lane."""
        self.has_subgroups = True
        is_true = truth_of(self._value(expr.cond))
        return Value(lambda batch: ballot(batch, is_true(batch)), DataType.U32)

    def subgroup_lane(self, _expr: ex.SubgroupLocalId) -> Value:
        """Return the lane."""
        return Value(lambda batch: batch.of_active(batch.subgroup_lane.astype(np.uint32)), DataType.U32)

    def subgroup_size(self, _expr: ex.SubgroupSize) -> Value:
        """Return the number of lanes."""
        return Value(lambda batch: np.array([batch.grid.lanes], np.uint32), DataType.U32)


_HANDLERS: dict[type[Expr], Callable[[ExpressionCompiler, Any], Value]] = {
    ex.LitU32: ExpressionCompiler.literal,
    ex.LitI32: ExpressionCompiler.literal,
    ex.LitBool: ExpressionCompiler.literal,
    ex.LitF32: ExpressionCompiler.literal,
    ex.OpaqueExpr: ExpressionCompiler.opaque,
    ex.Var: ExpressionCompiler.var,
    ex.Load: ExpressionCompiler.load,
    ex.BufLen: ExpressionCompiler.buf_len,
    ex.InvocationId: ExpressionCompiler.index,
    ex.WorkgroupId: ExpressionCompiler.index,
    ex.LocalId: ExpressionCompiler.index,
    ex.Binary: ExpressionCompiler.binary,
    ex.Unary: ExpressionCompiler.unary,
    ex.Select: ExpressionCompiler.select,
    ex.Cast: ExpressionCompiler.cast,
    ex.Atomic: ExpressionCompiler.atomic,
    ex.Fma: ExpressionCompiler.fma,
    ex.SubgroupReduce: ExpressionCompiler.subgroup_reduce,
    ex.SubgroupShuffle: ExpressionCompiler.subgroup_shuffle,
    ex.SubgroupBallot: ExpressionCompiler.subgroup_ballot,
    ex.SubgroupLocalId: ExpressionCompiler.subgroup_lane,
    ex.SubgroupSize: ExpressionCompiler.subgroup_size,
}


def refuse(what: str) -> NoReturn:
    """Raise UnsupportedFeature for a part of a program."""
    raise UnsupportedFeature(
        f"the reference interpreter does not run {what}", fix="write the program without it, or run it elsewhere", needs=what
    )


def _shared_parts(roots: tuple[Expr, ...], wanted: int) -> set[int]:
    """Return the ids of the terms with operands and these traits that stand in several places."""
    seen: set[int] = set()
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        term = waiting.pop()
        operands = OPERANDS.get(type(term))
        if operands is None:
            continue
        if id(term) in seen:
            if term.traits & wanted == wanted:
                found.add(id(term))
            continue
        seen.add(id(term))
        waiting.extend(operands(term))
    return found


def _remembered(key: int, run: Evaluate) -> Evaluate:
    def once(batch: InvocationBatch) -> Values:
        known = batch.memo.get(key)
        if known is None:
            known = batch.memo[key] = run(batch)
        return known

    return once


def _of_two(function: Callable[[Values, Values], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda batch: function(left(batch), right(batch))


def _flushed(value: Value) -> Evaluate:
    run = value.run
    return run if value.is_canonical else lambda batch: arithmetic.flushed(run(batch))


def truth_of(value: Value) -> Evaluate:
    """Return what evaluates a condition, which is u32 or bool."""
    run = value.run
    return run if value.dtype == DataType.Bool else lambda batch: truth(run(batch))


def _comparison(op: BinOp, left: Value, right: Value) -> Evaluate:
    dtype, compare = left.dtype, _COMPARISONS[op]
    if dtype == DataType.F32:
        return _of_two(compare, _flushed(left), _flushed(right))
    if dtype in INTEGERS or dtype == DataType.Bool:
        return _of_two(compare, left.run, right.run)
    if dtype == DataType.F64:
        return _of_two(lambda one, other: compare(extensions.numbers(one), extensions.numbers(other)), left.run, right.run)
    if dtype not in VECTORS or op not in {BinOp.EQ, BinOp.NE}:
        refuse(f"{op.name} of {dtype}")
    differ = _of_two(lambda one, other: (one != other).any(axis=1), left.run, right.run)
    return differ if op is BinOp.NE else lambda batch: ~differ(batch)


def _unpacked(op: UnOp, run: Evaluate) -> Evaluate:
    shift, mask = (np.uint32(number) for number in UNPACKED_BITS[op])
    return lambda batch: np.asarray((run(batch).astype(np.uint32) >> shift) & mask)


def _division(op: BinOp, left: Value, right: Value) -> Evaluate:
    is_signed = left.dtype == DataType.I32
    function = arithmetic.INTEGER_DIVISION[op, is_signed]
    if not is_signed:
        return _of_two(function, left.run, right.run)

    def run(batch: InvocationBatch) -> Values:
        dividend, divisor = left.run(batch), right.run(batch)
        wrong = arithmetic.has_no_quotient(dividend, divisor)
        if wrong.any():
            first = int(np.argmax(wrong))
            pair = [int(one[first if len(one) > 1 else 0]) for one in (dividend, divisor)]
            name = "remainder" if op is BinOp.MOD else "quotient"
            fix = "guard the division: of i32, the divisor may not be 0, nor -1 under the least number"
            raise batch.fault(f"the i32 {name} of {pair[0]} by {pair[1]} does not exist", fix, first)
        return function(dividend, divisor)

    return run
