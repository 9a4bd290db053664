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

    @property
    def size(self) -> tuple[int, int, int, int, int]:
        """The batch, heads, queries, keys and elements of a row."""
        return self.batch, self.heads, self.queries, self.keys, self.head


def attention_shape(kernel: str, q: Shape, k: Shape, v: Shape) -> AttentionShape:
    """Return what arrays of shape ([batch,] heads, rows, elements) make.

    Raises
    ------
    InvalidInput
        If they do not fit each other.
    """
    for name, shape in (("q", q), ("k", k), ("v", v)):
        if len(shape) not in _AXES or len(shape) != len(q):
            raise InvalidInput(
                f"{name} of {kernel} has the shape {shape}, and must have the axes ([batch,] heads, rows, elements), as q does",
                fix="reshape it, or move its axes with numpy.moveaxis",
                binding=name,
            )
    if k != v or k[:-3] != q[:-3] or k[-1] != q[-1]:
        raise InvalidInput(
            f"q of {kernel} has the shape {q}, k {k} and v {v}: k and v must be of one shape, and all of one batch and one "
            "number of elements",
            fix="give arrays that fit each other",
        )
    heads, kv_heads = q[-3], k[-3]
    if heads and (not kv_heads or heads % kv_heads):
        raise InvalidInput(
            f"{kernel} got {heads} heads of queries and {kv_heads} of keys: no whole number of the one for each of the other",
            fix="give as many heads of queries for each head of keys",
        )
    return AttentionShape(q[0] if len(q) == max(_AXES) else 1, heads, kv_heads, q[-2], k[-2], q[-1], q)
