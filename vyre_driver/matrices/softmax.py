"""Softmax of the rows of scores as they come, a step of keys at a time, in float32.

Weights are exp2(score - reference). The reference of a row is its largest score when that was last looked up; all sums so far
are scaled when it changes. Weights up to 2**SLACK are as good as those up to 1, so it changes only where a score has passed
it by more, which is rare. The largest score of a row, and the sum of its weights, are kept for each column of a fragment, and
put together in shared memory when they are wanted.

Then weights are on their way from sums to operands: from the fragments that scores were made in to fragments to multiply with.
Nobody knows which elements of a fragment an invocation holds, and it may hold others of an operand than of a sum. So the way is
through shared memory. Where a device holds both alike, which the kernel finds out by the same way once when it begins, the
elements can stay where they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.matrices.description import IN_VECTOR
from vyre_driver.matrices.elements import F32
from vyre_driver.matrices.function import READ, USE_A, USE_SUM, WRITTEN, vector_type
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Glsl, Ins, Op, Scope, StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.matrices.description import AttentionDescription
    from vyre_driver.matrices.function import Floats, Fragments, Function, Index, Kind, Word


SLACK = 8.0
"""How far, in powers of two, a score may pass its row's reference: weights stay below 256, float16 holds 65504."""
_NOTHING_YET = 3e38  # minus the reference of a row that has seen no key; finite, so that differences from it are
_NUMBERS_ROW = 2  # numbers that are kept of a row: minus its reference, and a factor


class Scratch:
    """Shared memory of each subgroup's own, in vectors: fragments, then minus the references of rows, then factors of rows."""

    def __init__(self, function: Function, description: AttentionDescription) -> None:
        """Declare it."""
        self._f, self._d = function, description
        self._vector = vector_type(function)
        count = description.tiling.subgroups * description.scratch_vectors
        self._shared = function.shared(self._vector, count + description.iota_vectors)
        self._iota = count
        self._first = function.built_in(BuiltIn.SUBGROUP_ID) * description.scratch_vectors
        self._rows = self._first + (description.scratch_vectors - _NUMBERS_ROW * description.tiling.rows // IN_VECTOR)

    def fill(self, lane: Word) -> None:
        """Fill in the numbers from 0 on, which every subgroup reads; a barrier has to follow."""
        f, floats = self._f, F32.declared(self._f.module)
        with f.when(f.is_below(lane, self._d.iota_vectors * IN_VECTOR)):
            number = f.result(Ins.Bitcast, f.u32, f.result(Ins.ConvertUToF, floats, lane.id))
            f.effect(Ins.Store, self._word(self._iota + lane // IN_VECTOR, lane % IN_VECTOR), number, *self._shared_by(WRITTEN))

    @property
    def iota(self) -> int:
        """A pointer to the numbers from 0 on."""
        return self.at(self._iota, is_own=False)

    def at(self, vector: Index, *, is_own: bool = True) -> int:
        """Return a pointer to a vector of what is the subgroup's own."""
        place = self._first + vector if is_own else vector
        return self._f.at(StorageClass.WORKGROUP, self._vector, self._shared, place)

    def numbers(self, row: int, *, is_factor: bool) -> int:
        """Return a pointer to the numbers of rows from a row on, which is a multiple of 4."""
        place = self._rows + ((self._d.tiling.rows if is_factor else 0) + row) // IN_VECTOR
        return self.at(place, is_own=False)

    def load(self, vector: Index) -> list[int]:
        """Return the bits of a vector that others of the subgroup have stored."""
        f = self._f
        found = f.load(self._vector, self.at(vector), *self._shared_by(READ))
        return [f.result(Ins.CompositeExtract, f.u32, found, one) for one in range(IN_VECTOR)]

    def load_number(self, row: Word, *, is_factor: bool) -> int:
        """Return the bits of a row's number."""
        return self._f.load(self._f.u32, self._number(row, is_factor=is_factor), *self._shared_by(READ))

    def store_number(self, row: Word, bits: int, *, is_factor: bool) -> None:
        """Store the bits of a row's number."""
        self._f.effect(Ins.Store, self._number(row, is_factor=is_factor), bits, *self._shared_by(WRITTEN))

    def _number(self, row: Word, *, is_factor: bool) -> int:
        place = row + (self._d.tiling.rows if is_factor else 0)
        return self._word(self._rows + place // IN_VECTOR, place % IN_VECTOR)

    def _word(self, vector: Index, word: Index) -> int:
        return self._f.at(StorageClass.WORKGROUP, self._f.u32, self._shared, vector, word)

    def _shared_by(self, memory: int) -> tuple[int, int]:
        return memory, self._f.const(Scope.WORKGROUP)

    def barrier(self) -> None:
        """Wait for the others of the subgroup."""
        self._f.barrier(Scope.SUBGROUP)


class Softmax:
    """The softmax of the rows of a subgroup; ``scores`` and ``results`` are variables, lists of rows of fragments."""

    def __init__(  # noqa: PLR0913 -- made in one place
        self,
        function: Function,
        fragments: Fragments,
        floats: Floats,
        description: AttentionDescription,
        scratch: Scratch,
        scale: int,
    ) -> None:
        """Declare what is kept; ``scale`` is that of scores, times the logarithm of e to base 2 already."""
        self._f, self._fragments, self._floats, self._d, self._scratch = function, fragments, floats, description, scratch
        function.module.capability(Capability.GroupNonUniformVote)
        self._m, self._n, _ = description.tiling.fragment
        self.kind = fragments.kind(F32, self._m, self._n, USE_SUM)
        self._lane = function.built_in(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID)
        self._scale = scale
        down = range(description.tiling.rows // self._m)
        self._down = down
        self._minus = [function.variable(self.kind.id) for _ in down]
        self._totals = [function.variable(self.kind.id) for _ in down]
        self._tops = [function.variable(self.kind.id) for _ in down]
        self._is_over = function.variable(function.bool)

    def begin(self) -> None:
        """Begin without any key."""
        f, nothing = self._f, self._floats.const(_NOTHING_YET)
        for minus, total in zip(self._minus, self._totals, strict=True):
            f.store(minus, f.result(Ins.CompositeConstruct, self.kind.id, nothing))
            f.store(total, f.module.constant(Op.ConstantNull, self.kind.id))
        self._for_rows(lambda row: self._scratch.store_number(row, self._floats.bits(nothing), is_factor=False))
        self._scratch.barrier()

    def _for_rows(self, what: Callable[[Word], None]) -> None:
        """Emit something for each row of the subgroup, each done by one invocation."""
        with self._f.repeat(self._lane, self._d.tiling.rows, self._d.tiling.subgroup_size) as row:
            what(row)

    def mask(self, scores: list[list[int]], within: int, visible: int | None) -> None:
        """Hide scores of keys that are not there, and of those that a row does not see.

        The first score is of key ``within`` from the end on, in float32: columns below that are keys. ``visible`` is how
        many columns the first row sees; each row sees one more than the row before. None: all.
        """
        f, floats, fragments = self._f, self._floats, self._fragments
        columns, rows = f.variable(self.kind.id), f.variable(self.kind.id)
        f.store(columns, fragments.of_columns(self.kind, self._scratch.iota))
        f.store(rows, fragments.of_rows(self.kind, self._scratch.iota))
        hidden = floats.const(-math.inf)
        for e in fragments.elements(self.kind):
            column, row = (fragments.element(self.kind, one, e) for one in (columns, rows))
            for i, in_row in enumerate(scores):
                for j, score in enumerate(in_row):
                    here = floats.of(Ins.FAdd, column, floats.const(j * self._n))
                    is_seen = floats.is_above(within, here)
                    if visible is not None:
                        further = floats.of(Ins.FSub, here, floats.of(Ins.FAdd, row, floats.const(i * self._m)))
                        is_seen = f.both(is_seen, floats.is_above(visible, further))
                    at = fragments.at(self.kind, score, e)
                    f.store(at, f.select(floats.type, is_seen, f.load(floats.type, at), hidden))

    def weigh(self, scores: list[list[int]], results: list[list[int]]) -> None:
        """Make weights of scores, where they are; ``results`` are scaled where references change."""
        f, floats, fragments = self._f, self._floats, self._fragments
        f.store(self._is_over, f.module.constant(Op.ConstantNull, f.bool))
        slack = floats.const(SLACK)
        for e in fragments.elements(self.kind):
            for i in self._down:
                top = floats.largest([fragments.element(self.kind, one, e) for one in scores[i]])
                f.store(fragments.at(self.kind, self._tops[i], e), top)
                is_over = floats.is_above(self._beyond(top, i, e), slack)
                f.store(self._is_over, f.result(Ins.LogicalOr, f.bool, f.load(f.bool, self._is_over), is_over))
        is_any = f.result(Ins.GroupNonUniformAny, f.bool, f.const(Scope.SUBGROUP), f.load(f.bool, self._is_over))
        with f.when(is_any):
            self._raise(results)
        for e in fragments.elements(self.kind):
            for i in self._down:
                weights = []
                for one in scores[i]:
                    at = fragments.at(self.kind, one, e)
                    weights.append(floats.glsl(Glsl.Exp2, self._beyond(f.load(floats.type, at), i, e)))
                    f.store(at, weights[-1])
                total = fragments.at(self.kind, self._totals[i], e)
                f.store(total, floats.of(Ins.FAdd, f.load(floats.type, total), floats.total(weights)))

    def _beyond(self, score: int, i: int, e: Index) -> int:
        """Return how far a score is above its row's reference."""
        return self._floats.glsl(Glsl.Fma, score, self._scale, self._fragments.element(self.kind, self._minus[i], e))

    def _raise(self, results: list[list[int]]) -> None:
        """Look up the largest score of each row, and scale the sums so far."""
        f, fragments = self._f, self._fragments
        self._share(self._tops)
        self._for_rows(self._raise_row)
        self._scratch.barrier()
        for i, (minus, total) in enumerate(zip(self._minus, self._totals, strict=True)):
            f.store(minus, fragments.of_rows(self.kind, self._scratch.numbers(i * self._m, is_factor=False)))
            self._scale_by_row([total, *results[i]], i)
        self._scratch.barrier()

    def _share(self, columns: list[int]) -> None:
        """Store a fragment for each row of fragments."""
        stride = self._d.tiling.sums_stride
        for i, one in enumerate(columns):
            self._fragments.share(self._scratch.at(i * self._m * stride), self._f.load(self.kind.id, one), stride)
        self._scratch.barrier()

    def _in_row(self, row: Word) -> list[int]:
        """Return the numbers of a row of what was shared."""
        first = row * self._d.tiling.sums_stride
        vectors = [self._scratch.load(first + at) for at in range(self._n // IN_VECTOR)]
        return [self._floats.from_bits(bits) for vector in vectors for bits in vector]

    def _raise_row(self, row: Word) -> None:
        floats = self._floats
        top = floats.of(Ins.FMul, floats.largest(self._in_row(row)), self._scale)
        before = floats.from_bits(self._scratch.load_number(row, is_factor=False))
        now = floats.glsl(Glsl.NMin, before, floats.of(Ins.FNegate, top))
        factor = floats.glsl(Glsl.Exp2, floats.of(Ins.FSub, now, before))
        self._scratch.store_number(row, floats.bits(now), is_factor=False)
        self._scratch.store_number(row, floats.bits(factor), is_factor=True)

    def _scale_by_row(self, variables: list[int], i: int) -> None:
        f = self._f
        factor = self._fragments.of_rows(self.kind, self._scratch.numbers(i * self._m, is_factor=True))
        for one in variables:
            f.store(one, self._floats.of(Ins.FMul, f.load(self.kind.id, one), factor, kind=self.kind.id))

    def finish(self, results: list[list[int]]) -> None:
        """Divide the results by the sums of weights; zeros where a row has seen no key."""
        self._share(self._totals)
        self._for_rows(self._finish_row)
        self._scratch.barrier()
        for i, in_row in enumerate(results):
            self._scale_by_row(in_row, i)
        self._scratch.barrier()

    def _finish_row(self, row: Word) -> None:
        f, floats = self._f, self._floats
        total, zero = floats.total(self._in_row(row)), floats.const(0)
        inverse = floats.of(Ins.FDiv, floats.const(1), total)
        is_empty = f.result(Ins.FOrdEqual, f.bool, total, zero)
        self._scratch.store_number(row, floats.bits(f.select(floats.type, is_empty, zero, inverse)), is_factor=True)


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
