"""Weights on their way from sums to operands: from the fragments that scores were made in to fragments to multiply with.

Nobody knows which elements of a fragment an invocation holds, and it may hold others of an operand than of a sum. So the way is
through shared memory. Where a device holds both alike, which the kernel finds out by the same way once when it begins, the
elements can stay where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.matrices.fragments import USE_A, USE_SUM
from vyre_driver.spirv.instructions import Ins, Scope
from vyre_driver.spirv.opcodes import Op

if TYPE_CHECKING:
    from vyre_driver.matrices.attention_description import AttentionDescription
    from vyre_driver.matrices.fragments import Floats, Fragments, Kind
    from vyre_driver.matrices.function import Function
    from vyre_driver.matrices.softmax import Scratch


class Weights:
    """The weights of a step; ``turned`` are variables of operands, lists of rows of fragments."""

    def __init__(  # noqa: PLR0913 -- made in one place
        self,
        function: Function,
        fragments: Fragments,
        floats: Floats,
        description: AttentionDescription,
        scratch: Scratch,
        of_sum: Kind,
    ) -> None:
        """Declare them."""
        self._f, self._fragments, self._floats, self._t, self._scratch = (
            function,
            fragments,
            floats,
            description.tiling,
            scratch,
        )
        m, n, k = self._t.fragment
        self._per = description.operand.in_vector
        self._of_sum = of_sum
        self._of_a = fragments.kind(description.operand, m, k, USE_A)
        self._narrow = fragments.kind(description.operand, m, n, USE_SUM)
        down = range(self._t.rows // m)
        self.turned = [[function.variable(self._of_a.id) for _ in range(self._t.keys // k)] for _ in down]
        self._narrowed = [[function.variable(self._narrow.id) for _ in range(self._t.keys // n)] for _ in down]
        self._is_direct: int | None = None

    def begin(self) -> None:
        """Find out whether an invocation holds the same elements of a sum and of an operand, in the same order."""
        if not self._t.is_direct:
            return
        f, fragments, n = self._f, self._fragments, self._t.fragment[1]
        columns, rows = (of(self._of_sum, self._scratch.iota) for of in (fragments.of_columns, fragments.of_rows))
        width = f.result(Ins.CompositeConstruct, self._of_sum.id, self._floats.const(n))
        above = self._floats.of(Ins.FMul, rows, width, kind=self._of_sum.id)
        numbers = self._floats.of(Ins.FAdd, above, columns, kind=self._of_sum.id)
        narrow, operand = self._narrowed[0][0], self.turned[0][0]
        f.store(narrow, f.result(Ins.FConvert, self._narrow.id, numbers))
        stride = self._t.weights_stride(self._per)
        fragments.share(self._scratch.at(0), f.load(self._narrow.id, narrow), stride)
        self._scratch.barrier()
        f.store(operand, fragments.read(self._of_a, self._scratch.at(0), stride, Scope.SUBGROUP))
        self._scratch.barrier()
        lengths = fragments.length(self._of_a), fragments.length(self._narrow)
        is_same = f.variable(f.bool)
        f.store(is_same, f.result(Ins.IEqual, f.bool, lengths[0].id, lengths[1].id))
        for e in fragments.elements(self._narrow):
            with f.when(f.is_below(e, lengths[0])):
                held = [fragments.element(kind, one, e) for kind, one in ((self._narrow, narrow), (self._of_a, operand))]
                is_equal = f.result(Ins.FOrdEqual, f.bool, *(self._floats.of(Ins.FConvert, one) for one in held))
                f.store(is_same, f.both(f.load(f.bool, is_same), is_equal))
        self._is_direct = f.result(Ins.GroupNonUniformAll, f.bool, f.const(Scope.SUBGROUP), f.load(f.bool, is_same))

    def forget(self) -> None:
        """Let go of the last step's operands, which would be kept in registers where a step's are made on a condition."""
        zeros = self._f.module.constant(Op.ConstantNull, self._of_a.id)
        for one in (one for in_row in self.turned for one in in_row):
            self._f.store(one, zeros)

    def turn(self, weights: list[list[int]]) -> None:
        """Make operands of sums."""
        f, fragments = self._f, self._fragments
        for i, in_row in enumerate(weights):
            for j, one in enumerate(in_row):
                f.store(self._narrowed[i][j], f.result(Ins.FConvert, self._narrow.id, f.load(self._of_sum.id, one)))
        if self._is_direct is None:
            self._turn_in_memory()
            return
        pairs = [pair for rows in zip(self._narrowed, self.turned, strict=True) for pair in zip(*rows, strict=True)]
        with f.when(self._is_direct):
            for e in fragments.elements(self._of_a):
                for narrow, one in pairs:
                    f.store(fragments.at(self._of_a, one, e), fragments.element(self._narrow, narrow, e))
        with f.when(f.fails(self._is_direct)):
            self._turn_in_memory()

    def _turn_in_memory(self) -> None:
        f, fragments, (m, n, k) = self._f, self._fragments, self._t.fragment
        stride = self._t.weights_stride(self._per)
        for first in range(0, self._t.keys, self._t.turned):
            keys = range(first, first + self._t.turned)
            for i, row in enumerate(self._narrowed):
                for key in keys[::n]:
                    at = self._scratch.at(i * m * stride + (key - first) // self._per)
                    fragments.share(at, f.load(self._narrow.id, row[key // n]), stride)
            self._scratch.barrier()
            for i, row in enumerate(self.turned):
                for key in keys[::k]:
                    at = self._scratch.at(i * m * stride + (key - first) // self._per)
                    f.store(row[key // k], fragments.read(self._of_a, at, stride, Scope.SUBGROUP))
            self._scratch.barrier()
