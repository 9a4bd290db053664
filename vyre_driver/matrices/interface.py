"""What a kernel has from outside: storage buffers in descriptor set 0, and push constants, both by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.matrices.function import Word
from vyre_driver.spirv.opcodes import Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.matrices.function import Function, Index


class StorageBuffer:
    """A buffer of elements without an end that the kernel knows."""

    def __init__(self, function: Function, name: str, binding: int, element: int, stride: int, access: Decoration) -> None:  # noqa: PLR0913 -- made in one place
        """Declare it; ``element`` is the id of their type, ``stride`` their bytes, ``access`` NON_WRITABLE or NON_READABLE."""
        self._f = function
        self._element = element
        module = function.module
        block = module.struct_type(module.array_type(Op.TypeRuntimeArray, element, stride=stride))
        module.decorate(block, Decoration.BLOCK)
        module.member_decorate(block, 0, Decoration.OFFSET, 0)
        module.member_decorate(block, 0, access)
        module.member_name(block, 0, name)
        self._variable = function.global_variable(StorageClass.STORAGE_BUFFER, block)
        module.decorate(self._variable, Decoration.DESCRIPTOR_SET, 0)
        module.decorate(self._variable, Decoration.BINDING, binding)
        module.decorate(self._variable, Decoration.RESTRICT)
        module.name(self._variable, name)

    def at(self, place: Index) -> int:
        """Return a pointer to an element."""
        return self._f.at(StorageClass.STORAGE_BUFFER, self._element, self._variable, 0, place)

    def load(self, place: Index) -> int:
        """Return an element."""
        return self._f.load(self._element, self.at(place))


def push_constants(function: Function, names: tuple[str, ...]) -> dict[str, Word]:
    """Declare u32 that are pushed, one after the other, and return them by name."""
    module = function.module
    block = module.struct_type(*(function.u32 for _ in names))
    module.decorate(block, Decoration.BLOCK)
    for member, name in enumerate(names):
        module.member_decorate(block, member, Decoration.OFFSET, 4 * member)
        module.member_name(block, member, name)
    variable = function.global_variable(StorageClass.PUSH_CONSTANT, block)
    places = {
        name: function.at(StorageClass.PUSH_CONSTANT, function.u32, variable, member) for member, name in enumerate(names)
    }
    return {name: Word(function, function.load(function.u32, place)) for name, place in places.items()}
