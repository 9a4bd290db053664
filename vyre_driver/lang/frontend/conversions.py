"""Values as numbers of a type: constants that take the type of what they meet, casts, two operands made alike, annotations.

Variables, fields of records and functions that kernels call may be annotated with types of the language. A value is converted
as by a store: where the type holds it, and else it is refused. Other annotations, those of Python's own types too, say nothing.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
import types
import typing
from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import Binary, LitI32, LitU32
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.extensions import application, extension
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.values import Array, Constant, Number, Tuple, computed_type, kind_name, literal, shown, zero
from vyre_driver.lang.source.scan import variadic_names
from vyre_driver.lang.types import COMPUTED, Kind, ScalarType, bool_, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_SIGN = 0x8000_0000
_BEYOND_F32 = 2.0**128 - 2.0**103  # what is not below it becomes infinite


def typed(t: Translation, value: Value, node: ast.AST, like: ScalarType | None = None) -> Number:
    """Return a number of a type of the device; a constant is of the type ``like``, else i32, f32 or bool."""
    if isinstance(value, Number):
        return value
    if not isinstance(value, Constant):
        fix = "use a number"
        if isinstance(value, Array):
            fix = f"use an element of it: {value.name}[...]"
        raise t.mistyped(node, f"a number is wanted here, and this is {kind_name(value)}", fix)
    if like is not None:
        return constant_as(t, value, like, node)
    if isinstance(value.value, bool):
        return literal(bool_, value.value)
    return constant_as(t, value, i32 if isinstance(value.value, int) else f32, node, is_alone=True)


def constant_as(  # noqa: PLR0913 -- a constant, its type, and where it stands
    t: Translation,
    constant: Constant,
    scalar: ScalarType,
    node: ast.AST,
    beside: Number | None = None,
    *,
    is_alone: bool = False,
) -> Number:
    """Return a constant as a type, without a cast: only what is exact, or a float.

    For the fix of a refusal: it stands ``beside`` a number, or ``is_alone``, so that it may have another type; else it may not.
    """
    value = constant.value
    if scalar is bool_:
        if not isinstance(value, bool):
            raise t.mistyped(node, f"{value!r} stands where a bool is wanted", f"write {bool(value)}")
        return literal(bool_, value)
    if scalar.kind is Kind.FLOAT:
        return literal(scalar, _as_float(t, value, scalar, node))
    if isinstance(value, float):
        raise t.mistyped(
            node,
            f"the float {value!r} stands beside {scalar}",
            f"convert the other side with {'f64' if scalar.is_wide else 'f32'}(...), or write {_whole(value)}",
        )
    low, high = scalar.bounds
    if not low <= int(value) <= high:
        what = f"{shown(value)} does not fit {scalar}, which goes from {low} to {high}"
        larger = [kind for kind in (u32, i64, u64) if (beside or is_alone) and high < int(value) <= kind.bounds[1]]
        raise t.mistyped(node, what, _fix_for_whole(int(value), larger, beside))
    return literal(scalar, int(value))


def _fix_for_whole(value: int, larger: list[ScalarType], beside: Number | None) -> str:
    """Return what to do about a whole constant that ``larger`` types hold: write one that may stand beside the number."""
    meeting = [f"write {kind}({value})" for kind in larger if beside is None or keeps(beside, kind)][:1]
    if beside is not None and larger and not keeps(beside, larger[0]):
        meeting.append(f"convert the other side with {larger[0]}(...)")
    return ", or ".join(meeting) or "use a number in that range"


def _whole(value: float) -> str:
    return str(int(value)) if math.isfinite(value) else "a whole number"


def _as_float(t: Translation, value: float, scalar: ScalarType, node: ast.AST) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    beyond, greatest = (math.inf, "1.7976931348623157e+308") if scalar is f64 else (_BEYOND_F32, "3.4028235e+38")
    if (isinstance(value, int) or math.isfinite(value)) and abs(found) >= beyond:
        raise t.mistyped(
            node,
            f"{shown(value)} does not fit {'f64' if scalar is f64 else 'f32'}, whose greatest number is {greatest}",
            "use a number in its range",
        )
    return found


def bits_as_i32(number: Number) -> Expr:
    """Return an i32 as the program's own type for it, which compares with signs."""
    if isinstance(number.expr, LitU32):
        return LitI32((number.expr.value ^ _SIGN) - _SIGN)
    return Cast(DataType.I32, number.expr)


def by_value(number: Number) -> Expr:
    """Return a number as an expression that casts by its value."""
    return bits_as_i32(number) if number.type is i32 and not number.is_natural else number.expr


def cast(t: Translation, value: Value, scalar: ScalarType, node: ast.AST) -> Number:
    """Return a value as another type, as numpy's ``astype`` does; a float out of range gives the nearest whole number."""
    if isinstance(value, Constant):
        return _cast_constant(t, value.value, scalar, node)
    number = typed(t, value, node)
    if number.type is scalar:
        return number
    if scalar not in COMPUTED:
        if not scalar.is_whole:
            return _rounded(cast(t, number, f32, node), scalar)
        return _narrowed(cast(t, number, i32, node), scalar)
    if scalar is bool_:
        return truth(number)
    if scalar.kind is Kind.FLOAT:
        return _as_float_type(number, scalar)
    if number.type.kind is Kind.FLOAT:
        return _cut(number, scalar)
    if number.type is bool_:
        return Number(scalar, Cast(scalar.element if scalar.is_wide else DataType.U32, number.expr), 0, 1)
    low, high = scalar.bounds
    if isinstance(number.expr, LitU32):
        given = number.expr.value if number.type is u32 else (number.expr.value ^ _SIGN) - _SIGN
        return literal(scalar, (given - low) % (high - low + 1) + low)
    fits = low <= number.low and number.high <= high
    return Number(scalar, _resized(number, scalar), *((number.low, number.high) if fits else (low, high)))


def _as_float_type(number: Number, scalar: ScalarType) -> Number:
    """Return a number as f32 or f64."""
    source = number.type
    if not source.is_wide and not scalar.is_wide:
        return Number(scalar, Cast(DataType.F32, by_value(number)))
    if source is bool_:
        number, source = Number(u32, Cast(DataType.U32, number.expr), 0, 1), u32
    by = u32 if source is i32 and number.is_natural else source
    return Number(scalar, extension(f"{by}_to_{scalar}", by_value(number)))


def _cut(number: Number, scalar: ScalarType) -> Number:
    """Return a float as the nearest whole number towards zero."""
    if number.type is f32 and not scalar.is_wide:
        whole: Expr = Cast(scalar.element, number.expr)
    else:
        whole = extension(f"{number.type}_to_{scalar}", number.expr)
    return Number(scalar, Cast(DataType.U32, whole) if scalar is i32 else whole, *scalar.bounds)


def _resized(number: Number, scalar: ScalarType) -> Expr:
    """Return the low bits of a whole number as another type, extended by its sign."""
    if not number.type.is_wide and not scalar.is_wide:
        return number.expr
    return Cast(scalar.element, by_value(number)) if scalar.is_wide else Cast(DataType.U32, number.expr)


def _rounded(number: Number, scalar: ScalarType) -> Number:
    """Return an f32 rounded to a narrower float."""
    return Number(f32, from_memory(scalar, to_memory(scalar, number.expr)))


def from_memory(scalar: ScalarType, expr: Expr) -> Expr:
    """Return a float of 16 bits as an f32."""
    return extension(f"{scalar}_to_f32", expr)


def to_memory(scalar: ScalarType, expr: Expr) -> Expr:
    """Return an f32 as a float of 16 bits: the nearest, of two equally near ones the even one."""
    return extension(f"f32_to_{scalar}", expr)


def bits_as(t: Translation, value: Value, scalar: ScalarType, node: ast.AST) -> Number:
    """Return the bits of a number as another type of as many."""
    number = typed(t, value, node, _type_of_bits(value, scalar) if isinstance(value, Constant) else None)
    if number.type is bool_ or number.type.bits != scalar.bits:
        raise t.mistyped(
            node,
            f"bitcast of {number.type}, which has {number.type.bits} bit{'s' * (number.type.bits > 1)}, to {scalar}",
            f"give a number of {scalar.bits} bits",
        )
    if number.type is scalar:
        return number
    if not number.type.is_whole or not scalar.is_whole:
        expr = bit_cast(number.expr, "u32" if scalar is i32 else str(scalar))
        return Number(scalar, expr, *(scalar.bounds if scalar.is_whole else (0, 0)))
    return cast(t, number, scalar, node)


def bit_cast(expr: Expr, target: str) -> Expr:
    """Return the bits of an expression as another type: those of a type and back are what they were."""
    made = extension(f"bitcast<{target}>", expr)
    before = application(expr) if isinstance(expr, Cast) else None
    if before is not None and before.operator.name.startswith("bitcast") and before.operands[0].dtype == made.dtype:
        return before.operands[0]
    return made


def _type_of_bits(constant: Constant, scalar: ScalarType) -> ScalarType:
    """Return the type of a constant whose bits are taken: of as many bits as the target."""
    if isinstance(constant.value, float):
        return f64 if scalar.is_wide else f32
    signed, unsigned = (i64, u64) if scalar.is_wide else (i32, u32)
    return signed if constant.value < 0 else unsigned


def _cast_constant(t: Translation, value: float, scalar: ScalarType, node: ast.AST) -> Number:
    target = scalar if scalar in COMPUTED else i32
    if scalar is bool_:
        return literal(bool_, bool(value))
    if scalar.kind is Kind.FLOAT:
        number = literal(f64 if scalar is f64 else f32, _as_float(t, value, scalar, node))
        return number if scalar in COMPUTED else _rounded(number, scalar)
    if isinstance(value, float) and not math.isfinite(value):
        raise t.mistyped(node, f"{value!r} is no whole number", "test for it before")
    low, high = scalar.bounds
    if not low <= int(value) <= high:
        raise t.mistyped(
            node, f"{shown(value)} does not fit {scalar}, which goes from {low} to {high}", "use a number in that range"
        )
    return literal(target, int(value))


def _narrowed(number: Number, scalar: ScalarType) -> Number:
    """Return a whole number as one that a narrower type holds: its lowest bits, with the sign that they give."""
    low, high = scalar.bounds
    if low <= number.low and number.high <= high:
        return number
    mask = LitU32((1 << scalar.bits) - 1)
    part = Binary(BinOp.BIT_AND, number.expr, mask)
    if scalar.kind is Kind.UNSIGNED:
        return Number(i32, part, low, high)
    sign = LitU32(1 << scalar.bits - 1)
    turned = Binary(BinOp.BIT_XOR, part, sign)
    return Number(i32, Binary(BinOp.SUB, turned, sign), low, high)


def truth(number: Number) -> Number:
    """Return whether a number is not zero."""
    if number.type is bool_:
        return number
    return Number(bool_, Binary(BinOp.NE, number.expr, zero(number.type)))


def alike(t: Translation, left: Value, right: Value, node: ast.AST, sign: str) -> tuple[Number, Number]:
    """Return two operands as numbers of one type; ``sign`` is the operator, for a message.

    A constant takes the other's type, and a bool becomes a number. Beside an f32 a whole number of 32 bits becomes one, and
    beside 64 bits what these hold without loss. An i32 beside a u32 is refused unless it is certainly not negative.
    """
    if isinstance(left, Constant) and not isinstance(right, Constant):
        other = typed(t, right, node)
        return alike(t, _beside(t, left, other, node), other, node, sign)
    if isinstance(right, Constant):
        one = typed(t, left, node)
        return alike(t, one, _beside(t, right, one, node), node, sign)
    one, other = typed(t, left, node), typed(t, right, node)
    kinds = {one.type, other.type}
    if len(kinds) == 1:
        return one, other
    if bool_ in kinds:
        scalar = other.type if one.type is bool_ else one.type
        return cast(t, one, scalar, node), cast(t, other, scalar, node)
    scalar = next((one for one in _WIDEST_FIRST if one in kinds), u32)
    if not all(keeps(number, scalar) for number in (one, other)):
        raise t.mistyped(node, f"{sign!r} between {one.type} and {other.type}", _how_to_meet(one.type, other.type))
    return cast(t, one, scalar, node), cast(t, other, scalar, node)


_WIDEST_FIRST = (f64, f32, u64, i64)


def keeps(number: Number, scalar: ScalarType) -> bool:
    """Whether a number becomes a type without being asked to: where that holds its value, and a whole one of 32 bits as f32."""
    source = number.type
    if source is scalar:
        return True
    if source is bool_ or scalar is bool_:
        return False
    if scalar.kind is Kind.FLOAT:
        return not source.is_wide
    low, high = scalar.bounds
    return source.is_whole and source.bits <= scalar.bits and low <= number.low and number.high <= high


def _how_to_meet(one: ScalarType, other: ScalarType) -> str:
    """Return what to do about two types that do not stand beside each other."""
    if one.is_whole and other.is_whole:
        wide = one.is_wide or other.is_wide
        unsigned, signed = ("u64", "i64") if wide else ("u32", "i32")
        return f"convert one side: {unsigned}(...) keeps the bits of a negative number, {signed}(...) those of a large one"
    return "convert one side: f64(...) rounds above 2**53, f32(...) above 2**24"


def _beside(t: Translation, constant: Constant, other: Number, node: ast.AST) -> Number:
    """Return a constant as it counts beside a number: a float beside a whole number of 32 bits makes an f32 of both."""
    if other.type is bool_ and not isinstance(constant.value, bool):
        return typed(t, constant, node)
    if isinstance(constant.value, float) and other.type.is_whole and not other.type.is_wide:
        return constant_as(t, constant, f32, node)
    return constant_as(t, constant, other.type, node, other)


_CONVERT = "convert: {0}(...), or leave the annotation out"


def own_annotations(t: Translation, function: types.FunctionType) -> dict[str, Any]:
    """Return the annotations of a function's own parameters and result that are types of the language, or tuples of them.

    A wrapper has those of what it wraps from ``functools.wraps``, which say nothing of its own parameters.
    """
    found = function.__annotations__
    wrapped = vars(function).get("__wrapped__")
    if not found or found == getattr(wrapped, "__annotations__", None):
        return {}
    stated = {name: _stated(t, function, one) for name, one in found.items()}
    return {name: one for name, one in stated.items() if one is not None}


def _stated(t: Translation, function: types.FunctionType, annotation: object) -> ScalarType | types.GenericAlias | None:
    """Return the type of the language that an annotation states, or a tuple with such types; None if it states neither.

    Types of memory, as u8 and f16, stand for what variables hold of them. ``Optional`` and ``T | None`` state T of what is not
    None, ``Annotated`` and ``Final`` what they begin with.
    """
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        annotation = _looked_up(t, function, annotation)
    if isinstance(annotation, ScalarType):
        return annotation
    kind, items = typing.get_origin(annotation), typing.get_args(annotation)
    if kind in {typing.Annotated, typing.Final}:
        return _stated(t, function, items[0])
    if kind in {typing.Union, types.UnionType}:
        stated = [_stated(t, function, one) for one in items if one is not type(None)]
        return stated[0] if len(stated) == 1 else None
    if kind is tuple:
        parts = tuple(one if one is ... else _stated(t, function, one) for one in items)
        return None if set(parts) <= {None, ...} else types.GenericAlias(tuple, parts)
    return None


def _looked_up(t: Translation, function: types.FunctionType, text: str) -> object:
    """Return what an annotation that is text stands for, None if that is not known."""
    try:
        return _meant(t, function, ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _meant(t: Translation, function: types.FunctionType, node: ast.expr) -> Any:  # noqa: ANN401 -- whatever names stand for
    """Return what an expression of an annotation stands for, None of those that are not known."""
    try:
        match node:
            case ast.Name(name):
                return t.captured.look_up(function, name)
            case ast.Constant(value):
                return _looked_up(t, function, value) if isinstance(value, str) else value
            case ast.Attribute(ast.Name(owner), name):
                module = t.captured.look_up(function, owner)
                return t.captured.attribute(vars(module), name) if isinstance(module, types.ModuleType) else None
            case ast.Tuple(items):
                return tuple(_meant(t, function, one) for one in items)
            case ast.Subscript(owner, item):
                return _meant(t, function, owner)[_meant(t, function, item)]
            case ast.BinOp(left, ast.BitOr(), right):
                return typing.Union[_meant(t, function, left), _meant(t, function, right)]  # noqa: UP007 -- made of values
    except (KeyError, TypeError):
        pass
    return None


def given_as(t: Translation, function: types.FunctionType, given: dict[str, Value], node: ast.expr) -> dict[str, Value]:
    """Return the arguments of a call with the types of the function's annotations; raises KernelTypeError."""
    annotations = own_annotations(t, function)
    found: dict[str, Value] = {}
    for name, value in given.items():
        said = annotations.get(name)
        what = f"{function.__name__!r} takes {name}: {said}, and is given"
        if isinstance(value, Tuple) and name in variadic_names(function):  # each of which is what is said
            found[name] = value.of(annotated_as(t, item, said, what, node) for item in value.items)
        else:
            found[name] = annotated_as(t, value, said, what, node)
    return found


def returned_as(t: Translation, function: types.FunctionType, value: Value, node: ast.AST) -> Value:
    """Return the result of a call with the type of the function's annotation; raises KernelTypeError."""
    said = own_annotations(t, function).get("return")
    return annotated_as(t, value, said, f"{function.__name__!r} is annotated to return {said}, and returns", node)


def fields_as(t: Translation, record: Tuple, node: ast.AST) -> Tuple:
    """Return a record whose fields have the types of their annotations; raises KernelTypeError."""
    kind: type = record.made_by  # type: ignore[assignment] # a class
    annotations = [(base, inspect.get_annotations(base)) for base in kind.__mro__]
    items: list[Value] = []
    for name, value in zip(record.fields, record.items, strict=True):
        owner, annotation = next(((base, own[name]) for base, own in annotations if name in own), (kind, None))
        said = _stated(t, _in_module_of(owner), annotation)
        items.append(annotated_as(t, value, said, f"{kind.__name__}.{name} is annotated {said}, and is given", node))
    return record.of(items)


def _in_module_of(kind: type) -> types.FunctionType:
    """Return a function whose names are those of the module of a class."""
    module = sys.modules.get(kind.__module__)
    return types.FunctionType((lambda: None).__code__, {} if module is None else vars(module))


def annotated_as(t: Translation, value: Value, said: object, what: str, node: ast.AST) -> Value:
    """Return a value as the type that its annotation states, if it states one; ``what`` begins the sentence of a refusal.

    Constants are checked, and stay what they are: they take the type of what they stand beside.
    """
    if isinstance(said, types.GenericAlias):
        return _items_converted(t, value, said, what, node)
    if not isinstance(said, ScalarType) or not isinstance(value, (Number, Constant, Tuple)):
        return value
    held = computed_type(said)
    if isinstance(value, Tuple):
        raise t.mistyped(node, f"{what} {kind_name(value)}", "change the annotation, or leave it out")
    if isinstance(value, Constant):
        if said.is_whole and isinstance(value.value, float):
            raise t.mistyped(node, f"{what} {value.value!r}", _CONVERT.format(said))
        (cast if held.is_whole else constant_as)(t, value, held, node)  # which refuse what does not fit
        return value
    if value.type is held:
        return value
    if value.type is bool_ or keeps(value, held):
        return cast(t, value, held, node)
    raise t.mistyped(node, f"{what} {value.type}", _CONVERT.format(said))


def _items_converted(t: Translation, value: Value, said: types.GenericAlias, what: str, node: ast.AST) -> Value:
    """Return a tuple with items of the types that are said of them."""
    if not isinstance(value, (Number, Constant, Tuple)):
        return value
    items, kinds = value.items if isinstance(value, Tuple) else (), said.__args__
    if kinds[1:] == (...,) and isinstance(value, Tuple):
        kinds = kinds[:1] * len(items)
    if not isinstance(value, Tuple) or len(items) != len(kinds):
        raise t.mistyped(node, f"{what} {kind_name(value)}", "change the annotation, or leave it out")
    return value.of(annotated_as(t, item, kind, what, node) for item, kind in zip(items, kinds, strict=True))
