"""Upstream's golden vectors as programs.

data/dtypes.json and data/program_digests.json were made by compiling and running upstream's sources (vyre 0.6.2 for programs)
and recomputed by an independent script; their ``schema`` strings describe the fields. The same holds, with upstream's driver
0.6.1 (specialization) and 0.4.1 (binding plans, tuning store, disk cache), for data/spec_values.json, spec_maps.json,
spec_cache_keys.json, artifact_keys.json, binding_plans.json, autotune_keys.json and pipeline_device_fingerprint.json.
Those in upstream-0.7 are of 0.7.2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vyre_driver.binding import BindingPlan, BindingRole, BindingSetFingerprint
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, CacheLocality, MemoryHints, MemoryKind
from vyre_driver.ir.builders import buf_len, gid_x, if_, let, load, store, u32, var
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind
from vyre_driver.specialization import SpecCacheKey, SpecMap, SpecValue

DATA = Path(__file__).parent / "data"

BODIES: dict[str, list[Any]] = {
    "empty": [],
    "store_const": [store("out", 0, u32(7))],
    "copy": [let("idx", gid_x()), store("out", var("idx"), load("in", var("idx")))],
    "add": [
        let("idx", gid_x()),
        if_(
            var("idx") < buf_len("out"),
            [store("out", var("idx"), load("b", var("idx")) + load("a", var("idx")))],
        ),
    ],
    "two_stores": [store("out", 0, u32(1)), store("out", 1, u32(0xFFFF_FFFF))],
}


PARAMETERS: dict[str, list[str]] = {
    "Array": ["element_size"],
    "Handle": ["id"],
    "Opaque": ["id"],
    "Vec": ["count"],
    "TensorShaped": ["shape"],
    "SparseCsr": [],
    "SparseCoo": [],
    "SparseBsr": ["block_rows", "block_cols"],
    "DeviceMesh": ["axes"],
}


def vectors(name: str) -> Any:  # noqa: ANN401 -- JSON
    """One file of vectors."""
    return json.loads((DATA / name).read_text("utf-8"))


def snake(name: str) -> str:
    """``PerGroup`` as ``PER_GROUP``."""
    return "".join(f"_{letter}" if letter.isupper() and place else letter for place, letter in enumerate(name)).upper()


def dtype(facts: dict[str, Any]) -> DataType:
    """A type as the vectors describe it."""
    kind = facts["type"]
    if kind == "Quantized":
        return DataType.quantized(dtype(facts["storage"]), scale(facts["scale"]), zero_point(facts["zero_point"]))
    if kind not in PARAMETERS:
        return getattr(DataType, kind)  # type: ignore[no-any-return]
    element = [dtype(facts["element"])] if "element" in facts else []
    return getattr(DataType, snake(kind).lower())(*element, *(facts[name] for name in PARAMETERS[kind]))  # type: ignore[no-any-return]


def scale(facts: dict[str, Any]) -> QuantizationScale:
    """A scale as the vectors describe it."""
    return QuantizationScale(ScaleKind[snake(facts["kind"])], facts.get("axis", facts.get("group_size", 0)))


def zero_point(facts: dict[str, Any]) -> QuantizationZeroPoint:
    """A zero point as the vectors describe it."""
    return QuantizationZeroPoint(ZeroPointKind[snake(facts["kind"])], facts.get("axis", facts.get("group_size", 0)))


def buffer(facts: dict[str, Any]) -> BufferDecl:
    """A buffer as the vectors describe it."""
    hints = facts["hints"]
    return BufferDecl(
        name=facts["name"],
        binding=facts["binding"],
        access=BufferAccess[snake(facts["access"])],
        kind=MemoryKind[snake(facts["kind"])],
        element=dtype(facts["element"]),
        count=facts["count"],
        is_output=facts["is_output"],
        pipeline_live_out=facts["pipeline_live_out"],
        hints=MemoryHints(hints["coalesce_axis"], hints["preferred_alignment"], CacheLocality[snake(hints["cache_locality"])]),
    )


def planned(plan: BindingPlan) -> dict[str, Any]:
    """A plan as the vectors describe it."""
    bindings = [
        {
            "name": binding.name,
            "binding": binding.binding,
            "buffer_index": binding.buffer_index,
            "role": role(binding.role),
            "element_size": str(binding.element_size),
            "preferred_alignment": str(binding.preferred_alignment),
            "element_count": binding.element_count,
            "static_byte_len": None if binding.static_byte_len is None else str(binding.static_byte_len),
            "input_index": binding.input_index,
            "output_index": binding.output_index,
        }
        for binding in plan.bindings
    ]
    return {
        "bindings": bindings,
        "input_indices": list(plan.input_indices),
        "output_indices": list(plan.output_indices),
        "shared_indices": list(plan.shared_indices),
    }


def fingerprinted(plan: BindingPlan) -> list[list[Any]]:
    """The fingerprint of a plan as the vectors describe it."""
    return [[binding, role(kind), str(size)] for binding, kind, size in BindingSetFingerprint.from_plan(plan).slots]


def role(kind: BindingRole) -> str:
    """``INPUT_OUTPUT`` as ``InputOutput``."""
    return "".join(word.title() for word in kind.value.split("_"))


def program(facts: dict[str, Any]) -> Program:
    """A program as the vectors describe it."""
    wrapped = Program.wrapped([buffer(one) for one in facts["buffers"]], facts["workgroup_size"], BODIES[facts["body"]])
    return (
        wrapped.with_entry_op_id(facts["entry_op_id"])
        .with_non_composable_with_self(facts["non_composable_with_self"])
        .with_structurally_validated(facts["structurally_validated"])
    )


def spec_value(facts: dict[str, Any]) -> SpecValue:
    """A typed value as the vectors describe it."""
    match facts["kind"]:
        case "U32":
            return SpecValue.u32(facts["value"])
        case "I32":
            return SpecValue.i32(facts["value"])
        case "F32":
            return SpecValue.f32_bits(int(facts["bits"], 16))
        case "Bool":
            return SpecValue.bool(facts["value"])
    return SpecValue.dtype(dtype(encodable(facts["dtype"])))


def encodable(facts: dict[str, Any]) -> dict[str, Any]:
    """The type itself, or an array type of the largest elements that have an encoding: its tag is all that upstream hashes."""
    return facts if facts.get("element_size", 0) < 2**32 else facts | {"element_size": 2**32 - 1}


def spec_map(inserts: list[tuple[str, dict[str, Any]]]) -> SpecMap:
    """A map as the vectors fill it."""
    made = SpecMap()
    for name, value in inserts:
        made.insert(name, spec_value(value))
    return made


def spec_cache_key(facts: dict[str, Any]) -> SpecCacheKey:
    """A key as the vectors describe it."""
    numbers = {name: int(facts[name]) for name in ("shader_hash", "binding_sig", "spec_hash")}
    return SpecCacheKey(workgroup_size=tuple(facts["workgroup_size"]), **numbers)
