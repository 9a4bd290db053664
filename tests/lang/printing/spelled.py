"""An expression as text with what its place has to know of it, and literals as such."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from printing.words import ATOM, COMPARED
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import expressions as ex
from vyre_driver.ir.dtypes import WIDE_LITERALS, DataType

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.expressions import Expr

_SIGN = 0x8000_0000


class Spelled(NamedTuple):
    """An expression as text, how tightly its last operator binds, and the type that the language gives it.

    ``bare`` is the text of a literal without its type, which it takes from what it stands beside.
    """

    text: str
    level: int
    type: DataType
    bare: str | None = None

    def at(self, level: int) -> str:
        """Return the text for a place that wants what binds at least so tightly."""
        return self.text if self.level >= level else f"({self.text})"

    def beside(self, other: Spelled, level: int) -> str:
        """Return the text of an operand, whose type may be seen from the other one."""
        return self.bare if self.bare is not None and other.bare is None else self.at(level)

    @property
    def untyped(self) -> str:
        """The text where its type is known."""
        return self.text if self.bare is None else self.bare


def truth(found: Spelled) -> Spelled:
    """Return a number as the condition that it is not zero."""
    if found.type == DataType.Bool:
        return found
    return Spelled(f"{found.at(COMPARED + 1)} != 0", COMPARED, DataType.Bool)


def call(name: str, kind: DataType, *arguments: str) -> Spelled:
    """Return a call of a function that gives this type."""
    return Spelled(f"{name}({', '.join(arguments)})", ATOM, kind)


def literal(expr: Expr) -> Spelled | None:
    """Return a literal as text, None if it is none."""
    match expr:
        case ex.LitU32(value):
            return _whole(value, DataType.U32)
        case ex.LitI32(value):
            return signed(value)
        case ex.LitBool(value):
            return Spelled(f"bool_({value})", ATOM, DataType.Bool, str(value))
        case ex.LitF32():
            return _typed(_float_text(expr.value, _shortest), DataType.F32)
        case ex.OpaqueExpr(kind, payload):
            return _wide(kind, payload)
    return None


def signed(bits: int) -> Spelled:
    """Return the i32 of these bits."""
    return _whole((bits ^ _SIGN) - _SIGN if bits >= 0 else bits, DataType.I32)


def _wide(kind: str, payload: bytes) -> Spelled | None:
    dtype = WIDE_LITERALS.get(kind)
    if dtype is None:
        return None
    if dtype == DataType.F64:
        return _typed(_float_text(struct.unpack("<d", payload)[0], repr), dtype)
    return _whole(int.from_bytes(payload, "little", signed=dtype == DataType.I64), dtype)


def _whole(number: int, dtype: DataType) -> Spelled:
    return _typed(str(number) if number >= 0 else f"({number})", dtype)


def _typed(bare: str, dtype: DataType) -> Spelled:
    """Return a literal with its type, which its text says only where it has to."""
    return Spelled(f"{dtype}({bare.strip('()')})", ATOM, dtype, bare)


def _shortest(value: float) -> str:
    """Return an f32 with as few digits as give it again."""
    short = str(np.float32(value))
    return short if struct.pack("<f", float(short)) == struct.pack("<f", value) else repr(value)


def _float_text(value: float, digits: Callable[[float], str]) -> str:
    if math.isnan(value):
        return "math.nan"
    if math.isinf(value):
        return "math.inf" if value > 0 else "(-math.inf)"
    text = digits(value)
    return f"({text})" if text.startswith("-") else text


def unspeakable(what: str) -> UnsupportedFeature:
    """Return the error of what the language has no word for."""
    return UnsupportedFeature(
        f"kernels written as Python have no word for {what}", fix="look at the program itself: print(program)", feature=what
    )
