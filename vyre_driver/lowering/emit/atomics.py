"""Atomics on words, i32 and f32, in buffers and in workgroup memory.

Operands and results are the bits of elements. An i32 is taken as such where its sign decides. An f32 lies in memory as a word,
which is what Vulkan's core has atomics of: what has no instruction is a loop of compare-exchanges.

Source: spec item 1.7 (memory); SPIR-V 1.6, 3.25 (memory semantics), 3.27 (scope); Vulkan 1.3, "Memory Model";
SPV_EXT_shader_atomic_float_add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.operators import AtomicOp, MemoryOrdering, OpaqueOp
from vyre_driver.lowering.emit import floats
from vyre_driver.lowering.emit.blocks import retrying
from vyre_driver.lowering.emit.code import cannot
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Ins, Scope, Semantics
from vyre_driver.spirv.opcodes import Capability

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Atomic
    from vyre_driver.lowering.emit.buffers import Buffers, BufferVariable
    from vyre_driver.lowering.emit.code import Code

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

    def _found(self, cell: Cell) -> int:
        """Return the bits that stand in an element now."""
        code = self._code
        return self._as_word(
            cell, code.result(Ins.AtomicLoad, cell.type_id, cell.place, cell.scope, code.const(Semantics.RELAXED))
        )

    def _fetch_nand(self, term: Atomic, cell: Cell, value: int) -> int:
        """Replace what is there by its negated conjunction with a value, trying anew as long as others were faster."""
        code = self._code
        with retrying(code, self._found(cell)) as (before, leave):
            both = code.op(Ins.BitwiseAnd, code.u32, before, value)
            found = self._compare_exchange(term, cell, before, code.op(Ins.Not, code.u32, both))
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
        with retrying(code, self._found(cell)) as (before, leave):
            total = floats.arithmetic(code, Ins.FAdd, floats.of_bits(code, before), clean)
            found = self._compare_exchange(term, cell, before, code.bits(total))
            leave(code.op(Ins.IEqual, code.bool, found, before), found)
        return before

    def _choose_float(self, term: Atomic, cell: Cell, value: int) -> int:
        """Keep the lesser or the greater of two f32: -0.0 is less than 0.0, and any number is better than a NaN."""
        code = self._code
        own = _rank(code, value)
        is_number = floats.has_magnitude(code, Ins.ULessThanEqual, floats.of_bits(code, value))
        order = Ins.ULessThan if term.op is AtomicOp.MIN else Ins.UGreaterThan
        with retrying(code, self._found(cell)) as (before, leave):
            is_better = code.op(order, code.bool, own, _rank(code, before))
            replaces_nan = floats.has_magnitude(code, Ins.UGreaterThan, floats.of_bits(code, before))
            some = code.op(Ins.LogicalOr, code.bool, is_better, replaces_nan)
            taken = code.op(Ins.LogicalAnd, code.bool, is_number, some)
            found = self._compare_exchange(term, cell, before, code.op(Ins.Select, code.u32, taken, value, before))
            leave(code.op(Ins.IEqual, code.bool, found, before), found)
        return before

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
