"""The arrays of an attention: heads, queries, keys, and how many heads of queries have the same keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    Shape = tuple[int, ...]

_AXES = (3, 4)


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """``heads`` of ``queries`` rows for each of a batch, ``kv_heads`` of ``keys`` rows, all of ``head`` elements."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head: int
    out: Shape
    heads_first: bool

    @property
    def q_steps(self) -> tuple[int, int, int]:
        """Elements from a row of q to the next one, from a head, and from an entry of the batch."""
        return self._steps(self.heads, self.queries)

    @property
    def k_steps(self) -> tuple[int, int, int]:
        """The same of k and v."""
        return self._steps(self.kv_heads, self.keys)

    def _steps(self, heads: int, rows: int) -> tuple[int, int, int]:
        row, of_head = (self.head, rows * self.head) if self.heads_first else (heads * self.head, self.head)
        return row, of_head, heads * rows * self.head

    @property
    def size(self) -> tuple[int, int, int, int, int]:
        """The batch, heads, queries, keys and elements of a row."""
        return self.batch, self.heads, self.queries, self.keys, self.head


def attention_shape(kernel: str, q: Shape, k: Shape, v: Shape, *, heads_first: bool = True) -> AttentionShape:
    """Return what arrays of shape ([batch,] heads, rows, elements) make, or ([batch,] rows, heads, elements).

    Raises
    ------
    InvalidInput
        If they do not fit each other.
    """
    axes = "heads, rows" if heads_first else "rows, heads"
    if len(q) not in _AXES:
        raise InvalidInput(
            f"q of {kernel} has the shape {q}, and must have the axes ([batch,] {axes}, elements)",
            fix="reshape it: one head, or a batch of one, is an axis of 1",
            binding="q",
        )
    for name, shape in (("k", k), ("v", v)):
        if len(shape) != len(q):
            raise InvalidInput(
                f"{name} of {kernel} has the shape {shape} and q {q}, and all must have the axes ([batch,] {axes}, elements), "
                "with a batch or without one",
                fix="reshape one of them: a batch of one is an axis of 1",
                binding=name,
            )
    if k != v or k[:-3] != q[:-3] or k[-1] != q[-1]:
        raise InvalidInput(
            f"q of {kernel} has the shape {q}, k {k} and v {v}: k and v must be of one shape, and all of one batch and one "
            "number of elements",
            fix="give arrays that fit each other",
        )
    at_heads, at_rows = (-3, -2) if heads_first else (-2, -3)
    heads, kv_heads = q[at_heads], k[at_heads]
    if heads and (not kv_heads or heads % kv_heads):
        raise InvalidInput(
            f"{kernel} got {heads} heads of queries and {kv_heads} of keys: no whole number of the one for each of the other",
            fix="give as many heads of queries for each head of keys",
        )
    return AttentionShape(q[0] if len(q) == max(_AXES) else 1, heads, kv_heads, q[at_rows], k[at_rows], q[-1], q, heads_first)
