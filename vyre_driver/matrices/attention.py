"""Attention on cooperative matrices: softmax(scale * q @ k^T) @ v of each head, in one pass over the keys.

Each subgroup has its queries in fragments, and sums its rows of the result in others. A step's keys and values go through
registers to shared memory: values while scores are made of the keys, the next keys while the values are summed.

Source: SPV_KHR_cooperative_matrix; Vulkan 1.4, ``VK_KHR_cooperative_matrix``.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices import function
from vyre_driver.matrices.description import IN_VECTOR
from vyre_driver.matrices.operand import Head, HeadLines, vector_buffer
from vyre_driver.matrices.softmax import Scratch, Softmax, Weights
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.opcodes import GLSL_STD_450, BuiltIn, Capability, Decoration, Glsl, Ins, Op

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vyre_driver.matrices.description import AttentionDescription

PUSHED = (
    *("heads", "kv_heads", "queries", "keys", "scale", "shift"),
    *(f"{name}_{step}" for name in "qkvo" for step in ("row", "head", "batch")),
)
"""The push constants.

Sizes, from 1 on; the bits of the float32, above 0, that scores are multiplied by; how many keys beyond its own number a query
sees, modulo 2**32: 0 as PyTorch's ``is_causal``, ``keys - queries`` so that the last query sees all. Then the elements from a
row to the next one, from a head and from an entry of the batch: multiples of 8.
"""
_SPIRV_1_6, _VULKAN_MEMORY_MODEL = 0x0001_0600, 3


def attention_module(description: AttentionDescription) -> bytes:
    """Return the SPIR-V of an attention.

    Its buffers are ``q``, ``k``, ``v`` and ``o``, its push constants :data:`PUSHED`. ``heads`` are a multiple of ``kv_heads``:
    that many queries' heads in a row have the same keys. A workgroup makes some rows of one head; there are
    ``heads * ceil(queries / tile)`` of an entry of the batch, along x and y of the grid, row by row of the grid, and entries
    of the batch along z.

    A row that sees no key is zeros. A row with a NaN among its scores, or plus infinity, is NaN.

    Raises
    ------
    InvalidInput
        If there is no such kernel: ``description.problem()``.
    """
    problem = description.problem()
    if problem is not None:
        raise InvalidInput(
            f"there is no such attention: {problem}", fix="choose rows, keys and a fragment that divide each other"
        )
    return _Attention(description).build()


class _Tile(NamedTuple):
    """Where a workgroup's rows begin, where a subgroup's do, and where the heads lie in memory."""

    row: function.Index
    own_row: function.Index
    q: Head
    k: Head
    v: Head
    o: function.Index


class _Attention:
    def __init__(self, description: AttentionDescription) -> None:
        self._d, self._t = description, description.tiling
        self._module = module = ModuleBuilder(_SPIRV_1_6)
        capabilities = Capability.Shader, Capability.GroupNonUniform, Capability.VulkanMemoryModel
        for one in (*capabilities, Capability.CooperativeMatrixKHR):
            module.capability(one)
        module.extension("SPV_KHR_cooperative_matrix")
        module.memory_model(0, _VULKAN_MEMORY_MODEL)
        self._f = f = function.Function(module)
        self._fragments, self._floats = function.Fragments(f, self._t.elements), function.Floats(f)
        m, n, k = self._t.fragment
        self._of_a = self._fragments.kind(description.operand, m, k, function.USE_A)
        self._of_b = self._fragments.kind(description.operand, k, n, function.USE_B)
        # Devices have no sums of bfloat16: such results are stored number by number.
        self._of_out = None if description.out.is_bfloat else self._fragments.kind(description.out, m, n, function.USE_SUM)
        self._q, self._k, self._v = (vector_buffer(f, name, binding) for binding, name in enumerate("qkv"))
        self._o = function.NumberBuffer(f, "o", 3, description.out, Decoration.NON_READABLE)
        self._pushed = function.push_constants(f, PUSHED)
        self._lane = f.built_in(BuiltIn.LOCAL_INVOCATION_INDEX)
        self._subgroup = f.built_in(BuiltIn.SUBGROUP_ID)
        self._keys, self._values = (HeadLines(f, description.part, self._t.invocations) for _ in range(2))
        self._scratch = Scratch(f, description)
        scale = self._floats.of(
            Ins.FMul, self._floats.from_bits(self._pushed["scale"].id), self._floats.const(math.log2(math.e))
        )
        self._softmax = Softmax(f, self._fragments, self._floats, description, self._scratch, scale)
        self._of_sum = self._softmax.kind
        self._weights = Weights(f, self._fragments, self._floats, description, self._scratch, self._of_sum)
        down = self._t.rows // m
        self._queries = [[f.variable(self._of_a.id) for _ in range(description.head // k)] for _ in range(down)]
        self._scores = [[f.variable(self._of_sum.id) for _ in range(self._t.keys // n)] for _ in range(down)]
        self._results = [[f.variable(self._of_sum.id) for _ in range(description.head // n)] for _ in range(down)]

    def build(self) -> bytes:
        f = self._f
        down = function.ceil_div(self._pushed["queries"], self._t.tile)
        x, y, batch = f.built_in_vector(BuiltIn.WORKGROUP_ID)
        width, _, _ = f.built_in_vector(BuiltIn.NUM_WORKGROUPS)
        number = y * width + x
        with f.when(f.is_below(number, self._pushed["heads"] * down)):
            self._emit(self._tile(number, down, batch))
        f.finish((self._t.invocations, 1, 1))
        return self._module.build()

    def _tile(self, number: function.Index, down: function.Index, batch: function.Word) -> _Tile:
        """Return where a workgroup works. Causal rows that see most come first, so that the last workgroups are short."""
        heads, band = self._pushed["heads"], self._t.band
        in_band = down * band
        before = number // in_band * band
        within, side = number % in_band, self._f.least(heads - before, band)
        head, tile = before + within % side, within // side
        if self._d.is_causal:
            tile = down - tile - 1
        row = tile * self._t.tile
        of_keys = head // (heads // self._pushed["kv_heads"])
        q, o = (self._base(name, head, batch) for name in "qo")
        k, v = (Head(self._base(name, of_keys, batch), self._pushed[f"{name}_row"], self._pushed["keys"]) for name in "kv")
        own = row + self._subgroup * self._t.rows
        return _Tile(row, own, Head(q, self._pushed["q_row"], self._pushed["queries"]), k, v, o)

    def _base(self, name: str, head: function.Index, batch: function.Word) -> function.Index:
        return batch * self._pushed[f"{name}_batch"] + head * self._pushed[f"{name}_head"]

    def _seen(self, row: function.Index) -> function.Index:
        """Return how many keys a row sees."""
        f, keys = self._f, self._pushed["keys"]
        if not self._d.is_causal:
            return keys
        glsl = f.module.ext_inst_import(GLSL_STD_450)
        signed = f.id_of(row + 1 + self._pushed["shift"])
        return f.least(f.as_word(f.result(Ins.ExtInst, f.u32, glsl, Glsl.SMax, signed, f.const(0))), keys)

    def _emit(self, tile: _Tile) -> None:
        f, keys = self._f, self._t.keys
        self._scratch.fill(self._lane)
        self._read_queries(tile)
        self._softmax.begin()
        self._weights.begin()
        zeros = self._module.constant(Op.ConstantNull, self._of_sum.id)
        for one in (one for in_row in self._results for one in in_row):
            f.store(one, zeros)
        self._keys.keep(self._lane, self._keys.fetch(self._lane, self._k, tile.k, 0))
        f.barrier()
        seen_by_last = self._seen(tile.own_row + (self._t.rows - 1))
        with f.repeat(0, self._seen(tile.row + (self._t.tile - 1)), keys) as key:
            values = self._values.fetch(self._lane, self._v, tile.v, key)
            is_seen = f.is_below(key, seen_by_last) if self._d.is_causal else None
            self._weights.forget()
            with self._where(is_seen):
                self._score(tile, key)
            self._values.keep(self._lane, values)
            f.barrier()
            following = self._keys.fetch(self._lane, self._k, tile.k, key + keys)
            with self._where(is_seen):
                self._sum()
            self._keys.keep(self._lane, following)
            f.barrier()
        self._softmax.finish(self._results)
        self._store(tile)

    def _where(self, condition: int | None) -> AbstractContextManager[None]:
        """Do what is emitted inside where a condition holds, always for None."""
        return nullcontext() if condition is None else self._f.when(condition)

    def _read_queries(self, tile: _Tile) -> None:
        """Read the queries by way of the memory of keys, as many lines at a time."""
        f, t = self._f, self._t
        for first in range(0, t.tile, t.keys):
            self._keys.keep(self._lane, self._keys.fetch(self._lane, self._q, tile.q, tile.row + first))
            f.barrier()
            line = self._subgroup * t.rows - first
            with f.when(f.is_below(line, t.keys)):
                for i, in_row in enumerate(self._queries):
                    for j, one in enumerate(in_row):
                        at = line + i * t.fragment[0]
                        f.store(one, self._keys.fragment(self._fragments, self._of_a, at, j * t.fragment[2]))
            f.barrier()

    def _score(self, tile: _Tile, key: function.Word) -> None:
        """Make the weights of a step."""
        f, (_, n, k) = self._f, self._t.fragment
        zeros = self._module.constant(Op.ConstantNull, self._of_sum.id)
        sums = [[zeros] * (self._t.keys // n) for _ in self._queries]
        for at in range(self._d.head // k):
            queries = [f.load(self._of_a.id, in_row[at]) for in_row in self._queries]
            for j in range(self._t.keys // n):  # inside, so that products that follow one another do not wait for each other
                b = self._keys.fragment(self._fragments, self._of_b, j * n, at * k, is_turned=True)
                for query, in_row in zip(queries, sums, strict=True):
                    in_row[j] = self._fragments.multiplied(self._of_sum, query, b, in_row[j])
        for scores, in_row in zip(self._scores, sums, strict=True):
            for score, one in zip(scores, in_row, strict=True):
                f.store(score, one)
        with f.when(f.is_below(self._seen(tile.own_row), key + self._t.keys)):
            within = self._signed(self._pushed["keys"] - key)
            visible = self._signed(tile.own_row + 1 + self._pushed["shift"] - key) if self._d.is_causal else None
            self._softmax.mask(self._scores, within, visible)
        self._softmax.weigh(self._scores, self._results)
        self._weights.turn(self._scores)

    def _signed(self, index: function.Index) -> int:
        return self._floats.of(Ins.ConvertSToF, self._f.id_of(index))

    def _sum(self) -> None:
        f, (_, n, k) = self._f, self._t.fragment
        for at in range(self._t.keys // k):
            weights = [f.load(self._of_a.id, in_row[at]) for in_row in self._weights.turned]
            for j in range(self._d.head // n):
                b = self._values.fragment(self._fragments, self._of_b, at * k, j * n)
                for i, in_row in enumerate(self._results):
                    added = f.load(self._of_sum.id, in_row[j])
                    f.store(in_row[j], self._fragments.multiplied(self._of_sum, weights[i], b, added))

    def _store(self, tile: _Tile) -> None:
        """Store the result; whole fragments where all of the workgroup's rows are there.

        That is decided for a workgroup, not a subgroup: lavapipe has a barrier of a subgroup wait for the workgroup.
        """
        f, (m, n, _) = self._f, self._t.fragment
        is_whole = f.is_below(tile.row + (self._t.tile - 1), self._pushed["queries"])
        places = [
            (one, tile.own_row + i * m, tile.o + j * n) for i, row in enumerate(self._results) for j, one in enumerate(row)
        ]
        if self._of_out is not None:
            with f.when(is_whole):
                for one, row, base in places:
                    stride, found = self._pushed["o_row"], f.load(self._of_sum.id, one)
                    if self._of_out != self._of_sum:
                        found = f.result(Ins.FConvert, self._of_out.id, found)
                    self._fragments.write(self._o.at(base + row * stride), found, stride)
        with nullcontext() if self._of_out is None else f.when(f.fails(is_whole)):
            for one, row, base in places:
                self._store_part(f.load(self._of_sum.id, one), row, base)

    def _store_part(self, fragment: int, row: function.Index, base: function.Index) -> None:
        """Store the rows of a fragment that there are, element by element from shared memory."""
        f, (m, n, _), stride = self._f, self._t.fragment, self._t.sums_stride
        self._fragments.share(self._scratch.at(0), fragment, stride)
        self._scratch.barrier()
        across = n // IN_VECTOR
        with f.repeat(f.built_in(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID), m * across, self._t.subgroup_size) as one:
            line, vector = one // across, one % across
            with f.when(f.is_below(row + line, self._pushed["queries"])):
                for at, bits in enumerate(self._scratch.load(line * stride + vector)):
                    place = base + (row + line) * self._pushed["o_row"] + vector * IN_VECTOR + at
                    self._o.write(place, self._floats.from_bits(bits))
        self._scratch.barrier()
