"""One entry point of a module: the variables that its functions name, and its bindings, each with its variables.

Several variables at one binding are views of one buffer: as numbers and as vectors, as words and as structures. A caller brings
one buffer, which must do for all views that the entry point looks through.

Source: Vulkan 1.3, "Shader Resource Interface" (variables may share a set and binding); SPIR-V 1.6, 2.18.2 (aliasing).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.spirv import _axes, _scan
from vyre_driver.spirv.layout import shown
from vyre_driver.spirv.opcodes import ENTRY_POINT

if TYPE_CHECKING:
    from vyre_driver.spirv.interface import ComputeEntry, ModuleInterface, Resource
    from vyre_driver.spirv.matrices import FunctionMatrices


def choose_entry(interface: ModuleInterface, wanted: str | None, source: str) -> ComputeEntry:
    """Return the entry point of that name; without one the only one there is, or ``main``.

    Raises
    ------
    InvalidInput
        If there is none of that name.
    UnsupportedFeature
        If there are several and none is named or called main.
    """
    by_name = {entry.name: entry for entry in interface.entry_points}
    names = ", ".join(map(repr, by_name))
    if wanted is not None:
        if wanted not in by_name:
            raise InvalidInput(
                f"{source} has no compute entry point {wanted!r}; it has {names}", fix="name one of them", entry=wanted
            )
        return by_name[wanted]
    if len(by_name) == 1:
        return interface.entry_points[0]
    if ENTRY_POINT not in by_name:
        raise UnsupportedFeature(
            f"{source} has {len(by_name)} compute entry points, {names}, and a kernel is one of them",
            fix="choose it with entry=NAME or --entry NAME",
            source=source,
        )
    return by_name[ENTRY_POINT]


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

    def renamed(self, name: str) -> Slot:
        """Return the slot with this name for its variables that have none of their own."""

        def with_name(resources: tuple[Resource, ...]) -> tuple[Resource, ...]:
            return tuple(one if one.is_named or one.name == name else replace(one, name=name) for one in resources)

        return Slot(with_name(self.variables), with_name(self.views))

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the other views, each once."""
        return tuple(name for name in dict.fromkeys(one.name for one in self.views) if name != self.name)

    @property
    def shown(self) -> str:
        """Names and types of the views: ``x: f32[n]``, ``x|x4: f32[n]|vec4<f32>[n]``."""
        names = "|".join(map(shown, (self.name, *self.aliases)))
        return f"{names}: {'|'.join(dict.fromkeys(one.type_text for one in self.views))}"

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


def _with_unique_names(slots: list[Slot]) -> tuple[Slot, ...]:
    """Return the slots, with the set in the name of an unnamed one where another has the name of its binding number."""
    taken = {slot.name for slot in slots if slot.views[0].is_named}
    by_place: dict[tuple[int, int], str] = {}
    result = []
    for slot in slots:
        first = slot.views[0]
        place = first.set, first.binding
        if not first.is_named and place not in by_place:
            longer = f"set_{first.set}_binding_{first.binding}"
            names = itertools.chain([slot.name], (longer + "_" * count for count in itertools.count()))
            by_place[place] = next(name for name in names if name not in taken)
            taken.add(by_place[place])
        result.append(slot if first.is_named else slot.renamed(by_place[place]))
    return tuple(result)


class EntryUses:
    """What an entry point uses of its module; every answer is worked out when it is first asked for."""

    def __init__(self, code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> None:
        """Ask about an entry point of the module that has this code in host byte order, and this interface."""
        self.code = code
        self.interface = interface
        self.entry = entry
        self._is_only = len(interface.entry_points) == 1

    @cached_property
    def variables(self) -> frozenset[int] | None:
        """The ids of the variables that its functions name; None, all, when it is the module's only entry point.

        One entry point keeps the buffers that it declares and leaves alone: callers count by the declarations.
        """
        return None if self._is_only else self._reached

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Its bindings in the order of set and binding.

        Only buffers of one kind share a slot; what else shares a binding is left apart, each variable in a slot of its own. No
        two places have one name that is made of their binding number.
        """
        named = self.variables
        groups: dict[tuple[object, ...], list[Resource]] = {}
        for one in self.interface.resources:
            if named is None or one.id in named:
                shares = one.kind.is_buffer and one.count is None
                groups.setdefault((one.set, one.binding, one.kind if shares else one.id), []).append(one)
        if any(len(group) > 1 for group in groups.values()):
            named = self._reached
        views = ([one for one in group if named is None or one.id in named] for group in groups.values())
        slots = [Slot(tuple(group), tuple(seen or group)) for group, seen in zip(groups.values(), views, strict=True)]
        return _with_unique_names(slots)

    @property
    def matrices(self) -> tuple[FunctionMatrices, ...]:
        """What its functions do with cooperative matrices; of an only entry point what any function does."""
        found = self.interface.matrices
        return found if self._is_only or not found else tuple(one for one in found if one.function_id in self._reached)

    @property
    def placed(self) -> list[tuple[Resource, int]]:
        """Its buffers, each with the number of its slot, which is the binding that kompute gives it."""
        return [(one, place) for place, slot in enumerate(self.slots) for one in slot.variables]

    @property
    def looks_beyond_x(self) -> bool:
        """Whether it looks at y or z of an invocation's or a workgroup's index, or of their number, or may do so."""
        return _axes.looks_beyond_x(self.code, self.interface.first_function, None if self._is_only else self._reached)

    @cached_property
    def _reached(self) -> frozenset[int]:
        """The functions that it reaches, and the variables that they name."""
        start = self.interface.first_function
        declared = (self.interface.resources, self.interface.push_constants, self.interface.shared)
        variables = {one.id for group in declared for one in group}
        uses = _scan.function_uses(self.code, start, variables | _scan.functions(self.code, start))
        reached, waiting = set[int](), [self.entry.function_id]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting.extend(uses.get(one, ()))
        return frozenset(reached)
