"""``vyre-driver spirv``: what a shader declares and requires, without a device."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vyre_driver.cli.files import add_shader, load_shader
from vyre_driver.cli.options import add_json, print_json, say, tell
from vyre_driver.errors import VyreError
from vyre_driver.spirv.disassembler import disassemble
from vyre_driver.spirv.layout import Array, Matrix, Struct
from vyre_driver.spirv.opcodes import capability_name
from vyre_driver.spirv.reflection import choose_entry
from vyre_driver.spirv.signature import (
    default_of,
    first_at_bindings,
    matrix_convention,
    matrix_products,
    named_as_called,
    required_features,
    required_limits,
    signature,
    subgroup_uses,
)

if TYPE_CHECKING:
    import argparse

    from vyre_driver.spirv import SpirvModule
    from vyre_driver.spirv.interface import ComputeEntry, Resource, SpecConstant
    from vyre_driver.spirv.layout import MemoryType


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    add_shader(parser)
    parser.add_argument("--disassemble", action="store_true", help="print the module's instructions (needs spirv-dis)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show the shader; one that this driver cannot run is shown too, with the reason."""
    module = load_shader(options.shader, options.entry)
    if options.entry is not None:
        choose_entry(module.interface, options.entry, module.name)
    if options.disassemble:
        text = disassemble(module.code, module.name)
        tell(options, {"name": module.name, "disassembly": text}, text.removesuffix("\n"))
        return 0
    if options.json:
        print_json(_as_data(module))
        return 0
    say(module)
    refusal = _refusal(module)
    if refusal is not None:
        say(f"  cannot run: {refusal}")
    elif module.runnable.is_rewritten:
        moved = [f"{one.name} -> binding {one.slot}" for one in module.runnable.bindings]
        say(f"  runs rewritten: {', '.join(moved)}")
    return 0


def _refusal(module: SpirvModule) -> str | None:
    try:
        module.runnable  # noqa: B018 -- made on demand
    except VyreError as error:
        return str(error)
    return None


def _as_data(module: SpirvModule) -> dict[str, Any]:
    found, refusal = named_as_called(module.code, module.interface), _refusal(module)
    firsts, convention = first_at_bindings(found), matrix_convention(found)
    return {
        "name": module.name,
        "byte_len": len(module.code),
        "version": list(found.version),
        "generator": found.generator,
        "memory_model": list(found.memory_model),
        "capabilities": [capability_name(one) for one in found.capabilities],
        "extensions": list(found.extensions),
        "entry_points": [
            {"name": one.name, **_entry_point(one), "signature": signature(module.code, found, one)}
            for one in found.entry_points
        ],
        "resources": [_resource(one, firsts[one.set, one.binding]) for one in found.resources],
        "push_constants": [{"name": one.name, **_layout(one.block)} for one in found.push_constants],
        "matrices": None
        if convention is None
        else {"as_in": "HLSL" if convention.is_of_hlsl else "GLSL", "assumed": convention.is_assumed},
        "spec_constants": [
            {"id": one.spec_id, "name": one.name, "type": str(one.scalar), "default": _default(one)}
            for one in found.spec_constants
        ],
        "shared": [
            {"name": one.name, "byte_len": one.byte_len, "sized_by_constants": one.is_specialized} for one in found.shared
        ],
        "requires": {
            "features": required_features(found),
            "subgroups": subgroup_uses(found),
            "matrix_products": matrix_products(found),
            "limits": required_limits(found),
        },
        "runs": {"refused": refusal} if refusal is not None else _runs(module),
    }


def _entry_point(entry: ComputeEntry) -> dict[str, Any]:
    sizes = [{"value": one.value, "spec_id": one.spec_id, "computed": one.formula is not None} for one in entry.local_size]
    return {"local_size": sizes, "float_controls": [str(control) for control in entry.float_controls]}


def _default(constant: SpecConstant) -> float | str:
    value = default_of(constant)
    return value if math.isfinite(value) else repr(value)  # JSON has no infinity


def _runs(module: SpirvModule) -> dict[str, Any]:
    result = module.runnable
    return {"entry": result.entry, "rewritten": result.is_rewritten, "bindings": [asdict(one) for one in result.bindings]}


def _resource(resource: Resource, first: Resource) -> dict[str, Any]:
    return {
        "name": resource.name,
        "kind": resource.kind.value,
        "set": resource.set,
        "binding": resource.binding,
        "same_as": None if first is resource else first.name,
        "descriptors": resource.count,
        "access": resource.access,
        "type": resource.type_text,
        "min_byte_len": resource.min_byte_len,
        "block": None if resource.block is None else _layout(resource.block),
        "image": None
        if resource.image is None
        else {**asdict(resource.image), "sampled_type": str(resource.image.sampled_type)},
    }


def _layout(found: MemoryType) -> dict[str, Any]:
    data: dict[str, Any] = {"type": str(found), "byte_len": found.byte_len}
    match found:
        case Array():
            data |= {"count": None if found.is_open else found.count, "stride": found.stride, "element": _layout(found.element)}
        case Matrix():
            data |= {"shape": [found.rows, found.columns], "stride": found.stride, "row_major": found.row_major}
        case Struct():
            data["members"] = [
                {"name": one.name, "offset": one.offset, "readable": one.readable, "writable": one.writable} | _layout(one.type)
                for one in found.members
            ]
    return data
