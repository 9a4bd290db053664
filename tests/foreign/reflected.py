"""The same facts as disassembly.py's, out of the package's own reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.spirv.layout import Address, Array, Matrix, MemoryType, Scalar, Struct, Vector

if TYPE_CHECKING:
    from vyre_driver.spirv.interface import ModuleInterface, Resource


def facts(found: ModuleInterface) -> dict[str, Any]:
    """Everything that is compared."""
    return {
        "version": f"{found.version[0]}.{found.version[1]}",
        "capabilities": len(found.capabilities),
        "entries": [(one.name, [(axis.value, axis.spec_id) for axis in one.local_size]) for one in found.entry_points],
        "resources": [_resource(one) for one in found.resources],
        "push constants": [_shape(one.block) for one in found.push_constants],
        "constants": sorted(
            (one.spec_id, f"{one.scalar.kind}{one.scalar.bits}", one.default_bits) for one in found.spec_constants
        ),
    }


def _resource(one: Resource) -> tuple[Any, ...]:
    shape = None if one.block is None else _shape(one.block)
    least: int | str = "s" if "'s'" in repr(shape) else one.min_byte_len
    return one.set, one.binding, one.kind.value, one.count, one.readable, one.writable, shape, least


def _shape(found: MemoryType) -> tuple[Any, ...]:
    match found:
        case Scalar():
            return found.kind, found.bits
        case Vector():
            return "vector", found.components, _shape(found.scalar)
        case Matrix():
            return "matrix", found.columns, found.rows, found.stride, found.row_major, _shape(found.scalar)
        case Array():
            length = "s" if found.is_specialized else "n" if found.count is None else found.count
            return "array", length, found.stride, _shape(found.element)
        case Struct():
            return "struct", tuple((member.offset, _shape(member.type)) for member in found.members)
        case Address():
            return ("address",)
