"""Graphs and artifacts of upstream on a device: schedules recorded as one batch, with the results of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from kernels import glsl
from upstream_graphs import UpstreamGraph, artifact_of, bundle, cases, envelope_of, module, payload_of, write_package

from vyre_driver import DataType, Driver, Program, from_artifact
from vyre_driver.artifacts import (
    Contract,
    Envelope,
    Graph,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphValue,
    Lifetime,
    read_artifact,
)
from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput, InvalidProgram, UnsupportedFeature
from vyre_driver.ir import (
    BufferAccess,
    BufferDecl,
    SubgroupOp,
    gid_x,
    gid_y,
    load,
    store,
    subgroup_reduce,
    u32,
    wid_x,
    wid_y,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from vyre_driver.ir import Expr

pytestmark = pytest.mark.device

CASES = cases()
_WORDS = {DataType.U32: np.uint32, DataType.I32: np.int32}
SHARED = {name: case for name, case in CASES.items() if case.outputs}
ADD_SEVEN = """
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) y[i] = x[i] + 7u;
}
"""


def arrays_of(graph: Graph) -> dict[str, NDArray[Any]]:
    """Words of all bits, floats around zero, for the values from outside."""
    arrays: dict[str, NDArray[Any]] = {}
    for place, value in enumerate(graph.externals):
        words = np.arange(1, value.contract.shape[0] + 1, dtype=np.uint32) * np.uint32(0x9E3779B9) ^ np.uint32(place)
        element = value.contract.element
        arrays[value.name] = (words.astype(np.float32) - 1e9) if element == DataType.F32 else words.view(_WORDS[element])
    return arrays


def reference(program: Program, arrays: dict[str, NDArray[Any]]) -> dict[str, bytes]:
    plan = BindingPlan.build(program)
    outputs = interpret(program, [arrays[program.buffers[place].name] for place in plan.input_indices]).outputs
    return {program.buffers[place].name: array.tobytes() for place, array in zip(plan.output_indices, outputs, strict=True)}


@pytest.mark.parametrize("case", SHARED.values(), ids=SHARED)
def test_graph_and_artifact_give_the_results_of_upstreams_oracle(driver: Driver, case: UpstreamGraph) -> None:
    program = Program.from_wire(case.bytes_of["program"])
    for kind in ("graph", "artifact"):
        runnable = read_artifact(case.bytes_of[kind])
        assert hasattr(runnable, "run")
        results = runnable.run(driver, case.arrays(program))
        assert {name: array.tobytes() for name, array in results.items()} == case.outputs


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_graph_gives_the_results_of_the_reference_interpreter(opened: Driver, case: UpstreamGraph) -> None:
    graph = Graph.from_wire(case.bytes_of["graph"])
    arrays = arrays_of(graph)
    results = graph.run(opened, arrays)
    assert {name: array.tobytes() for name, array in results.items()} == reference(graph.nodes[0].program, arrays)


def contract(access: BufferAccess, lifetime: Lifetime, *shape: int | str) -> Contract:
    return Contract(DataType.U32, shape or ("n",), access, lifetime)


GIVEN = contract(BufferAccess.READ_ONLY, Lifetime.INVOCATION)
BETWEEN = contract(BufferAccess.READ_WRITE, Lifetime.INVOCATION)
RESULT = contract(BufferAccess.READ_WRITE, Lifetime.OUTPUT)
STATE = contract(BufferAccess.READ_WRITE, Lifetime.RETAINED, 4)


def words(name: str, binding: int, count: int = 0, *, is_output: bool = False) -> BufferDecl:
    made = BufferDecl.output if is_output else BufferDecl.read
    return made(name, binding, DataType.U32).with_count(count)


def step(result: Expr, *buffers: BufferDecl, target: str = "to") -> Program:
    return Program.wrapped(buffers, (4, 1, 1), [store(target, gid_x(), result)])


DOUBLED = step(load("from", gid_x()) * u32(2), words("from", 0), words("to", 1, 8, is_output=True))
SUMMED = step(
    load("left", gid_x()) + load("right", gid_x()), words("left", 0), words("right", 1), words("to", 2, 8, is_output=True)
)


def test_values_pass_from_node_to_node_and_symbols_are_told_by_arrays(opened: Driver) -> None:
    summands = GraphInput("left", 0, GIVEN), GraphInput("right", 1, BETWEEN._replace(access=BufferAccess.READ_ONLY))
    graph = Graph(
        (GraphValue("x", GIVEN),),
        (
            GraphNode("double", DOUBLED, (GraphInput("from", 0, GIVEN),), (GraphOutput("to", "twice", BETWEEN),)),
            GraphNode("sum", SUMMED, summands, (GraphOutput("to", "thrice", RESULT),)),
        ),
    )
    bound = Graph.from_wire(graph.to_wire()).bind(opened, {"x": np.arange(8, dtype=np.uint32)})
    assert {name: array.tolist() for name, array in bound.run().items()} == {"thrice": [0, 3, 6, 9, 12, 15, 18, 21]}
    bound.buffers["x"].write(np.full(8, 5, np.uint32))
    assert bound.run()["thrice"].tolist() == [15] * 8
    assert bound.buffers["twice"].read().tolist() == [10] * 8


IN_PLACE = step(load("state", gid_x()) + u32(1), BufferDecl.read_write("state", 0, DataType.U32).with_count(4), target="state")
AFTER = contract(BufferAccess.READ_WRITE, Lifetime.RETAINED, 4)


def test_a_successor_in_place_lies_in_the_memory_of_the_value_it_replaces(opened: Driver) -> None:
    ports = (GraphInput("state", 0, STATE),), (GraphOutput("state", "after", STATE, 0),)
    bound = Graph((GraphValue("state", STATE),), (GraphNode("count", IN_PLACE, *ports),)).bind(
        opened, {"state": np.zeros(4, np.uint32)}
    )
    assert bound.buffers["after"] is bound.buffers["state"]
    for turn in (1, 2, 3):
        assert {name: array.tolist() for name, array in bound.run().items()} == {"state": [turn] * 4, "after": [turn] * 4}


def test_successors_elsewhere_become_the_state_when_the_run_has_ended(opened: Driver) -> None:
    program = step(
        load("from", gid_x()) + u32(1),
        BufferDecl.read_write("from", 0, DataType.U32).with_count(4),
        words("to", 1, 4, is_output=True),
    )
    first = GraphNode("first", program, (GraphInput("from", 0, STATE),), (GraphOutput("to", "second state", STATE, 0),))
    last = GraphNode("last", program, (GraphInput("from", 1, STATE),), (GraphOutput("to", "third state", STATE, 1),))
    bound = Graph((GraphValue("state", STATE),), (first, last)).bind(opened, {"state": np.zeros(4, np.uint32)})
    bound.run()
    results = bound.run()
    assert {name: array.tolist() for name, array in results.items()} == {
        "state": [4] * 4,
        "second state": [3] * 4,
        "third state": [4] * 4,
    }


def test_a_workgroup_of_two_axes_gets_the_square_that_upstream_gives_it(opened: Driver) -> None:
    place = gid_y() * u32(4) + gid_x()
    program = Program.wrapped([words("to", 0, 16, is_output=True)], (2, 2, 1), [store("to", place, place)])
    result = RESULT._replace(shape=(16,))
    graph = Graph((), (GraphNode("places", program, (), (GraphOutput("to", "out", result),)),))
    assert graph.run(opened, {})["out"].tolist() == list(range(16))


@pytest.mark.parametrize(("workgroup", "group"), [((8, 1, 1), wid_x()), ((4, 2, 1), wid_y() * u32(2) + wid_x())])
def test_the_grid_of_subgroup_operations_covers_the_longest_buffer(
    opened: Driver, workgroup: tuple[int, int, int], group: Expr
) -> None:
    largest = subgroup_reduce(SubgroupOp.MAX, group + u32(1))
    program = Program.wrapped(
        [words("from", 0, 64), words("to", 1, 8, is_output=True)], workgroup, [store("to", group, largest)]
    )
    taken, made = GIVEN._replace(shape=(64,)), RESULT._replace(shape=(8,))
    node = GraphNode("places", program, (GraphInput("from", 0, taken),), (GraphOutput("to", "out", made),))
    graph = Graph((GraphValue("x", taken),), (node,))
    assert graph.run(opened, {"x": np.zeros(64, np.uint32)})["out"].tolist() == list(range(1, 9))


def test_a_graph_runs_on_a_driver_in_a_process_of_its_own() -> None:
    case = CASES["bin_Add"]
    graph = Graph.from_wire(case.bytes_of["graph"])
    with Driver(isolated=True) as driver:
        results = graph.run(driver, case.arrays(graph.nodes[0].program))
    assert {name: array.tobytes() for name, array in results.items()} == case.outputs


def test_a_buffer_of_the_driver_is_used_where_it_is(opened: Driver) -> None:
    mine = opened.zeros(4, np.uint32)
    ports = (GraphInput("state", 0, STATE),), ()
    Graph((GraphValue("state", STATE),), (GraphNode("count", IN_PLACE, *ports),)).run(opened, {"state": mine})
    assert mine.read().tolist() == [1] * 4


def test_arrays_that_do_not_fit_are_refused_before_anything_runs(opened: Driver) -> None:
    sums = GraphNode(
        "sum", SUMMED, (GraphInput("left", 0, GIVEN), GraphInput("right", 1, GIVEN)), (GraphOutput("to", "out", RESULT),)
    )
    graph = Graph((GraphValue("x", GIVEN), GraphValue("y", GIVEN)), (sums,))
    eight = np.arange(8, dtype=np.uint32)

    def problem(arrays: dict[str, object], symbols: dict[str, int] | None = None) -> str:
        with pytest.raises(InvalidInput) as caught:
            graph.bind(opened, arrays, symbols)
        return caught.value.problem

    assert problem({"x": eight}) == "nothing is given for 'y'"
    assert problem({"x": eight, "y": eight, "z": eight}) == "'z' is no value that is given from outside"
    other_type = "the array for 'x' has elements of float32, and u32 takes uint32"
    assert problem({"x": eight.astype(np.float32), "y": eight}) == other_type
    other_shape = "the array for 'y' has the shape (4,), and the value (n = 8) of u32"
    assert problem({"x": eight, "y": eight[:4].copy()}) == other_shape
    assert problem({"x": eight, "y": eight}, {"n": 4}) == "the array for 'x' has the shape (8,), and the value (n = 4) of u32"
    assert problem({"x": eight, "y": eight}, {"n": -1}) == "symbol 'n' is -1"
    unknown = contract(BufferAccess.READ_WRITE, Lifetime.OUTPUT, "m")
    made = Graph(graph.externals, (sums._replace(outputs=(GraphOutput("to", "out", unknown),)),))
    with pytest.raises(InvalidInput, match="nothing tells the symbol 'm' in the shape of 'out'"):
        made.bind(opened, {"x": eight, "y": eight})
    assert made.run(opened, {"x": eight, "y": eight}, {"m": 8})["out"].tolist() == (2 * eight).tolist()
    with pytest.raises(InvalidProgram, match="there are no nodes, so there is nothing to run"):
        Graph((), ()).bind(opened, {})


def test_an_array_of_vectors_of_vectors_has_the_dimensions_of_both(opened: Driver) -> None:
    matrices = GIVEN._replace(element=DataType.vec(DataType.vec(DataType.F32, 2), 3), shape=(4,))
    double = GraphNode("double", DOUBLED, (GraphInput("from", 0, GIVEN),), (GraphOutput("to", "out", RESULT),))
    graph = Graph((GraphValue("x", GIVEN), GraphValue("matrices", matrices)), (double,))
    eight = np.arange(8, dtype=np.uint32)
    assert graph.run(opened, {"x": eight, "matrices": np.ones((4, 3, 2), np.float32)})["out"].tolist() == (2 * eight).tolist()
    with pytest.raises(InvalidInput, match=r"has the shape \(4, 2, 3\), and the value \(4\) of vec<vec<f32, 2>, 3>"):
        graph.bind(opened, {"x": eight, "matrices": np.ones((4, 2, 3), np.float32)})


def test_what_numpy_has_no_array_for_is_refused(opened: Driver) -> None:
    one, empty = GIVEN._replace(shape=(1,)), DataType.vec(DataType.vec(DataType.F32, 0), 1)
    copy = step(load("from", gid_x()), words("from", 0), words("to", 1, 1, is_output=True))
    made = GraphOutput("to", "out", RESULT._replace(shape=(1,) * 65))
    node = GraphNode("copy", copy, (GraphInput("from", 0, one),), (made,))
    with pytest.raises(UnsupportedFeature, match=r"value 'out' has 65 axes, and arrays of numpy have (32|64) at most"):
        Graph((GraphValue("x", one),), (node,)).bind(opened, {"x": np.ones(1, np.uint32)})
    nothing = GraphValue("nothing", one._replace(element=empty))
    flat = node._replace(outputs=(made._replace(contract=RESULT._replace(shape=(1,))),))
    with pytest.raises(UnsupportedFeature, match="value 'nothing' has elements of vec<vec<f32, 0>, 1>, which no array"):
        Graph((GraphValue("x", one), nothing), (flat,)).bind(opened, {"x": np.ones(1, np.uint32), "nothing": np.ones(1)})


def test_a_push_constant_is_no_value_of_a_graph() -> None:
    pushing = step(load("n", u32(0)), BufferDecl.push("n", 0, DataType.U32), words("to", 1, 4, is_output=True))
    graph = Graph((), (GraphNode("push", pushing, (), (GraphOutput("to", "out", AFTER._replace(lifetime=Lifetime.OUTPUT)),)),))
    with pytest.raises(UnsupportedFeature, match="buffer 'n' of node 'push' is a push constant"):
        graph.schedule()


def enveloped() -> bytes:
    """An envelope of the artifact ``bin_Add`` with code that adds seven instead, so that one tells which of the two ran."""
    case = CASES["bin_Add"]
    code = bundle([module(glsl(ADD_SEVEN), case.bytes_of["program"])])
    return envelope_of(case.bytes_of["artifact"], payload_of(case.bytes_of["artifact"], code, [0, 1]))


def test_modules_in_upstreams_frames_run_on_the_values_of_the_artifact(driver: Driver) -> None:
    envelope = read_artifact(enveloped())
    assert isinstance(envelope, Envelope)
    x = np.arange(16, dtype=np.uint32)
    assert envelope.spirv().run(driver, {"x": x})["out"].tolist() == (x + 7).tolist()
    assert envelope.run(driver, {"x": x})["out"].tobytes() == reference(envelope.artifact.nodes[0].program, {"x": x})["out"]


def test_a_package_runs_and_gives_its_weights(opened: Driver, tmp_path: Path) -> None:
    brotli = imported("brotli")
    weights = np.arange(1000, dtype=np.float32).tobytes()
    write_package(tmp_path / "package", enveloped(), weights, brotli.compress(weights))
    package = from_artifact(tmp_path / "package")
    x = np.arange(16, dtype=np.uint32)
    assert (package.name, package.target, package.weights()) == ("sum", "spv", weights)  # type: ignore[union-attr]
    assert package.spirv().run(opened, {"x": x})["out"].tolist() == (x + 7).tolist()  # type: ignore[union-attr]


def chain(*names: str) -> bytes:
    """An artifact that doubles a value and adds it to the result; its buffers have these names."""
    first, second, third = names
    double = step(load(first, gid_x()) * u32(2), words(first, 0, 8), words(second, 1, 8, is_output=True), target=second)
    total = load(second, gid_x()) + load(first, gid_x())
    buffers = words(first, 0, 8), words(second, 1, 8), words(third, 2, 8, is_output=True)
    nodes = [("double", double, [0], [1]), ("sum", step(total, *buffers, target=third), [0, 1], [2])]
    return artifact_of([("x", "invocation"), ("twice", "invocation"), ("thrice", "output")], nodes, 8)


def test_the_nodes_of_an_artifact_run_in_order(opened: Driver) -> None:
    artifact = read_artifact(chain("x", "twice", "thrice"))
    results = artifact.run(opened, {"x": np.arange(8, dtype=np.uint32)})  # type: ignore[union-attr]
    assert {name: array.tolist() for name, array in results.items()} == {"thrice": list(range(0, 24, 3))}


def test_values_of_other_names_are_matched_where_one_alone_fits(opened: Driver) -> None:
    double = step(load("a", gid_x()) * u32(2), words("a", 0, 8), words("b", 1, 8, is_output=True), target="b")
    artifact = read_artifact(artifact_of([("x", "invocation"), ("y", "output")], [("double", double, [0], [1])], 8))
    results = artifact.run(opened, {"x": np.arange(8, dtype=np.uint32)})  # type: ignore[union-attr]
    assert {name: array.tolist() for name, array in results.items()} == {"y": list(range(0, 16, 2))}


def test_values_that_may_each_be_either_of_two_buffers_are_refused() -> None:
    with pytest.raises(InvalidProgram) as refused:
        read_artifact(chain("a", "b", "c")).schedule()  # type: ignore[union-attr]
    assert (refused.value.problem, refused.value.fix) == (
        "an artifact does not name the buffers of its values, and buffer 'a' of node 'sum' fits 'x', 'twice' of them",
        "run the graph (VGR0) that it was compiled from",
    )


def test_an_artifact_whose_values_fit_no_buffers_is_refused() -> None:
    artifact = artifact_of([("x", "invocation"), ("y", "output")], [("sum", SUMMED, [0], [1])], 8)
    with pytest.raises(
        InvalidProgram, match="node 'sum' takes 1 values and makes 1, and its program has 2 buffers to read and 1"
    ):
        read_artifact(artifact).schedule()  # type: ignore[union-attr]


def test_modules_of_several_stages_run_in_order(opened: Driver) -> None:
    artifact = chain("x", "twice", "thrice")
    program = CASES["bin_Add"].bytes_of["program"]
    code = bundle([module(glsl(ADD_SEVEN), program), module(glsl(ADD_SEVEN), program, group=1, stage=1)])
    envelope = read_artifact(envelope_of(artifact, payload_of(artifact, code, [0, 1], [1, 2])))
    assert isinstance(envelope, Envelope)
    assert envelope.spirv().run(opened, {"x": np.arange(8, dtype=np.uint32)})["thrice"].tolist() == list(range(14, 22))


def test_a_module_whose_buffer_has_no_value_is_refused() -> None:
    case = CASES["bin_Add"]
    code = bundle([module(glsl(ADD_SEVEN), case.bytes_of["program"])])
    envelope = read_artifact(envelope_of(case.bytes_of["artifact"], payload_of(case.bytes_of["artifact"], code, [0])))
    assert isinstance(envelope, Envelope)
    with pytest.raises(InvalidProgram, match="module 0 has buffer 'y' at binding 1, where its entry has no value"):
        envelope.spirv().schedule()
