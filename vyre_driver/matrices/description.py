"""What a product or an attention is to be: types, layouts, how it is cut into tiles and fragments; modules are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.matrices.elements import VECTOR_BYTES

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType


PHASE = 8
"""Invocations whose accesses of 16 bytes a device serves at once: 128 bytes, all banks of shared memory."""
STAGES = 2
SCALAR = (1, 1, 1)
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the work is divided.

    A workgroup makes a tile of ``tile[0]`` x ``tile[1]`` sums, ``tile[2]`` products of each in a step. Its subgroups, of
    ``subgroup_size`` invocations, lie in ``split[0]`` rows and ``split[1]`` columns; each makes a patch of whole fragments,
    ``fragment`` being the (m, n, k) of one instruction. Workgroups take ``band`` rows of tiles column by column, so that
    those that run at once read the same rows and columns.

    Where ``fragment`` is :data:`SCALAR` and ``subgroup_size`` 1, no matrices are needed: invocations multiply numbers.
    """

    tile: tuple[int, int, int]
    split: tuple[int, int]
    fragment: tuple[int, int, int]
    subgroup_size: int
    band: int = 8

    @property
    def invocations(self) -> int:
        """Invocations of a workgroup."""
        return self.subgroup_size * self.split[0] * self.split[1]

    @property
    def is_scalar(self) -> bool:
        """Whether invocations multiply numbers."""
        return self.fragment == SCALAR

    @property
    def patch(self) -> tuple[int, int]:
        """Rows and columns of fragments that a subgroup makes."""
        return self.tile[0] // self.split[0] // self.fragment[0], self.tile[1] // self.split[1] // self.fragment[1]


@dataclass(frozen=True, slots=True)
class Part:
    """A step's part of an operand: ``lines`` of ``width`` elements, which run along k where ``is_deep``.

    In shared memory each line is followed by 16 bytes that nothing uses, so that equal places of lines lie in other banks.
    """

    lines: int
    width: int
    is_deep: bool
    element: ElementType

    @property
    def vectors(self) -> int:
        """Vectors of 16 bytes of a line."""
        return self.width // self.element.in_vector

    @property
    def stride(self) -> int:
        """Vectors from a line to the next one in shared memory."""
        return self.vectors + 1

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of one stage."""
        return self.lines * self.stride * VECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Result:
    """What becomes of sums: ``activation(scale * sum + bias) + residual``, stored as ``out``.

    ``bias`` has a number for each column, ``residual`` one for each number of the result, both of type ``out``; ``activation``
    is a name of :data:`~vyre_driver.matrices.epilogue.ACTIVATIONS`. Where ``out`` is whole, sums are stored as they are.
    """

    accumulator: ElementType
    out: ElementType
    has_bias: bool = False
    has_residual: bool = False
    activation: str | None = None

    @property
    def extra_buffers(self) -> tuple[str, ...]:
        """The buffers besides the result, in the order of their bindings."""
        return ("bias",) * self.has_bias + ("residual",) * self.has_residual

    @property
    def is_plain(self) -> bool:
        """Whether sums are stored as matrices: nothing but a factor and a rounding that matrices have."""
        has_rounding = self.accumulator.is_float and self.out.byte_len == _HALF_BYTES and not self.out.is_bfloat
        return self.activation is None and not self.extra_buffers and (self.out == self.accumulator or has_rounding)


@dataclass(frozen=True, slots=True)
class ProductDescription:
    """``c[m, n] = a[m, k] @ b[k, n]`` for each of a batch, and what becomes of it: ``result``.

    With ``a_transposed`` a is stored as [k, m], with ``b_transposed`` b as [n, k]. Buffers hold the operands as vectors of 16
    bytes where ``is_aligned``: the lines of all matrices begin at such. Fragments are stored as matrices where ``is_direct``
    and the result is plain: its lines begin at multiples of 16 bytes, as Vulkan wants it (VUID 08986 of RuntimeSpirv).
    Edges are left out where m and n are multiples of the tile (``has_whole_tiles``) and k of two steps (``has_whole_steps``).

    With ``is_convolution`` the rows of a are windows of images, as :mod:`~vyre_driver.matrices.product` reads them; where
    ``is_aligned`` the channels of a pixel are whole vectors.
    """

    operand: ElementType
    result: Result
    tiling: Tiling
    a_transposed: bool = False
    b_transposed: bool = False
    is_aligned: bool = True
    is_direct: bool = True
    has_whole_tiles: bool = False
    has_whole_steps: bool = False
    is_convolution: bool = False

    @property
    def a(self) -> Part:
        """What a step reads of a."""
        return _part(self.tiling.tile[0], self.tiling.tile[2], self.operand, is_deep=not self.a_transposed)

    @property
    def b(self) -> Part:
        """What a step reads of b."""
        return _part(self.tiling.tile[1], self.tiling.tile[2], self.operand, is_deep=self.b_transposed)

    @property
    def stores_matrices(self) -> bool:
        """Whether fragments within the result are stored as matrices."""
        return self.is_direct and self.result.is_plain

    @property
    def staged_bytes(self) -> int:
        """Shared memory for fragments that are stored number by number: one for each subgroup."""
        rows, columns, _ = self.tiling.fragment
        subgroups = self.tiling.split[0] * self.tiling.split[1]
        is_unneeded = self.has_whole_tiles and self.stores_matrices
        return 0 if is_unneeded or self.tiling.is_scalar else subgroups * rows * columns * self.result.accumulator.byte_len

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a workgroup takes."""
        if self.tiling.is_scalar:
            m, n, k = self.tiling.tile
            return (m + n) * k * self.result.accumulator.byte_len
        return STAGES * (self.a.shared_bytes + self.b.shared_bytes) + self.staged_bytes

    def problem(self) -> str | None:
        """Return why there is no such kernel, None if there is."""
        tiling = self.tiling
        for axis, (size, parts, fragment) in enumerate(zip(tiling.tile, (*tiling.split, 1), tiling.fragment, strict=True)):
            if size % (parts * fragment):
                return f"{size} along {'mnk'[axis]} are not {parts} times whole fragments of {fragment}"
        problem = self._scalar_problem() if tiling.is_scalar else self._matrix_problem()
        return self._convolution_problem() if problem is None and self.is_convolution else problem

    def _convolution_problem(self) -> str | None:
        if self.a_transposed:
            return "windows of images are not stored, and so not transposed"
        shares = self.a.width if self.tiling.is_scalar else self.a.vectors
        if self.tiling.invocations % shares:
            return f"{self.tiling.invocations} invocations cannot each read the same one of the {shares} parts of their lines"
        return None

    def _scalar_problem(self) -> str | None:
        for name, part in (("a", self.a), ("b", self.b)):
            count = part.lines * part.width
            if count % self.tiling.invocations:
                return f"{self.tiling.invocations} invocations cannot load {count} numbers of {name} in equal shares"
        return None

    def _matrix_problem(self) -> str | None:
        tiling = self.tiling
        for name, part in (("a", self.a), ("b", self.b)):
            if part.width % self.operand.in_vector or part.lines % PHASE:
                return f"the part of {name}, {part.lines} lines of {part.width}, has no whole vectors, or no groups of 8 lines"
            if part.lines * part.vectors % tiling.invocations:
                vectors = part.lines * part.vectors
                return f"{tiling.invocations} invocations cannot load {vectors} vectors of {name} in equal shares"
            inner = tiling.fragment[2] if part.is_deep else tiling.fragment[0 if name == "a" else 1]
            if inner % self.operand.in_vector:
                return f"fragments of {inner} along a line of {name} do not begin at vectors of {self.operand.in_vector}"
        return None


def _part(outer: int, depth: int, element: ElementType, *, is_deep: bool) -> Part:
    return Part(outer, depth, is_deep, element) if is_deep else Part(depth, outer, is_deep, element)


IN_VECTOR = VECTOR_BYTES // 4
"""How many float32 16 bytes are."""


@dataclass(frozen=True, slots=True)
class AttentionTiling:
    """How the work is divided.

    Each of a workgroup's ``subgroups``, of ``subgroup_size`` invocations, makes ``rows`` queries of one head, all of each.
    The workgroup reads ``keys`` keys and their values in a step. Weights go from sums to operands ``turned`` keys at a time
    through shared memory, or, where ``is_direct``, within registers if the device turns out to hold both in the same places.
    ``fragment`` is the (m, n, k) of one instruction, ``elements`` how many of a fragment an invocation holds, where that is
    known of the device; else the kernel asks it. Workgroups take ``band`` heads at once, all first tiles of rows before the
    second ones, so that those that run at once read the same keys.
    """

    rows: int
    keys: int
    subgroups: int
    fragment: tuple[int, int, int]
    subgroup_size: int
    turned: int
    is_direct: bool = False
    elements: int | None = None
    band: int = 8

    @property
    def invocations(self) -> int:
        """Invocations of a workgroup."""
        return self.subgroup_size * self.subgroups

    @property
    def tile(self) -> int:
        """Queries of a workgroup."""
        return self.rows * self.subgroups

    @property
    def sums_stride(self) -> int:
        """Vectors from a row of a fragment of sums to the next one in shared memory."""
        return self.fragment[1] // IN_VECTOR + 1

    def weights_stride(self, in_vector: int) -> int:
        """Return the vectors from a row of weights to the next one in shared memory."""
        return self.turned // in_vector + 1


@dataclass(frozen=True, slots=True)
class AttentionDescription:
    """``o = softmax(scale * q @ k^T) @ v`` for each head of a batch; sums and softmax are float32, the result is ``out``.

    ``head`` is the head size, the elements of a row of q, k, v and o. Where ``is_causal`` a query sees its own key and those
    before, shifted by what is pushed.
    """

    operand: ElementType
    out: ElementType
    head: int
    tiling: AttentionTiling
    is_causal: bool = False

    @property
    def part(self) -> Part:
        """What a step reads of the keys, or of the values."""
        return Part(self.tiling.keys, self.head, is_deep=True, element=self.operand)

    @property
    def scratch_vectors(self) -> int:
        """Vectors of shared memory of a subgroup: a fragment for each row of fragments, or weights; two numbers of each row."""
        tiling = self.tiling
        stride = max(tiling.sums_stride, tiling.weights_stride(self.operand.in_vector))
        return tiling.rows * stride + 2 * tiling.rows // IN_VECTOR

    @property
    def iota_vectors(self) -> int:
        """Vectors of shared memory for the numbers from 0 to the larger side of a fragment of sums."""
        return -(-max(self.tiling.fragment[:2]) // IN_VECTOR)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a workgroup takes."""
        own = self.tiling.subgroups * self.scratch_vectors + self.iota_vectors
        return 2 * self.part.shared_bytes + own * VECTOR_BYTES

    def problem(self) -> str | None:
        """Return why there is no such kernel, None if there is."""
        tiling, (m, n, k) = self.tiling, self.tiling.fragment
        for what, size, divisors in (
            ("rows of a subgroup", tiling.rows, (m, IN_VECTOR)),
            ("keys of a step", tiling.keys, (n, k, tiling.turned)),
            ("keys turned at a time", tiling.turned, (n, k, self.operand.in_vector)),
            ("elements of a head", self.head, (n, k, self.operand.in_vector)),
            ("columns of a fragment", n, (self.operand.in_vector,)),
            ("products of a fragment", k, (self.operand.in_vector,)),
        ):
            for one in divisors:
                if size % one:
                    return f"{size} {what} are no multiple of {one}"
        if tiling.keys % tiling.rows and tiling.keys % tiling.tile:
            return f"{tiling.keys} keys of a step are no multiple of {tiling.rows} rows of a subgroup"
        vectors = tiling.keys * self.part.vectors
        if vectors % tiling.invocations:
            return f"{tiling.invocations} invocations cannot load {vectors} vectors of keys in equal shares"
        if tiling.is_direct and n != k:
            return f"fragments of {n} columns and {k} products do not hold elements in the same places"
        return None
