"""Floor division of f32, as numpy has it, made of the exact remainder.

Source: numpy's npy_divmod (BSD-3-Clause), whose steps these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.builders import f32, select
from vyre_driver.ir.extensions import extension
from vyre_driver.ir.functions.parts import HALF, ONE, ZERO, choose, floor, is_zero, quotient, sign, with_sign

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr


def _turns(rest: Expr, y: Expr) -> Expr:
    """Return whether there is a rest, of another sign than the divisor."""
    return is_zero(rest).not_().and_(sign(rest).ne(sign(y)))


def remainder(x: Expr, y: Expr) -> Expr:
    """Return the remainder with the sign of the divisor; NaN by 0."""
    rest = extension("fmod", x, y)
    return choose((is_zero(rest), with_sign(ZERO, sign(y))), (_turns(rest, y), rest + y), otherwise=rest)


def floor_divide(x: Expr, y: Expr) -> Expr:
    """Return the quotient rounded down; by 0 the quotient itself."""
    rest = extension("fmod", x, y)
    near = quotient(x - rest, y)
    near = select(_turns(rest, y), near - ONE, near)
    whole = floor(near)
    found = select((near - whole) > HALF, whole + ONE, whole)
    signs = sign(x) ^ sign(y)
    return choose((is_zero(y), x / y), (near.eq(f32(0.0)), with_sign(ZERO, signs)), otherwise=found)
