"""The bodies of functions: each an expression of its parameters, with its parts in the order in which they are evaluated."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import Var
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.extensions import EXTENSIONS, application
from vyre_driver.ir.functions import angles, exponentials, logarithms, powers, quotients
from vyre_driver.ir.walks import OPERANDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.terms import Term

_BODIES: dict[str, Callable[..., Expr]] = {
    "power": powers.power,
    "atan2": angles.atan2,
    "hypot": angles.hypot,
    "copysign": angles.copysign,
    "remainder": quotients.remainder,
    "floor_divide": quotients.floor_divide,
    "cbrt": angles.cbrt,
    "log10": logarithms.log10,
    "log1p": logarithms.log1p,
    "asinh": logarithms.asinh,
    "acosh": logarithms.acosh,
    "atanh": logarithms.atanh,
    "expm1": exponentials.expm1,
    "exp10": exponentials.exp10,
    "erf": exponentials.erf,
}


class Body(NamedTuple):
    """What a function is of its parameters; ``parts`` hold each part once, after all that it is made of, itself last."""

    parameters: tuple[Var, ...]
    parts: tuple[Expr, ...]


@cache
def body_of(name: str) -> Body | None:
    """Return the body of an operator of ours, None where it has none."""
    if name not in _BODIES:
        return None
    parameters = tuple(Var(f"operand {place}", DataType.F32) for place in range(len(EXTENSIONS[name].operands)))
    return Body(parameters, _ordered(_BODIES[name](*parameters), parameters))


def _ordered(root: Expr, parameters: tuple[Var, ...]) -> tuple[Expr, ...]:
    done = {id(one) for one in parameters}
    order: list[Expr] = []
    waiting: list[Expr] = [root]
    while waiting:
        term = waiting[-1]
        missing = [] if id(term) in done else [one for one in _inside(term) if id(one) not in done]
        waiting.extend(missing)
        if not missing:
            waiting.pop()
            if id(term) not in done:
                done.add(id(term))
                order.append(term)
    return tuple(order)


def _inside(term: Expr) -> tuple[Expr, ...]:
    found = application(term) if isinstance(term, Cast) else None
    if found is not None:
        return found.operands
    operands: Callable[[Term], tuple[Expr, ...]] | None = OPERANDS.get(type(term))
    return () if operands is None else operands(term)
