"""Races that the reference interpreter finds where it looks for them: who, what and where."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_driver import ir
from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.errors import DataRace
from vyre_driver.ir import BufferDecl, DataType, Program

U32 = DataType.U32
DATA = BufferDecl.read_write("data", 0, U32)
OWN, LOCAL = ir.gid_x(), ir.lid_x()
SHARED = BufferDecl.workgroup("shared", 8, U32)


def _race(*body: ir.Node, buffers: tuple[BufferDecl, ...] = (DATA,), groups: int = 1) -> DataRace:
    with pytest.raises(DataRace) as found:
        _run(*body, buffers=buffers, groups=groups)
    return found.value


def _run(*body: ir.Node, buffers: tuple[BufferDecl, ...] = (DATA,), groups: int = 1) -> list[int]:
    program = Program.wrapped(buffers, (8, 1, 1), body)
    given = np.arange(16, dtype=np.uint32)
    found: list[int] = interpret(program, [given], grid=(groups, 1, 1), races=True).outputs[0].tolist()
    return found


def test_two_stores_of_one_statement_are_a_race_where_they_differ() -> None:
    error = _race(ir.store(DATA, OWN / 4, OWN))
    assert str(error) == (
        "invocation (3, 0, 0) stores data[0], and invocation (0, 0, 0) stores it with no barrier between. "
        "Fix: let one of them store, use an atomic, or put a barrier between."
    )
    assert error.context == {
        "buffer": "data",
        "element": 0,
        "invocations": ((3, 0, 0), (0, 0, 0)),
        "paths": ("entry[0].body[0]", "entry[0].body[0]"),
        "does": ("stores", "stores"),
    }
    assert _run(ir.store(DATA, OWN / 4, OWN / 4))[:2] == [0, 1]


def test_a_load_and_a_store_are_a_race_but_across_a_barrier() -> None:
    write, read = ir.store(SHARED, LOCAL, OWN), ir.store(DATA, OWN, ir.load(SHARED, ir.u32(7) - LOCAL))
    error = _race(write, read, buffers=(DATA, SHARED), groups=2)
    found = error.context
    assert (found["buffer"], found["element"], found["does"]) == ("shared", 7, ("reads", "stores"))
    assert (found["invocations"], found["paths"]) == (((0, 0, 0), (7, 0, 0)), ("entry[0].body[1]", "entry[0].body[0]"))
    assert _run(write, ir.barrier(), read, buffers=(DATA, SHARED), groups=2)[8:] == [15, 14, 13, 12, 11, 10, 9, 8]


def test_a_store_to_what_another_invocation_read_is_a_race() -> None:
    error = _race(ir.let("next", ir.load(DATA, OWN + ir.u32(1))), ir.store(DATA, OWN, ir.var("next", U32)))
    assert (error.context["does"], error.context["invocations"]) == (("stores", "reads"), ((1, 0, 0), (0, 0, 0)))


def test_atomics_on_both_sides_are_none() -> None:
    count = ir.let("before", ir.atomic_add(DATA, 0, 1))
    again = ir.let("after", ir.atomic_add(DATA, 0, ir.select(ir.var("before", U32) < 100, ir.u32(1), ir.u32(2))))
    assert _run(count, again)[0] == 16
