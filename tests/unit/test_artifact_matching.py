"""Which value of an artifact a buffer gets: what its type, role, name and place tell, and a refusal where they do not."""

from __future__ import annotations

import time

import pytest
from upstream_graphs import artifact_of

from vyre_driver.artifacts import NeutralArtifact
from vyre_driver.artifacts.neutral import ArtifactNode, Resource, matched_buffers
from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import BufferDecl, DataType, Expr, Program, gid_x, load, store, u32


def program(result: Expr, *buffers: BufferDecl, target: str) -> Program:
    return Program.wrapped(buffers, (4, 1, 1), [store(target, gid_x(), result)])


def words(name: str, binding: int) -> BufferDecl:
    return BufferDecl.read(name, binding, DataType.U32).with_count(4)


def output(name: str, binding: int) -> BufferDecl:
    return BufferDecl.output(name, binding, DataType.U32).with_count(4)


def matched(code: Program, taken: list[str], made: list[str]) -> dict[str, int]:
    """The values of the buffers of a node, whose numbers are their places in ``taken`` and then ``made``."""
    values = [*((name, "invocation") for name in taken), *((name, "output") for name in made)]
    numbers = list(range(len(values)))
    node = ("node", code, numbers[: len(taken)], numbers[len(taken) :])
    return dict(NeutralArtifact.from_bytes(artifact_of(values, [node], 4)).schedule().steps[0].buffers)


def problem(code: Program, taken: list[str], made: list[str]) -> tuple[str, str]:
    with pytest.raises(InvalidProgram) as refused:
        matched(code, taken, made)
    return refused.value.problem.partition("and buffer ")[2], refused.value.fix


DOUBLE = program(load("x", gid_x()) * u32(2), words("x", 0), output("y", 1), target="y")
DIFFERENCE = program(load("a", gid_x()) - load("b", gid_x()), words("a", 0), words("b", 1), output("o", 2), target="o")


def test_a_value_that_has_the_name_of_a_buffer_of_the_other_role_does_not_get_it() -> None:
    assert matched(DOUBLE, ["y"], ["x"]) == {"x": 0, "y": 1}


def test_values_of_one_type_are_told_apart_by_names_in_the_order_of_the_bindings() -> None:
    assert matched(DIFFERENCE, ["a", "b"], ["o"]) == {"a": 0, "b": 1, "o": 2}


def test_names_that_contradict_the_order_of_the_bindings_are_refused() -> None:
    assert problem(DIFFERENCE, ["b", "a"], ["o"]) == (
        "'b' of node 'node' fits 'b', 'a' of them",
        "run the graph (VGR0) that it was compiled from",
    )


def test_a_name_does_not_give_a_buffer_a_value_of_another_count() -> None:
    wide = program(load("x", gid_x()), words("x", 0).with_count(8), output("y", 1), target="y")
    assert problem(wide, ["x"], ["y"])[0] == "'x' of node 'node' fits none of them"


def test_a_buffer_that_is_read_and_written_is_made_where_a_value_has_no_output() -> None:
    between = BufferDecl.read_write("y", 1, DataType.U32).with_count(4)
    code = program(load("x", gid_x()), words("x", 0), between, target="y")
    assert matched(code, ["x"], ["y"]) == {"x": 0, "y": 1}
    assert matched(code, ["x", "y"], []) == {"x": 0, "y": 1}


def test_matching_takes_time_in_proportion_to_the_buffers() -> None:
    count = 8000
    buffers = [BufferDecl.read(f"b{at}", at, DataType.U32).with_count(at + 1) for at in range(count)]
    node = ArtifactNode("node", Program.wrapped(buffers, (1, 1, 1), []), tuple(range(count)), ())
    resources = [Resource(f"v{at}", DataType.U32, at + 1, 4, Lifetime.INVOCATION, "read_only") for at in range(count)]
    began = time.process_time()
    assert matched_buffers(node, resources) == ({f"b{at}": at for at in range(count)}, {})
    assert time.process_time() - began < 5
