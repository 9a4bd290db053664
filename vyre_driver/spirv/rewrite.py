"""Rewrite SPIR-V into a module that kompute can bind: words in, words out, nothing else changed.

Descriptors get set 0 and the binding numbers they are given, the entry point the name ``main``, and uniform blocks become
read-only storage blocks. A decoration that stands twice, as glslang writes for ``coherent volatile``, is left once, for
spirv-val refuses it. The words of function bodies stay as they are.

Source: SPIR-V 1.6, 2.4 (logical layout), 3.20 (decorations); Vulkan 1.3, "Shader Interfaces".
"""

from __future__ import annotations

import array
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv.builder import instruction, literal_text
from vyre_driver.spirv.declarations import HEADER_WORDS, places, read_string
from vyre_driver.spirv.interface import ModuleInterface, Resource, ResourceKind, read_module
from vyre_driver.spirv.opcodes import ENTRY_POINT, GL_COMPUTE, Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.spirv.reflection import EntryUses

_STORAGE_CLASS_VERSION = (1, 3)
STORAGE_CLASS_EXTENSION = "SPV_KHR_storage_buffer_storage_class"
"""The extension that gives modules before SPIR-V 1.3 the class StorageBuffer."""

ANNOTATIONS = frozenset({71, 72, 73, 74, 75, 332, 5632, 5633})
"""The opcodes of the annotation section."""
_DECORATIONS = frozenset({71, 72, 332, 5632, 5633})  # of ids and of members, with literals, ids and texts
_CHANGED = frozenset({Op.EntryPoint, Op.Decorate, Op.GroupDecorate, Op.TypePointer, Op.Variable, Op.TypeForwardPointer})
_PLACES = frozenset({Decoration.DESCRIPTOR_SET, Decoration.BINDING})


class UniformForm(enum.Enum):
    """How a uniform block becomes a storage block."""

    STORAGE_CLASS = "storage class"  # pointers and variables move to StorageBuffer; since SPIR-V 1.3, or by an extension
    BUFFER_BLOCK = "buffer block"  # the structure is decorated BufferBlock instead of Block; until SPIR-V 1.3


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The changes to make.

    ``slots`` are pairs of a variable's id and its new binding number; ``entry`` is the name of the compute entry point that
    becomes main, where another of that name takes its name, or None; ``uniforms`` are the ids of the variables of uniform
    blocks, ``uniform_blocks`` those of their structures, ``form`` how they change, None to leave them.
    """

    slots: tuple[tuple[int, int], ...] = ()
    entry: str | None = None
    uniforms: tuple[int, ...] = ()
    uniform_blocks: tuple[int, ...] = ()
    form: UniformForm | None = None


def bindable(uses: EntryUses, source: str) -> bytes:
    """Return the code in which kompute can run an entry point: the module's own where nothing has to change.

    Raises
    ------
    UnsupportedFeature
        If a uniform block cannot be made a storage block; ``source`` names the module.
    """
    changes = _changes(uses, source)
    code = uses.code if changes == Rewrite() else rewrite(uses.code, changes, uses.interface.first_function)
    code = without_repeated_decorations(code)
    if code is uses.code:
        return code
    _check_rewritten(code, uses, source)
    return code


def _changes(uses: EntryUses, source: str) -> Rewrite:
    placed = uses.placed
    moved = any((one.set, one.binding) != (0, place) for one, place in placed)
    uniforms = [one for one, _ in placed if one.kind is ResourceKind.UNIFORM_BLOCK]
    return Rewrite(
        slots=tuple((one.id, place) for one, place in placed) if moved else (),
        entry=None if uses.entry.name == ENTRY_POINT else uses.entry.name,
        uniforms=tuple(one.id for one in uniforms),
        uniform_blocks=tuple(dict.fromkeys(one.block_id for one in uniforms)),
        form=_uniform_form(uses.interface, uniforms, source) if uniforms else None,
    )


def _uniform_form(interface: ModuleInterface, uniforms: list[Resource], source: str) -> UniformForm:
    """Move the class of storage where the module has the newer one; an older one with buffers in it keeps its own spelling."""
    has_class = interface.version >= _STORAGE_CLASS_VERSION or STORAGE_CLASS_EXTENSION in interface.extensions
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


def _check_rewritten(code: bytes, uses: EntryUses, source: str) -> None:
    """Read what was written: a module that the rewriting did not understand must not reach a driver."""
    _, result = read_module(code, source)
    found = {one.id: (one.kind, one.set, one.binding) for one in result.resources}
    for one, place in uses.placed:
        if found.get(one.id) != (ResourceKind.STORAGE_BUFFER, 0, place):
            raise UnsupportedFeature(
                f"{source} cannot run through kompute: {one.name!r} could not be made a storage buffer at binding {place}",
                fix="make it one in the shader, in set 0",
                source=source,
            )


def without_repeated_decorations(code: bytes) -> bytes:
    """Return a module without the decorations that an earlier instruction makes with the same operands; itself if none is."""
    words = array.array("I", code)
    out, seen = array.array("I"), set[bytes]()
    kept = 0
    for at in places(words, HEADER_WORDS):
        if words[at] & 0xFFFF == Op.Function:
            break
        if words[at] & 0xFFFF in _DECORATIONS:
            end = at + (words[at] >> 16)
            decoration = words[at:end].tobytes()
            if decoration in seen:
                out.extend(words[kept:at])
                kept = end
            seen.add(decoration)
    return code if not kept else out.tobytes() + words[kept:].tobytes()


def rewrite(code: bytes, changes: Rewrite, first_function: int) -> bytes:
    """Return a module in host byte order with the changes made; ``first_function`` is the word of its first function.

    The module's framing must have been checked, and each variable of ``slots`` be decorated.
    """
    words = array.array("I", code)
    writer = _Writer(changes)
    declarations = words[:first_function]
    writer.copy_groups(declarations)
    out = words[:HEADER_WORDS]
    decorated = {variable for variable, _ in changes.slots}.union(changes.uniform_blocks)
    end_of_annotations = HEADER_WORDS
    kept = HEADER_WORDS  # from here to the instruction looked at, nothing is changed; it is copied at once
    for at in places(declarations, HEADER_WORDS):
        length, op = words[at] >> 16, words[at] & 0xFFFF
        if op in _CHANGED and (op != Op.Decorate or words[at + 1] in decorated):
            out.extend(words[kept:at])
            kept = at + length
            out.extend(writer.changed(op, words[at:kept]))
        if op in ANNOTATIONS:
            end_of_annotations = len(out) + at + length - kept
    out.extend(words[kept:])
    out[end_of_annotations:end_of_annotations] = writer.added()
    return out.tobytes()


class _Writer:
    def __init__(self, changes: Rewrite) -> None:
        self._changes = changes
        self._slots = dict(changes.slots)
        self._groups: dict[int, list[array.array[int]]] = {}

    def copy_groups(self, words: array.array[int]) -> None:
        """Remember what each decoration group gives: a renumbered variable leaves its group and keeps the rest of that."""
        for at in places(words, HEADER_WORDS):
            if words[at] & 0xFFFF == Op.GroupDecorate and self._slots.keys() & set(words[at + 2 : at + (words[at] >> 16)]):
                self._groups[words[at + 1]] = []
        for at in places(words, HEADER_WORDS) if self._groups else ():
            if words[at] & 0xFFFF == Op.Decorate and words[at + 1] in self._groups and words[at + 2] not in _PLACES:
                self._groups[words[at + 1]].append(words[at + 2 : at + (words[at] >> 16)])

    def changed(self, op: int, words: array.array[int]) -> array.array[int]:
        """Return the replacement of an instruction: the same, another, or nothing."""
        match op:
            case Op.EntryPoint if self._changes.entry is not None and words[1] == GL_COMPUTE:
                return self._renamed(words, self._changes.entry)
            case Op.Decorate if words[1] in self._slots and words[2] in _PLACES:
                return array.array("I")
            case Op.Decorate if self._changes.form is UniformForm.BUFFER_BLOCK and words[2] == Decoration.BLOCK:
                if words[1] in self._changes.uniform_blocks:
                    words[2] = Decoration.BUFFER_BLOCK
            case Op.GroupDecorate if words[1] in self._groups:
                return self._left_in_group(words)
            case Op.TypePointer | Op.Variable | Op.TypeForwardPointer if self._changes.form is UniformForm.STORAGE_CLASS:
                place = 3 if op == Op.Variable else 2
                if words[place] == StorageClass.UNIFORM:
                    words[place] = StorageClass.STORAGE_BUFFER
        return words

    def _renamed(self, words: array.array[int], chosen: str) -> array.array[int]:
        name = read_string(words, 3, "")
        if name not in {chosen, ENTRY_POINT}:
            return words
        name_words = len(name.encode()) // 4 + 1
        literal = literal_text(ENTRY_POINT if name == chosen else chosen)
        return array.array("I", instruction(Op.EntryPoint, *words[1:3], *literal, *words[3 + name_words :]))

    def _left_in_group(self, words: array.array[int]) -> array.array[int]:
        targets = words[2:]
        kept = [target for target in targets if target not in self._slots]
        out = array.array("I", instruction(Op.GroupDecorate, words[1], *kept))
        for target in targets:
            if target in self._slots:
                for decoration in self._groups[words[1]]:
                    out.extend(instruction(Op.Decorate, target, *decoration))
        return out

    def added(self) -> array.array[int]:
        """Return the decorations that place the variables and close uniform blocks to writing."""
        out = array.array("I")
        for variable, slot in self._changes.slots:
            out.extend(instruction(Op.Decorate, variable, Decoration.DESCRIPTOR_SET, 0))
            out.extend(instruction(Op.Decorate, variable, Decoration.BINDING, slot))
        for variable in self._changes.uniforms:
            out.extend(instruction(Op.Decorate, variable, Decoration.NON_WRITABLE))
        return out
