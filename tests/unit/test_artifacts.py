"""Files of upstream, as bytes: read in full, or refused before anything is made of it; and the order of a schedule's nodes."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from blake3 import blake3
from upstream_graphs import UpstreamGraph, artifact_of, cases

from vyre_driver import from_artifact
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
    read_artifact,
)
from vyre_driver.artifacts.documents import MAX_DEPTH, Document, as_json, data_type
from vyre_driver.artifacts.neutral import FRAME as ARTIFACT
from vyre_driver.artifacts.opening import FRAME as ENVELOPE
from vyre_driver.artifacts.payload import FRAME as PAYLOAD
from vyre_driver.errors import FileUnusable, InvalidContainer, InvalidInput, InvalidProgram, UnsupportedFeature
from vyre_driver.ir import BufferAccess, BufferDecl, DataType, MemoryKind, Program, gid_x, load, store, u32
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ZeroPointKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vyre_driver.artifacts.documents import Frame


CASES = cases()
BIN_ADD = CASES["bin_Add"]
WITH_ARTIFACT = [case for case in CASES.values() if "artifact" in case.bytes_of]
FRAMES = {"artifact": ARTIFACT, "payload": PAYLOAD, "envelope": ENVELOPE}


def problem_of(data: bytes) -> str:
    """Return the problem of bytes that have to be refused."""
    with pytest.raises(InvalidContainer) as caught:
        read_artifact(data)
    assert caught.value.code == 2105
    assert caught.value.fix
    assert isinstance(caught.value.context["offset"], int)
    return caught.value.problem.partition(": ")[2]


def rewrapped(frame: Frame, data: bytes, change: Callable[[Any], object]) -> bytes:
    """A framed document with something else in it, under a digest that is right."""
    document = json.loads(data[10:-32])
    change(document)
    return frame.wrap(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_graph_is_read_written_and_identified_as_upstream_does(case: UpstreamGraph) -> None:
    graph = Graph.from_wire(case.bytes_of["graph"])
    assert graph.to_wire() == case.bytes_of["graph"]
    assert graph.identity(case.bytes_of["configuration_digest"]) == case.bytes_of["identity"]


@pytest.mark.parametrize("case", WITH_ARTIFACT, ids=[case.name for case in WITH_ARTIFACT])
def test_an_artifact_has_the_program_of_its_graph_and_upstreams_digest(case: UpstreamGraph, tmp_path: Path) -> None:
    (tmp_path / "add.vmk").write_bytes(case.bytes_of["artifact"])
    artifact, graph = from_artifact(tmp_path / "add.vmk"), Graph.from_wire(case.bytes_of["graph"])
    assert isinstance(artifact, NeutralArtifact)
    assert (artifact.digest, artifact.compiler_version) == (case.bytes_of["artifact_digest"], "0.7.2")
    assert artifact.schedule().steps[0].buffers == graph.schedule().steps[0].buffers


def test_code_for_a_target_and_an_envelope_are_read() -> None:
    payload, envelope = read_artifact(BIN_ADD.bytes_of["payload"]), read_artifact(BIN_ADD.bytes_of["envelope"])
    assert isinstance(payload, TargetPayload)
    assert isinstance(envelope, Envelope)
    assert (payload.digest, payload.format) == (BIN_ADD.bytes_of["payload_digest"], ("spv", 1))
    assert envelope.payloads == (payload,)
    assert envelope.artifact == read_artifact(BIN_ADD.bytes_of["artifact"])
    with pytest.raises(InvalidContainer, match=r"it has 8 bytes, fewer than its digest of 32"):
        envelope.spirv()


@pytest.mark.parametrize("kind", ["graph", "artifact", "payload", "envelope"])
def test_bytes_that_are_cut_short_or_prolonged_are_refused(kind: str) -> None:
    data = BIN_ADD.bytes_of[kind]
    for changed in [*(data[:length] for length in range(len(data))), data + b"\0"]:
        problem_of(changed)


def test_bytes_come_in_any_form_and_nothing_else_does() -> None:
    for read, kind in ((Graph.from_wire, "graph"), (NeutralArtifact.from_bytes, "artifact"), (read_artifact, "envelope")):
        data = BIN_ADD.bytes_of[kind]
        assert read(bytearray(data)) == read(memoryview(data)) == read(data)  # type: ignore[arg-type, operator]
        with pytest.raises(InvalidContainer, match="they are of type str"):
            read(data.hex())  # type: ignore[arg-type, operator]


@pytest.mark.parametrize("kind", FRAMES)
def test_the_frame_is_compared_before_the_document_is_parsed(kind: str) -> None:
    data = BIN_ADD.bytes_of[kind]
    version = FRAMES[kind].version
    broken = data[:10] + b"[" * (len(data) - 42) + data[-32:]
    assert problem_of(broken) == f"byte {len(data) - 32}: its digest is that of another document"
    assert problem_of(data[:-1] + bytes((data[-1] ^ 1,))) == f"byte {len(data) - 32}: its digest is that of another document"
    assert problem_of(data[:4] + b"\x09" + data[5:]) == f"byte 4: it is of schema 9, and this reads {version}"


@pytest.mark.parametrize("kind", FRAMES)
def test_json_that_is_not_canonical_is_refused_under_a_right_digest(kind: str) -> None:
    frame, body = FRAMES[kind], BIN_ADD.bytes_of[kind][10:-32]
    refused = {
        "a space": body.replace(b",", b", ", 1),
        "another order": json.dumps(dict(reversed(json.loads(body).items())), separators=(",", ":")).encode(),
        "a key twice": body[:-1] + b',"schema_version":4}',
        "a fraction": body.replace(b'"schema_version":', b'"schema_version":1.0,"x":', 1),
        "no number": body.replace(b'"schema_version":', b'"schema_version":NaN,"x":', 1),
        "not JSON": body[:-1],
        "no text": b'"\xff"',
        "a long number": b"9" * 5000,
        "deep": b"[" * 100_000,
        "many": b"[" + b"[]," * 1_000_000 + b"[]]",
    }
    for changed in refused.values():
        assert problem_of(frame.wrap(changed)).startswith("byte 10: ")


def test_json_is_bounded_before_it_is_parsed() -> None:
    document = Document("a test")
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    document.parse(deepest)
    with pytest.raises(InvalidContainer, match=f"nests deeper than {MAX_DEPTH} levels"):
        document.parse(b"[" + deepest + b"]")
    assert document.parse(b'"' + b"[" * 1000 + b'"') == "[" * 1000  # in a text they are none


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'"' + b'\\"' * 1_000_001, "its JSON has 500001 texts and 1000001 escapes, over the limits of "),
        (b'"' * 2_000_002, "its JSON has 1000001 texts and 0 escapes, over the limits of "),
        (b'"' + b'\\"' * 1_000_000, "it is not JSON (Unterminated string starting at"),
        (b"]" * 4_000_000, "its JSON closes what is not open"),
        (b"[]" * 1_000_001, "its JSON has more than 1000000 lists and objects"),
        (b"9" * 4_000_000, "its JSON has a number of more than 20 digits"),
    ],
    ids=["escapes", "texts", "an open text", "closed", "lists", "digits"],
)
def test_hostile_json_costs_no_more_than_its_size(data: bytes, problem: str) -> None:
    with pytest.raises(InvalidContainer) as caught:
        Document("a test").parse(data)
    assert problem in caught.value.problem


def _set(*path: str | int, to: object) -> Callable[[Any], object]:
    def change(document: Any) -> None:  # noqa: ANN401 -- JSON
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        ("artifact", _set("schema_version", to=3), "schema_version is not the 4 of its frame"),
        ("artifact", _set("nodes", 0, "id", to=1), "nodes[0].id is 1, not 0"),
        ("artifact", _set("nodes", 0, "id", to=False), "nodes[0].id is not a whole number from 0 to 4294967295"),
        ("artifact", _set("nodes", 0, "name", to=""), "nodes[0].name is not a text of 1 to 4096 bytes"),
        ("artifact", _set("nodes", 0, "program", to=[256]), "nodes[0].program is not a list of bytes"),
        ("artifact", _set("nodes", to=[]), "there are 0 nodes and 1 entries of the ABI"),
        ("artifact", _set("abi", "entries", 0, "outputs", to=[2]), "abi.entries[0] names value 2, and there are 2"),
        ("artifact", _set("abi", "resources", 0, "dtype", to="U99"), "abi.resources[0].dtype is none of U32, "),
        ("artifact", _set("abi", "resources", 0, "dtype", to={"Vec": {"element": "F32", "count": 256}}), "abi.resources[0]"),
        ("artifact", _set("resources", 0, "lifetime", to="for ever"), "resources[0].lifetime is none of constant, "),
        ("artifact", _set("resources", 1, "name", to="x"), "two resources have one name"),
        ("artifact", _set("geometry", 0, "workgroup_size", to=[32, 1, 1]), "geometry[0] is not that of the program of node 0"),
        ("artifact", _set("selected_plan", to={}), "selected_plan has the keys , not 'fusion', "),
        (
            "artifact",
            _set("selected_plan", "fusion", 0, "legality", 0, to=[1]),
            "selected_plan.fusion[0].legality[0] has 1 bytes",
        ),
        (
            "artifact",
            _set("selected_plan", "materializations", 0, "reason", to="x"),
            "selected_plan.materializations[0].reason is",
        ),
        ("artifact", _set("selected_plan", "selection_cost", "total", to=2**64), "selected_plan.selection_cost.total is not a"),
        ("artifact", _set("dependencies", 0, "from", to={"edge": 0}), "dependencies[0].from has the keys 'edge', not 'node'"),
        ("artifact", _set("dependencies", 0, "value", to="1"), "dependencies[0].value is not a whole number"),
        ("artifact", _set("provenance", "request", to=[]), "provenance.request has 0 bytes, not 32"),
        ("payload", _set("neutral_artifact", to=[1]), "neutral_artifact has 1 bytes, not 32"),
        ("payload", _set("entries", to=[]), "it has no entries"),
        (
            "payload",
            _set("entries", 0, "workgroup_size", to=[2048, 1, 1]),
            "entries[0].workgroup_size is over the profile's limits",
        ),
        ("payload", _set("profile", "subgroup_size", to=3), "profile.subgroup_size is 3, not a power of two"),
        ("envelope", _set("target_payloads", 0, to=[1, 2]), "it has 2 bytes, fewer than its frame of 42"),
    ],
)
def test_a_document_that_is_not_what_its_frame_says_is_refused(
    kind: str, change: Callable[[Any], object], problem: str
) -> None:
    message = problem_of(rewrapped(FRAMES[kind], BIN_ADD.bytes_of[kind], change)).partition(": ")[2]
    assert message.startswith(problem)


def test_code_of_another_artifact_is_refused_in_an_envelope() -> None:
    other = rewrapped(PAYLOAD, BIN_ADD.bytes_of["payload"], _set("neutral_artifact", to=[0] * 32))
    data = rewrapped(ENVELOPE, BIN_ADD.bytes_of["envelope"], _set("target_payloads", to=[list(other)]))
    assert problem_of(data) == "byte 10: the code of format 'spv' is of another artifact"
    twice = _set("target_payloads", to=[list(BIN_ADD.bytes_of["payload"])] * 2)
    problem = "byte 10: its payloads are not in the order of their formats, or two have one format"
    assert problem_of(rewrapped(ENVELOPE, BIN_ADD.bytes_of["envelope"], twice)) == problem


def test_code_of_another_format_does_not_run() -> None:
    payload = rewrapped(PAYLOAD, BIN_ADD.bytes_of["payload"], _set("format", "version", to=2))
    data = rewrapped(ENVELOPE, BIN_ADD.bytes_of["envelope"], _set("target_payloads", to=[list(payload)]))
    envelope = read_artifact(data)
    assert isinstance(envelope, Envelope)
    with pytest.raises(UnsupportedFeature, match=r"no code of format spv version 1 \(there is: spv version 2\)"):
        envelope.spirv()
    with pytest.raises(UnsupportedFeature, match="the code is of format spv version 2, and spv version 1 runs here"):
        envelope.payloads[0].modules()


def test_the_limits_of_a_graph_are_held_before_anything_is_made() -> None:
    head = struct.pack("<4sH", b"VGR0", 2)
    assert problem_of(struct.pack("<4sH", b"VGR0", 1) + bytes(8)) == "byte 4: it is of version 1, and this reads 2"
    assert problem_of(head + b"\xff" * 4) == "byte 6: there are 4294967295 values from outside, over the limit of 1000000"
    assert problem_of(head + struct.pack("<I", 1_000_000)) == (
        "byte 6: 1000000 values from outside are announced and 0 bytes are left"
    )
    long_name = head + struct.pack("<II", 1, 4097) + b"n" * 4097
    assert problem_of(long_name + bytes(40)) == "byte 10: the name of a value has 4097 bytes, and 1 to 4096 are allowed"
    spaced = BIN_ADD.bytes_of["graph"].replace(b'\5\0\0\0"U32"', b'\6\0\0\0 "U32"', 1)
    assert "its JSON is not canonical" in problem_of(spaced)


def test_a_program_that_cannot_be_read_is_named_with_its_node_and_byte() -> None:
    data = BIN_ADD.bytes_of["graph"]
    at = data.index(b"VYRE")
    changed = data[: at + 50] + bytes((data[at + 50] ^ 1,)) + data[at + 51 :]
    assert problem_of(changed).startswith(f"byte {at + 8}: the program of node 'main': ")


def test_a_file_that_is_none_of_these_is_refused(tmp_path: Path) -> None:
    (tmp_path / "program.vyre").write_bytes(BIN_ADD.bytes_of["program"])
    with pytest.raises(InvalidContainer, match=r"it begins with b'VYRE' \(Program.from_wire reads it\)"):
        from_artifact(tmp_path / "program.vyre")
    with pytest.raises(FileUnusable, match="does not exist"):
        from_artifact(tmp_path / "missing.vmk")
    for path, problem in ((3, "the path is of type int"), (b"x", "the path is of type bytes"), ("", "the path is empty")):
        with pytest.raises(InvalidInput, match=problem):
            from_artifact(path)  # type: ignore[arg-type]


WORDS = Contract(DataType.U32, ("n",), BufferAccess.READ_ONLY, Lifetime.INVOCATION)
STATE = Contract(DataType.U32, (4,), BufferAccess.READ_WRITE, Lifetime.RETAINED)
HUGE = "the shape (9223372036854775808, 4) has more than 2**64 - 1 elements"
FLOATS = STATE._replace(element=DataType.F32)
COPY = Program.wrapped(
    [
        BufferDecl("a", 0, BufferAccess.READ_ONLY, MemoryKind.READONLY, DataType.U32),
        BufferDecl("b", 1, BufferAccess.READ_WRITE, MemoryKind.GLOBAL, DataType.U32, count=4, is_output=True),
    ],
    (4, 1, 1),
    [store("b", gid_x(), load("a", gid_x()))],
)


def copies(*ports: GraphInput, made: GraphOutput | None = None) -> Graph:
    result = made or GraphOutput(
        "b", "out", WORDS._replace(access=BufferAccess.READ_WRITE, lifetime=Lifetime.OUTPUT, shape=(4,))
    )
    return Graph((GraphValue("x", WORDS), GraphValue("state", STATE)), (GraphNode("copy", COPY, ports, (result,)),))


def test_an_identity_needs_every_symbol_and_constant_and_no_other() -> None:
    graph, configuration = copies(GraphInput("a", 0, WORDS)), bytes(32)
    assert graph.identity(configuration, {"n": 4}) != graph.identity(configuration, {"n": 5})
    with pytest.raises(InvalidInput, match=r"the symbols of the graph are \['n'\], and \[\] are given"):
        graph.identity(configuration)
    with pytest.raises(InvalidInput, match=r"the constants of the graph are \[\], and \['x'\] are given"):
        graph.identity(configuration, {"n": 4}, {"x": bytes(32)})
    with pytest.raises(InvalidInput, match="configuration_digest is not a digest of 32 bytes"):
        graph.identity(b"", {"n": 4})


def test_a_graph_of_ours_comes_back_from_its_bytes() -> None:
    graph = copies(GraphInput("a", 0, WORDS))
    again = Graph.from_wire(graph.to_wire())
    assert again.to_wire() == graph.to_wire()
    assert (again.externals, again.values, again.nodes[0].program) == (graph.externals, graph.values, COPY)


@pytest.mark.parametrize(
    ("ports", "made", "problem"),
    [
        ([GraphInput("c", 0, WORDS)], None, "its program has no buffer 'c'"),
        ([GraphInput("a", 2, WORDS)], None, "value 2 of buffer 'a' is none of the 2 before the node"),
        ([GraphInput("a", -1, STATE)], None, "value -1 of buffer 'a' is none of the 2 before the node"),
        ([GraphInput("a", 0, STATE)], None, "the contract of buffer 'a' is not that of value 'x'"),
        ([GraphInput("a", 0, WORDS)] * 2, None, "buffer 'a' is bound twice"),
        ([GraphInput("a", 1, STATE)], None, "buffer 'a' is READ_ONLY, and the input's contract READ_WRITE"),
        ([], GraphOutput("b", "out", STATE, 1), "output 'out' replaces value 1, which the node does not take"),
        ([], GraphOutput("b", "out", STATE._replace(shape=(5,))), "buffer 'b' has 4 elements, its contract 5"),
        ([], GraphOutput("b", "out", FLOATS), "buffer 'b' has elements of u32, its contract of f32"),
        ([], GraphOutput("b", "out", STATE._replace(shape=(-4,))), "the shape (-4,) has an extent that is no u64"),
        ([], GraphOutput("b", "out", STATE._replace(shape=(2**63, 4))), HUGE),
        ([], GraphOutput("b", "x", STATE), "two values or nodes of the graph are called 'x'"),
    ],
)
def test_a_node_that_does_not_fit_its_values_is_refused(
    ports: list[GraphInput], made: GraphOutput | None, problem: str
) -> None:
    with pytest.raises(InvalidProgram) as caught:
        copies(*ports, made=made)
    assert caught.value.problem.removeprefix("node 'copy': ") == problem


def test_a_graph_with_a_node_that_does_not_fit_is_refused_at_the_node() -> None:
    data = copies(GraphInput("a", 0, WORDS)).to_wire()
    changed = data.replace(b"\4\0\0\0copy", b"\1\0\0\0x", 1)
    assert problem_of(changed).endswith("two values or nodes of the graph are called 'x'")
    assert not problem_of(changed).startswith("byte 0:")


def test_a_schedule_names_the_buffer_that_nothing_is_connected_to() -> None:
    with pytest.raises(InvalidProgram, match="node 'copy' leaves buffer 'a' of its program without a value"):
        copies().schedule()


def test_the_digest_of_a_frame_is_that_of_domain_version_length_and_document() -> None:
    body = b"{}"
    hashed = blake3(b"vyre-megakernel-artifact-v4\0" + struct.pack("<HQ", 4, 2) + body).digest()
    assert ARTIFACT.wrap(body) == b"VMK0" + struct.pack("<HI", 4, 2) + body + hashed


VEC = DataType.vec(DataType.F32, 3)
GROUPS = QuantizationScale.per_group(32), QuantizationZeroPoint.per_channel(1)
TENSOR_WIDE = QuantizationScale.per_tensor(), QuantizationZeroPoint(ZeroPointKind.ABSENT)
TYPES = {
    '"U32"': DataType.U32,
    '"F8E4M3"': DataType.F8E4M3,
    '{"Array":{"element_size":4294967296}}': DataType.array(2**32),
    '{"Handle":7}': DataType.handle(7),
    '{"Opaque":2147483649}': DataType.opaque(2**31 + 1),
    '{"Vec":{"element":"F32","count":3}}': VEC,
    '{"TensorShaped":{"element":{"Vec":{"element":"F32","count":3}},"shape":[2,3]}}': DataType.tensor_shaped(VEC, (2, 3)),
    '{"SparseCsr":{"element":"F16"}}': DataType.sparse_csr(DataType.F16),
    '{"SparseBsr":{"element":"F16","block_rows":2,"block_cols":4}}': DataType.sparse_bsr(DataType.F16, 2, 4),
    '{"DeviceMesh":{"axes":[2,4]}}': DataType.device_mesh((2, 4)),
    '{"Quantized":{"storage":"I4","scale":{"PerGroup":{"group_size":32}},"zero_point":{"PerChannel":{"axis":1}}}}': (
        DataType.quantized(DataType.I4, *GROUPS)
    ),
    '{"Quantized":{"storage":"U8","scale":"PerTensor","zero_point":"Absent"}}': DataType.quantized(DataType.U8, *TENSOR_WIDE),
}


@pytest.mark.parametrize(("text", "dtype"), TYPES.items(), ids=str)
def test_a_data_type_is_written_in_json_as_upstream_writes_it(text: str, dtype: DataType) -> None:
    document = Document("a test")
    assert data_type(document, document.parse(text.encode()), "it") == dtype
    assert json.dumps(as_json(dtype), separators=(",", ":")) == text


@pytest.mark.parametrize(
    "text",
    [
        *('"u32"', "3", "[]", "{}", '{"U32":0}', '{"Vec":"F32"}', '{"Vec":{"count":3,"element":"F32"}}', '{"A":0,"B":0}'),
        *('{"Handle":4294967296}', '{"Handle":-1}', '{"Array":{"element_size":true}}', '{"Vec":{"element":"F32","count":256}}'),
        '{"Quantized":{"storage":"I4","scale":"PerGroup","zero_point":"Absent"}}',
        '{"Quantized":{"storage":"I4","scale":{"PerGroup":{"axis":1}},"zero_point":"Absent"}}',
        '{"Quantized":{"storage":"I4","scale":{"PerTensor":{}},"zero_point":"Absent"}}',
        '{"SparseCsr":{"element":' * 100 + '"U32"' + "}}" * 100,
    ],
)
def test_json_that_names_no_data_type_is_refused(text: str) -> None:
    document = Document("a test", 5)
    with pytest.raises(InvalidContainer) as caught:
        data_type(document, document.parse(text.encode()), "it")
    assert caught.value.context["offset"] == 5


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
