"""Atomics on i32, f32 and workgroup memory: what they leave, which reports their order makes, and how they are lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from spirv_machine import decoded

from vyre_driver.backends.reference import interpret
from vyre_driver.ir import BufferDecl, DataType, Program, atomic, barrier, buf_len, gid_x, if_, let, lid_x, load, store, u32
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.opcodes import Ins, Op, Scope, Semantics

if TYPE_CHECKING:
    from conftest import Lower
    from numpy.typing import NDArray

    from vyre_driver.ir.expressions import Expr

U32, I32, F32 = DataType.U32, DataType.I32, DataType.F32
WORDS = BufferDecl.read("words", 0, U32).with_count(8)
ADDS, SHARED_ADDS = "shaderBufferFloat32AtomicAdd", "shaderSharedFloat32AtomicAdd"


def applied(op: AtomicOp, dtype: DataType, index: Expr, *, shared: bool = False) -> Program:
    """An atomic of each of eight invocations with a word of its own, whose result is unused."""
    cells = BufferDecl.workgroup("cells", 8, dtype) if shared else BufferDecl.read_write("cells", 1, dtype).with_count(8)
    out = BufferDecl.output("out", 2, dtype).with_count(8)
    change = let("found", atomic(op, "cells", index, load(WORDS, gid_x()), ordering=MemoryOrdering.ACQ_REL))
    body = [change, barrier(), store(out, gid_x(), load("cells", lid_x()))]
    return Program.wrapped([WORDS, cells, out], (8, 1, 1), body)


def of(*values: float) -> NDArray[np.uint32]:
    return np.resize(np.array(values, np.float32), 8).view(np.uint32)


@pytest.mark.parametrize(
    ("op", "values", "begins", "wanted"),
    [
        (AtomicOp.ADD, (1.5, 2.25), 1.0, 16.0),
        (AtomicOp.ADD, (2.0**-126, -1.5 * 2.0**-126), 0.0, -0.0),  # -2^-127, which the IR's sums do not have
        (AtomicOp.MIN, (3.0, -0.0), 0.0, -0.0),
        (AtomicOp.MAX, (-0.0, -7.0), -0.0, -0.0),
        (AtomicOp.MAX, (0.0, -0.0), -0.0, 0.0),
        (AtomicOp.MIN, (float("nan"), 5.0), float("-inf"), float("-inf")),
        (AtomicOp.MIN, (7.0, 5.0), float("nan"), 5.0),
        (AtomicOp.MAX, (-7.0, -9.0), float("nan"), -7.0),
        (AtomicOp.EXCHANGE, (1e-45,), 1.0, 1e-45),
    ],
)
def test_what_atomics_on_f32_leave(op: AtomicOp, values: tuple[float, ...], begins: float, wanted: float) -> None:
    found = interpret(applied(op, F32, u32(0)), [of(*values), np.full(8, begins, np.float32)]).outputs[0]
    assert hex(found.view(np.uint32)[0]) == hex(np.array([wanted], np.float32).view(np.uint32)[0])


@pytest.mark.parametrize(("op", "wanted"), [(AtomicOp.MIN, -8), (AtomicOp.MAX, 7), (AtomicOp.ADD, -4), (AtomicOp.XOR, 0)])
def test_atomics_on_i32_see_signs(op: AtomicOp, wanted: int) -> None:
    words = np.array([7, -8, 3, 0, -2, -1, -4, 1], np.int32)
    start = np.zeros(8, np.int32)
    wanted = int(np.bitwise_xor.reduce(words)) if op is AtomicOp.XOR else wanted
    found = interpret(applied(op, I32, u32(0)), [words.view(np.uint32), start]).outputs[0]
    assert found.tolist() == [wanted] + [0] * 7


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("op", "dtype", "index", "mattered"),
    [
        (AtomicOp.ADD, F32, u32(0), True),
        (AtomicOp.ADD, F32, gid_x(), False),
        (AtomicOp.MAX, F32, u32(0), False),
        (AtomicOp.ADD, I32, u32(0), False),
        (AtomicOp.ADD, U32, u32(0), False),
    ],
)
def test_sums_of_f32_depend_on_the_order_and_others_do_not(
    op: AtomicOp, dtype: DataType, index: Expr, *, mattered: bool, shared: bool
) -> None:
    program = applied(op, dtype, index, shared=shared)
    inputs = [of(1.0, 2.0, 3.0)] if shared else [of(1.0, 2.0, 3.0), np.zeros(8, {F32: "f4", I32: "i4", U32: "u4"}[dtype])]
    assert interpret(program, inputs).order_mattered is mattered


@pytest.mark.parametrize(
    ("op", "dtype", "reason"),
    [
        (AtomicOp.ADD, F32, "the sums in 'cells' are rounded in the order of its atomics"),
        (AtomicOp.MIN, F32, None),
        (AtomicOp.MAX, I32, None),
    ],
)
def test_a_program_with_atomics_is_free_of_its_workgroup_where_the_order_decides_nothing(
    op: AtomicOp, dtype: DataType, reason: str | None
) -> None:
    cells = BufferDecl.read_write("cells", 1, dtype).with_count(8)
    words = BufferDecl.read("words", 0, U32)
    change = if_(gid_x() < buf_len(words), [let("found", atomic(op, cells, u32(0), load(words, gid_x())))])
    assert why_workgroup_is_fixed(Program.wrapped([words, cells], (8, 1, 1), [change])) == reason


def atomics(code: bytes) -> list[tuple[int, int, int]]:
    """Opcode, scope and semantics of each atomic that changes something."""
    found = decoded(code)
    constants = {operands[1]: operands[2] for opcode, operands in found if opcode == Op.Constant}
    changes = {*range(Ins.AtomicLoad + 1, Ins.AtomicXor + 1), Ins.AtomicFAdd}
    return [(opcode, constants[one[3]], constants[one[4]]) for opcode, one in found if opcode in changes]


ALL_MEMORY = Semantics.ACQUIRE_RELEASE | Semantics.UNIFORM_MEMORY | Semantics.WORKGROUP_MEMORY


@pytest.mark.parametrize(
    ("op", "dtype", "opcode"),
    [
        (AtomicOp.ADD, U32, Ins.AtomicIAdd),
        (AtomicOp.MIN, U32, Ins.AtomicUMin),
        (AtomicOp.MIN, I32, Ins.AtomicSMin),
        (AtomicOp.MAX, I32, Ins.AtomicSMax),
        (AtomicOp.ADD, F32, Ins.AtomicCompareExchange),
        (AtomicOp.MAX, F32, Ins.AtomicCompareExchange),
        (AtomicOp.EXCHANGE, F32, Ins.AtomicExchange),
        (AtomicOp.FETCH_NAND, I32, Ins.AtomicCompareExchange),
    ],
)
def test_an_atomic_reaches_as_far_as_its_memory(lower: Lower, op: AtomicOp, dtype: DataType, opcode: int) -> None:
    shared = atomics(lower(applied(op, dtype, u32(0), shared=True)).code)
    assert shared == [(opcode, Scope.WORKGROUP, ALL_MEMORY)]
    outside = atomics(lower(applied(op, dtype, u32(0))).code)
    assert outside == [(opcode, Scope.DEVICE, ALL_MEMORY & ~Semantics.WORKGROUP_MEMORY)]
    unfenced = atomics(lower(applied(op, dtype, u32(0), shared=True), (), LoweringTarget(fences=False)).code)
    assert unfenced == [(opcode, Scope.WORKGROUP, Semantics.RELAXED)]


@pytest.mark.parametrize(
    ("features", "strict", "shared", "used"),
    [
        ({ADDS, SHARED_ADDS}, False, False, {ADDS}),
        ({ADDS, SHARED_ADDS}, False, True, {ADDS, SHARED_ADDS}),
        ({ADDS}, False, True, set()),
        (set(), False, False, set()),
        ({ADDS, SHARED_ADDS}, True, False, set()),
    ],
)
def test_the_device_adds_f32_itself_where_it_can_and_may_round_as_it_likes(
    lower: Lower, features: set[str], *, strict: bool, shared: bool, used: set[str]
) -> None:
    made = lower(applied(AtomicOp.ADD, F32, u32(0), shared=shared), (), LoweringTarget(frozenset(features), strict=strict))
    assert made.features == used
    assert {one for one, _, _ in atomics(made.code)} == {Ins.AtomicFAdd if used else Ins.AtomicCompareExchange}
