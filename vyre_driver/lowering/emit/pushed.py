"""The block of push constants: what the program pushes, then the counts of the buffers that run time sizes.

All of it is hidden from llvmpipe (Mesa 22.3), which asks for each load whether its index is made of nothing but constants and
what is pushed, by every path through the operations that make it: minutes for six square roots of one another.

Source: Vulkan 1.3, "Push Constant Interface"; docs/binding.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.binding.pushed import end_of, pushed_members
from vyre_driver.lowering.emit.hiding import hide_form
from vyre_driver.lowering.emit.kinds import U32, Form, kind_of
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.binding.plan import Binding, BindingPlan
    from vyre_driver.lowering.emit.code import Code
    from vyre_driver.lowering.emit.kinds import Kind


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
        return hide_form(self._code, form, loaded) if self._code.target.hides else loaded

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
            fields = [(one.name, one.offset, self._member_type(self._bindings[one.name])) for one in self._members]
            end = end_of(self._members)
            fields += [(f"count_{name}", end + 4 * place, self._code.u32) for place, name in enumerate(self._counted)]
            struct = module.name(module.struct_type(*(type_id for _, _, type_id in fields)), "Pushed")
            module.decorate(struct, Decoration.BLOCK)
            for place, (name, offset, _) in enumerate(fields):
                module.member_name(struct, place, name)
                module.member_decorate(struct, place, Decoration.OFFSET, offset)
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
