"""Graphs that are made or changed here: compared, written, and refused where a field has no place in the format."""

from __future__ import annotations

from dataclasses import replace

import pytest
from upstream_graphs import UpstreamGraph, cases

from vyre_driver.artifacts import Contract, Graph, GraphInput, GraphNode, GraphOutput, GraphValue, Lifetime
from vyre_driver.ir import BufferAccess, BufferDecl, DataType, Program, gid_x, load, store, u32

CASES = cases()
WORDS = Contract(DataType.U32, (4,), BufferAccess.READ_ONLY, Lifetime.INVOCATION)
RESULT = Contract(DataType.U32, (4,), BufferAccess.READ_WRITE, Lifetime.OUTPUT)


def plus(number: int) -> Program:
    buffers = BufferDecl.read("a", 0, DataType.U32), BufferDecl.output("out", 1, DataType.U32).with_count(4)
    return Program.wrapped(buffers, (4, 1, 1), [store("out", gid_x(), load("a", gid_x()) + u32(number))])


NODE = GraphNode("node", plus(1), (GraphInput("a", 0, WORDS),), (GraphOutput("out", "result", RESULT),))
GRAPH = Graph((GraphValue("x", WORDS),), (NODE,))


def test_a_graph_equals_what_comes_back_from_its_bytes() -> None:
    again = Graph.from_wire(GRAPH.to_wire())
    assert (again == GRAPH, again != GRAPH, hash(again) == hash(GRAPH)) == (True, False, True)
    assert again.nodes[0] != NODE._replace(name="other")


def test_a_program_that_takes_the_place_of_another_is_written_and_identified() -> None:
    read = Graph.from_wire(GRAPH.to_wire())
    changed = replace(read, nodes=(read.nodes[0]._replace(program=plus(5)),))
    assert Graph.from_wire(changed.to_wire()).nodes[0].program == plus(5)
    assert changed.identity(bytes(32)) != read.identity(bytes(32))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_container_that_upstream_wrote_is_written_again_where_only_a_name_changes(case: UpstreamGraph) -> None:
    read = Graph.from_wire(case.bytes_of["graph"])
    renamed = replace(read, nodes=(read.nodes[0]._replace(name="main 2"),))
    assert Graph.from_wire(renamed.to_wire()).nodes[0].wire == read.nodes[0].wire
