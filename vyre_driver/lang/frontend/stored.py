"""Numbers of a call that come in a buffer, for a device that does not push as many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, LitU32, Var
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.builders import operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast, Load
from vyre_driver.ir.extensions import extension
from vyre_driver.ir.nodes import Let
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.draft import Plain
from vyre_driver.lang.frontend.values import variable
from vyre_driver.lang.types import Kind, bool_, i64

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Number
    from vyre_driver.lang.types import ScalarType


class StoredNumbers:
    """The buffer of one program's numbers: words one after the other, two of what is wide, the lower one first."""

    def __init__(self, t: Translation) -> None:
        """Hold nothing yet."""
        self._t = t
        self._name = ""
        self._words = 0

    def add(self, name: str, scalar: ScalarType) -> Number:
        """Return a parameter that is a number, which is behind those before it."""
        draft = self._t.draft
        self._name = self._name or draft.fresh("numbers")
        held = variable(draft.fresh(name), scalar, scalar.bounds if scalar.is_whole else (0, 0))
        assert isinstance(held.expr, Var)  # noqa: S101 -- ``variable`` makes one
        self._t.prologue.append(Plain(Let(held.expr.name, self._loaded(scalar)), None))
        return held

    def _loaded(self, scalar: ScalarType) -> Expr:
        bits = self._word()
        if scalar.is_wide:
            upper = operation(BinOp.SHL, DataType.U64, Cast(DataType.U64, self._word()), LitU32(32))
            bits = operation(BinOp.BIT_OR, DataType.U64, Cast(DataType.U64, bits), upper)
        if scalar is bool_:
            return Binary(BinOp.NE, bits, LitU32(0))
        if scalar.kind is Kind.FLOAT:
            return extension(f"bitcast<{scalar}>", bits)
        return Cast(DataType.I64, bits) if scalar is i64 else bits

    def _word(self) -> Expr:
        self._words += 1
        return Load(self._name, LitU32(self._words - 1), DataType.U32)

    def buffers(self, place: int) -> list[BufferDecl]:
        """Return the buffer at a place among the program's, or nothing."""
        found = BufferDecl(self._name, place, BufferAccess.READ_ONLY, MemoryKind.GLOBAL, DataType.U32, self._words)
        return [found] if self._words else []
