"""Print a module: its entry points as signatures, a summary of its declarations, and its requirements.

``kernel(x: f32[n] in, y: f32[n] inout; TILE: u32 = 16; push: alpha f32)``: buffers in the order of set and binding with type
and access, specialization constants with their defaults, push constants. Several variables at one binding stand as
``x|x4: f32[n]|vec4<f32>[n] in``. Names are escaped where a terminal would obey them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vyre_driver.spirv.interface import ResourceKind, access_text
from vyre_driver.spirv.layout import Array, Matrix, MemoryType, Struct, shown
from vyre_driver.spirv.opcodes import (
    CORE_CAPABILITIES,
    ENTRY_POINT,
    FEATURE_OF_CAPABILITY,
    SUBGROUP_CAPABILITIES,
    SUBGROUP_USES,
    capability_name,
)
from vyre_driver.spirv.reflection import EntryUses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.spirv.interface import ComputeEntry, LocalSize, ModuleInterface, Resource, SpecConstant

_MAX_SIGNATURES = 16


def default_of(constant: SpecConstant) -> int | float | bool:
    """Return the value of a specialization constant's default, of an encoded float its bits."""
    value: int | float | bool = _default(constant).item()
    return value


def default_text(constant: SpecConstant) -> str:
    """Return the default as a signature shows it: a float of 32 bits in as few digits as tell it from its neighbours.

    Of floats that numpy does not have it is the bits, in hexadecimal digits.
    """
    if constant.scalar.is_encoded:
        return f"0x{constant.default_bits:0{constant.scalar.bits // 4}x}"
    value = _default(constant)
    if not isinstance(value, np.float32 | np.float16):
        return str(value).lower()
    with np.errstate(over="ignore"):
        texts = (f"{value:.{digits}g}" for digits in range(1, 10))
        return repr(float(next((text for text in texts if type(value)(text) == value), value)))


def _default(constant: SpecConstant) -> np.generic:
    scalar, bits = constant.scalar, constant.default_bits
    return np.bool_(bits) if scalar.dtype is None else np.frombuffer(bits.to_bytes(scalar.byte_len, "little"), scalar.dtype)[0]


def signature(code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> str:
    """Return the signature of one entry point: of ``main`` as ``kernel``, of others by their names."""
    uses = EntryUses(code, interface, entry)
    blocks = [one.block for one in interface.push_constants if uses.variables is None or one.id in uses.variables]
    push = ", ".join(f"{shown(member.name)} {member.type}" for block in blocks for member in block.members)
    parts = [
        ", ".join(f"{one.shown} {access_text(readable=one.readable, writable=one.writable)}" for one in uses.slots),
        ", ".join(f"{shown(one.name)}: {one.scalar} = {default_text(one)}" for one in interface.spec_constants),
        f"push: {push}" if push else "",
    ]
    name = "kernel" if entry.name == ENTRY_POINT else shown(entry.name)
    return f"{name}({'; '.join(part for part in parts if part)})"


def signatures(code: bytes, interface: ModuleInterface, entry: str | None) -> str:
    """Return the signature of the entry point chosen, or of each, a line each, of which 16 are shown."""
    wanted = [one for one in interface.entry_points if entry in {None, one.name}] or list(interface.entry_points)
    lines = [signature(code, interface, one) for one in wanted[:_MAX_SIGNATURES]]
    left = len(wanted) - len(lines)
    return "\n".join([*lines, f"... and {left} more entry points"] if left else lines)


def required_features(interface: ModuleInterface) -> list[str]:
    """Return the device features that the module asks for by Vulkan's names, unknown ones by the capability's.

    With them the float controls that its entry points state, as VkPhysicalDeviceFloatControlsProperties has them; one that
    is declared and not stated is there by the capability's name.
    """
    stated = {one for entry in interface.entry_points for one in entry.float_controls}
    told = {*CORE_CAPABILITIES, *SUBGROUP_CAPABILITIES, *(one.capability for one in stated)}
    asked = {FEATURE_OF_CAPABILITY.get(one) or capability_name(one) for one in interface.capabilities if one not in told}
    return sorted(asked.union(one.member for one in stated))


def subgroup_uses(interface: ModuleInterface) -> list[str]:
    """Return the capabilities with which the module looks at or depends on subgroups."""
    return [capability_name(one) for one in interface.capabilities if one in SUBGROUP_USES]


def matrix_products(interface: ModuleInterface) -> list[str]:
    """Return the shapes of cooperative matrices that the module multiplies, at its constants' defaults."""
    shapes = (product.shape(()) for part in interface.matrices for product in part.products)
    return list(dict.fromkeys(str(shape or "of matrices that do not fit together") for shape in shapes))


def required_limits(interface: ModuleInterface) -> dict[str, int | list[int]]:
    """Return the least value of each limit of Vulkan that the module asks for, at its constants' defaults."""
    sizes = [[axis.value for axis in entry.local_size] for entry in interface.entry_points]
    limits: dict[str, int | list[int]] = {
        "maxComputeWorkGroupSize": [max(axes) for axes in zip(*sizes, strict=True)],
        "maxComputeWorkGroupInvocations": max(x * y * z for x, y, z in sizes),
    }
    storage_images = {ResourceKind.STORAGE_IMAGE, ResourceKind.STORAGE_TEXEL_BUFFER}
    by_place = {(one.set, one.binding): one.count or 1 for one in interface.resources if one.kind.is_buffer}
    images = sum(one.count or 1 for one in interface.resources if one.kind in storage_images)
    counted = {
        "maxPerStageDescriptorStorageBuffers": sum(by_place.values()),
        "maxPerStageDescriptorStorageImages": images,
        "maxPushConstantsSize": max((one.block.byte_len for one in interface.push_constants), default=0),
        "maxComputeSharedMemorySize": sum(one.byte_len for one in interface.shared),
    }
    return limits | {name: least for name, least in counted.items() if least}


def summary(name: str, code: bytes, interface: ModuleInterface, entry: str | None) -> str:
    """Return a module as some lines for a reader."""
    return "\n".join(_lines(name, code, named_as_called(code, interface), entry))


def named_as_called(code: bytes, interface: ModuleInterface) -> ModuleInterface:
    """Return an interface whose buffers without a name have those that a call of its only entry point knows them by."""
    if len(interface.entry_points) > 1 or all(one.is_named for one in interface.resources):
        return interface
    slots = EntryUses(code, interface, interface.entry_points[0]).slots
    called = {one.id: one for slot in slots for one in slot.variables}
    return replace(interface, resources=tuple(called[one.id] for one in interface.resources))


def _lines(name: str, code: bytes, interface: ModuleInterface, entry: str | None) -> Iterator[str]:
    major, minor = interface.version
    yield f"{shown(name)}: SPIR-V {major}.{minor}, memory model {' '.join(interface.memory_model)}"
    yield from (f"  {line}" for line in signatures(code, interface, entry).splitlines())
    for one in interface.entry_points[:_MAX_SIGNATURES]:
        axes = " x ".join(map(_axis, one.local_size))
        yield f"  workgroup of {shown(one.name)}: {axes}"
        if one.float_controls:
            yield f"  float controls of {shown(one.name)}: {', '.join(map(str, one.float_controls))}"
    firsts = first_at_bindings(interface)
    yield from (f"  {_resource_line(one, firsts[one.set, one.binding])}" for one in interface.resources)
    for block in interface.push_constants:
        yield f"  push constants {shown(block.name)}: {block.block.byte_len} bytes"
        for member in block.block.members:
            yield f"    {shown(member.name)}: {member.type} at byte {member.offset}"
    yield from _matrix_lines(interface)
    for constant in interface.spec_constants:
        yield f"  constant {constant.spec_id} {shown(constant.name)}: {constant.scalar} = {default_text(constant)}"
    for variable in interface.shared:
        sized = ", sized by constants" if variable.is_specialized else ""
        yield f"  shared {shown(variable.name)}: {variable.byte_len} bytes{sized}"
    for product in matrix_products(interface):
        yield f"  matrix product {product}"
    yield f"  capabilities: {', '.join(map(capability_name, interface.capabilities))}"
    if interface.extensions:
        yield f"  extensions: {', '.join(map(shown, interface.extensions))}"
    yield f"  features: {', '.join(required_features(interface)) or 'none'}"
    if subgroup_uses(interface):
        yield f"  subgroups: {', '.join(subgroup_uses(interface))}"
    yield f"  limits: {', '.join(f'{limit} {least}' for limit, least in required_limits(interface).items())}"


def _has_matrix(found: MemoryType) -> bool:
    """Return whether a type is a matrix or has one in it."""
    match found:
        case Array(element):
            return _has_matrix(element)
        case Struct(_, members):
            return any(_has_matrix(member.type) for member in members)
    return isinstance(found, Matrix)


class MatrixConvention(NamedTuple):
    """Whose rows and columns the matrices of a module have; ``is_assumed`` says that no source language is named."""

    is_of_hlsl: bool
    is_assumed: bool


def matrix_convention(interface: ModuleInterface) -> MatrixConvention | None:
    """Return whose rows and columns the matrices in buffers and push constants have; None where there are none."""
    resources = [resource.block for resource in interface.resources if resource.block is not None]
    if not any(map(_has_matrix, [*resources, *(one.block for one in interface.push_constants)])):
        return None
    return MatrixConvention(interface.stores_rows_as_columns, interface.source_language is None)


def _matrix_lines(interface: ModuleInterface) -> Iterator[str]:
    """Give a line on the rows and columns of matrices, where they are not GLSL's, or nothing says whose they are."""
    convention = matrix_convention(interface)
    if convention is None:
        return
    if convention.is_of_hlsl:
        why = " (no source language is named, and the compiler is of one of them)" if convention.is_assumed else ""
        yield f"  matrices: as in HLSL and Slang{why}, mul(m, v) is m @ v; mat3x2 is float2x3, of shape (2, 3)"
    elif convention.is_assumed:
        yield "  matrices: as in GLSL (no source language is named), m * v is m @ v"


def _axis(axis: LocalSize) -> str:
    if axis.formula is not None:
        return f"{axis.value} (of constants)"
    return str(axis.value) if axis.spec_id is None else f"{axis.value} (constant {axis.spec_id})"


def first_at_bindings(interface: ModuleInterface) -> dict[tuple[int, int], Resource]:
    """Return the variable that is declared first at each set and binding."""
    return {(one.set, one.binding): one for one in reversed(interface.resources)}


def _resource_line(resource: Resource, first: Resource) -> str:
    place = f"set {resource.set} binding {resource.binding} {shown(resource.name)}"
    shared = "" if first is resource else f", the same as {shown(first.name)}"
    if resource.block is None:
        return f"{place}: {resource.type_text} {resource.access}{shared}"
    least = f"{resource.min_byte_len} bytes or more"
    return f"{place}: {resource.kind.value} {resource.access}, {resource.type_text}, {least}{shared}"
