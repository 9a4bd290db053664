"""The operators that this package adds to the IR, and how they stand in a program.

Format 4 has a place for an operator of an extension, and upstream's validator takes one of two operands as it is: its type is
unknown there, and a cast to the type that it has gives that back. So ``bitcast<f32>`` of ``x`` is

    Cast(F32, Binary(OpaqueOp(extension_id("vyre_driver.bitcast<f32>")), x, LitU32(0)))

where the literal 0 stands for the operand that an operator of one does not have. Of three operands the first two stand under an
opaque operator ``vyre_driver.operands`` of their own. Without its cast such an operator is one of an extension that nobody
knows. :func:`extension` makes the form, and :func:`application` recognizes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import Binary, Expr, LitU32
from vyre_driver.ir.dtypes import DataType, extension_id
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.operators import OpaqueOp

if TYPE_CHECKING:
    from collections.abc import Iterator

_U32, _I32, _F32, _F16, _BF16 = DataType.U32, DataType.I32, DataType.F32, DataType.F16, DataType.BF16
_U64, _I64, _F64 = DataType.U64, DataType.I64, DataType.F64


class ExtensionOperator(NamedTuple):
    """An operator: its name, the types that each operand may have, the type of its result, and what it is on the wire.

    The name is what the text of a program shows, and what the number on the wire is made of. ``needs_f64``: it computes with
    f64, which not every device has.
    """

    name: str
    operands: tuple[tuple[DataType, ...], ...]
    result: DataType
    op: OpaqueOp
    needs_f64: bool


def _operator(name: str, operands: tuple[tuple[DataType, ...], ...], result: DataType) -> ExtensionOperator:
    needs_f64 = result == _F64 or any(_F64 in types for types in operands)
    return ExtensionOperator(name, operands, result, OpaqueOp(extension_id(f"vyre_driver.{name}")), needs_f64)


class Application(NamedTuple):
    """An operator with its operands, as it stands in a program."""

    operator: ExtensionOperator
    operands: tuple[Expr, ...]


def _operators() -> Iterator[ExtensionOperator]:
    for types in ((_U32, _I32, _F32), (_U64, _I64, _F64)):
        for target in types:
            yield _operator(f"bitcast<{target}>", (types,), target)._replace(needs_f64=False)  # which only moves it
    for half in (_F16, _BF16):
        yield from (_conversion(half, _F32), _conversion(_F32, half))
        yield _operator(f"unpack_{half}", ((_U32,),), _F32)
        yield _operator(f"pack_{half}", ((_F32,),), _U32)
    for wide in (_U64, _I64):
        names = ("mul", "div", "mod", "bit_and", "bit_or", "bit_xor", "min", "max")
        yield from (_of(name, wide, wide, wide) for name in (("add", "sub", *names) if wide == _I64 else names))
        yield from (_of(name, wide, wide, _U32) for name in ("shl", "shr"))
        yield from (_conversion(wide, _F32), _conversion(_F32, wide))
    yield from (_of(name, _F64, _F64, _F64) for name in ("add", "sub", "mul", "div", "min", "max"))
    yield from (_of(name, _F64, _F64) for name in ("negate", "abs", "sqrt", "floor", "ceil", "trunc"))
    yield _of("fma", _F64, _F64, _F64, _F64)
    for name in ("power", "atan2", "hypot", "copysign", "fmod", "remainder", "floor_divide"):
        yield _operator(name, ((_F32,), (_F32,)), _F32)
    for name in ("round_half_even", "log10", "log1p", "expm1", "exp10", "cbrt", "erf", "asinh", "acosh", "atanh"):
        yield _operator(name, ((_F32,),), _F32)
    for other in (_F32, _U32, _I32, _U64, _I64):
        yield from (_conversion(other, _F64), _conversion(_F64, other))


def _of(name: str, result: DataType, *operands: DataType) -> ExtensionOperator:
    return _operator(f"{name}<{result}>", tuple((one,) for one in operands), result)


def _conversion(source: DataType, target: DataType) -> ExtensionOperator:
    return _operator(f"{source}_to_{target}", ((source,),), target)


EXTENSIONS = {one.name: one for one in _operators()}
"""All of them by name."""

_BY_NUMBER = {one.op.extension_id: one for one in EXTENSIONS.values()}
_NO_OPERAND = LitU32(0)
_TWO_OPERANDS = OpaqueOp(extension_id("vyre_driver.operands"))


def extension(name: str, *operands: Expr) -> Cast:
    """Return an operator on its operands; whether it takes their types, the validator asks.

    Raises InvalidProgram (1006) if there is none of this name, or it takes more or fewer operands.
    """
    operator = EXTENSIONS.get(name)
    if operator is None:
        refuse(f"there is no operator {name!r}", "give a name of vyre_driver.ir.extensions.EXTENSIONS")
    count = len(operator.operands)
    if len(operands) != count:
        refuse(f"{name} takes {count} operand(s), and got {len(operands)}", f"give {count}")
    *others, last = operands
    if not others:
        return Cast(operator.result, Binary(operator.op, last, _NO_OPERAND))
    first = others[0] if len(others) == 1 else Binary(_TWO_OPERANDS, *others)
    return Cast(operator.result, Binary(operator.op, first, last))


def known_operator(op: object) -> ExtensionOperator | None:
    """Return which of ours an operator is, None if it is none."""
    return _BY_NUMBER.get(op.extension_id) if isinstance(op, OpaqueOp) else None


def application(term: Cast) -> Application | None:
    """Return what a cast is the form of, None where it is just a cast."""
    inner = term.value
    operator = known_operator(inner.op) if isinstance(inner, Binary) else None
    if operator is None or not isinstance(inner, Binary) or term.target != operator.result:
        return None
    operands = operands_of(operator, inner)
    return None if operands is None else Application(operator, operands)


def operands_of(operator: ExtensionOperator, term: Binary) -> tuple[Expr, ...] | None:
    """Return the operands of an operator of ours, None where they do not stand as they have to."""
    count = len(operator.operands)
    if count == 2:
        return (term.left, term.right)
    if count == 1:
        return (term.left,) if term.right == _NO_OPERAND else None
    first = term.left
    return (first.left, first.right, term.right) if isinstance(first, Binary) and first.op == _TWO_OPERANDS else None
