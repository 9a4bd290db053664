"""Functions that build the operators which this package adds to the IR (:mod:`vyre_driver.ir.extensions`).

Every function raises InvalidProgram (1006) for what is not valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import literal
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.validation.operator_types import is_castable

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.literal_types import Number


def bitcast(dtype: DataType, value: Expr | Number) -> Expr:
    """Return the bits of a u32, i32 or f32 as another of these types; a number needs a type of its own."""
    name = f"bitcast<{dtype}>"
    if name not in EXTENSIONS:
        refuse(f"there is no bitcast to {dtype}", "give DataType.U32, I32 or F32")
    return extension(name, literal(value, None))


def convert(dtype: DataType, value: Expr | Number) -> Expr:
    """Return a value as the number of another type that is nearest to it.

    That is a cast where the IR has one, and an operator of ours where it has none. The type of the value has to be known
    (``load(declaration, i)``, ``var("x", dtype)``).
    """
    given = literal(value, None)
    source = given.dtype
    if source is None:
        refuse("the type of what is converted is not known here", "say it: var(name, dtype), load(declaration, index)")
    name = f"{source}_to_{dtype}"
    if name in EXTENSIONS:
        return extension(name, given)
    if not is_castable(source, dtype):
        refuse(f"there is no conversion from {source} to {dtype}", "convert it by way of another type, such as f32")
    return given if source == dtype else Cast(dtype, given)


def unpack_f16(word: Expr | Number) -> Expr:
    """Return the lower 16 bits of a u32, an f16, as f32."""
    return extension("unpack_f16", literal(word, DataType.U32))


def pack_f16(value: Expr | Number) -> Expr:
    """Return the bits of the f16 nearest to an f32 as a u32: ties to even, subnormals kept, NaN as 7E00 hex."""
    return extension("pack_f16", literal(value, DataType.F32))


def unpack_bf16(word: Expr | Number) -> Expr:
    """Return the lower 16 bits of a u32, a bf16, as f32."""
    return extension("unpack_bf16", literal(word, DataType.U32))


def pack_bf16(value: Expr | Number) -> Expr:
    """Return the bits of the bf16 nearest to an f32 as a u32: ties to even, subnormals kept, NaN as 7FC0 hex."""
    return extension("pack_bf16", literal(value, DataType.F32))
