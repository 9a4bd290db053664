"""The bindings of an entry point, each with its variables, of which a shader may declare several.

Several variables at one binding are views of one buffer: as numbers and as vectors, as words and as structures. A caller brings
one buffer, which must do for all views that the entry point looks through.

Source: Vulkan 1.3, "Shader Resource Interface" (variables may share a set and binding); SPIR-V 1.6, 2.18.2 (aliasing).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.spirv import _axes, _scan
from vyre_driver.spirv.layout import Element, buffer_shape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from vyre_driver.spirv.interface import ComputeEntry, ModuleInterface, Resource
    from vyre_driver.spirv.layout import Struct


@dataclass(frozen=True, slots=True)
class Slot:
    """One set and binding: all ``variables`` that stand there, in the order of their declarations.

    ``views`` are those of them that the entry point's functions name, or all where they name none.
    """

    variables: tuple[Resource, ...]
    views: tuple[Resource, ...]

    @property
    def name(self) -> str:
        """The name of the first view."""
        return self.views[0].name

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the other views, each once."""
        return tuple(name for name in dict.fromkeys(one.name for one in self.views) if name != self.name)

    @property
    def readable(self) -> bool:
        """Whether a view is open to reading."""
        return any(one.readable for one in self.views)

    @property
    def writable(self) -> bool:
        """Whether a view is open to writing."""
        return any(one.writable for one in self.views)

    @property
    def restrict(self) -> bool:
        """Whether a view is declared so."""
        return any(one.restrict for one in self.views)

    @property
    def access(self) -> str:
        """Return ``in``, ``out`` or ``inout``."""
        if not self.writable:
            return "in"
        return "inout" if self.readable else "out"


def used_variables(code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> frozenset[int] | None:
    """Return the ids of the variables that an entry point's functions name; None, all, when there is one entry point only.

    One entry point keeps the buffers that it declares and leaves alone: who calls it counts by the declarations.
    """
    return None if len(interface.entry_points) == 1 else _named_variables(code, interface, entry)


def slots_of(code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> tuple[Slot, ...]:
    """Return the bindings of an entry point in the order of set and binding.

    Only buffers of one kind share a slot; what else shares a binding is left apart, each variable in a slot of its own.
    """
    used = used_variables(code, interface, entry)
    groups: dict[tuple[object, ...], list[Resource]] = {}
    for one in interface.resources:
        if used is None or one.id in used:
            shares = one.kind.is_buffer and one.count is None
            groups.setdefault((one.set, one.binding, one.kind if shares else one.id), []).append(one)
    if used is None and any(len(group) > 1 for group in groups.values()):
        used = _named_variables(code, interface, entry)
    return tuple(Slot(tuple(group), _views(group, used)) for group in groups.values())


def _views(group: Sequence[Resource], named: AbstractSet[int] | None) -> tuple[Resource, ...]:
    return tuple(one for one in group if named is None or one.id in named) or tuple(group)


def _named_variables(code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> frozenset[int]:
    variables = {one.id for group in (interface.resources, interface.push_constants, interface.shared) for one in group}
    return _reached(code, interface, entry, variables) & variables


def _reached(code: bytes, interface: ModuleInterface, entry: ComputeEntry, variables: AbstractSet[int]) -> frozenset[int]:
    """Return the functions that an entry point reaches, and those of the variables that they name."""
    start = interface.first_function
    uses = _scan.function_uses(code, start, variables | _scan.functions(code, start))
    reached, waiting = set[int](), [entry.function_id]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(uses.get(one, ()))
    return frozenset(reached)


def looks_beyond_x(code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> bool:
    """Whether an entry point looks at y or z of an invocation's or a workgroup's index, or of their number, or may do so."""
    functions = None if len(interface.entry_points) == 1 else _reached(code, interface, entry, frozenset())
    return _axes.looks_beyond_x(code, interface.first_function, functions)


def shape_of_views(blocks: Sequence[Struct]) -> tuple[int, Element, int | None, int]:
    """Return header bytes, element and count of a buffer that does for all of these, and the bytes that it has at least.

    Views that differ leave the least header, and what all sizes, strides and headers are whole numbers of as the element:
    of scalars where all have the same, else of raw bytes. The count is fixed where each view's is, by the largest. The least
    bytes are 0 where the shape says all, as it does of one view.
    """
    shapes = [buffer_shape(block) for block in blocks]
    if len(set(shapes)) == 1:
        return (*shapes[0], 0)
    header = min(start for start, _, _ in shapes)
    least = max(start + (count or 1) * element.stride for start, element, count in shapes)
    is_fixed = all(count is not None for _, _, count in shapes)
    step = math.gcd(*[element.stride for _, element, _ in shapes], *[start - header for start, _, _ in shapes])
    if is_fixed:
        step = math.gcd(step, least - header)
    scalars = {element.scalar for _, element, _ in shapes}
    scalar = scalars.pop() if len(scalars) == 1 else None
    if scalar is None or step % scalar.byte_len:
        padded = next((element.padded for _, element, _ in shapes if element.padded is not None), None)
        element = Element(step, None, step, padded)
    else:
        element = Element(step, scalar, step // scalar.byte_len)
    return header, element, (least - header) // step if is_fixed else None, least
