"""A kernel that counts the turns of a loop, to find out after how many of them a driver ends it."""

from __future__ import annotations

from vyre_driver.ir.arithmetic import Binary, LitU32, Var
from vyre_driver.ir.buffers import BufferAccess, BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Load
from vyre_driver.ir.nodes import Assign, Let, Loop, Store
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import Program
from vyre_driver.lowering.program import emitted
from vyre_driver.lowering.source import PipelineSource
from vyre_driver.target.config import ProgramConfig

TURNS = 1 << 20
"""How many turns are asked for: 2 ms on llvmpipe, if it made them."""


def loop_probe() -> PipelineSource:
    """Return the kernel, for one workgroup and a buffer of two words: the turns that are asked for, and those that it made."""
    buffer = BufferDecl.storage("turns", 0, BufferAccess.READ_WRITE, DataType.U32)
    made = Var("made")
    count = Assign("made", Binary(BinOp.ADD, made, LitU32(1)))
    entry = (
        Let("made", LitU32(0)),
        Loop("turn", LitU32(0), Load("turns", LitU32(0)), (count,)),
        Store("turns", LitU32(1), made),
    )
    program = Program.wrapped((buffer.with_count(2),), (1, 1, 1), entry)
    return PipelineSource(emitted(program, ProgramConfig(), None).code, program.workgroup_size, 0, name="loop probe")
