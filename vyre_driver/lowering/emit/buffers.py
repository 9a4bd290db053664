"""The buffers of a program as variables of the module: storage blocks, workgroup arrays, and what is pushed.

Source: SPIR-V 1.6, 3.20 (decorations); Vulkan 1.3, "Standard Storage Buffer Layout", "Resource Interface"; what kompute binds
(docs/kompute.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.binding.plan import BindingRole
from vyre_driver.ir.operators import AtomicOp
from vyre_driver.lowering.emit.code import cannot
from vyre_driver.lowering.emit.kinds import Form, Kind, kind_of
from vyre_driver.lowering.emit.pushed import PushBlock
from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, Capability, Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.binding.plan import Binding, BindingPlan
    from vyre_driver.ir.terms import Term
    from vyre_driver.lowering.emit.code import Code

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
        struct = module.name(module.struct_type(array), f"Buffer_{name}")
        module.member_name(struct, 0, "elements")
        module.decorate(struct, Decoration.BLOCK)
        module.member_decorate(struct, 0, Decoration.OFFSET, 0)
        if not result.writable:
            module.member_decorate(struct, 0, Decoration.NON_WRITABLE)
        if self._uses.is_shared_between_invocations(name):
            module.member_decorate(struct, 0, Decoration.COHERENT)
        result.pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, result.element)
        pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, struct)
        result.variable = module.name(module.global_variable(pointer, StorageClass.STORAGE_BUFFER), name)
        module.decorate(result.variable, Decoration.DESCRIPTOR_SET, 0)
        module.decorate(result.variable, Decoration.BINDING, slot)
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
