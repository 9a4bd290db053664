"""The functions of whole numbers alone that a kernel may call, and what each becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, Unary
from vyre_driver.lang.frontend import wide
from vyre_driver.lang.frontend.conversions import alike, typed
from vyre_driver.lang.frontend.values import Constant, Number
from vyre_driver.lang.types import i32, u32

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.operators import BinOp, UnOp
    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Function = Callable[[Translation, Sequence[Value], ast.Call], Value]
    Division = Callable[[Draft, Number, Number], Number]


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
