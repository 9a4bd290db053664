"""Memory of an invocation's own: its declaration, rules, wire form, plan and code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from spirv_machine import Machine, decoded

from vyre_driver.backends.reference import interpret
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import MAX_LOCAL_BYTES, BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.nodes import AsyncLoad, AsyncWait, ProgramCapability
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.validate import examine
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.opcodes import Ins, StorageClass

if TYPE_CHECKING:
    from vyre_driver.ir.nodes import Node

U32 = DataType.U32
OWN = BufferDecl.local("own", 4, U32)
X = BufferDecl.read("x", 0, U32)
OUT = BufferDecl.storage("out", 1, BufferAccess.WRITE_ONLY, U32)


def program(*more: Node, own: BufferDecl = OWN, size: int = 8) -> Program:
    i = ir.gid_x()
    body = [ir.store(own, i % 4, ir.load(X, i)), *more, ir.store(OUT, i, ir.load(own, i % 4) + ir.load(own, 9))]
    return Program.wrapped([X, OUT, own], (size, 1, 1), [ir.if_(i < ir.buf_len("out"), body)])


def refused(found: Program) -> list[tuple[str, str]]:
    return [(one.rule, one.path) for one in examine(found).problems]


def test_it_is_declared_as_workgroup_memory_is_and_is_none() -> None:
    assert (OWN.access, OWN.kind, OWN.count, OWN.binding) == (BufferAccess.WORKGROUP, MemoryKind.LOCAL, 4, 0)
    assert OWN.is_local
    assert OWN.is_writable
    assert not OWN.is_shared
    assert BufferDecl.workgroup("tile", 4, U32).is_shared
    assert not BufferDecl.read_write("x", 0, U32).with_kind(MemoryKind.LOCAL).is_local
    assert "in local memory" in str(program())


def test_the_wire_format_carries_it() -> None:
    one = program()
    assert Program.from_wire(one.to_wire()) == one
    assert one.digest() != program(own=BufferDecl.workgroup("own", 4, U32)).digest()


def test_a_plan_brings_no_array_for_it_and_counts_no_memory() -> None:
    plan = BindingPlan.build(program())
    assert [one.name for one in plan.descriptors] == ["x", "out"]
    assert len(plan.input_indices) == len(plan.output_indices) == 1
    assert ProgramCapability.WORKGROUP_MEMORY not in program().stats().capabilities
    big = BufferDecl.local("own", 9000, U32)
    assert emit(program(own=big), BindingPlan.build(program(own=big))).shared_bytes == 0
    assert program(own=big).estimate_peak_vram_bytes() == 0


def test_it_is_warned_of_and_valid() -> None:
    found = examine(program())
    assert not found.problems
    assert [(one.rule, one.path) for one in found.warnings] == [("R035", "buffers[2]")]


def test_no_elements_and_too_many_are_refused() -> None:
    assert refused(program(own=BufferDecl.local("own", 0, U32))) == [("R005", "buffers[2]")]
    most = MAX_LOCAL_BYTES // 4
    assert not refused(program(own=BufferDecl.local("own", most, U32)))
    assert refused(program(own=BufferDecl.local("own", most + 1, U32))) == [("R034", "buffers")]
    assert refused(program(own=BufferDecl.local("own", most + 1, DataType.U8)))[0] == ("R034", "buffers")


def test_atomics_and_copies_are_refused() -> None:
    change = ir.let("before", ir.atomic(AtomicOp.ADD, OWN, 0, 1, ordering=MemoryOrdering.RELAXED))
    assert ("R034", "body[0].then[1].value") in refused(program(change))
    copy = [AsyncLoad("x", "own", ir.u32(0), ir.u32(4), "t"), AsyncWait("t")]
    assert ("R034", "body[0].then[1].destination") in refused(program(*copy))


def test_it_binds_no_program_to_its_workgroup() -> None:
    assert why_workgroup_is_fixed(program()) is None
    assert why_workgroup_is_fixed(program(own=BufferDecl.workgroup("own", 4, U32))) == "buffer 'own' is workgroup memory"
    i = ir.gid_x()  # what it holds is not alike in all invocations
    loop = ir.loop("k", 0, ir.load(OWN, 0), [ir.let("a", ir.var("k", U32))])
    bound = Program.wrapped([X, OUT, OWN], (8, 1, 1), [ir.store(OWN, 0, i), loop, ir.store(OUT, i, 1)])
    assert why_workgroup_is_fixed(bound) is not None


@pytest.mark.parametrize("lockstep", [0, 1, 24, 1 << 16])
def test_the_reference_has_it_for_each_invocation(lockstep: int) -> None:
    x = np.arange(100, 120, dtype=np.uint32)
    many: dict[str, Any] = {"element_counts": {"out": 20}, "lockstep": lockstep}
    assert interpret(program(), [x], **many).outputs[0].tolist() == x.tolist()
    far = BufferDecl.local("own", MAX_LOCAL_BYTES // 4, U32)
    assert interpret(program(own=far), [x], **many).outputs[0].tolist() == x.tolist()


def test_the_code_has_a_variable_of_the_function() -> None:
    words = np.frombuffer(emit(program(), BindingPlan.build(program())).code, np.uint32)
    function_variable, workgroup, function = 5 << 16 | 59, 4, 7
    places = np.flatnonzero(words == function_variable)
    assert [int(words[place + 3]) for place in places] == [function]
    pointers = np.flatnonzero(words == (4 << 16 | 32))
    assert workgroup not in {int(words[place + 2]) for place in pointers}


LLVMPIPE = LoweringTarget(hides=True)


def _many(*counts: int) -> Program:
    """Return a program that reads and writes arrays of so many elements."""
    arrays = [BufferDecl.local(f"own{place}", count, U32) for place, count in enumerate(counts)]
    i = ir.gid_x()
    writes = [ir.store(one, i % one.count, ir.load(X, i)) for one in arrays]
    reads = [ir.load(one, i * 7 % one.count) for one in arrays]
    return Program.wrapped([X, OUT, *arrays], (8, 1, 1), [*writes, ir.store(OUT, i, sum(reads[1:], reads[0]))])


def _initialized(program: Program, target: LoweringTarget) -> tuple[list[bool], int]:
    """Return for each array of the function whether it has an initializer, and the loops of the code."""
    found = decoded(emit(program, BindingPlan.build(program), (), target).code)
    variables = [operands for opcode, operands in found if opcode == Ins.Variable and operands[2] == StorageClass.FUNCTION]
    return [len(operands) > 3 for operands in variables], sum(opcode == Ins.LoopMerge for opcode, _ in found)


@pytest.mark.parametrize(
    ("counts", "initialized", "loops"),
    [
        ((256,), [True], 0),
        ((257,), [False], 1),
        ((16_384,), [False], 1),
        ((200, 56), [True, True], 0),
        ((200, 57), [True, False], 1),  # what counts is their sum
        ((257, 300), [False, False], 2),
        ((300,) * 20, [False] * 20, 1),  # arrays of one length share a loop
    ],
)
def test_long_arrays_are_zeroed_by_a_loop_on_llvmpipe_which_takes_initializers_apart(
    counts: tuple[int, ...], initialized: list[bool], loops: int
) -> None:
    assert _initialized(_many(*counts), LLVMPIPE) == (initialized, loops)
    assert _initialized(_many(*counts), LoweringTarget()) == ([True] * len(counts), 0)


@pytest.mark.parametrize("counts", [(257,), (1021,), (2050,), (300, 300, 301), (60,) * 5])
def test_such_a_loop_leaves_no_element_as_it_was(counts: tuple[int, ...]) -> None:
    program = _many(*counts)
    machine = Machine(emit(program, BindingPlan.build(program), (), LLVMPIPE).code)
    old = {f"own{place}": [99] * count for place, count in enumerate(counts)}
    given = {name: list(elements) for name, elements in old.items()}
    machine.run(5, 8, {"x": [7] * 8, "out": [0] * 8, **given}, [8, 8])
    initialized, _ = _initialized(program, LLVMPIPE)
    for name, has_initializer in zip(old, initialized, strict=True):
        expected = old[name] if has_initializer else [0] * len(old[name])
        expected[5] = 7
        assert given[name] == expected
