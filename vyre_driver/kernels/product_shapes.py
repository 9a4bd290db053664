"""The arrays of a product: which matrices they are, how the batch goes over them, and what comes out."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    Shape = tuple[int, ...]

_MATRIX_AXES = 2


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A batch of products of (m, k) and (k, n) to (m, n); an operand whose matrices are one for all has 0 as ``*_step``."""

    batch: int
    m: int
    n: int
    k: int
    a_step: int
    b_step: int
    out: Shape

    @property
    def size(self) -> tuple[int, int, int, int]:
        """The batch, m, n and k."""
        return self.batch, self.m, self.n, self.k


def _batch_fix(names: tuple[str, str], shapes: tuple[Shape, Shape]) -> str:
    """Return how two arrays whose batches differ become a product: as one matrix for all, reshaped, or repeated."""
    batches = [shape[:-2] for shape in shapes]
    for name, shape, batch in zip(names, shapes, batches, strict=True):
        if math.prod(batch) == 1:
            return f"give {name}.reshape{shape[-2:]}, one matrix for all"
    if math.prod(batches[0]) == math.prod(batches[1]):
        return f"give {names[1]}.reshape{(*batches[0], *shapes[1][-2:])}"
    axes = itertools.zip_longest(*(batch[::-1] for batch in batches), fillvalue=1)
    pairs = list(axes)[::-1]
    if any(one != other and 1 not in (one, other) for one, other in pairs):
        return "give batches of one shape, or one matrix for all"
    batch = tuple(other if one == 1 else one for one, other in pairs)
    repeated = [
        f"numpy.broadcast_to({name}, {(*batch, *shape[-2:])})"
        for name, shape in zip(names, shapes, strict=True)
        if shape[:-2] != batch
    ]
    return f"give {' and '.join(repeated)}"


def product_shape(
    kernel: str, names: tuple[str, str], shapes: tuple[Shape, Shape], transposed: tuple[bool, bool]
) -> ProductShape:
    """Return what the product of arrays of these shapes is.

    Axes before the last two are the batch: as many for both, or none for one of them. Rows of an ``a`` that is not transposed
    are those of one matrix where ``b`` is one.

    Raises
    ------
    InvalidInput
        If the arrays do not fit each other.
    """
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) < _MATRIX_AXES:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {shape}, and must have two axes or more",
                fix="give a matrix: reshape a vector to one row or one column",
                binding=name,
            )
    (m, k), (inner, n) = (shape[:-3:-1] if swapped else shape[-2:] for shape, swapped in zip(shapes, transposed, strict=True))
    if k != inner:
        stored = zip(names, transposed, strict=True) if names == ("a", "b") else ()  # linear's weight is always (n, k)
        swapped = "".join(f", {name} is transposed" for name, is_transposed in stored if is_transposed)
        raise InvalidInput(
            f"{names[0]} of {kernel} has the shape {shapes[0]} and {names[1]} {shapes[1]}{swapped}: rows of {k} numbers, and "
            f"columns of {inner}",
            fix=f"give {names[1]} of shape {f'(..., n, {k})' if transposed[1] else f'(..., {k}, n)'}",
        )
    of_a, of_b = (shape[:-2] for shape in shapes)
    if of_a and of_b and of_a != of_b:
        raise InvalidInput(
            f"{names[0]} of {kernel} is a batch of {of_a} matrices and {names[1]} one of {of_b}",
            fix=_batch_fix(names, shapes),
        )
    if not of_b and not transposed[0]:
        return ProductShape(1, math.prod(of_a) * m, n, k, m * k, k * n, (*of_a, m, n))
    of_out = of_a or of_b
    return ProductShape(math.prod(of_out), m, n, k, m * k if of_a else 0, k * n if of_b else 0, (*of_out, m, n))
