"""The words of the language for the operators of programs."""

from __future__ import annotations

from vyre_driver.ir.operators import BinOp, UnOp

ATOM, PREFIX, NOT, COMPARED = 13, 11, 3, 4
INFIX = {
    BinOp.OR: ("or", 1),
    BinOp.AND: ("and", 2),
    BinOp.EQ: ("==", COMPARED),
    BinOp.NE: ("!=", COMPARED),
    BinOp.LT: ("<", COMPARED),
    BinOp.GT: (">", COMPARED),
    BinOp.LE: ("<=", COMPARED),
    BinOp.GE: (">=", COMPARED),
    BinOp.BIT_OR: ("|", 5),
    BinOp.BIT_XOR: ("^", 6),
    BinOp.BIT_AND: ("&", 7),
    BinOp.SHL: ("<<", 8),
    BinOp.SHR: (">>", 8),
    BinOp.ADD: ("+", 9),
    BinOp.WRAPPING_ADD: ("+", 9),
    BinOp.SUB: ("-", 9),
    BinOp.WRAPPING_SUB: ("-", 9),
    BinOp.MUL: ("*", 10),
}
BINARY_CALLS = {BinOp.MIN: "min", BinOp.MAX: "max", BinOp.ROTATE_LEFT: "rotl", BinOp.ROTATE_RIGHT: "rotr"}
PREFIXES = {UnOp.NEGATE: ("-", PREFIX), UnOp.BIT_NOT: ("~", PREFIX), UnOp.LOGICAL_NOT: ("not ", NOT)}
UNARY_CALLS = {
    **{UnOp[name.upper()]: f"math.{name}" for name in ("cos", "sin", "sqrt", "exp", "log", "log2", "exp2", "tan", "tanh")},
    **{UnOp[name.upper()]: f"math.{name}" for name in ("acos", "asin", "atan", "sinh", "cosh")},
    **{UnOp[name.upper()]: f"np.{name}" for name in ("floor", "ceil", "trunc", "reciprocal")},
    UnOp.INVERSE_SQRT: "rsqrt",
    UnOp.ABS: "abs",
}
COUNTED = {UnOp.POPCOUNT: "popcount", UnOp.CLZ: "clz", UnOp.CTZ: "ctz"}
TESTED = {UnOp.IS_NAN: "math.isnan", UnOp.IS_INF: "math.isinf", UnOp.IS_FINITE: "math.isfinite"}
LIBRARY = {
    "power": "pow",
    "atan2": "math.atan2",
    "hypot": "math.hypot",
    "copysign": "math.copysign",
    "fmod": "math.fmod",
    "remainder": "np.remainder",
    "round_half_even": "np.rint",
    **{name: f"math.{name}" for name in ("log10", "log1p", "expm1", "erf", "asinh", "acosh", "atanh")},
    "cbrt": "np.cbrt",
}
