"""Small programs for the reference interpreter, and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.backends.reference import run
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.nodes import Node

U32, I32, F32 = DataType.U32, DataType.I32, DataType.F32
OUT = BufferDecl.output("out", 0, U32).with_count(8)
WORDS = BufferDecl.read_write("words", 0, U32)
I = ir.gid_x()  # noqa: E741 -- as kernels have it


def program(body: Sequence[Node], *buffers: BufferDecl, size: tuple[int, int, int] = (8, 1, 1)) -> Program:
    return Program.wrapped(buffers or (OUT,), size, body)


def result(body: Sequence[Node], *buffers: BufferDecl, size: tuple[int, int, int] = (8, 1, 1), **how: Any) -> list[int]:  # noqa: ANN401 -- of interpret
    inputs = how.pop("inputs", ())
    return run(program(body, *buffers, size=size), inputs, **how)[0].tolist()
