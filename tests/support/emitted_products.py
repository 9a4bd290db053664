"""Products that ``vyre_driver.matrices`` emits, run on a device and held against numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.matrices.product import product_module
from vyre_driver.matrices.tiles import PUSHED
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.matrices.description import ProductDescription

NUMBERS = {"float16": np.float16, "float32": np.float32, "sint8": np.int8, "sint32": np.int32}
UNSIGNED = {1: np.uint8, 2: np.uint16}
ONE = 0x3F80_0000  # the bits of 1.0
POISON = 77
BEHIND = 64  # elements behind the result that must stay as they were


@dataclass(frozen=True)
class Case:
    """A batch of products of arrays of shape (batch, m, k) and (batch, k, n), as they are stored when nothing is transposed."""

    description: ProductDescription
    a: NDArray[Any]
    b: NDArray[Any]

    @property
    def size(self) -> tuple[int, int, int, int]:
        """The batch, m, n and k."""
        return self.a.shape[0], self.a.shape[1], self.b.shape[2], self.a.shape[2]


def drawn(description: ProductDescription, size: tuple[int, int, int, int], seed: int = 1) -> Case:
    """Return a case of small whole numbers, whose sums are exact in every type."""
    batch, m, n, k = size
    dice, dtype = np.random.default_rng(seed), NUMBERS[description.operand.name]
    a, b = (dice.integers(-8, 9, shape).astype(dtype) for shape in ((batch, m, k), (batch, k, n)))
    return Case(description, a, b)


def product(driver: Driver, case: Case) -> NDArray[Any]:
    """Return what the device makes of a case; what lies behind it must be untouched."""
    batch, m, n, k = case.size
    description = replace(case.description, is_direct=n * case.description.result.out.byte_len % 16 == 0)
    a, b = stored(case.a, is_transposed=description.a_transposed), stored(case.b, is_transposed=description.b_transposed)
    out = np.full(batch * m * n + BEHIND, POISON, NUMBERS[description.result.out.name])
    tiles = -(-m // description.tiling.tile[0]) * -(-n // description.tiling.tile[1])
    across = min(tiles, 3)  # so that y is used, and workgroups are left over
    pushed = dict(zip(PUSHED, (m, n, k, a.shape[2], b.shape[2], n, m * k, k * n, m * n, 1, k, ONE), strict=True))
    kernel = driver.compile(SpirvModule.from_bytes(product_module(description)))
    grid = across, -(-tiles // across), batch
    with driver.buffer(out) as c, driver.buffer(words(a, description)) as in_a, driver.buffer(words(b, description)) as in_b:
        kernel.bind(in_a, in_b, c, workgroups=grid, push_constants=pushed).run()
        out = c.read()
    assert out[batch * m * n :].tolist() == [POISON] * BEHIND
    return out[: batch * m * n].reshape(batch, m, n)


def stored(array: NDArray[Any], *, is_transposed: bool) -> NDArray[Any]:
    return np.ascontiguousarray(array.transpose(0, 2, 1)) if is_transposed else array


def words(array: NDArray[Any], description: ProductDescription) -> NDArray[Any]:
    """Return an array as the kernel's buffer has it: vectors of 16 bytes, the bits of elements, or numbers."""
    if description.tiling.is_scalar:
        return array
    if description.is_aligned:
        return array.reshape(-1).view(np.uint32).reshape(-1, 4)
    return array.reshape(-1).view(UNSIGNED[description.operand.byte_len])
