"""How far from the reference an f32 may be, by what it was computed with, and over which numbers that holds.

What is not named here is exact: sums, differences, products, quotients, roots, min, max, fma, rounding, casts, and the
functions of the library, which are made of these.

Source: spec item 8 (4 and 128 steps); the Vulkan specification, "Precision of GLSL.std.450 instructions": absolute errors of
sine and cosine in [-pi, pi] and of the logarithm near 1, and what tangents, arcs and hyperbolic functions inherit from these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.conformance.case import EXACT, TRANSCENDENTAL, Tolerance
from vyre_driver.ir.arithmetic import Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import UnOp
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from vyre_driver.ir.program import Program

_ANGLES = Tolerance(128, 2.0**-11)
_INHERITED = Tolerance(4096, 2.0**-11)
TOLERANCES: dict[UnOp, Tolerance] = {
    UnOp.SIN: _ANGLES,
    UnOp.COS: _ANGLES,
    UnOp.TAN: _INHERITED,
    UnOp.ACOS: _INHERITED,
    UnOp.ASIN: _INHERITED,
    UnOp.ATAN: _INHERITED,
    UnOp.LOG: Tolerance(128, 2.0**-21),
    UnOp.LOG2: Tolerance(128, 2.0**-21),
    UnOp.EXP: TRANSCENDENTAL,
    UnOp.EXP2: TRANSCENDENTAL,
    UnOp.SINH: Tolerance(128, 2.0**-20),
    UnOp.COSH: TRANSCENDENTAL,
    UnOp.TANH: Tolerance(128, 2.0**-20),
}

# Between which numbers the functions are asked, where their tolerance does not hold everywhere or their value is huge.
RANGES: dict[UnOp, tuple[float, float]] = {
    UnOp.SIN: (-3.0, 3.0),
    UnOp.COS: (-3.0, 3.0),
    UnOp.TAN: (-1.25, 1.25),
    UnOp.ACOS: (-1.0, 1.0),
    UnOp.ASIN: (-1.0, 1.0),
    UnOp.ATAN: (-1e4, 1e4),
    UnOp.LOG: (2.0**-20, 1e30),
    UnOp.LOG2: (2.0**-20, 1e30),
    UnOp.EXP: (-20.0, 20.0),
    UnOp.EXP2: (-20.0, 20.0),
    UnOp.SINH: (-3.0, 3.0),
    UnOp.COSH: (-3.0, 3.0),
    UnOp.TANH: (-8.0, 8.0),
    UnOp.SQRT: (0.25, 1e30),
    UnOp.INVERSE_SQRT: (0.25, 1e30),
    UnOp.RECIPROCAL: (0.25, 1e30),
}


def tolerance_of(program: Program) -> Tolerance:
    """Return the widest tolerance of all that a program computes of f32."""
    found = EXACT
    for term in terms_within(*program.entry):
        if isinstance(term, Unary) and term.dtype == DataType.F32 and term.op in TOLERANCES:
            other = TOLERANCES[term.op]
            found = Tolerance(max(found.ulps, other.ulps), max(found.absolute, other.absolute))
    return found
