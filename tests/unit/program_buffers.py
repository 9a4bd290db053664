"""Buffers of a program, and their plan."""

from __future__ import annotations

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program

A = BufferDecl.read("a", 3, DataType.F32).with_count(2)
B = BufferDecl.read_write("b", 1, DataType.U32)
C = BufferDecl.output("c", 7, DataType.U16).with_count(5)
SCRATCH = BufferDecl.workgroup("scratch", 16, DataType.F32)


def plan(*buffers: BufferDecl) -> BindingPlan:
    return BindingPlan.build(Program.wrapped(buffers, (64, 1, 1), []))


def invalid(problem: str, fix: str) -> tuple[type[InvalidProgram], int, str]:
    return InvalidProgram, 1006, f"{problem}. Fix: {fix}."
