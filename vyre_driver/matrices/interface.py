"""What a kernel has from outside: storage buffers in descriptor set 0, and push constants, both by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.matrices.elements import VECTOR_BYTES
from vyre_driver.matrices.function import Word
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType
    from vyre_driver.matrices.function import Function, Index

_WORD_BYTES = 4
_UPPER_HALF = 1 << 16
_QUIET = 0x40  # of a NaN in bfloat16
_MAGNITUDE, _INFINITY = 0x7FFF_FFFF, 0x7F80_0000  # the bits of a float32 without its sign, and those of infinity


def vector_type(function: Function) -> int:
    """Return the type of 16 bytes, as words."""
    return function.module.type(Op.TypeVector, function.u32, VECTOR_BYTES // _WORD_BYTES)


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


class NumberBuffer(StorageBuffer):
    """A buffer of numbers that are computed with as float32, or int32 where they are whole.

    It asks for 16 or 8 bits in buffers, and for no arithmetic of so few: bfloat16 is taken as its bits.
    """

    def __init__(self, function: Function, name: str, binding: int, element: ElementType, access: Decoration) -> None:
        """Declare it."""
        for capability in element.stored:
            function.module.capability(capability)
        if element.byte_len == 1:
            function.module.extension("SPV_KHR_8bit_storage")
        self._number = element
        self._bits = function.module.type(Op.TypeInt, 16, 0) if element.is_bfloat else 0
        stored = self._bits or function.module.type(*element.declaration)
        super().__init__(function, name, binding, stored, element.byte_len, access)

    def read(self, place: Index) -> int:
        """Return a number as float32 or int32."""
        f, element, found = self._f, self._number, self.load(place)
        if element.is_bfloat:
            high = f.as_word(f.result(Ins.UConvert, f.u32, found)) * _UPPER_HALF
            return f.result(Ins.Bitcast, f.f32, f.id_of(high))
        if element.byte_len == _WORD_BYTES:
            return found
        return f.result(Ins.FConvert, f.f32, found) if element.is_float else f.result(Ins.SConvert, f.i32, found)

    def write(self, place: Index, number: int) -> None:
        """Store a float32 or int32, rounded to what the buffer has."""
        f, element = self._f, self._number
        if element.is_bfloat:
            number = f.result(Ins.UConvert, self._bits, f.id_of(self._rounded(number)))
        elif element.byte_len < _WORD_BYTES:
            convert = Ins.FConvert if element.is_float else Ins.SConvert
            number = f.result(convert, self._element, number)
        f.store(self.at(place), number)

    def _rounded(self, number: int) -> Word:
        """Return the bits of a float32 rounded to bfloat16, to the nearest and to even; a NaN stays one."""
        f = self._f
        bits = f.as_word(f.result(Ins.Bitcast, f.u32, number))
        near = (bits + (bits // _UPPER_HALF % 2 + (_UPPER_HALF // 2 - 1))) // _UPPER_HALF
        quiet = f.word(Ins.BitwiseOr, bits // _UPPER_HALF, _QUIET)
        # By its bits: NVIDIA's compiler takes a number for equal to itself.
        magnitude = f.word(Ins.BitwiseAnd, bits, _MAGNITUDE)
        is_nan = f.result(Ins.UGreaterThan, f.bool, f.id_of(magnitude), f.id_of(_INFINITY))
        return f.as_word(f.select(f.u32, is_nan, quiet.id, f.id_of(near)))


def push_constants(function: Function, names: tuple[str, ...]) -> dict[str, Word]:
    """Declare u32 that are pushed, one after the other, and return them by name."""
    module = function.module
    block = module.struct_type(*(function.u32 for _ in names))
    module.decorate(block, Decoration.BLOCK)
    for member, name in enumerate(names):
        module.member_decorate(block, member, Decoration.OFFSET, _WORD_BYTES * member)
        module.member_name(block, member, name)
    variable = function.global_variable(StorageClass.PUSH_CONSTANT, block)
    places = {
        name: function.at(StorageClass.PUSH_CONSTANT, function.u32, variable, member) for member, name in enumerate(names)
    }
    return {name: Word(function, function.load(function.u32, place)) for name, place in places.items()}


def float_of(function: Function, bits: Word) -> int:
    """Return the float32 that is pushed as its bits."""
    return function.result(Ins.Bitcast, function.f32, bits.id)
