"""The order in which the nodes of an artifact make and take its values."""

from __future__ import annotations

import pytest
from upstream_graphs import artifact_of

from vyre_driver.artifacts import NeutralArtifact
from vyre_driver.errors import InvalidContainer
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, load, store, u32

COUNTED = Program.wrapped(
    [BufferDecl.read("a", 0, DataType.U32), BufferDecl.output("out", 1, DataType.U32).with_count(4)],
    (4, 1, 1),
    [store("out", gid_x(), load("a", gid_x()) + u32(1))],
)
VALUES = [("x", "invocation"), ("y", "output"), ("z", "output")]


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([([2], [1]), ([0], [2])], "abi.entries[0] takes value 2, which no node before it makes"),
        ([([1], [1])], "abi.entries[0] takes value 1, which no node before it makes"),
        ([([0], [1]), ([0], [1])], "abi.entries[1] makes value 1, which has been made before"),
        ([([0], [1, 1])], "abi.entries[0] makes value 1, which has been made before"),
        ([([0, 0], [1])], "abi.entries[0] takes a value twice"),
        ([([3], [1])], "abi.entries[0] names value 3, and there are 3"),
    ],
)
def test_a_value_is_made_once_and_before_a_node_takes_it(nodes: list[tuple[list[int], list[int]]], problem: str) -> None:
    data = artifact_of(VALUES, [(f"node {at}", COUNTED, *ports) for at, ports in enumerate(nodes)], 4)
    with pytest.raises(InvalidContainer) as refused:
        NeutralArtifact.from_bytes(data)
    assert refused.value.problem.endswith(problem)
