"""Functions that build the operators which this package adds to the IR (:mod:`vyre_driver.ir.extensions`).

Every function raises InvalidProgram (1006) for what is not valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import literal
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.ir.fields import refuse

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.literal_types import Number


def bitcast(dtype: DataType, value: Expr | Number) -> Expr:
    """Return the bits of a u32, i32 or f32 as another of these types; a number needs a type of its own."""
    name = f"bitcast<{dtype}>"
    if name not in EXTENSIONS:
        refuse(f"there is no bitcast to {dtype}", "give DataType.U32, I32 or F32")
    return extension(name, literal(value, None))
