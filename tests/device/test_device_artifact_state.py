"""What the nodes of graphs and artifacts see of values that other nodes, and other runs, replace or write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from upstream_graphs import artifact_of

from vyre_driver import DataType, Driver, Program
from vyre_driver.artifacts import Contract, Graph, GraphInput, GraphNode, GraphOutput, GraphValue, Lifetime, NeutralArtifact
from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.ir import BufferAccess, BufferDecl, gid_x, load, store, u32

if TYPE_CHECKING:
    from vyre_driver.ir import Node

pytestmark = pytest.mark.device

STATE = Contract(DataType.U32, (4,), BufferAccess.READ_WRITE, Lifetime.RETAINED)
OUTPUT = STATE._replace(lifetime=Lifetime.OUTPUT)
READ = STATE._replace(access=BufferAccess.READ_ONLY)
TEN = np.full(4, 10, np.uint32)


def program(*nodes: Node, reads: tuple[str, ...] = (), writes: tuple[str, ...] = (), makes: tuple[str, ...] = ()) -> Program:
    """A program over buffers of four words, bound in the order in which they are named."""
    kinds = [BufferDecl.read] * len(reads) + [BufferDecl.read_write] * len(writes) + [BufferDecl.output] * len(makes)
    named = enumerate(zip(kinds, (*reads, *writes, *makes), strict=True))
    buffers = [kind(name, binding, DataType.U32).with_count(4) for binding, (kind, name) in named]
    return Program.wrapped(buffers, (4, 1, 1), nodes)


COUNT = program(store("s", gid_x(), load("s", gid_x()) + u32(1)), writes=("s",))
COPY = program(store("out", gid_x(), load("a", gid_x())), reads=("a",), makes=("out",))
COUNT_TWICE = program(
    store("s", gid_x(), load("s", gid_x()) + u32(1)),
    store("out", gid_x(), load("s", gid_x()) + u32(1)),
    writes=("s",),
    makes=("out",),
)


def counted(name: str, prior: int, successor: str) -> GraphNode:
    return GraphNode(name, COUNT, (GraphInput("s", prior, STATE),), (GraphOutput("s", successor, STATE, prior),))


def copied(name: str, value: int) -> GraphNode:
    return GraphNode(name, COPY, (GraphInput("a", value, READ),), (GraphOutput("out", f"{name} out", OUTPUT),))


def test_a_value_is_read_before_its_successor_takes_its_place(driver: Driver) -> None:
    graph = Graph((GraphValue("state", STATE),), (copied("first", 0), counted("count", 0, "next"), copied("last", 2)))
    bound = graph.bind(driver, {"state": TEN})
    bound.run()
    results = {name: array.tolist() for name, array in bound.run().items()}
    assert results == {"state": [12] * 4, "first out": [11] * 4, "next": [12] * 4, "last out": [12] * 4}


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        (
            (counted("count", 0, "next"), copied("copy", 0)),
            "node 'copy' takes value 'state', which 'next' has replaced in place by then",
        ),
        (
            (counted("count", 0, "next"), counted("again", 0, "other")),
            "node 'again' takes value 'state', which 'next' has replaced in place by then",
        ),
        (
            (
                GraphNode(
                    "count",
                    COUNT_TWICE,
                    (GraphInput("s", 0, STATE),),
                    (GraphOutput("s", "next", STATE, 0), GraphOutput("out", "other", STATE, 0)),
                ),
            ),
            "'next' and 'other' of node 'count' both replace value 'state'",
        ),
    ],
)
def test_a_value_that_is_gone_when_a_node_takes_it_is_refused(nodes: tuple[GraphNode, ...], problem: str) -> None:
    graph = Graph((GraphValue("state", STATE),), nodes)
    assert Graph.from_wire(graph.to_wire()).to_wire() == graph.to_wire()
    with pytest.raises(InvalidProgram) as refused:
        graph.schedule()
    assert refused.value.problem == problem


CONSTANT = READ._replace(lifetime=Lifetime.CONSTANT)
ARGUMENT = STATE._replace(lifetime=Lifetime.INVOCATION)
SCRATCH = program(
    store("out", gid_x(), load("s", gid_x())),
    store("s", gid_x(), load("s", gid_x()) + u32(1)),
    writes=("s",),
    makes=("out",),
)


def scratched(name: str, value: int, contract: Contract, made: Contract = OUTPUT) -> GraphNode:
    return GraphNode(name, SCRATCH, (GraphInput("s", value, contract),), (GraphOutput("out", f"{name} out", made),))


@pytest.mark.parametrize("contract", [CONSTANT, ARGUMENT, ARGUMENT._replace(access=BufferAccess.READ_ONLY), READ])
def test_a_value_that_is_not_a_nodes_to_change_stays_as_it_was_given(driver: Driver, contract: Contract) -> None:
    nodes = scratched("first", 0, contract), scratched("last", 0, contract)
    mine = driver.buffer(TEN)
    bound = Graph((GraphValue("x", contract),), nodes).bind(driver, {"x": mine})
    for _ in range(2):
        results = bound.run()
        assert (results["first out"].tolist(), results["last out"].tolist()) == ([10] * 4, [10] * 4)
    assert mine.read().tolist() == [10] * 4
    mine.write(TEN + np.uint32(1))
    assert bound.run()["first out"].tolist() == [11] * 4


def test_a_node_may_overwrite_what_no_other_needs(driver: Driver) -> None:
    nodes = scratched("first", 0, ARGUMENT, ARGUMENT), scratched("last", 1, ARGUMENT)
    graph = Graph((GraphValue("x", ARGUMENT),), nodes)
    assert graph.run(driver, {"x": TEN})["last out"].tolist() == [10] * 4
    assert [step.copied for step in graph.schedule().steps] == [{"s"}, frozenset()]


@pytest.mark.parametrize("made", [ARGUMENT, OUTPUT])
def test_a_node_that_overwrites_what_another_needs_is_refused(made: Contract) -> None:
    nodes = scratched("first", 0, ARGUMENT, made), scratched("next", 1, made), scratched("last", 1, made)
    with pytest.raises(InvalidProgram) as refused:
        Graph((GraphValue("x", ARGUMENT),), nodes).schedule()
    assert refused.value.problem == "node 'next' writes buffer 's', and others need value 'first out', which it is bound to"


def test_retained_state_that_a_node_changes_without_a_successor_stays_changed(driver: Driver) -> None:
    bound = Graph((GraphValue("state", STATE),), (scratched("n", 0, STATE),)).bind(driver, {"state": TEN})
    bound.run()
    assert {name: array.tolist() for name, array in bound.run().items()} == {"state": [12] * 4, "n out": [11] * 4}


STATES = [("state", "retained"), ("next", "retained")]
ONE_MORE = program(store("out", gid_x(), load("a", gid_x()) + u32(1)), reads=("a",), makes=("out",))


def replaces(number: int, node: int, source: dict[str, int]) -> dict[str, object]:
    return {"from": source, "to": {"node": node}, "kind": "retained", "value": number}


@pytest.mark.parametrize("code", [ONE_MORE, COUNT], ids=["elsewhere", "in place"])
def test_the_state_of_an_artifact_moves_on_as_that_of_its_graph(driver: Driver, code: Program) -> None:
    data = artifact_of(STATES, [("n", code, [0], [1])], 4, [replaces(1, 0, {"value": 0})])
    bound = NeutralArtifact.from_bytes(data).bind(driver, {"state": TEN})
    bound.run()
    assert {name: array.tolist() for name, array in bound.run().items()} == {"state": [12] * 4, "next": [12] * 4}


def test_a_chain_of_states_of_an_artifact_moves_on(driver: Driver) -> None:
    values = [*STATES, ("last", "retained"), ("copy", "output")]
    nodes = [("first", COUNT, [0], [1]), ("second", COUNT, [1], [2]), ("read", COPY, [2], [3])]
    data = artifact_of(values, nodes, 4, [replaces(1, 0, {"value": 0}), replaces(2, 1, {"node": 0})])
    results = NeutralArtifact.from_bytes(data).run(driver, {"state": TEN})
    assert {name: array.tolist() for name, array in results.items()} == dict.fromkeys(
        ["state", "next", "last", "copy"], [12] * 4
    )


@pytest.mark.parametrize(
    ("dependencies", "problem"),
    [
        (
            [replaces(1, 1, {"value": 0})],
            "dependencies[0] does not go to the node that makes its value, or another does as well",
        ),
        (
            [replaces(1, 0, {"value": 0})] * 2,
            "dependencies[1] does not go to the node that makes its value, or another does as well",
        ),
        ([replaces(1, 0, {"value": 2})], "dependencies[0] fits 0 retained values that node 0 takes, not one"),
        ([replaces(1, 0, {"node": 0})], "dependencies[0] fits 0 retained values that node 0 takes, not one"),
    ],
)
def test_a_successor_of_no_value_is_refused(dependencies: list[dict[str, object]], problem: str) -> None:
    values = [*STATES, ("other", "retained")]
    with pytest.raises(InvalidContainer) as refused:
        NeutralArtifact.from_bytes(artifact_of(values, [("n", ONE_MORE, [0], [1])], 4, dependencies))
    assert refused.value.problem.endswith(problem)


def test_a_successor_that_may_replace_either_of_two_values_is_refused() -> None:
    values = [("x", "invocation"), ("a", "retained"), ("b", "retained"), ("next", "retained")]
    two = program(
        store("p", gid_x(), load("x", gid_x())), store("q", gid_x(), load("x", gid_x())), reads=("x",), makes=("p", "q")
    )
    add = program(store("o", gid_x(), load("p", gid_x()) + load("q", gid_x())), reads=("p", "q"), makes=("o",))
    data = artifact_of(values, [("two", two, [0], [1, 2]), ("add", add, [1, 2], [3])], 4, [replaces(3, 1, {"node": 0})])
    with pytest.raises(InvalidContainer, match=r"dependencies\[0\] fits 2 retained values that node 1 takes, not one"):
        NeutralArtifact.from_bytes(data)


def test_what_is_replaced_in_place_has_a_buffer_that_is_written() -> None:
    data = artifact_of(STATES, [("n", program(reads=("s",)), [0], [1])], 4, [replaces(1, 0, {"value": 0})])
    with pytest.raises(InvalidProgram, match="node 'n' replaces value 'state' in place, and its buffer 's' is READ_ONLY"):
        NeutralArtifact.from_bytes(data).schedule()
