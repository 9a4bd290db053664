"""Matrix products, emitted from their descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices.convolution import MatrixConvolution, ScalarConvolution
from vyre_driver.matrices.matrix_product import MatrixProduct
from vyre_driver.matrices.scalar_product import ScalarProduct

if TYPE_CHECKING:
    from vyre_driver.matrices.description import ProductDescription


def product_module(description: ProductDescription) -> bytes:
    """Return the SPIR-V of a product.

    Its buffers are ``a``, ``b``, ``c``, and ``bias`` and ``residual`` where the result has them, its push constants
    :data:`~vyre_driver.matrices.tiles.PUSHED`, of a convolution :data:`~vyre_driver.matrices.convolution.IMAGE` after them. A
    workgroup makes a tile of the result, those of one matrix along x and y of the grid, row by row of the grid, and along z the
    parts of k of each matrix of the batch.

    Raises
    ------
    InvalidInput
        If there is no such kernel: ``description.problem()``.
    """
    problem = description.problem()
    if problem is not None:
        raise InvalidInput(
            f"there is no such product: {problem}", fix="choose a tile, a split and a fragment that divide each other"
        )
    is_scalar = description.tiling.is_scalar
    if description.is_convolution:
        return (ScalarConvolution if is_scalar else MatrixConvolution)(description).build()
    return (ScalarProduct if is_scalar else MatrixProduct)(description).build()
