"""What is really run of a module: one entry point, its contract, and the code that kompute gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv import _scan
from vyre_driver.spirv.contract import ENTRY_POINT, choose_entry, contract_of
from vyre_driver.spirv.interface import ResourceKind
from vyre_driver.spirv.reflect import reflect
from vyre_driver.spirv.rewrite import Rewrite, UniformForm, rewrite

if TYPE_CHECKING:
    from vyre_driver.spirv.contract import Reflection
    from vyre_driver.spirv.interface import ComputeEntry, ModuleInterface, Resource

_STORAGE_CLASS_VERSION = (1, 3)
_STORAGE_CLASS_EXTENSION = "SPV_KHR_storage_buffer_storage_class"


@dataclass(frozen=True, slots=True)
class BoundResource:
    """Where a buffer stands in the module (``set``, ``binding``) and in what is run: ``slot`` of set 0."""

    name: str
    set: int
    binding: int
    slot: int


@dataclass(frozen=True, slots=True)
class RunnableModule:
    """The code to run in host byte order, the contract of its entry point ``main``, and where its buffers went.

    ``entry`` is the entry point's name in the module; ``is_rewritten`` says that ``code`` differs from the module's.
    """

    name: str
    code: bytes
    reflection: Reflection
    entry: str
    bindings: tuple[BoundResource, ...]
    is_rewritten: bool


def make_runnable(name: str, code: bytes, interface: ModuleInterface, entry: str | None) -> RunnableModule:
    """Return what to run of a module; ``name`` says in errors which it is.

    Raises
    ------
    UnsupportedFeature
        1002 if it needs what kompute cannot bind and no rewriting changes that, or has several entry points and none is chosen.
    InvalidInput
        2201 if it has no entry point of that name.
    InvalidModule
        2101 if its push constants are not placed on words.
    """
    chosen = choose_entry(interface, entry, name)
    used = used_variables(code, interface, chosen)
    reflection = contract_of(interface, chosen, used, name)
    resources = [one for one in interface.resources if used is None or one.id in used]
    changes = _changes(interface, resources, chosen, name)
    runnable = code
    if changes != Rewrite():
        runnable = rewrite(code, changes, interface.first_function)
        _check_rewritten(runnable, resources, name)
    bindings = tuple(BoundResource(one.name, one.set, one.binding, slot) for slot, one in enumerate(resources))
    return RunnableModule(name, runnable, reflection, chosen.name, bindings, runnable is not code)


def used_variables(code: bytes, interface: ModuleInterface, entry: ComputeEntry) -> frozenset[int] | None:
    """Return the ids of the variables that an entry point's functions name; None, all, when there is one entry point only.

    One entry point keeps the buffers that it declares and leaves alone: who calls it counts by the declarations.
    """
    if len(interface.entry_points) == 1:
        return None
    variables = {one.id for group in (interface.resources, interface.push_constants, interface.shared) for one in group}
    start = interface.first_function
    uses = _scan.function_uses(code, start, variables | _scan.functions(code, start))
    reached, waiting = set[int](), [entry.function_id]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(uses.get(one, ()))
    return frozenset(reached & variables)


def _changes(interface: ModuleInterface, resources: list[Resource], entry: ComputeEntry, source: str) -> Rewrite:
    moved = any((one.set, one.binding) != (0, slot) for slot, one in enumerate(resources))
    uniforms = [one for one in resources if one.kind is ResourceKind.UNIFORM_BLOCK]
    return Rewrite(
        slots=tuple((one.id, slot) for slot, one in enumerate(resources)) if moved else (),
        entry=None if entry.name == ENTRY_POINT else entry.name,
        uniforms=tuple(one.id for one in uniforms),
        uniform_blocks=tuple(dict.fromkeys(one.block_id for one in uniforms)),
        form=_uniform_form(interface, uniforms, source) if uniforms else None,
    )


def _uniform_form(interface: ModuleInterface, uniforms: list[Resource], source: str) -> UniformForm:
    """Move the class of storage where the module has the newer one; an older one with buffers in it keeps its own spelling."""
    has_class = interface.version >= _STORAGE_CLASS_VERSION or _STORAGE_CLASS_EXTENSION in interface.extensions
    if has_class and not interface.has_buffer_blocks:
        return UniformForm.STORAGE_CLASS
    others = {one.block_id: one.name for one in interface.resources if one.kind is ResourceKind.STORAGE_BUFFER}
    others |= {one.block_id: one.name for one in interface.push_constants}
    for one in uniforms:
        if one.block_id in others:
            raise UnsupportedFeature(
                f"{source} cannot run through kompute: {one.name!r} is a uniform block of the structure that "
                f"{others[one.block_id]!r} has too, and cannot be made a storage block alone",
                fix="declare a structure for each, or make it a storage buffer",
                source=source,
            )
    return UniformForm.BUFFER_BLOCK


def _check_rewritten(code: bytes, resources: list[Resource], source: str) -> None:
    """Read what was written: a module that the rewriting did not understand must not reach a driver."""
    _, made = reflect(code, source)
    found = {one.id: (one.kind, one.set, one.binding) for one in made.resources}
    for slot, one in enumerate(resources):
        if found.get(one.id) != (ResourceKind.STORAGE_BUFFER, 0, slot):
            raise UnsupportedFeature(
                f"{source} cannot run through kompute: {one.name!r} could not be made a storage buffer at binding {slot}",
                fix="make it one in the shader, in set 0",
                source=source,
            )
