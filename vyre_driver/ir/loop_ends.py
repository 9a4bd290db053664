"""Find the loops that end when their condition first fails, and those that count nothing.

A loop whose only statement is an if without else ends when that condition first fails, where it reads no memory but what is
pushed, and not the loop's variable: nothing ran then that could change it, so that it would be false in every later turn. That
is how the language says ``while``, and ``break``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import LITERALS, Binary, Expr, LitU32, OpaqueExpr, Unary, Var
from vyre_driver.ir.dtypes import WIDE_LITERALS
from vyre_driver.ir.expressions import BufLen, Cast, Fma, InvocationId, Load, LocalId, Select, WorkgroupId
from vyre_driver.ir.nodes import If, Loop
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.walks import expressions_within

if TYPE_CHECKING:
    from collections.abc import Collection


_WITHOUT_MEMORY = (*LITERALS, Var, BufLen, InvocationId, WorkgroupId, LocalId, Binary, Unary, Select, Cast, Fma)


def ending_if(loop: Loop, pushed: Collection[str]) -> If | None:
    """Return the if whose condition ends a loop when it first fails; None where each turn runs.

    ``pushed`` names the push buffers, which nothing changes.
    """
    sole = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(sole, If) or sole.otherwise:
        return None
    return sole if is_steady(sole.cond, loop.var, pushed) else None


def is_steady(condition: Expr, variable: str, pushed: Collection[str] = ()) -> bool:
    """Return whether a condition is the same in the next turn of a loop with this variable where the body did not run."""
    return all(_stays(term, variable, pushed) for term in expressions_within(condition))


def is_uncounted(loop: Loop) -> bool:
    """Return whether a loop with such an if counts nothing: from 0 to 2**32 - 1, by literals, and nobody reads its variable.

    It has no last turn then: it runs until the condition fails.
    """
    if loop.start != LitU32(0) or loop.stop != LitU32(U32_MAX):
        return False
    return not any(isinstance(term, Var) and term.name == loop.var for term in terms_within(*loop.body))


def _stays(term: Expr, variable: str, pushed: Collection[str]) -> bool:
    """Return whether a part of a condition is the same in the next turn, if the body did not run in between."""
    if isinstance(term, Var):
        return term.name != variable
    if isinstance(term, Load):
        return term.buffer in pushed
    return isinstance(term, _WITHOUT_MEMORY) or (isinstance(term, OpaqueExpr) and term.kind in WIDE_LITERALS)
