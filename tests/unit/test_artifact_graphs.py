"""Graphs that are made or changed here: compared, written, and refused where a field has no place in the format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from upstream_graphs import UpstreamGraph, cases

from vyre_driver.artifacts import (
    Contract,
    Envelope,
    Graph,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphValue,
    Lifetime,
    NeutralArtifact,
    TargetPayload,
)
from vyre_driver.artifacts.neutral import FRAME as ARTIFACT
from vyre_driver.artifacts.opening import FRAME as ENVELOPE
from vyre_driver.artifacts.payload import FRAME as PAYLOAD
from vyre_driver.errors import InvalidContainer, InvalidInput, InvalidProgram
from vyre_driver.ir import BufferAccess, BufferDecl, DataType, Program, gid_x, load, store, u32

if TYPE_CHECKING:
    from collections.abc import Callable

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


def with_contract(**changes: object) -> Graph:
    return Graph((GraphValue("x", WORDS._replace(**changes)),), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: with_contract(shape=(-1,)), "the shape (-1,) has an extent that is no u64"),
        (lambda: with_contract(shape=(2**64,)), "the shape (18446744073709551616,) has an extent that is no u64"),
        (lambda: with_contract(shape=(True,)), "the shape (True,) has an extent that is no u64"),
        (lambda: with_contract(shape=[4]), "the shape of value 'x' is [4], a list, where tuple is wanted"),
        (
            lambda: with_contract(shape=("\ud800",)),
            r"a symbol in the shape of value 'x' is '\ud800', which has a lone surrogate and so no UTF-8 form",
        ),
        (lambda: with_contract(access=BufferAccess.WORKGROUP), "the access of value 'x' is <BufferAccess.WORKGROUP: 4>"),
        (lambda: with_contract(lifetime=1), "the lifetime of value 'x' is 1, an int, where Lifetime is wanted"),
        (lambda: with_contract(element="U32"), "the element type of value 'x' is 'U32', a str, where DataType is wanted"),
        (
            lambda: Graph((GraphValue("\ud800", WORDS),), ()),
            r"the name of a value or a node is '\ud800', which has a lone surrogate and so no UTF-8 form",
        ),
        (lambda: Graph((WORDS,), ()), "a value from outside is "),  # type: ignore[arg-type]
        (lambda: Graph(None, ()), "externals of a graph are no sequence"),  # type: ignore[arg-type]
        (lambda: Graph((), (NODE.program,)), "a node is "),  # type: ignore[arg-type]
        (
            lambda: Graph(GRAPH.externals, (NODE._replace(inputs=(GraphInput("a", "x", WORDS),)),)),  # type: ignore[arg-type]
            "node 'node': value x of buffer 'a' is none of the 1 before the node",
        ),
    ],
)
def test_a_field_that_has_no_place_in_the_format_is_refused(make: Callable[[], Graph], problem: str) -> None:
    with pytest.raises(InvalidProgram) as refused:
        make()
    assert refused.value.problem.startswith(problem)
    assert refused.value.fix


def test_a_graph_of_lists_is_the_graph_of_tuples() -> None:
    assert hash(Graph(list(GRAPH.externals), list(GRAPH.nodes))) == hash(GRAPH)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: GRAPH.identity(bytes(32), artifact_schema=2**32), "artifact_schema is 4294967296"),
        (
            lambda: GRAPH.identity(bytes(32), {1: 2, "a": 3}),  # type: ignore[dict-item]
            "a key of symbols is of type int, and must be text",
        ),
        (lambda: GRAPH.identity(bytes(32), ["n"]), "symbols is of type list, and must be a mapping"),  # type: ignore[arg-type]
        (lambda: GRAPH.bind(None, [1]), "arrays is of type list, and must be a mapping"),  # type: ignore[arg-type]
        (lambda: GRAPH.bind(None, {}, ["n"]), "symbols is of type list, and must be a mapping"),  # type: ignore[arg-type]
        (lambda: GRAPH.bind(None, None), "nothing is given for 'x'"),  # type: ignore[arg-type]
        (lambda: GRAPH.run(None, {"x": np.zeros(4, np.uint32)}, {"m": 4}), "'m' is no symbol of the shapes"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_refused(call: Callable[[], object], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        call()
    assert refused.value.problem == problem
    assert refused.value.fix


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (CASES["bin_Add"].bytes_of["artifact"], NeutralArtifact.from_bytes),
        (CASES["bin_Add"].bytes_of["payload"], TargetPayload.from_bytes),
        (CASES["bin_Add"].bytes_of["envelope"], Envelope.from_bytes),
    ],
)
def test_a_schema_version_with_a_fraction_is_refused(data: bytes, read: Callable[[bytes], object]) -> None:
    frame = next(frame for frame in (ARTIFACT, PAYLOAD, ENVELOPE) if frame.magic == data[:4])
    body = data[10:-32].replace(b'"schema_version":%d,' % frame.version, b'"schema_version":%d.0,' % frame.version, 1)
    with pytest.raises(InvalidContainer, match="schema_version is not a whole number"):
        read(frame.wrap(body))
