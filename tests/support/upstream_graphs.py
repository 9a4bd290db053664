"""Graphs and artifacts that upstream's 0.7.2 wrote, and the arrays on which its oracle ran their programs."""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from vyre_driver.artifacts import neutral, opening, payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir import Program
    from vyre_driver.spirv import SpirvModule

_FILE = Path(__file__).parents[1] / "golden" / "upstream-0.7" / "graphs.json"


@dataclass(frozen=True)
class UpstreamGraph:
    """One case: bytes by their names in the file, and the oracle's outputs, None where it did not run."""

    name: str
    bytes_of: dict[str, bytes]
    inputs: tuple[str, ...]
    outputs: dict[str, bytes] | None

    def arrays(self, program: Program) -> dict[str, NDArray[Any]]:
        """Return the oracle's inputs by name."""
        return {name: _input(program, name, place) for place, name in enumerate(self.inputs)}


def cases() -> dict[str, UpstreamGraph]:
    """Return the cases by name."""
    listed: list[dict[str, Any]] = json.loads(_FILE.read_text("utf-8"))["cases"]
    return {case["name"]: _case(case) for case in listed}


def _case(case: dict[str, Any]) -> UpstreamGraph:
    texts = {name: text for name, text in case.items() if isinstance(text, str) and name != "name"}
    outputs = case["outputs"]
    return UpstreamGraph(
        case["name"],
        {name.removesuffix("_hex"): bytes.fromhex(text) for name, text in texts.items()},
        tuple(case["inputs"] or ()),
        None if outputs is None else {name: bytes.fromhex(text) for name, text in outputs.items()},
    )


def _input(program: Program, name: str, place: int) -> NDArray[Any]:
    """Return what the oracle was given: numbers around zero for f32, else words of all bits."""
    buffer = program.buffer(name)
    assert buffer is not None
    count = buffer.count or 8
    if str(buffer.element) == "f32":
        return np.array([(i - 3.5) * 1.25 * (place + 1) for i in range(count)], np.float32)
    words = [(0x9E3779B9 * (i + 1) & 0xFFFFFFFF) ^ (0x85EBCA6B * (place + 1) & 0xFFFFFFFF) for i in range(count)]
    return np.array(words, np.uint32).view(np.int32 if str(buffer.element) == "i32" else np.uint32)


def bundle(modules: list[dict[str, object]], schema: int = 2) -> bytes:
    """Return modules in upstream's bundle."""
    body = _json({"schema_version": schema, "modules": modules})
    return blake3(body).digest() + body


def module(code: SpirvModule, program: bytes, entry_point: str = "main", group: int = 0, stage: int = 0) -> dict[str, object]:
    """Return a module as a bundle has it, for the node of its group."""
    return {
        "group": group,
        "stage": stage,
        "nodes": [group],
        "program": list(program),
        "descriptor": {"bindings": {"slots": []}, "literal": 0.5},
        "entry_point": entry_point,
        "bytes": list(code.code),
    }


def artifact_of(
    values: list[tuple[str, str]],
    nodes: list[tuple[str, Program, list[int], list[int]]],
    count: int,
    dependencies: Sequence[dict[str, object]] = (),
) -> bytes:
    """Return an artifact in upstream's frame: values of ``count`` words with lifetimes, nodes with what they take and make."""
    stages = {"first_stage": 0, "last_stage": 0}
    sizes = {"element_count": count, "byte_count": 4 * count}
    document = {
        "schema_version": 4,
        "nodes": [{"id": at, "name": name, "program": list(code.to_wire())} for at, (name, code, _, _) in enumerate(nodes)],
        "dependencies": list(dependencies),
        "selected_plan": _document(cases()["bin_Add"].bytes_of["artifact"])["selected_plan"],
        "abi": {
            "resources": [{"slot": at, "value": at, "dtype": "U32", "access": "read_write"} for at in range(len(values))],
            "entries": [{"node": at, "inputs": taken, "outputs": made} for at, (_, _, taken, made) in enumerate(nodes)],
        },
        "resources": [
            {"value": at, "name": name, **sizes, "lifetime": lifetime, **stages} for at, (name, lifetime) in enumerate(values)
        ],
        "resource_envelope": {"total_bytes": 0, "peak_live_bytes": 0},
        "geometry": [{"node": at, "workgroup_size": list(node[1].workgroup_size)} for at, node in enumerate(nodes)],
        "provenance": {"source_graph": [0] * 32, "request": [0] * 32, "compiler_version": "0.7.2"},
    }
    return neutral.FRAME.wrap(_json(document))


def payload_of(artifact: bytes, code: bytes, *bindings: list[int]) -> bytes:
    """Return code for the target "spv" in upstream's frame: an entry a node, with value ``bindings[node][n]`` at binding n."""
    kind = {"memory": "global", "access": "read_write"}
    sizes = {"workgroup_size": [64, 1, 1], "grid_size": [1, 1, 1], "dynamic_shared_bytes": 0}
    entries = [
        {
            "name": "main",
            "node": node,
            **sizes,
            "resource_bindings": [{"resource": value, "group": 0, "slot": slot, **kind} for slot, value in enumerate(values)],
        }
        for node, values in enumerate(bindings)
    ]
    limits = {"max_workgroup_size": [1024, 1024, 64], "max_invocations_per_workgroup": 1024, "max_dynamic_shared_bytes": 32768}
    document = {
        "schema_version": 3,
        "neutral_artifact": list(artifact[-32:]),
        "format": {"identity": "spv", "version": 1},
        "profile": {"identity": "spv", "generation": 1, **limits, "subgroup_size": 0},
        "entries": entries,
        "bytes": list(code),
    }
    return payload.FRAME.wrap(_json(document))


def envelope_of(artifact: bytes, *payloads: bytes) -> bytes:
    """Return an artifact and code for targets in upstream's frame."""
    document = {"schema_version": 2, "neutral_artifact": list(artifact), "target_payloads": list(map(list, payloads))}
    return opening.FRAME.wrap(_json(document))


def write_package(folder: Path, packed: bytes, weights: bytes, compressed_weights: bytes, **changes: str) -> None:
    """Write a package of ``vyre aot``, with other texts in its manifest."""
    read = opening.Envelope.from_bytes(packed)
    manifest = {
        "schema": "vyre-aot-manifest-v4",
        "aot_version": "0.7.2",
        "artifact_name": "sum",
        "target": "spv",
        "target_payload_format": "spv",
        "envelope_file": "artifact.vmk.lzma",
        "envelope_compression": "lzma",
        "envelope_sha256_hex": hashlib.sha256(packed).hexdigest(),
        "neutral_artifact_digest_hex": read.artifact.digest.hex(),
        "target_payload_digest_hex": read.payloads[0].digest.hex(),
        "weights_file": "weights.brotli",
        "weights_compression": "brotli-11",
        "weights_sha256_hex": hashlib.sha256(weights).hexdigest(),
        "notes": "",
    }
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest | changes, indent=2), "utf-8")
    (folder / "artifact.vmk.lzma").write_bytes(lzma.compress(packed, lzma.FORMAT_ALONE))
    (folder / "weights.brotli").write_bytes(compressed_weights)


def _document(framed: bytes) -> Any:  # noqa: ANN401 -- JSON
    return json.loads(framed[10:-32])


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
