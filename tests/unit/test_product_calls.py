"""What the arrays of a product may be, and what is refused of them and of products."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from literals import refusal

from vyre_driver.autotune.measure.definition import Operand
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import KERNELS
from vyre_driver.kernels.products import ProductShape, product, product_shape
from vyre_driver.matrices.epilogue import ACTIVATIONS as EMITTED

Shape = tuple[int, ...]
BITS, BFLOAT16 = np.dtype(np.uint16), np.dtype(ml_dtypes.bfloat16)


def shape_of(a: Shape, b: Shape, transposed: tuple[bool, bool] = (False, False)) -> ProductShape:
    return product_shape("matmul", ("a", "b"), (a, b), transposed)


@pytest.mark.parametrize(
    ("a", "b", "transposed", "wanted"),
    [
        ((3, 5), (5, 7), (False, False), ProductShape(1, 3, 7, 5, 15, 35, (3, 7))),
        ((5, 3), (7, 5), (True, True), ProductShape(1, 3, 7, 5, 0, 0, (3, 7))),
        ((2, 3, 5), (2, 5, 7), (False, False), ProductShape(2, 3, 7, 5, 15, 35, (2, 3, 7))),
        ((2, 4, 3, 5), (2, 4, 7, 5), (False, True), ProductShape(8, 3, 7, 5, 15, 35, (2, 4, 3, 7))),
        ((2, 4, 3, 5), (5, 7), (False, False), ProductShape(1, 24, 7, 5, 15, 35, (2, 4, 3, 7))),
        ((2, 5, 3), (5, 7), (True, False), ProductShape(2, 3, 7, 5, 15, 0, (2, 3, 7))),
        ((3, 5), (2, 5, 7), (False, False), ProductShape(2, 3, 7, 5, 0, 35, (2, 3, 7))),
        ((0, 3, 5), (5, 7), (False, False), ProductShape(1, 0, 7, 5, 15, 35, (0, 3, 7))),
        ((3, 0), (0, 7), (False, False), ProductShape(1, 3, 7, 0, 0, 0, (3, 7))),
    ],
    ids=str,
)
def test_a_batch_is_of_both_or_one_and_rows_of_all_of_a_are_those_of_one_matrix(
    a: Shape, b: Shape, transposed: tuple[bool, bool], wanted: ProductShape
) -> None:
    assert shape_of(a, b, transposed) == wanted


@pytest.mark.parametrize(
    ("a", "b", "transposed", "message"),
    [
        (
            (5,),
            (5, 7),
            (False, False),
            (
                "a of matmul has the shape (5,), and must have two axes or more. "
                "Fix: give a matrix: reshape a vector to one row or one column."
            ),
        ),
        (
            (3, 5),
            (),
            (False, False),
            (
                "b of matmul has the shape (), and must have two axes or more. "
                "Fix: give a matrix: reshape a vector to one row or one column."
            ),
        ),
        (
            (3, 5),
            (4, 7),
            (False, False),
            (
                "a of matmul has the shape (3, 5) and b (4, 7): rows of 5 numbers, and columns of 4. "
                "Fix: give b of shape (..., 5, n)."
            ),
        ),
        (
            (3, 5),
            (5, 7),
            (True, True),
            (
                "a of matmul has the shape (3, 5) and b (5, 7), a is transposed, b is transposed: rows of 3 numbers, and "
                "columns of 7. Fix: give b of shape (..., n, 3)."
            ),
        ),
        (
            (2, 3, 5),
            (3, 5, 7),
            (False, False),
            "a of matmul is a batch of (2,) matrices and b one of (3,). Fix: give batches of one shape, or one matrix for all.",
        ),
        (
            (1, 3, 5),
            (3, 5, 7),
            (False, False),
            "a of matmul is a batch of (1,) matrices and b one of (3,). Fix: give a.reshape(3, 5), one matrix for all.",
        ),
        (
            (6, 3, 5),
            (2, 3, 5, 7),
            (False, False),
            "a of matmul is a batch of (6,) matrices and b one of (2, 3). Fix: give b.reshape(6, 5, 7).",
        ),
        (
            (2, 1, 3, 5),
            (4, 5, 7),
            (False, False),
            (
                "a of matmul is a batch of (2, 1) matrices and b one of (4,). "
                "Fix: give numpy.broadcast_to(a, (2, 4, 3, 5)) and numpy.broadcast_to(b, (2, 4, 5, 7))."
            ),
        ),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_each_other_are_refused(a: Shape, b: Shape, transposed: tuple[bool, bool], message: str) -> None:
    kind, _, said = refusal(lambda: shape_of(a, b, transposed))
    assert (kind, said) == (InvalidInput, message)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"dtype": "float64"},
            "there is no such kernel with operands of float64. Fix: give one of float16, bfloat16, int8, float32.",
        ),
        (
            {"dtype": "flo"},
            "there is no such kernel with operands of flo. Fix: give one of float16, bfloat16, int8, float32.",
        ),
        (
            {"dtype": "int8", "out_dtype": np.int8},
            "there is no such kernel with results of int8. Fix: give one of float16, bfloat16, float32, int32.",
        ),
        (
            {"dtype": "int8", "bias": True},
            (
                "results of int32 are sums of int8 as they are, and int8 with bias=True, residual=False, activation=None "
                "was asked for. Fix: give out_dtype float32, float16 or bfloat16."
            ),
        ),
        (
            {"dtype": "float16", "out_dtype": "int32"},
            (
                "results of int32 are sums of int8 as they are, and float16 with bias=False, residual=False, activation=None "
                "was asked for. Fix: give out_dtype float32, float16 or bfloat16."
            ),
        ),
        (
            {"dtype": "float16", "activation": "tanh"},
            "there is no activation 'tanh'. Fix: give None or one of relu, gelu, silu.",
        ),
        (
            {"dtype": "float16", "activation": ["relu"]},
            "there is no activation ['relu']. Fix: give None or one of relu, gelu, silu.",
        ),
        (
            {"dtype": "float16", "bias": np.ones(3)},
            "bias is of type ndarray, and says whether there is one. Fix: give True or False, and arrays with each call.",
        ),
        (
            {"dtype": "float16", "residual": 2},
            "residual is of type int, and says whether there is one. Fix: give True or False, and arrays with each call.",
        ),
    ],
    ids=str,
)
def test_products_that_there_are_not_are_refused(asked: dict[str, Any], message: str) -> None:
    kind, _, said = refusal(lambda: product(**asked))
    assert (kind, said) == (InvalidInput, message)


def all_products() -> list[dict[str, Any]]:
    flags = [{"transpose_a": a, "transpose_b": b} for a, b in itertools.product((False, True), repeat=2)]
    extras = [{"bias": a, "residual": b} for a, b in itertools.product((False, True), repeat=2)]
    floats = [
        {"dtype": dtype, "out_dtype": out, "activation": activation, **one, **extra}
        for dtype in ("float16", "bfloat16", "int8", "float32")
        for out in ("float16", "bfloat16", "float32")
        for activation in (None, *EMITTED)
        for one in flags
        for extra in extras
    ]
    return [*floats, *({"dtype": "int8", **one} for one in flags)]


def test_no_two_products_have_one_name_and_those_that_are_listed_are_among_them() -> None:
    names = [product(**asked).name for asked in all_products()]
    assert len(set(names)) == len(names)
    assert {name for name in KERNELS if name.startswith("product")} == {
        "product_f16",
        "product_bf16",
        "product_f32",
        "product_int8",
        "product_f16_nt_f16_bias",
    } & set(names)


def operands(*given: tuple[Shape, Any], names: str = "ab") -> dict[str, Operand]:
    return {name: Operand(shape, np.dtype(dtype)) for name, (shape, dtype) in zip(names, given, strict=True)}


@pytest.mark.parametrize(
    ("asked", "types", "message"),
    [
        (
            "float16",
            (np.float16, np.float32),
            (
                "b of matmul is of float32, and must be of float16. "
                "Fix: convert it with .astype(), or take the kernel of its type."
            ),
        ),
        (
            "int8",
            (np.uint8, np.int8),
            ("a of matmul is of uint8, and must be of int8. Fix: convert it with .astype(), or take the kernel of its type."),
        ),
        (
            "bfloat16",
            (np.float32, BFLOAT16),
            (
                "a of matmul is of float32, and must be of bfloat16. "
                "Fix: convert it with .astype(), or take the kernel of its type."
            ),
        ),
        (
            "bfloat16",
            (BITS, BFLOAT16),
            (
                "b of matmul is of bfloat16, and must be of uint16: bfloat16 is bits in all arrays of a call, or in "
                "none. Fix: give b.view(uint16)."
            ),
        ),
    ],
    ids=str,
)
def test_arrays_of_another_type_are_refused(asked: str, types: tuple[Any, Any], message: str) -> None:
    given = operands(*(((4, 4), one) for one in types))
    kind, _, said = refusal(lambda: product(asked).size(given, {}))
    assert (kind, said) == (InvalidInput, message)


def test_bias_and_residual_are_of_the_results_type_and_shape() -> None:
    definition = product("bfloat16", out_dtype="bfloat16", bias=True, residual=True)
    right = {"a": ((2, 3, 5), BITS), "b": ((5, 7), BITS), "bias": ((7,), BITS), "residual": ((2, 3, 7), BITS)}

    def size(**changed: tuple[Shape, Any]) -> tuple[int, ...]:
        return definition.size(
            {name: Operand(shape, np.dtype(dtype)) for name, (shape, dtype) in (right | changed).items()}, {}
        )

    assert size() == (1, 6, 7, 5)
    assert refusal(lambda: size(bias=((1, 7), BITS))) == (
        InvalidInput,
        2201,
        "bias of matmul has the shape (1, 7), and must have (7,). Fix: give an array of that shape.",
    )
    assert refusal(lambda: size(residual=((6, 7), BITS)))[2] == (
        "residual of matmul has the shape (6, 7), and must have (2, 3, 7). Fix: give an array of that shape."
    )
    assert refusal(lambda: size(bias=((7,), BFLOAT16)))[2] == (
        "bias of matmul is of bfloat16, and must be of uint16: bfloat16 is bits in all arrays of a call, or in "
        "none. Fix: give bias.view(uint16)."
    )
    assert refusal(lambda: size(bias=((7,), np.float32)))[2] == (
        "bias of matmul is of float32, and must be of bfloat16. Fix: convert it with .astype(), or take the kernel of its type."
    )


def test_a_parameter_that_is_not_scale_is_refused() -> None:
    given = operands(((4, 4), np.float16), ((4, 4), np.float16))
    assert refusal(lambda: product("float16").size(given, {"alpha": 2}))[2] == (
        "matmul takes scale and got 'alpha'. Fix: leave 'alpha' out."
    )
    assert refusal(lambda: product("float16").size(given, {"bias": np.ones(4)}))[2] == (
        "matmul takes scale and got 'bias'. Fix: give 'bias' where the kernel is made, arrays by position."
    )


@pytest.mark.parametrize("scale", [True, "2", None, 1j, np.ones(1)], ids=repr)
def test_a_scale_that_is_not_a_number_is_refused(scale: object) -> None:
    given = operands(((4, 4), np.float16), ((4, 4), np.float16))
    assert refusal(lambda: product("float16").size(given, {"scale": scale}))[2] == (
        f"scale of matmul is {scale!r}, which is not a number. Fix: give a float."
    )


def test_whole_results_have_no_scale() -> None:
    given = operands(((4, 4), np.int8), ((4, 4), np.int8))
    assert product("int8").size(given, {"scale": 1}) == (1, 4, 4, 4)
    for scale in (2, 0.5, math.nan):
        assert refusal(lambda: product("int8").size(given, {"scale": scale}))[2] == (  # noqa: B023 -- called at once
            f"scale of matmul is {scale!r}, and its results are whole numbers. Fix: ask for results of float32."
        )
