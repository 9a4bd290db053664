"""What an attention is to be: types, head size, and how it is cut into rows, steps and fragments; a module is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.matrices.description import Part
from vyre_driver.matrices.elements import VECTOR_BYTES

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType

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
