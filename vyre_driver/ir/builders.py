"""Functions that build programs and read like the kernels they describe.

A buffer is given by its name or by its declaration, which also gives the type of a load; a variable by its name or as
``var(name, dtype)``. Where a number stands for an expression it becomes a literal of the type that is wanted there
(:mod:`vyre_driver.ir.dtypes`): u32 for indices, sizes and bounds.

    x, y = BufferDecl.read("x", 0, DataType.F32), BufferDecl.read_write("y", 1, DataType.F32)
    i = gid_x()
    saxpy = Program.wrapped([x, y], (64, 1, 1), [if_(i < buf_len(y), [store(y, i, 2.0 * load(x, i) + load(y, i))])])

The last ones build the operators which this package adds to the IR (:mod:`vyre_driver.ir.extensions`).

Every function raises InvalidProgram (1006) for what is not valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitBool, LitI32, LitU32, OpaqueExpr, Unary, Var, binary, literal
from vyre_driver.ir.arithmetic import f32 as f32  # noqa: PLC0414 -- a builder like the others
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType, Number, wide_literal
from vyre_driver.ir.expressions import (
    Atomic,
    BufLen,
    Call,
    Cast,
    Expr,
    Fma,
    InvocationId,
    Load,
    LocalId,
    Select,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLocalId,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
    WorkgroupId,
)
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.ir.fields import brief, refuse
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Node, Region, Return, Store, Trap
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering, OpaqueOp, SubgroupOp, TernaryOp, UnOp
from vyre_driver.ir.validation.operator_types import is_castable

Value = Expr | Number
Buffer = str | BufferDecl
Variable = str | Var
Body = Sequence[Node]

FOREVER = "__forever__"


def u32(value: int) -> LitU32:
    """Return a u32 literal."""
    return LitU32(value)


def i32(value: int) -> LitI32:
    """Return an i32 literal."""
    return LitI32(value)


def boolean(value: bool) -> LitBool:  # noqa: FBT001 -- the literal's value
    """Return a bool literal."""
    return LitBool(value)


def u64(value: int) -> OpaqueExpr:
    """Return a u64 literal."""
    return OpaqueExpr(*wide_literal(value, DataType.U64))


def i64(value: int) -> OpaqueExpr:
    """Return an i64 literal."""
    return OpaqueExpr(*wide_literal(value, DataType.I64))


def f64(value: float) -> OpaqueExpr:
    """Return an f64 literal."""
    return OpaqueExpr(*wide_literal(value, DataType.F64))


def gid_x() -> InvocationId:
    """Return the invocation's index in the grid along x."""
    return InvocationId(0)


def gid_y() -> InvocationId:
    """Return the invocation's index in the grid along y."""
    return InvocationId(1)


def gid_z() -> InvocationId:
    """Return the invocation's index in the grid along z."""
    return InvocationId(2)


def wid_x() -> WorkgroupId:
    """Return the workgroup's index along x."""
    return WorkgroupId(0)


def wid_y() -> WorkgroupId:
    """Return the workgroup's index along y."""
    return WorkgroupId(1)


def wid_z() -> WorkgroupId:
    """Return the workgroup's index along z."""
    return WorkgroupId(2)


def lid_x() -> LocalId:
    """Return the invocation's index in its workgroup along x."""
    return LocalId(0)


def lid_y() -> LocalId:
    """Return the invocation's index in its workgroup along y."""
    return LocalId(1)


def lid_z() -> LocalId:
    """Return the invocation's index in its workgroup along z."""
    return LocalId(2)


def var(name: str, dtype: DataType | None = None) -> Var:
    """Return the variable ``name``; ``dtype`` is used for numbers beside it and not checked against the program here."""
    return Var(name, dtype)


def load(buffer: Buffer, index: Value) -> Load:
    """Return element ``index`` of a buffer."""
    element = buffer.element if isinstance(buffer, BufferDecl) else None
    return Load(_buffer_name(buffer), literal(index, DataType.U32), element)


def buf_len(buffer: Buffer) -> BufLen:
    """Return the number of elements of a buffer."""
    return BufLen(_buffer_name(buffer))


def select(cond: Value, true_value: Value, false_value: Value) -> Select:
    """Return one value or the other; both are evaluated."""
    if not isinstance(true_value, Expr):
        true_value = literal(true_value, false_value.dtype if isinstance(false_value, Expr) else None)
    return Select(literal(cond, DataType.Bool), true_value, literal(false_value, true_value.dtype))


def cast(target: DataType, value: Value) -> Cast:
    """Return ``value`` as ``target``; a number needs a type of its own (u32(3), 1.5)."""
    return Cast(target, literal(value, None))


def fma(a: Value, b: Value, c: Value) -> Fma:
    """Return ``a * b + c`` in f32, rounded once."""
    return Fma(literal(a, DataType.F32), literal(b, DataType.F32), literal(c, DataType.F32))


def binop(op: BinOp | OpaqueOp, left: Value, right: Value) -> Expr:
    """Return ``left op right`` for any operator."""
    return binary(op, left, right)


def unop(op: UnOp | OpaqueOp, operand: Value) -> Expr:
    """Return ``op operand`` for any operator; a number needs a type of its own."""
    return Unary(op, literal(operand, None))


def minimum(left: Value, right: Value) -> Expr:
    """Return the lesser; of floats the one that is a number."""
    return binary(BinOp.MIN, left, right)


def maximum(left: Value, right: Value) -> Expr:
    """Return the greater; of floats the one that is a number."""
    return binary(BinOp.MAX, left, right)


def abs_diff(left: Value, right: Value) -> Expr:
    """Return the distance of two values."""
    return binary(BinOp.ABS_DIFF, left, right)


def saturating_sub(left: Expr, right: Value) -> Expr:
    """Return ``left - min(left, right)``: the difference of unsigned numbers, 0 where it would be less."""
    return left - minimum(left, right)


def absolute(operand: Value) -> Expr:
    """Return the magnitude."""
    return unop(UnOp.ABS, operand)


def sqrt(operand: Value) -> Expr:
    """Return the square root."""
    return unop(UnOp.SQRT, operand)


def exp(operand: Value) -> Expr:
    """Return e to this power."""
    return unop(UnOp.EXP, operand)


def log(operand: Value) -> Expr:
    """Return the natural logarithm."""
    return unop(UnOp.LOG, operand)


def sin(operand: Value) -> Expr:
    """Return the sine of radians."""
    return unop(UnOp.SIN, operand)


def cos(operand: Value) -> Expr:
    """Return the cosine of radians."""
    return unop(UnOp.COS, operand)


def call(op_id: str, *args: Expr) -> Call:
    """Return the result of a registered operation."""
    return Call(op_id, args)


def subgroup_add(value: Value) -> SubgroupReduce:
    """Return the sum over the subgroup."""
    return SubgroupAdd(literal(value, None))


def subgroup_reduce(op: SubgroupOp, value: Value) -> SubgroupReduce:
    """Return the values of the subgroup combined by an operator."""
    return SubgroupReduce(op, literal(value, None))


def subgroup_shuffle(value: Value, lane: Value) -> SubgroupShuffle:
    """Return the value of another lane."""
    return SubgroupShuffle(literal(value, None), literal(lane, DataType.U32))


def subgroup_ballot(cond: Value) -> SubgroupBallot:
    """Return one bit for each lane where ``cond`` holds."""
    return SubgroupBallot(literal(cond, DataType.Bool))


def subgroup_local_id() -> SubgroupLocalId:
    """Return the lane."""
    return SubgroupLocalId()


def subgroup_size() -> SubgroupSize:
    """Return the lanes of a subgroup."""
    return SubgroupSize()


def atomic(  # noqa: PLR0913 -- the fields of an atomic; the rare ones by keyword
    op: AtomicOp | OpaqueOp,
    buffer: Buffer,
    index: Value,
    value: Value,
    *,
    expected: Value | None = None,
    ordering: MemoryOrdering = MemoryOrdering.SEQ_CST,
) -> Atomic:
    """Return the value at ``index`` before ``op``; of i32 and f32 too operands and result are u32, their bits."""
    wanted = None if expected is None else literal(expected, DataType.U32)
    name, at = _buffer_name(buffer), literal(index, DataType.U32)
    return Atomic(op, ordering, name, at, wanted, literal(value, DataType.U32))


def atomic_add(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Add, and return what was there."""
    return atomic(AtomicOp.ADD, buffer, index, value)


def atomic_or(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Set bits, and return what was there."""
    return atomic(AtomicOp.OR, buffer, index, value)


def atomic_and(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Clear bits, and return what was there."""
    return atomic(AtomicOp.AND, buffer, index, value)


def atomic_xor(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Flip bits, and return what was there."""
    return atomic(AtomicOp.XOR, buffer, index, value)


def atomic_min(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Keep the lesser, and return what was there."""
    return atomic(AtomicOp.MIN, buffer, index, value)


def atomic_max(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Keep the greater, and return what was there."""
    return atomic(AtomicOp.MAX, buffer, index, value)


def atomic_exchange(buffer: Buffer, index: Value, value: Value) -> Atomic:
    """Replace, and return what was there."""
    return atomic(AtomicOp.EXCHANGE, buffer, index, value)


def atomic_compare_exchange(buffer: Buffer, index: Value, expected: Value, value: Value) -> Atomic:
    """Replace where ``expected`` stands, and return what was there."""
    return atomic(AtomicOp.COMPARE_EXCHANGE, buffer, index, value, expected=expected)


def let(variable: Variable, value: Value) -> Let:
    """Declare a variable; one given as ``var(name, dtype)`` must be given that type where the value's is known."""
    return Let(_variable_name(variable), _value_for(variable, value))


def assign(variable: Variable, value: Value) -> Assign:
    """Give a declared variable another value."""
    return Assign(_variable_name(variable), _value_for(variable, value))


def store(buffer: Buffer, index: Value, value: Value) -> Store:
    """Write an element; a number needs the declaration of the buffer, or a type of its own."""
    element = buffer.element if isinstance(buffer, BufferDecl) else None
    return Store(_buffer_name(buffer), literal(index, DataType.U32), literal(value, element))


def if_(cond: Value, then: Body, otherwise: Body = ()) -> If:
    """Run one body or the other."""
    return If(literal(cond, DataType.Bool), tuple(then), tuple(otherwise))


def loop(variable: Variable, start: Value, stop: Value, body: Body | Callable[[Var], Body]) -> Loop:
    """Run a body with the variable (u32) from ``start`` up to, not including, ``stop``.

    The body may be a function that takes the variable and returns the nodes.
    """
    name = _variable_name(variable)
    nodes = body(Var(name, DataType.U32)) if callable(body) else body
    return Loop(name, literal(start, DataType.U32), literal(stop, DataType.U32), tuple(nodes))


def forever(body: Body) -> Loop:
    """Run a body 2**32 - 1 times, or until it returns."""
    return Loop(FOREVER, u32(0), u32(U32_MAX), tuple(body))


def block(*body: Node) -> Block:
    """Run nodes in a scope of their own."""
    return Block(body)


def region(generator: str, *body: Node, source: str | None = None) -> Region:
    """Mark nodes as made by ``generator``."""
    return Region(generator, source, body)


def call_region(generator: str, args: Sequence[Expr], body: Body) -> Region:
    """Return a region that binds ``arg0``, ``arg1``, ... and then runs a body."""
    return Region(generator, None, (*(Let(f"arg{place}", arg) for place, arg in enumerate(args)), *body))


def return_() -> Return:
    """End the invocation."""
    return Return()


def barrier(ordering: MemoryOrdering = MemoryOrdering.SEQ_CST) -> Barrier:
    """Wait for the whole workgroup."""
    return Barrier(ordering)


def trap(address: Value, tag: str) -> Trap:
    """Stop with an error."""
    return Trap(literal(address, DataType.U32), tag)


def _buffer_name(buffer: Buffer) -> str:
    if not isinstance(buffer, str | BufferDecl):
        refuse(f"{brief(buffer)} is not a buffer", "give its name or its declaration")
    return buffer if isinstance(buffer, str) else buffer.name


def _variable_name(variable: Variable) -> str:
    if not isinstance(variable, str | Var):
        refuse(f"{brief(variable)} is not a variable", "give its name, or var(name, dtype)")
    return variable if isinstance(variable, str) else variable.name


def _value_for(variable: Variable, value: Value) -> Expr:
    declared = variable.dtype if isinstance(variable, Var) else None
    result = literal(value, declared)
    if declared is not None and result.dtype is not None and result.dtype != declared:
        refuse(f"variable {_variable_name(variable)!r} is declared {declared} and is given {result.dtype}", "give one of them")
    return result


def bitcast(dtype: DataType, value: Expr | Number) -> Expr:
    """Return the bits of a u32, i32 or f32, or of a u64, i64 or f64, as another type of as many; a number needs a type."""
    name = f"bitcast<{dtype}>"
    if name not in EXTENSIONS:
        refuse(f"there is no bitcast to {dtype}", "give DataType.U32, I32, F32, U64, I64 or F64")
    return extension(name, literal(value, None))


def convert(dtype: DataType, value: Expr | Number) -> Expr:
    """Return a value as the number of another type that is nearest to it.

    That is a cast where the IR has one, and an operator of ours where it has none. The type of the value has to be known
    (``load(declaration, i)``, ``var("x", dtype)``).
    """
    given = literal(value, None)
    source = given.dtype
    if source is None:
        refuse("the type of what is converted is not known here", "say it: var(name, dtype), load(declaration, index)")
    name = f"{source}_to_{dtype}"
    if name in EXTENSIONS:
        return extension(name, given)
    if not is_castable(source, dtype):
        refuse(f"there is no conversion from {source} to {dtype}", "convert it by way of another type, such as f32")
    return given if source == dtype else Cast(dtype, given)


def unpack_f16(word: Expr | Number) -> Expr:
    """Return the lower 16 bits of a u32, an f16, as f32."""
    return extension("unpack_f16", literal(word, DataType.U32))


def pack_f16(value: Expr | Number) -> Expr:
    """Return the bits of the f16 nearest to an f32 as a u32: ties to even, subnormals kept, NaN as 7E00 hex."""
    return extension("pack_f16", literal(value, DataType.F32))


def unpack_bf16(word: Expr | Number) -> Expr:
    """Return the lower 16 bits of a u32, a bf16, as f32."""
    return extension("unpack_bf16", literal(word, DataType.U32))


def pack_bf16(value: Expr | Number) -> Expr:
    """Return the bits of the bf16 nearest to an f32 as a u32: ties to even, subnormals kept, NaN as 7FC0 hex."""
    return extension("pack_bf16", literal(value, DataType.F32))


def operation(op: BinOp | UnOp | TernaryOp, dtype: DataType, *operands: Expr | Number) -> Expr:
    """Return an operator on operands of a type: the IR's, or ours where the IR has none for u64, i64 and f64.

    Counts of shifts are u32. Of 64-bit integers a quotient or remainder by 0 is 0; quotients are rounded to zero, and a
    remainder has the sign of the dividend.
    """
    count = _OPERAND_COUNTS.get(type(op))
    if count is None:
        refuse(f"{op!r} is no operator on values", "give a member of BinOp, UnOp or TernaryOp")
    if len(operands) != count:
        refuse(f"{op.name} takes {count} operand(s), and got {len(operands)}", f"give {count}")
    types = [DataType.U32 if place and op in _SHIFTS else dtype for place in range(len(operands))]
    if op is TernaryOp.SELECT:
        types[0] = DataType.Bool
    given = [literal(one, wanted) for one, wanted in zip(operands, types, strict=True)]
    name = f"{op.name.lower()}<{dtype}>"
    if name in EXTENSIONS:
        return extension(name, *given)
    if isinstance(op, TernaryOp):
        return fma(*given) if op is TernaryOp.FMA else select(*given)
    made = _MADE.get((op, dtype))
    if made is not None:
        return made(*given)
    return Unary(op, *given) if isinstance(op, UnOp) else Binary(op, *given)


def floor_divide(dtype: DataType, left: Expr | Number, right: Expr | Number) -> Expr:
    """Return the quotient of two u64 or i64, rounded down as numpy does; 0 by 0."""
    _check_wide("floor_divide", dtype)
    quotient = operation(BinOp.DIV, dtype, left, right)
    if dtype != DataType.I64:
        return quotient
    return select(_is_off(left, right), operation(BinOp.SUB, dtype, quotient, literal(1, dtype)), quotient)


def floor_modulo(dtype: DataType, left: Expr | Number, right: Expr | Number) -> Expr:
    """Return the remainder of two u64 or i64 with the sign of the divisor, as numpy does; 0 by 0."""
    _check_wide("floor_modulo", dtype)
    rest = operation(BinOp.MOD, dtype, left, right)
    return rest if dtype != DataType.I64 else select(_is_off(left, right), operation(BinOp.ADD, dtype, rest, right), rest)


def _check_wide(name: str, dtype: DataType) -> None:
    """Check that a type is u64 or i64: the quotient of another one would not be rounded down."""
    if dtype not in {DataType.U64, DataType.I64}:
        refuse(f"{name} takes u64 and i64, and got {dtype}", "convert the operands, or for f32 use vyre_driver.ir.functions")


def _is_off(left: Expr | Number, right: Expr | Number) -> Expr:
    """Return whether a quotient of i64 was rounded up: there is a rest, of another sign than the divisor."""
    rest, zero = operation(BinOp.MOD, DataType.I64, left, right), literal(0, DataType.I64)
    return rest.ne(zero).and_(operation(BinOp.BIT_XOR, DataType.I64, rest, right) < zero)


def _negated(dtype: DataType) -> Callable[[Expr], Expr]:
    return lambda operand: operation(BinOp.SUB, dtype, literal(0, dtype), operand)


_OPERAND_COUNTS: dict[type, int] = {UnOp: 1, BinOp: 2, TernaryOp: 3}
_SHIFTS = frozenset({BinOp.SHL, BinOp.SHR})
_MADE: dict[tuple[BinOp | UnOp, DataType], Callable[..., Expr]] = {
    (BinOp.ADD, DataType.U64): partial(Binary, BinOp.WRAPPING_ADD),
    (BinOp.SUB, DataType.U64): partial(Binary, BinOp.WRAPPING_SUB),
    (UnOp.NEGATE, DataType.U64): _negated(DataType.U64),
    (UnOp.NEGATE, DataType.I64): _negated(DataType.I64),
    (UnOp.BIT_NOT, DataType.I64): lambda one: operation(BinOp.BIT_XOR, DataType.I64, one, literal(-1, DataType.I64)),
    (UnOp.ABS, DataType.I64): lambda one: operation(BinOp.MAX, DataType.I64, one, _negated(DataType.I64)(one)),
}
"""What is made of others, since neither the IR nor we have an operator for it."""
