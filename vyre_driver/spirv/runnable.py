"""The runnable part of a module: one entry point, its contract, and the code that kompute gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv.contract import choose_entry, contract_of
from vyre_driver.spirv.interface import ResourceKind
from vyre_driver.spirv.opcodes import ENTRY_POINT
from vyre_driver.spirv.reflect import reflect
from vyre_driver.spirv.rewrite import Rewrite, UniformForm, rewrite
from vyre_driver.spirv.slots import looks_beyond_x, slots_of, used_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.spirv.contract import Reflection
    from vyre_driver.spirv.interface import ComputeEntry, ModuleInterface, Resource

_STORAGE_CLASS_VERSION = (1, 3)
_STORAGE_CLASS_EXTENSION = "SPV_KHR_storage_buffer_storage_class"


@dataclass(frozen=True, slots=True)
class BoundResource:
    """Where a variable stands in the module (``set``, ``binding``) and in what is run: ``slot`` of set 0, others there too."""

    name: str
    set: int
    binding: int
    slot: int


@dataclass(frozen=True, slots=True)
class RunnableModule:
    """The code to run in host byte order, the contract of its entry point ``main``, and where its buffers went.

    ``entry`` is the entry point's name in the module; ``is_rewritten`` says that ``code`` differs from the module's.
    ``looks_beyond_x`` says that the shader uses, or may use, more axes of its grid than x.
    """

    name: str
    code: bytes
    reflection: Reflection
    entry: str
    bindings: tuple[BoundResource, ...]
    is_rewritten: bool
    looks_beyond_x: bool


def make_runnable(name: str, code: bytes, interface: ModuleInterface, entry: str | None) -> RunnableModule:
    """Return the runnable part of a module; ``name`` identifies it in errors.

    Raises
    ------
    UnsupportedFeature
        If it needs what kompute cannot bind and no rewriting changes that, or has several entry points and none is
        chosen.
    InvalidInput
        If it has no entry point of that name.
    InvalidModule
        If its push constants are not placed on words.
    """
    chosen = choose_entry(interface, entry, name)
    slots = slots_of(code, interface, chosen)
    reflection = contract_of(interface, chosen, slots, used_variables(code, interface, chosen), name)
    placed = [(one, place) for place, slot in enumerate(slots) for one in slot.variables]
    changes = _changes(interface, placed, chosen, name)
    runnable = code
    if changes != Rewrite():
        runnable = rewrite(code, changes, interface.first_function)
        _check_rewritten(runnable, placed, name)
    bindings = tuple(BoundResource(one.name, one.set, one.binding, place) for one, place in placed)
    beyond = looks_beyond_x(code, interface, chosen)
    return RunnableModule(name, runnable, reflection, chosen.name, bindings, runnable is not code, beyond)


def _changes(interface: ModuleInterface, placed: Sequence[tuple[Resource, int]], entry: ComputeEntry, source: str) -> Rewrite:
    moved = any((one.set, one.binding) != (0, place) for one, place in placed)
    uniforms = [one for one, _ in placed if one.kind is ResourceKind.UNIFORM_BLOCK]
    return Rewrite(
        slots=tuple((one.id, place) for one, place in placed) if moved else (),
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


def _check_rewritten(code: bytes, placed: Sequence[tuple[Resource, int]], source: str) -> None:
    """Read what was written: a module that the rewriting did not understand must not reach a driver."""
    _, result = reflect(code, source)
    found = {one.id: (one.kind, one.set, one.binding) for one in result.resources}
    for one, place in placed:
        if found.get(one.id) != (ResourceKind.STORAGE_BUFFER, 0, place):
            raise UnsupportedFeature(
                f"{source} cannot run through kompute: {one.name!r} could not be made a storage buffer at binding {place}",
                fix="make it one in the shader, in set 0",
                source=source,
            )
