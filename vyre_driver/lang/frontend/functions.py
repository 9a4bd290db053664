"""How calls of functions that a kernel may call are translated, but for those that are written in Python.

Functions of numbers are those of the table of builtins, by their kind. The others take more than numbers: casts, ``len``,
``min`` and ``max`` of any number of arguments or of a tuple, choices of which one side may not be translated, ``bitcast``,
memory of the invocation, what subgroups compute, and atomics: operations on an element that other invocations may change at the
same time, each of which gives what was there.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitU32, Unary
from vyre_driver.ir.builders import operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import (
    Atomic,
    Cast,
    Fma,
    Select,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLocalId,
    SubgroupShuffle,
    SubgroupSize,
)
from vyre_driver.ir.functions import round_half_even
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering, TernaryOp, UnOp
from vyre_driver.lang.frontend import integers, intrinsics, wide
from vyre_driver.lang.frontend.arithmetic import binary, choose, condition, power
from vyre_driver.lang.frontend.conversions import alike, bit_cast, bits_as, bits_as_i32, cast, truth, typed
from vyre_driver.lang.frontend.memory import local, place, stored
from vyre_driver.lang.frontend.values import (
    Array,
    Constant,
    Host,
    Number,
    Tuple,
    check_as_tuple,
    is_literal,
    is_signed,
    kind_name,
    literal,
)
from vyre_driver.lang.types import BY_DTYPE, COMPUTED, SCALARS, Kind, ScalarType, bool_, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Function = Callable[[Translation, Sequence[Value], ast.Call], Value]

    Division = Callable[[Draft, Number, Number], Number]

_OF_F64 = frozenset({UnOp.SQRT, UnOp.FLOOR, UnOp.CEIL, UnOp.TRUNC, UnOp.ABS})


def floats_of(t: Translation, given: Sequence[Value], node: ast.Call, *, has_f64: bool = False) -> list[Number]:
    """Return what a function of floats is given: f64 where one of them is and the function is there for it, else f32."""
    wide_types = {one.type for one in given if isinstance(one, Number) and one.type.is_wide}
    refused = next(iter(wide_types - {f64} if has_f64 else wide_types), None)
    if refused is not None:
        name = ast.unparse(node.func)
        fix = f"convert: {name}(f32(...))" + (f" or {name}(f64(...))" if has_f64 else "")
        raise t.mistyped(node, f"{name} of {refused}", fix)
    scalar = f64 if wide_types else f32
    return [t.draft.shallow(cast(t, one, scalar, node)) for one in given]


def of_floats(op: UnOp) -> Function:
    """Return a function of one float."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        (number,) = floats_of(t, given, node, has_f64=op in _OF_F64)
        return wide.of_one(op, number) if number.type is f64 else Number(f32, Unary(op, number.expr))

    return translated


def of_numbers(function: Callable[..., Expr]) -> Function:
    """Return a function of one f32 or more that the IR's library has."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        return Number(f32, function(*(one.expr for one in floats_of(t, given, node))))

    return translated


def rounded(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return an f32 rounded to an i32, of two equally near ones to the even one, as Python's ``round`` does."""
    number = typed(t, given[0], node)
    if number.type.is_whole:
        return number
    floats_of(t, (number,), node)
    return cast(t, Number(f32, round_half_even(t.draft.shallow(cast(t, number, f32, node)).expr)), i32, node)


def predicate(op: UnOp) -> Function:
    """Return a function that tests a float."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        number = t.draft.shallow(typed(t, given[0], node, f32))
        return wide.predicate(op, t.draft.hold(number, "tested") if number.type is f64 else cast(t, number, f32, node))

    return translated


def to_whole(op: UnOp) -> Function:
    """Return a function that rounds an f32 to an i32, and an f64 to an i64, as those of ``math`` do."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        number = typed(t, given[0], node)
        if number.type.is_whole:
            return number
        if number.type is f64:
            return cast(t, wide.of_one(op, t.draft.shallow(number)), i64, node)
        return cast(t, Number(f32, Unary(op, t.draft.shallow(cast(t, number, f32, node)).expr)), i32, node)

    return translated


def absolute(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a number without its sign."""
    if isinstance(given[0], Constant):
        return Constant(abs(given[0].value))
    number = t.draft.shallow(typed(t, given[0], node))
    if number.type is f32:
        return Number(f32, Unary(UnOp.ABS, number.expr))
    if number.type.is_wide:
        return number if number.type is u64 else wide.of_one(UnOp.ABS, t.draft.hold(number, "abs"))
    return integers.magnitude(t.draft, t.draft.facts.refined(cast(t, number, i32, node) if number.type is bool_ else number))


def to_power(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a number to a power."""
    return power(t, given[0], given[1], node)


def fused(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return ``a * b + c``, rounded once."""
    numbers = floats_of(t, given, node, has_f64=True)
    a, b, c = (one.expr for one in numbers)
    return Number(f32, Fma(a, b, c)) if numbers[0].type is f32 else Number(f64, operation(TernaryOp.FMA, DataType.F64, a, b, c))


def counted(op: UnOp) -> Function:
    """Return a function that counts bits."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        number = typed(t, given[0], node)
        if not number.type.is_whole:
            raise t.mistyped(node, f"{op.name.lower()} of {number.type}", "give a whole number")
        if number.type.is_wide:
            return wide.counted(op, t.draft.shallow(number))
        return Number(i32, Unary(op, t.draft.shallow(number).expr), 0, 32)

    return translated


def rotated(op: BinOp) -> Function:
    """Return a function that moves bits round."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        word, by = typed(t, given[0], node, u32), typed(t, given[1], node)
        if not (word.type.is_whole and by.type.is_whole):
            raise t.mistyped(node, f"a rotation of {word.type} by {by.type}", "give a u32 and a whole number")
        if word.type.is_wide:
            return wide.rotated(op, word, by, t.draft)
        by = Number(u32, wide.word(by), *u32.bounds) if by.type.is_wide else by
        return Number(word.type, Binary(op, t.draft.shallow(word).expr, t.draft.shallow(by).expr), *word.type.bounds)

    return translated


def divided(function: Callable[[int, int], int], of_words: Division, of_wide: Division) -> Function:
    """Return a division, which of two constants is what ``function`` gives."""
    name = function.__name__

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        constants = [one.value for one in given if isinstance(one, Constant) and isinstance(one.value, int)]
        if len(constants) == len(given):
            return Constant(function(*constants))
        left, right = (t.draft.facts.refined(one) for one in alike(t, typed(t, given[0], node), given[1], node, name))
        if not left.type.is_whole:
            raise t.mistyped(node, f"{name} is of whole numbers, and these are {left.type}", "use /")
        return (of_wide if left.type.is_wide else of_words)(t.draft, left, right)

    return translated


def checked(t: Translation, types: Sequence[ScalarType], given: Sequence[Value], node: ast.Call) -> Sequence[Value]:
    """Return the arguments of a function of numbers of these types: as f32 where that is all of them, two as one type.

    Raises
    ------
    KernelTypeError
        If one is of another type, or two have none in common.
    """
    if types == (f32,):
        return floats_of(t, given, node)
    name = ast.unparse(node.func)
    for value in given:
        kind = typed(t, value, node).type
        if kind not in types:
            raise t.mistyped(node, f"{name} of {kind}", f"convert: {name}({types[0]}(...))")
    if len(given) == 2 and any(isinstance(value, Number) for value in given):
        left, right = given
        return alike(t, left, right, node, name)
    return given


_NEAR = -(1 << 16)  # how far below 0 a number may be that is moved up by as much to be compared as a word


def extreme(op: BinOp, fold: Callable[[Any, Any], Any]) -> Function:
    """Return what the least or greatest of several numbers, or of one tuple of them, becomes."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        items = list(given)
        if len(given) == 1 and isinstance(given[0], Tuple):
            check_as_tuple(t, given[0], "__iter__", f"the {fold.__name__}", node)
            items = list(given[0].items)
        found = items[0]
        for item in items[1:]:
            if isinstance(found, Constant) and isinstance(item, Constant):
                found = Constant(fold(found.value, item.value))
                continue
            found = _extreme_of_two(t, op, *alike(t, found, item, node, fold.__name__))
        return found

    return translated


def _extreme_of_two(t: Translation, op: BinOp, left: Number, right: Number) -> Number:
    if left.type is bool_:  # the lesser is True where both are, the greater where one is
        one, other = t.draft.shallow(left), t.draft.shallow(right)
        return Number(bool_, Binary(BinOp.AND if op is BinOp.MIN else BinOp.OR, one.expr, other.expr))
    left, right = t.draft.facts.refined(t.draft.shallow(left)), t.draft.facts.refined(t.draft.shallow(right))
    if left.type.is_wide:
        return wide.of_two(op, left, right)
    if not left.type.is_whole:
        return Number(left.type, Binary(op, left.expr, right.expr))
    fold = min if op is BinOp.MIN else max
    low, high = fold(left.low, right.low), fold(left.high, right.high)
    least = min(left.low, right.low)
    if low == high:
        return literal(left.type, low)
    if _NEAR <= least < 0 and (is_literal(left) or is_literal(right)):  # words, all of them moved up by as much
        moved = (integers.add(Number(u32, one.expr, one.low, one.high), literal(u32, -least)).expr for one in (left, right))
        found = Number(i32, Binary(BinOp.ADD, Binary(op, *moved), LitU32(least & U32_MAX)), low, high)
    elif is_signed(left) or is_signed(right):
        chosen = Binary(op, bits_as_i32(left), bits_as_i32(right))
        found = integers.whole(i32, Cast(DataType.U32, chosen), low, high)
    else:
        found = integers.whole(left.type, Binary(op, left.expr, right.expr), low, high)
    for one in (left, right) if op is BinOp.MIN else ():
        t.draft.facts.know_not_above(found, one)
    return found


def numpys(op: BinOp, fold: Callable[[Any, Any], Any]) -> Function:
    """Return what numpy's lesser or greater of two becomes: NaN where one of them is."""
    of_numbers = extreme(op, fold)

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        left, right = given
        if isinstance(left, Constant) and isinstance(right, Constant):
            return left if _is_nan(left) else right if _is_nan(right) else of_numbers(t, given, node)
        one, other = alike(t, left, right, node, fold.__name__)
        if one.type.kind is not Kind.FLOAT:
            return _extreme_of_two(t, op, one, other)
        one, other = t.draft.hold(one, "one"), t.draft.hold(other, "other")
        found = _extreme_of_two(t, op, one, other)
        for value, number in ((right, other), (left, one)):
            if not isinstance(value, Constant) or _is_nan(value):
                found = Number(one.type, Select(wide.predicate(UnOp.IS_NAN, number).expr, number.expr, found.expr))
        return found

    return translated


def _is_nan(constant: Constant) -> bool:
    value = constant.value
    return value != value  # noqa: PLR0124 -- NaN


def clip(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a number that is kept between two others, NaN where one of them is."""
    value, low, high = given
    return numpys(BinOp.MIN, min)(t, [numpys(BinOp.MAX, max)(t, [value, low], node), high], node)


ATOMICS: dict[object, AtomicOp] = {
    intrinsics.atomic_load: AtomicOp.OR,
    intrinsics.atomic_add: AtomicOp.ADD,
    intrinsics.atomic_min: AtomicOp.MIN,
    intrinsics.atomic_max: AtomicOp.MAX,
    intrinsics.atomic_and: AtomicOp.AND,
    intrinsics.atomic_or: AtomicOp.OR,
    intrinsics.atomic_xor: AtomicOp.XOR,
    intrinsics.atomic_exchange: AtomicOp.EXCHANGE,
    intrinsics.atomic_cas: AtomicOp.COMPARE_EXCHANGE,
}
_WITHOUT_VALUE, _WITH_EXPECTED = 2, 4
_ELEMENTS = frozenset({u32, i32, f32})
_OF_BITS = frozenset({AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR})


def atomic(t: Translation, function: object, given: Sequence[Value], node: ast.Call) -> Value:
    """Return what was there before an operation on an element: ``atomic_add(array, index, value)`` and its like."""
    array = _array_of_atomic(t, function, given, node)
    op = ATOMICS[function]
    t.count_apart(array)
    at = place(t, array, given[1], node.args[1])
    values = [_as_bits(stored(t, array, one, argument)) for one, argument in zip(given[2:], node.args[2:], strict=True)]
    if not values and array.element is f32:  # which has no OR: nothing is put in the place of nothing
        op, values = AtomicOp.COMPARE_EXCHANGE, [LitU32(0), LitU32(0)]
    value = values[-1] if values else LitU32(0)
    expected = values[0] if op is AtomicOp.COMPARE_EXCHANGE else None
    made = Atomic(op, MemoryOrdering.RELAXED, array.buffer, at, expected, value)
    t.accessed(made, array, node)
    found = t.draft.let("before", Number(u32, made, *u32.bounds))
    if array.element is f32:
        return Number(f32, bit_cast(found.expr, "f32"))
    return Number(array.element, found.expr, *array.element.bounds)


def _as_bits(number: Number) -> Expr:
    return bit_cast(number.expr, "u32") if number.type is f32 else number.expr


def _array_of_atomic(t: Translation, function: object, given: Sequence[Value], node: ast.Call) -> Array:
    """Return the array of an atomic, which was given what it takes and has elements that it changes."""
    name = getattr(function, "__name__", "an atomic")
    array = given[0] if given else None
    if not isinstance(array, Array):
        what = kind_name(array) if array is not None else "nothing"
        raise t.mistyped(node, f"{name} works on an element of an array, and got {what}", f"write {name}(counts, k, 1)")
    wanted = _WITHOUT_VALUE if function is intrinsics.atomic_load else 3 + (function is intrinsics.atomic_cas)
    if len(given) != wanted:
        more = ", expected, value" if wanted == _WITH_EXPECTED else ", value" if wanted > _WITHOUT_VALUE else ""
        raise t.mistyped(
            node, f"{name} takes {wanted} arguments, and got {len(given)}", f"write {name}({array.name}, index{more})"
        )
    if array.is_local:
        raise t.mistyped(
            node,
            f"{array.name!r} is an array of the invocation's own, which no other one changes",
            f"load and store it: {array.name}[k] += 1",
        )
    if not (array.access.reads and array.access.writes):
        raise t.mistyped(
            node,
            f"{array.name!r} is {array.access.value}, and an atomic reads and writes",
            f"declare it InOut[{array.element}]",
        )
    if array.element not in _ELEMENTS or (array.element is f32 and ATOMICS[function] in _OF_BITS and wanted > _WITHOUT_VALUE):
        takes = "u32 and i32" if array.element is f32 else "u32, i32 and f32"
        who = name if array.element is f32 else "atomics"
        raise t.mistyped(
            node,
            f"{array.name!r} holds {array.element}, and {who} work{'s' * (who == name)} on {takes}",
            f"use an array of {'u32' if array.element.is_whole or array.element is f32 else 'f32'}, or reduce in shared memory",
        )
    return array


def subgroup_sum(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return the sum over a subgroup."""
    number = typed(t, given[0], node)
    number = cast(t, number, i32, node) if number.type is bool_ else number
    if number.type in {i64, f64}:
        raise t.mistyped(node, f"subgroup_sum of {number.type}", f"convert: {'u64' if number.type is i64 else 'f32'}(...)")
    return t.draft.let("sum", Number(number.type, SubgroupAdd(number.expr), *number.type.bounds))


def shuffle(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return the value of another invocation of the subgroup."""
    number, at = typed(t, given[0], node), typed(t, given[1], node)
    if not at.type.is_whole:
        raise t.mistyped(node, f"the lane of a shuffle is {at.type}", "convert: i32(...)")
    if at.type.is_wide:
        at = wide.as_index(t.draft.hold(at, "at"))
    low, high = min(number.low, 0), max(number.high, 0)
    return t.draft.let("shuffled", Number(number.type, SubgroupShuffle(number.expr, at.expr), low, high))


def shuffle_xor(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return the value of the invocation whose place differs in these bits."""
    at = binary(t, "^", lane(t, (), node), typed(t, given[1], node), node)
    return shuffle(t, (given[0], at), node)


def ballot(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a bit for each invocation of the subgroup for which a condition holds."""
    test = truth(typed(t, given[0], node))
    return t.draft.let("ballot", Number(u32, SubgroupBallot(test.expr), *u32.bounds))


def lane(_: Translation, __: Sequence[Value], ___: ast.Call) -> Value:
    """Return the place in the subgroup."""
    return Number(i32, SubgroupLocalId(), 0, 127)


def subgroup_size(_: Translation, __: Sequence[Value], ___: ast.Call) -> Value:
    """Return how many invocations a subgroup has."""
    return Number(i32, SubgroupSize(), 1, 128)


def _selected(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    test = condition(t, given[0], node)
    if isinstance(test, Constant):
        return given[1] if test.value else given[2]
    return choose(t, test, given[1], given[2], node)


def _length_of(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    (one,) = given
    if isinstance(one, Tuple):
        check_as_tuple(t, one, "__len__", "the length", node)
        return Constant(len(one.items))
    if not isinstance(one, Array):
        raise t.mistyped(node, f"{kind_name(one)} has no length", "take that of an array")
    return t.axis(one, 0)


def _bits_as(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    target, value = given[0].value if isinstance(given[0], Host) else None, given[1]
    if not isinstance(target, ScalarType) or target not in COMPUTED or target is bool_:
        raise t.mistyped(node, f"bitcast gives a number, and got {kind_name(given[0])}", "write bitcast(u32, x)")
    return bits_as(t, value, target, node)


def _cast_to(name: str) -> Function:
    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        return cast(t, given[0] if given else Constant(0), SCALARS[name], node)

    return translated


def _number_of(kind: type, name: str) -> Function:
    """Return one of Python's own types: of 32 bits, and of 64 for a number that has them."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        (one,) = given
        if isinstance(one, Constant) and not (kind is int and isinstance(one.value, float) and not math.isfinite(one.value)):
            return Constant(kind(one.value))
        if kind is bool:
            return truth(typed(t, one, node))
        scalar = SCALARS[name]
        if isinstance(one, Number) and one.type.is_wide:
            scalar = u64 if one.type is u64 and kind is int else SCALARS[f"{name[0]}64"]
        return cast(t, one, scalar, node)

    return translated


_MANY = 64
FORMS: dict[object, tuple[int, int, Function]] = {
    min: (1, _MANY, extreme(BinOp.MIN, min)),
    max: (1, _MANY, extreme(BinOp.MAX, max)),
    np.where: (3, 3, _selected),
    len: (1, 1, _length_of),
    int: (1, 1, _number_of(int, "i32")),
    float: (1, 1, _number_of(float, "f32")),
    bool: (1, 1, _number_of(bool, "bool")),
    **{scalar: (0, 1, _cast_to(name)) for name, scalar in SCALARS.items()},
    **{dtype.type: (0, 1, _cast_to(scalar.name)) for dtype, scalar in BY_DTYPE.items()},
    intrinsics.bitcast: (2, 2, _bits_as),
    intrinsics.select: (3, 3, _selected),
    intrinsics.local: (2, _MANY, local),
    intrinsics.lane: (0, 0, lane),
    intrinsics.subgroup_size: (0, 0, subgroup_size),
    intrinsics.subgroup_sum: (1, 1, subgroup_sum),
    intrinsics.shuffle: (2, 2, shuffle),
    intrinsics.shuffle_xor: (2, 2, shuffle_xor),
    intrinsics.ballot: (1, 1, ballot),
}
"""How many arguments each takes at least and at most, and how it is translated."""
