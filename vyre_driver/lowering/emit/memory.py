"""Loads, stores and atomics, each inside its buffer: out of range a load gives zero, a store and an atomic do nothing.

A check is left out where the index is certainly below the count (orders.py). A target that does without checks keeps those that
robustBufferAccess does not do: of workgroup memory and of what is pushed.

Operands and results of atomics are the bits of elements. An i32 is taken as such where its sign decides. An f32 lies in memory
as a word, which is what Vulkan's core has atomics of: what has no instruction is a loop of compare-exchanges.

Source: spec item 1.7 (memory); SPIR-V 1.6, 3.25 (memory semantics), 3.27 (scope); Vulkan 1.3, "Memory Model";
SPV_EXT_shader_atomic_float_add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering, OpaqueOp
from vyre_driver.lowering.emit import floats
from vyre_driver.lowering.emit.blocks import retrying, when
from vyre_driver.lowering.emit.buffers import Buffers, BufferVariable
from vyre_driver.lowering.emit.casts import as_number, cast
from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.integers import sign_extended
from vyre_driver.lowering.emit.kinds import BOOL, I32, I64, U32, U64, Form, Kind
from vyre_driver.spirv.opcodes import Capability, Ins, Scope, Semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.ir.expressions import Atomic
    from vyre_driver.ir.terms import Term


_ATOMICS = {
    AtomicOp.ADD: Ins.AtomicIAdd,
    AtomicOp.OR: Ins.AtomicOr,
    AtomicOp.AND: Ins.AtomicAnd,
    AtomicOp.XOR: Ins.AtomicXor,
    AtomicOp.MIN: Ins.AtomicUMin,
    AtomicOp.MAX: Ins.AtomicUMax,
    AtomicOp.LRU_UPDATE: Ins.AtomicUMax,
    AtomicOp.EXCHANGE: Ins.AtomicExchange,
    AtomicOp.COMPARE_EXCHANGE: Ins.AtomicCompareExchange,
    AtomicOp.COMPARE_EXCHANGE_WEAK: Ins.AtomicCompareExchange,  # which may fail without a reason, and need not
    AtomicOp.FETCH_NAND: Ins.AtomicCompareExchange,
}
_SIGNED = {AtomicOp.MIN: Ins.AtomicSMin, AtomicOp.MAX: Ins.AtomicSMax}
_COMPARE_EXCHANGES = frozenset({AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK})
_OF_FLOATS = frozenset({AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX})  # as of numbers; others are those of words
_ORDERS = {
    MemoryOrdering.ACQUIRE: Semantics.ACQUIRE,
    MemoryOrdering.RELEASE: Semantics.RELEASE,
    MemoryOrdering.ACQ_REL: Semantics.ACQUIRE_RELEASE,
    MemoryOrdering.SEQ_CST: Semantics.ACQUIRE_RELEASE,  # Vulkan has nothing stronger
}


class Cell(NamedTuple):
    """One element in memory: a pointer to it, the type that it has there, and how far its atomics reach."""

    place: int
    type_id: int
    scope: int


class Atomics:
    """The atomics of the code, which know what each of them has to order."""

    def __init__(self, code: Code, buffers: Buffers) -> None:
        """Emit into ``code``."""
        self._code = code
        self._buffers = buffers
        self._orders: list[tuple[int, int]] = []  # where in the words an atomic's semantics stand, and in how many loops

    def check(self, term: Atomic) -> None:
        """Refuse an operator that has no lowering."""
        if isinstance(term.op, OpaqueOp) or term.op not in _ATOMICS:
            name = "an opaque operator" if isinstance(term.op, OpaqueOp) else term.op.name
            cannot(term, f"{name} as an atomic", "one of " + ", ".join(op.name for op in _ATOMICS))

    def apply(self, term: Atomic, buffer: BufferVariable, place: int, expected: int | None, value: int) -> int:
        """Return the bits of an element before an operation on it."""
        code, op = self._code, term.op
        form = Form.U32 if buffer.kind is None else buffer.kind.form
        cell = Cell(place, buffer.element, code.const(Scope.WORKGROUP if buffer.is_shared else Scope.DEVICE))
        if form is Form.F32 and op in _OF_FLOATS:
            return self._add_float(term, cell, value) if op is AtomicOp.ADD else self._choose_float(term, cell, value)
        if op is AtomicOp.FETCH_NAND:
            return self._fetch_nand(term, cell, value)
        if op in _COMPARE_EXCHANGES:
            return self._compare_exchange(term, cell, code.const(0) if expected is None else expected, value)
        signed = _SIGNED.get(op) if form is Form.I32 and isinstance(op, AtomicOp) else None
        opcode = signed or (_ATOMICS[op] if isinstance(op, AtomicOp) else 0)
        return self._modify(term, cell, opcode, self._as_element(cell, value))

    def _modify(self, term: Atomic, cell: Cell, opcode: int, value: int) -> int:
        code = self._code
        order = code.const(self._semantics(term.ordering))
        result = code.result(opcode, cell.type_id, cell.place, cell.scope, order, value)
        self._orders.append((len(code.words) - 2, code.loops))
        return self._as_word(cell, result)

    def _compare_exchange(self, term: Atomic, cell: Cell, expected: int, value: int) -> int:
        code = self._code
        orders = term.ordering, MemoryOrdering.ACQUIRE if term.ordering in _ORDERS else MemoryOrdering.RELAXED
        taken, failed = (code.const(self._semantics(one)) for one in orders)
        new, old = self._as_element(cell, value), self._as_element(cell, expected)
        result = code.result(Ins.AtomicCompareExchange, cell.type_id, cell.place, cell.scope, taken, failed, new, old)
        self._orders += [(len(code.words) - 4, code.loops), (len(code.words) - 3, code.loops)]
        return self._as_word(cell, result)

    def _as_element(self, cell: Cell, word: int) -> int:
        return word if cell.type_id == self._code.u32 else self._code.op(Ins.Bitcast, cell.type_id, word)

    def _as_word(self, cell: Cell, element: int) -> int:
        return element if cell.type_id == self._code.u32 else self._code.bits(element)

    def _fetch_nand(self, term: Atomic, cell: Cell, value: int) -> int:
        """Replace what is there by its negated conjunction with a value."""
        code = self._code
        return self._replaced(
            term, cell, lambda before: code.op(Ins.Not, code.u32, code.op(Ins.BitwiseAnd, code.u32, before, value))
        )

    def _replaced(self, term: Atomic, cell: Cell, by: Callable[[int], int]) -> int:
        """Replace the bits that are there by what is made of them, trying anew as long as others were faster; returns them."""
        code = self._code
        element = code.result(Ins.AtomicLoad, cell.type_id, cell.place, cell.scope, code.const(Semantics.RELAXED))
        with retrying(code, self._as_word(cell, element)) as (before, leave):
            found = self._compare_exchange(term, cell, before, by(before))
            leave(code.op(Ins.IEqual, code.bool, found, before), found)
        return before

    def _add_float(self, term: Atomic, cell: Cell, value: int) -> int:
        """Add to an f32: by the device's instruction where the buffer lies in memory as f32, else as the IR adds."""
        code = self._code
        addend = floats.of_bits(code, value)
        if cell.type_id == code.f32:
            code.module.extension("SPV_EXT_shader_atomic_float_add")
            code.module.capability(Capability.AtomicFloat32AddEXT)
            return self._modify(term, cell, Ins.AtomicFAdd, addend)
        clean = floats.flushed(code, addend)
        return self._replaced(
            term, cell, lambda before: code.bits(floats.arithmetic(code, Ins.FAdd, floats.of_bits(code, before), clean))
        )

    def _choose_float(self, term: Atomic, cell: Cell, value: int) -> int:
        """Keep the lesser or the greater of two f32: -0.0 is less than 0.0, and any number is better than a NaN."""
        code = self._code
        own = _rank(code, value)
        is_number = floats.has_magnitude(code, Ins.ULessThanEqual, floats.of_bits(code, value))
        order = Ins.ULessThan if term.op is AtomicOp.MIN else Ins.UGreaterThan

        def chosen(before: int) -> int:
            is_better = code.op(order, code.bool, own, _rank(code, before))
            replaces_nan = floats.has_magnitude(code, Ins.UGreaterThan, floats.of_bits(code, before))
            some = code.op(Ins.LogicalOr, code.bool, is_better, replaces_nan)
            taken = code.op(Ins.LogicalAnd, code.bool, is_number, some)
            return code.op(Ins.Select, code.u32, taken, value, before)

        return self._replaced(term, cell, chosen)

    def _semantics(self, ordering: MemoryOrdering) -> int:
        order = _ORDERS.get(ordering)
        if order is None or not self._code.target.fences:
            return Semantics.RELAXED
        return order | Semantics.UNIFORM_MEMORY | (Semantics.WORKGROUP_MEMORY if self._buffers.shared else 0)

    def relax(self) -> None:
        """Take the order off an atomic that has nothing to order: the only one of its invocation, beside no plain store."""
        if len(self._orders) == 1 and not self._orders[0][1] and not self._code.uses.stored:
            self._code.words[self._orders[0][0]] = self._code.const(Semantics.RELAXED)


def _rank(code: Code, bits: int) -> int:
    """Return a word that is the greater, the greater an f32 of these bits is."""
    signed = code.op(Ins.Bitcast, code.i32, bits)
    negative = code.bits(code.op(Ins.ShiftRightArithmetic, code.i32, signed, code.const(31)))
    turned = code.op(Ins.BitwiseOr, code.u32, negative, code.const(floats.SIGN))
    return code.op(Ins.BitwiseXor, code.u32, bits, turned)


_STORED_ALIKE = ({U32, I32}, {U64, I64}, {U32, BOOL})  # values of one are stored as elements of the other


class Place(NamedTuple):
    """An index (u32), and where there is one the condition without which it is out of range."""

    at: int
    within: int | None = None


class Memory:
    """The accesses of the code to its buffers."""

    def __init__(self, code: Code, plan: BindingPlan) -> None:
        """Declare the buffers of the plan."""
        self._code = code
        self.buffers = Buffers(code, plan)
        self._atomics = Atomics(code, self.buffers)
        self.checked: list[Term] = []  # the accesses whose index is compared with the count

    def load(self, term: Term, name: str, place: Place) -> Value:
        """Return an element."""
        code, buffer = self._code, self.buffers.named(name, term)
        kind = buffer.kind or U32
        key = ("load", name, place, buffer.epoch)
        found = code.recall(key)
        if found is not None:
            return Value(found, kind)
        index, inside = self._check(term, name, place)
        safe = index if inside is None else code.op(Ins.Select, code.u32, inside, index, code.const(0))
        result = self._read(buffer, kind, safe)
        if inside is not None:
            most = code.range_of(result)[1]
            result = code.select(kind.form, inside, result, code.zero(kind.form))
            if kind.form is Form.U32:
                code.narrow(result, 0, most)
        if buffer.canonical:
            code.normal(result)
        if not buffer.is_local:
            code.unfoldable.add(result)
        return Value(code.remember(key, result), kind)

    def store(self, term: Term, name: str, place: Place, value: Value) -> None:
        """Write an element."""
        buffer = self.buffers.named(name, term)
        code = self._code
        if buffer.kind is not None and {buffer.kind, value.kind} in _STORED_ALIKE:
            value = cast(code, term, value, buffer.kind)
        if buffer.kind != value.kind:
            cannot(term, f"a store of {value.kind.name} to buffer {name!r}", "a value of the type of its elements")
        if code.target.strict and value.id in code.floats and name in code.uses.loaded:  # compilers look through memory
            value = value._replace(id=floats.hidden_float(code, value.id))
        if buffer.canonical:
            value = value._replace(id=floats.flushed(code, value.id))
        index, inside = self._check(term, name, place)
        if inside is None:
            self._write(buffer, index, value)
        else:
            with when(code, inside):
                self._write(buffer, index, value)
        self.buffers.changed(buffer)

    def clear(self, buffer: BufferVariable, index: int) -> None:
        """Write zero to an existing element."""
        kind = buffer.kind or U32
        self._write(buffer, index, Value(self._code.zero(kind.form), kind))

    def _check(self, term: Term, name: str, place: Place, *, is_atomic: bool = False) -> tuple[int, int | None]:
        """Return an index, and as a condition whether it is inside, or None when it certainly is.

        What is compared is hidden before: NVIDIA's compiler (580.159.04 on an H200) takes the value that is stored, or the
        operand of an atomic, for -1 where the index tells that it is 0. Those of atomics are hidden whatever they are made of.
        """
        code, buffer, (index, within) = self._code, self.buffers.by_name[name], place
        if not (code.target.checks or buffer.is_shared or buffer.is_pushed):
            return index if within is None else code.op(Ins.Select, code.u32, within, index, code.const(U32_MAX)), None
        length = self.buffers.length(name)
        with code.scope():
            if within is not None:
                code.assume(within, holds=True)
            is_inside = code.orders.is_below(index, length)
        if within is not None or not is_inside:
            self.checked.append(term)
        if is_inside:
            return index, within
        known, index = index, code.hide(index) if is_atomic else code.hide_flag(index)
        result = code.op(Ins.ULessThan, code.bool, index, length)
        code.note_condition(result, Ins.ULessThan, known, length)
        if within is None:
            return index, result
        both = code.op(Ins.LogicalAnd, code.bool, within, result)
        code.note_condition(both, Ins.LogicalAnd, within, result)
        return index, both

    def _pointer(self, buffer: BufferVariable, index: int) -> int:
        code = self._code
        if buffer.is_shared:
            return code.op(Ins.AccessChain, buffer.pointer, buffer.variable, index)
        return code.op(Ins.AccessChain, buffer.pointer, buffer.variable, code.const_i32(0), index)

    def _read(self, buffer: BufferVariable, kind: Kind, index: int) -> int:
        code = self._code
        if buffer.packed:
            return self._unpack(buffer, kind, index)
        if buffer.is_pushed:
            result = self.buffers.push_block.element(buffer.name, index)
        else:
            result = code.result(Ins.Load, buffer.element, self._pointer(buffer, index))
        if kind.form is Form.BOOL:
            return code.op(Ins.INotEqual, code.bool, result, code.const(0))
        if kind.form is Form.F32 and buffer.element == code.u32:
            return floats.of_bits(code, result)
        if kind.bits < 32 and not buffer.is_shared:
            if kind.signed:
                return code.op(Ins.SConvert, code.i32, result)
            return code.narrow(code.op(Ins.UConvert, code.u32, result), 0, (1 << kind.bits) - 1)
        return result

    def _write(self, buffer: BufferVariable, index: int, value: Value) -> None:
        code, result = self._code, value.id
        if value.kind.form is Form.BOOL:
            result = as_number(code, result)
        elif value.kind.form is Form.F32 and buffer.element == code.u32:
            result = code.bits(result)
        if value.kind.bits < 32 and not buffer.is_shared:
            word = code.bits(result) if value.kind.form is Form.I32 else result
            if buffer.packed:
                self._pack(buffer, value.kind, index, word)
                return
            result = code.op(Ins.UConvert, buffer.element, word)
        code.effect(Ins.Store, self._pointer(buffer, index), result)

    def _in_word(self, kind: Kind, index: int) -> tuple[int, int]:
        """Return the word that an element of less than 32 bits lies in, and its first bit there."""
        code = self._code
        each = 32 // kind.bits
        word = code.op(Ins.ShiftRightLogical, code.u32, index, code.const(each.bit_length() - 1))
        place = code.op(Ins.BitwiseAnd, code.u32, index, code.const(each - 1))
        return word, code.op(Ins.ShiftLeftLogical, code.u32, place, code.const(kind.bits.bit_length() - 1))

    def _unpack(self, buffer: BufferVariable, kind: Kind, index: int) -> int:
        code = self._code
        word, first = self._in_word(kind, index)
        place = self._pointer(buffer, word)
        if buffer.writable:  # others may be writing the rest of the word
            result = code.result(Ins.AtomicLoad, code.u32, place, code.const(Scope.DEVICE), code.const(Semantics.RELAXED))
        else:
            result = code.result(Ins.Load, code.u32, place)
        low = code.op(Ins.BitFieldUExtract, code.u32, result, first, code.const(kind.bits))
        code.narrow(low, 0, (1 << kind.bits) - 1)
        return sign_extended(code, low, kind.bits) if kind.signed else low

    def _pack(self, buffer: BufferVariable, kind: Kind, index: int, value: int) -> None:
        """Clear the element's bits and set them, both atomically: other invocations own the rest of the word."""
        code = self._code
        word, first = self._in_word(kind, index)
        mask = code.const((1 << kind.bits) - 1)
        own = code.op(Ins.ShiftLeftLogical, code.u32, mask, first)
        clean = code.op(Ins.BitwiseAnd, code.u32, value, mask)
        bits = code.op(Ins.ShiftLeftLogical, code.u32, clean, first)
        place, device, relaxed = self._pointer(buffer, word), code.const(Scope.DEVICE), code.const(Semantics.RELAXED)
        code.result(Ins.AtomicAnd, code.u32, place, device, relaxed, code.op(Ins.Not, code.u32, own))
        code.result(Ins.AtomicOr, code.u32, place, device, relaxed, bits)

    def atomic(self, term: Atomic, place: Place, expected: int | None, value: int) -> Value:
        """Return the value at an index before an operation on it, as its bits."""
        code, buffer = self._code, self.buffers.named(term.buffer, term)
        self._atomics.check(term)
        index, inside = self._check(term, term.buffer, place, is_atomic=True)
        before, merge = code.block, code.module.new_id()
        if inside is not None:
            branch = code.module.new_id()
            code.split(inside, branch, merge, merge)
            code.label(branch)
        with code.scope():
            result = self._atomics.apply(term, buffer, self._pointer(buffer, index), expected, value)
        if inside is not None:
            end = code.block
            code.branch(merge)
            code.label(merge)
            result = code.result(Ins.Phi, code.u32, result, end, code.const(0), before)
        self.buffers.changed(buffer)
        return Value(result, U32)

    def relax(self) -> None:
        """Take the order off an atomic that has nothing to order."""
        self._atomics.relax()

    def barrier(self) -> None:
        """Wait for the workgroup; what its invocations wrote is visible to all of them after that, whatever the order."""
        code = self._code
        semantics = Semantics.ACQUIRE_RELEASE | Semantics.WORKGROUP_MEMORY
        between = (one for name, one in self.buffers.by_name.items() if code.uses.is_shared_between_invocations(name))
        if not all(one.is_shared for one in between):
            semantics |= Semantics.UNIFORM_MEMORY
        workgroup = code.const(Scope.WORKGROUP)
        code.effect(Ins.ControlBarrier, workgroup, workgroup, code.const(semantics))
        self.buffers.changed()
