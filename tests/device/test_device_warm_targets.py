"""A warm call with ``out``: proven by its form as one without, and read back into the arrays that are given."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import TURNS, Spin
from literals import refusal

from vyre_driver.errors import DispatchTimeout, InvalidInput
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, if_, load, store
from vyre_driver.runtime import array_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import CompileText

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

PUSH = {"alpha": 2.0, "count": 8}
Floats = np.ndarray[Any, np.dtype[np.float32]]

COPY = """
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = 3u * x[i % x.length()] + 1u; }
"""
SWAP = """
layout(binding = 0) buffer A { uint a[]; };
layout(binding = 1) buffer B { uint b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) { a[i] += 10u; b[i] += 20u; } }
"""
PAIRS = """
struct Pair { float weight; uint place; };
layout(binding = 0) buffer Pairs { Pair pairs[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < pairs.length()) pairs[i].place += i; }
"""


def ones(count: int = 8) -> Floats:
    return np.ones(count, np.float32)


@pytest.fixture
def no_proof(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Refuses from now on to prove a call from the ground up, and to copy a result."""

    def refuse(*_: object, **_named: object) -> object:
        raise AssertionError("it is proven or copied once more")

    def begin() -> None:
        monkeypatch.setattr(array_calls.ArrayCalls, "run", refuse)
        monkeypatch.setattr(array_calls, "written", refuse)

    return begin


def test_a_call_whose_input_is_its_target_is_proven_once_and_read_back_into_it(
    saxpy: Kernel, no_proof: Callable[[], None]
) -> None:
    x, y, z = ones(), ones(), 5 * ones()
    first = saxpy(x, y, **PUSH, out=y)
    no_proof()
    found = [
        saxpy(x, y, **PUSH, out=y),
        saxpy(x, y, **PUSH, out=(z,)),
        saxpy(x, z, push_constants=PUSH, workgroups=None, out=z),
    ]
    assert [one is target for one, target in zip((first, *found), (y, y, z, z), strict=True)] == [True] * 4
    assert (y.tolist(), z.tolist(), x.tolist()) == ([5.0] * 8, [9.0] * 8, [1.0] * 8)


def test_calls_with_and_without_a_target_take_turns(saxpy: Kernel, no_proof: Callable[[], None]) -> None:
    x, y, out = ones(), ones(), np.zeros(8, np.float32)
    for _ in range(2):
        results = [saxpy(x, y, **PUSH), saxpy(x, y, **PUSH, out=out), saxpy(x[:4], y[:4], **PUSH, out=out[:4])]
        assert [one.tolist() for one in results] == [[3.0] * 8, [3.0] * 8, [3.0] * 4]
        assert (results[0] is out, results[1] is out, y.tolist()) == (False, True, [1.0] * 8)
        out[:] = 0
        if _ == 0:
            no_proof()


def test_a_target_gives_the_shape_of_what_is_only_written_each_time(
    compiled: CompileText, no_proof: Callable[[], None]
) -> None:
    kernel, x = compiled(COPY), np.arange(3, dtype=np.uint32)
    targets = [np.zeros(shape, np.uint32) for shape in (3, 5, (2, 2), (1, 6))]
    for one in targets:
        kernel(x, out=one)
        kernel(x, out=one, out_shapes={"y": one.shape})
    for one in targets:
        one[:] = 0
    no_proof()
    found = [kernel(x, out=one) for one in targets[::-1]]
    again = [kernel(x, out=one, out_shapes={"y": one.shape}) for one in targets]
    assert [one is target for one, target in zip([*found, *again], targets[::-1] + targets, strict=True)] == [True] * 8
    assert [one.tolist() for one in targets] == [[1, 4, 7], [1, 4, 7, 1, 4], [[1, 4], [7, 1]], [[1, 4, 7, 1, 4, 7]]]


def test_of_several_outputs_some_have_a_target(compiled: CompileText, no_proof: Callable[[], None]) -> None:
    kernel, a, b = compiled(SWAP), np.arange(3, dtype=np.uint32), np.arange(3, dtype=np.uint32)
    both = np.zeros((2, 3), np.uint32)
    outs = (None, b), (a, None), (both[0], both[1]), (b, a)
    for out in outs:
        kernel(np.arange(3, dtype=np.uint32), np.arange(3, dtype=np.uint32), out=out)
    a[:], b[:], both[:] = range(3), range(3), 0
    no_proof()
    found = kernel(a, b, out=outs[0])
    assert (found[1] is b, a.tolist(), found[0].tolist(), b.tolist()) == (True, [0, 1, 2], [10, 11, 12], [20, 21, 22])
    kernel(a, b, out=outs[2])
    kernel(a, b, out=outs[3])  # each is the other's target
    assert (both.tolist(), a.tolist(), b.tolist()) == ([[10, 11, 12], [40, 41, 42]], [40, 41, 42], [10, 11, 12])


TWO = np.zeros(9, np.float32)
WRONG: dict[str, Callable[[], object]] = {
    "another shape": lambda: np.zeros((2, 4), np.float32),
    "another type": lambda: np.zeros(8, np.uint32),
    "another byte order": lambda: np.zeros(8, ">f4"),
    "strided": lambda: np.zeros(16, np.float32)[::2],
    "read-only": lambda: np.frombuffer(bytes(32), np.float32),
    "a list": lambda: [0.0] * 8,
    "two": lambda: (ones(), None),
    "none": tuple,
    "a number": lambda: 0,
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_a_target_only_is_refused_after_a_call_that_fits(saxpy: Kernel, what: str) -> None:
    y = ones()
    cold = refusal(lambda: saxpy(ones(), y, **PUSH, out=WRONG[what]()))
    for out in (ones(), (ones(),)):
        saxpy(ones(), y, **PUSH, out=out)
    assert refusal(lambda: saxpy(ones(), y, **PUSH, out=WRONG[what]())) == cold
    assert (cold[0], y.tolist(), saxpy(ones(), y, **PUSH, out=y).tolist()) == (InvalidInput, [1.0] * 8, [3.0] * 8)


def test_targets_that_overlap_are_refused_after_some_that_did_not(compiled: CompileText) -> None:
    kernel, given, memory = compiled(SWAP), np.arange(3, dtype=np.uint32), np.zeros(6, np.uint32)
    overlap = "input_output 'a' and input_output 'b' would be written to memory that overlaps"
    for _ in range(2):
        kernel(given, given, out=(memory[:3], memory[3:]))
        memory[:] = 0
        for out in ((memory[:3], memory[2:5]), (memory[3:], memory[1:4]), (memory[:3], memory[:3])):
            assert refusal(lambda out=out: kernel(given, given, out=out))[::2] == (
                InvalidInput,
                f"{overlap}. Fix: give each output memory of its own.",
            )
    assert memory.tolist() == [0] * 6


def test_a_target_may_overlap_an_argument_in_part(saxpy: Kernel) -> None:
    memory = np.arange(12, dtype=np.float32)
    for _ in range(2):
        memory[:] = range(12)
        assert saxpy(memory[:8], memory[4:], **PUSH, out=memory[2:10]).tolist() == [3.0 * i + 4 for i in range(8)]
    assert memory.tolist() == [0, 1, *(3.0 * i + 4 for i in range(8)), 10, 11]


def test_a_target_that_became_read_only_is_refused(saxpy: Kernel) -> None:
    y = ones()
    saxpy(ones(), y, **PUSH, out=y)
    y.flags.writeable = False
    said = refusal(lambda: saxpy(ones(), y, **PUSH, out=y))[2]
    assert (said.partition(". ")[0], y.tolist()) == ("out= for input_output 'y' cannot be written to", [3.0] * 8)


def test_what_is_made_of_the_bytes_that_come_back_is_copied_to_its_target(driver: Driver, compiled: CompileText) -> None:
    words = DataType.U32
    x, y = BufferDecl.read("x", 0, words), BufferDecl.output("y", 1, words).with_count(4).with_output_byte_range((4, 12))
    i = gid_x()
    program = Program.wrapped([x, y], (64, 1, 1), [if_(i < 4, [store(y, i, load(x, i) + 1)])])
    part, kernel = driver.compile(program), compiled(PAIRS)
    given, two = np.arange(4, dtype=np.uint32), np.zeros(2, np.uint32)
    pairs = np.array([(0.5, 7), (1.5, 8)], [("weight", "f4"), ("place", "u4")])
    for _ in range(2):
        two[:] = 0
        assert (part(given, out=two) is two, two.tolist()) == (True, [2, 3])
        found = np.zeros_like(pairs)
        assert (kernel(pairs, out=found) is found, found.tolist()) == (True, [(0.5, 7), (1.5, 9)])


def test_a_target_without_axes_and_one_in_a_file_are_written(compiled: CompileText, tmp_path: Path) -> None:
    kernel = compiled("layout(binding = 0) buffer V { uint v[]; };\nvoid main() { v[gl_GlobalInvocationID.x] += 5u; }")
    alone, mapped = np.array(2, np.uint32), np.memmap(tmp_path / "words", np.uint32, "w+", shape=(3,))
    for _ in range(2):
        assert kernel(alone, out=alone, workgroups=1) is alone
        assert kernel(mapped, out=mapped, invocations=3) is mapped
    assert (alone.tolist(), np.fromfile(tmp_path / "words", np.uint32).tolist()) == (12, [10, 10, 10])


def test_a_target_is_left_alone_where_the_time_passes(opened: Driver) -> None:
    spin, zero, out = Spin(opened, 0.3), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    call = functools.partial(spin.kernel, zero, np.ones(1, np.uint32), turns=TURNS, workgroups=spin.grid, out=out)
    call()
    out[:] = 9
    with pytest.raises(DispatchTimeout):
        call(timeout=0.01)
    left = out.tolist()
    call()
    assert (left, out.tolist(), zero.tolist()) == ([9], [spin.groups], [0])
