"""The buffers of a program as variables of the module: storage blocks, workgroup arrays, and what is pushed.

What the program pushes comes first in the block of push constants, then the counts of the buffers that run time sizes. All of
it is hidden from llvmpipe (Mesa 22.3), which asks for each load whether its index is made of nothing but constants and what is
pushed, by every path through the operations that make it: minutes for six square roots of one another.

Source: SPIR-V 1.6, 3.20 (decorations); Vulkan 1.3, "Standard Storage Buffer Layout", "Resource Interface", "Push Constant
Interface"; what kompute binds (docs/kompute.md, docs/binding.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.binding.plan import Binding, BindingPlan, BindingRole
from vyre_driver.binding.pushed import end_of, pushed_members
from vyre_driver.ir.operators import AtomicOp
from vyre_driver.lowering.emit.code import Code, cannot
from vyre_driver.lowering.emit.kinds import U32, Form, Kind, kind_of
from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, Capability, Decoration, Ins, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.ir.terms import Term


class PushBlock:
    """Loads from the block, which is declared with the first of them."""

    def __init__(self, code: Code, plan: BindingPlan) -> None:
        """Lay it out; declare nothing yet."""
        self._code = code
        self._block = 0
        self._members = pushed_members(plan)
        self._bindings = {one.name: one for one in plan.bindings if one.is_pushed}
        self._counted = [one.name for one in plan.descriptors if not one.static_byte_len]

    def count(self, name: str) -> int:
        """Return the elements of a buffer (u32), known everywhere."""
        place = len(self._members) + self._counted.index(name)
        return self._hidden(Form.U32, self._early(("count", name), self._code.u32, place))

    def element(self, name: str, index: int) -> int:
        """Return an element of a push buffer at an index that is inside; known everywhere where the index is a constant."""
        code, binding = self._code, self._bindings[name]
        place = next(place for place, one in enumerate(self._members) if one.name == name)
        form = _form_of(binding)
        type_id = code.type_of(form)
        least, most = code.range_of(index)
        if binding.element_count == 1:
            return self._hidden(form, self._early(("pushed", name), type_id, place))
        if least == most:
            return self._hidden(form, self._early(("pushed", name, least), type_id, place, code.const(least)))
        pointer = code.module.type(Op.TypePointer, StorageClass.PUSH_CONSTANT, type_id)
        at = code.op(Ins.AccessChain, pointer, self._declared(), code.const(place), index)
        return self._hidden(form, code.op(Ins.Load, type_id, at))  # nothing writes it

    def _hidden(self, form: Form, loaded: int) -> int:
        return self._code.hide_form(form, loaded) if self._code.target.hides else loaded

    def _early(self, key: tuple[object, ...], type_id: int, *places: int) -> int:
        code = self._code
        known = code.recall(key)
        if known is not None:
            return known
        member, *inside = places
        pointer = code.module.type(Op.TypePointer, StorageClass.PUSH_CONSTANT, type_id)
        at = (code.const(member), *inside)
        chain = code.early(("place", key), Ins.AccessChain, pointer, self._declared(), *at)
        return code.early(key, Ins.Load, type_id, chain)

    def _declared(self) -> int:
        if not self._block:
            module = self._code.module
            fields = [(one.name, self._member_type(self._bindings[one.name]), one.offset) for one in self._members]
            end = end_of(self._members)
            fields += [(f"count_{name}", self._code.u32, end + 4 * place) for place, name in enumerate(self._counted)]
            struct = module.block(*fields, name="Pushed")
            pointer = module.type(Op.TypePointer, StorageClass.PUSH_CONSTANT, struct)
            self._block = module.name(module.global_variable(pointer, StorageClass.PUSH_CONSTANT), "pushed")
        return self._block

    def _member_type(self, binding: Binding) -> int:
        element = self._code.type_of(_form_of(binding))
        if binding.element_count == 1:
            return element
        count = self._code.const(binding.element_count)
        return self._code.module.array_type(Op.TypeArray, element, count, stride=binding.stride)


def _form_of(binding: Binding) -> Form:
    """Return the form of an element in the block: a bool is a word."""
    kind: Kind = (None if binding.data_type is None else kind_of(binding.data_type)) or U32
    return Form.U32 if kind.form is Form.BOOL else kind.form


_STORAGE = {8: Capability.StorageBuffer8BitAccess, 16: Capability.StorageBuffer16BitAccess}
_WORD_BITS = 32
_ATOMIC_ADD = frozenset({FEATURE_OF_CAPABILITY[Capability.AtomicFloat32AddEXT]})
_MOST_INITIALIZED = 256  # elements of all arrays of an invocation, where the time to compile them counts
_SHARED_ATOMIC_ADD = "shaderSharedFloat32AtomicAdd"


@dataclass(slots=True)
class BufferVariable:
    """A buffer in SPIR-V: its kind (None: it cannot be loaded from or stored to), its variable, and the epoch of its contents.

    ``count`` is 0 where run time decides. ``packed`` says that several elements share a word, ``canonical`` that it holds
    no subnormals, ``is_local`` that it is not the workgroup's but the invocation's. ``element`` is the type of an element in
    memory, ``stride`` the bytes from one to the next.
    """

    name: str
    kind: Kind | None
    count: int
    is_shared: bool
    writable: bool
    packed: bool = False
    canonical: bool = False
    epoch: int = 0
    element: int = 0
    stride: int = 0
    pointer: int = 0
    variable: int = 0
    is_pushed: bool = False
    is_local: bool = False


class Buffers:
    """The buffers of one program by name."""

    def __init__(self, code: Code, plan: BindingPlan) -> None:
        """Declare every descriptor, and the workgroup memory that is used."""
        self._code = code
        self._uses = uses = code.uses
        self._epoch = 0
        self.shared_bytes = 0
        self.uninitialized: list[BufferVariable] = []  # arrays of an invocation that need zeros before anything reads them
        self._initialized = 0
        self.by_name: dict[str, BufferVariable] = {}
        for slot, one in enumerate(plan.descriptors):
            self._storage(slot, one)
        code.measured = self._measured(plan)
        used = uses.loaded | uses.stored | uses.measured | uses.atomic.keys()
        for binding in plan.bindings:
            if binding.role is BindingRole.SHARED and binding.name in used:
                self._workgroup(binding)
        self.push_block = PushBlock(code, plan)
        for one in plan.bindings:
            if one.is_pushed and one.data_type is not None:
                made = BufferVariable(one.name, kind_of(one.data_type), one.element_count, is_shared=False, writable=False)
                made.is_pushed = True
                self.by_name[one.name] = made

    def _measured(self, plan: BindingPlan) -> int:
        """Return the variable of a buffer whose length is not 0, or 0.

        Every buffer has an element of its type. One that is declared as words may have none of these: elements that share a
        word, those that are neither read nor written, and types without a lowering.
        """
        strides = {binding.name: binding.stride for binding in plan.descriptors}
        return next((one.variable for one in self.by_name.values() if 0 < one.stride <= strides[one.name]), 0)

    def named(self, name: str, term: Term | None = None) -> BufferVariable:
        """Return a buffer whose elements can be read and written; refuses others."""
        found = self.by_name[name]
        if found.kind is None:
            cannot(
                term, f"buffer {name!r} has elements of a type that has no lowering", "elements of 8, 16, 32, 64 or 128 bits"
            )
        return found

    def changed(self, *buffers: BufferVariable) -> None:
        """Forget what was loaded of buffers; of all that may be written when none is named."""
        for one in buffers or self.by_name.values():
            if one.writable:
                self._epoch += 1
                one.epoch = self._epoch

    def length(self, name: str) -> int:
        """Return the elements of a buffer (u32)."""
        found = self.by_name.get(name)
        count = found.count if found is not None else 0
        return self._code.const(count) if count else self.push_block.count(name)

    def _storage(self, slot: int, binding: Binding) -> None:
        module = self._code.module
        name, kind = binding.name, None if binding.data_type is None else kind_of(binding.data_type)
        count = binding.element_count if binding.static_byte_len else 0
        writable = name in self._uses.stored or name in self._uses.atomic
        result = BufferVariable(name, kind, count, is_shared=False, writable=writable)
        result.element, result.stride = self._element(
            result, used=name in self._uses.loaded | self._uses.stored | self._uses.atomic.keys()
        )
        array = module.array_type(Op.TypeRuntimeArray, result.element, stride=result.stride)
        struct = module.block(("elements", array, 0), name=f"Buffer_{name}")
        if not result.writable:
            module.member_decorate(struct, 0, Decoration.NON_WRITABLE)
        if self._uses.is_shared_between_invocations(name):
            module.member_decorate(struct, 0, Decoration.COHERENT)
        result.pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, result.element)
        pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, struct)
        result.variable = module.name(module.bound_variable(pointer, slot), name)
        self.by_name[name] = result

    def _element(self, made: BufferVariable, *, used: bool) -> tuple[int, int]:
        """Return the type of an element in memory, and the bytes from one to the next."""
        code, kind = self._code, made.kind
        if kind is None or not used:
            return code.u32, 4
        if kind.bits >= _WORD_BITS:
            return self._element_type(made.name, kind, is_shared=False), kind.bits // 8
        capability = _STORAGE[kind.bits]
        if FEATURE_OF_CAPABILITY[capability] not in code.target.features:
            made.packed = True
            return code.u32, 4
        code.require(capability)
        if kind.bits == 8:
            code.module.extension("SPV_KHR_8bit_storage")  # in SPIR-V itself from 1.5 on
        return code.module.type(Op.TypeInt, kind.bits, 0), kind.bits // 8

    def _element_type(self, name: str, kind: Kind, *, is_shared: bool) -> int:
        """Return the type of elements of at least 32 bits; f32 with atomics are words, unless the device adds to them itself.

        It may round and flush as it likes then, which a strict target does not allow.
        """
        code, ops = self._code, self._uses.atomic.get(name)
        if kind.form is Form.BOOL:
            return code.u32
        if kind.form is not Form.F32 or not ops:
            return code.type_of(kind.form)
        features = _ATOMIC_ADD | {_SHARED_ATOMIC_ADD} if is_shared else _ATOMIC_ADD
        if ops != {AtomicOp.ADD} or code.target.strict or not features <= code.target.features:
            return code.u32
        code.features |= features
        return code.f32

    def _workgroup(self, binding: Binding) -> None:
        """Declare memory of the workgroup, or of each invocation."""
        code, module = self._code, self._code.module
        kind = None if binding.data_type is None else kind_of(binding.data_type)
        result = BufferVariable(binding.name, kind, binding.element_count, is_shared=True, writable=True)
        if kind is None or not result.count:
            self.by_name[result.name] = result
            return
        # Arithmetic, which is all that sees its floats, would flush them at each load; a store is seldom repeated as often.
        uses = self._uses
        result.canonical = kind.form is Form.F32 and result.name not in uses.copied | uses.atomic.keys()
        result.canonical &= code.target.flushes_by_bits
        result.element = self._element_type(result.name, kind, is_shared=True)
        array = module.array_type(Op.TypeArray, result.element, code.const(result.count))
        self.by_name[result.name] = result
        result.is_local = result.name in uses.local
        if result.is_local:
            result.pointer = module.type(Op.TypePointer, StorageClass.FUNCTION, result.element)
            result.variable = module.name(code.variable(array, self._initial(result, array)), result.name)
            return
        result.pointer = module.type(Op.TypePointer, StorageClass.WORKGROUP, result.element)
        pointer = module.type(Op.TypePointer, StorageClass.WORKGROUP, array)
        result.variable = module.name(module.global_variable(pointer, StorageClass.WORKGROUP), result.name)
        self.shared_bytes += result.count * max(kind.bits // 8, 4)

    def _initial(self, buffer: BufferVariable, array: int) -> int:
        """Return the initializer of an invocation's array of that type, or 0 where a loop is to write its zeros.

        llvmpipe's compiler turns an initializer into a store for each element, and takes time with the square of their number.
        """
        initialized = self._initialized + buffer.count
        if self._code.target.hides and initialized > _MOST_INITIALIZED:
            self.uninitialized.append(buffer)
            return 0
        self._initialized = initialized
        return self._code.module.constant(Op.ConstantNull, array)

    @property
    def shared(self) -> list[BufferVariable]:
        """The workgroup memory that is used."""
        return [one for one in self.by_name.values() if one.is_shared and one.variable and not one.is_local]
