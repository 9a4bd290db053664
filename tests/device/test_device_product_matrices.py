"""Products and attention on the device's own cooperative matrices, as kernels choose and call them.

Modules take seconds to compile on lavapipe, so `make test` has few of them, with the smallest tiles.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from called_products import made, smallest, wrong, wrong_on

from vyre_driver import kernels
from vyre_driver.errors import LimitExceeded, UnsupportedFeature
from vyre_driver.kernels import products
from vyre_driver.kernels.attention import attention_of
from vyre_driver.kernels.products import product

if TYPE_CHECKING:
    from vyre_driver import Driver
    from vyre_driver.autotune.measure.tuned import TunedKernel
    from vyre_driver.kernels.products import Product

pytestmark = [pytest.mark.device, pytest.mark.matrices]

thorough = pytest.mark.thorough
# Lines that begin anywhere; then whole vectors, first with edges, then without: three modules.
ANYWHERE = [(1, 17, 19, 33), (2, 1, 5, 7), (1, 33, 1, 100)]
ALIGNED = [(1, 17, 24, 40), (2, 8, 40, 16)]
EXACT = [(1, 32, 32, 128), (2, 64, 32, 64)]


def on_matrices(driver: Driver, definition: Product) -> TunedKernel:
    kernel = made(driver, definition)
    if not definition.is_on_matrices(kernel.device):
        pytest.skip(f"{driver.device.name} has no matrices for {definition.name}")
    return kernel


def check(driver: Driver, definition: Product, sizes: list[tuple[int, int, int, int]], parts: int = 1, **scale: float) -> None:
    chosen = smallest(on_matrices(driver, definition), parts)
    for number, size in enumerate(sizes):
        arrays, _ = definition.example(size, number)
        assert wrong_on(driver, definition, chosen, *arrays, **scale) is None, size


@pytest.mark.parametrize(
    "sizes", [ANYWHERE, pytest.param(ALIGNED, marks=thorough), pytest.param(EXACT, marks=thorough)], ids=str
)
def test_a_plain_product_is_that_of_float64(opened: Driver, sizes: list[tuple[int, int, int, int]]) -> None:
    check(opened, product("float16"), sizes, scale=0.5)


def test_a_result_of_float16_is_stored_as_matrices_and_beyond_its_edges_as_numbers(opened: Driver) -> None:
    check(opened, product("float16", out_dtype="float16", transpose_b=True), ALIGNED, scale=2.0)


@pytest.mark.parametrize(
    "asked",
    [
        {"out_dtype": "float16", "transpose_b": True, "bias": True, "residual": True, "activation": "relu"},
        pytest.param({"bias": True, "activation": "gelu"}, marks=thorough),
        pytest.param({"transpose_a": True, "transpose_b": True, "residual": True, "activation": "silu"}, marks=thorough),
        pytest.param({"out_dtype": "bfloat16", "transpose_a": True}, marks=thorough),
    ],
    ids=str,
)
def test_what_becomes_of_sums_is_that_of_float64(opened: Driver, asked: dict[str, Any]) -> None:
    check(opened, product("float16", **asked), ALIGNED, scale=0.5)


@thorough  # lavapipe has none for whole vectors of int8 but flexible ones, which are not taken on a CPU
@pytest.mark.parametrize("sizes", [ANYWHERE, EXACT], ids=str)
@pytest.mark.parametrize("out", [None, "float16"])
def test_products_of_int8_are_exact(opened: Driver, out: str | None, sizes: list[tuple[int, int, int, int]]) -> None:
    check(opened, product("int8", out_dtype=out, transpose_b=True), sizes)


@thorough
def test_parts_of_k_are_summed_side_by_side_though_the_last_one_is_short(opened: Driver) -> None:
    definition = product("float16", out_dtype="float16", transpose_b=True, bias=True, activation="relu")
    check(opened, definition, [(2, 17, 24, 104), (1, 16, 8, 200)], parts=4, scale=0.5)


@thorough
def test_nan_and_infinities_come_out_where_numpy_has_them(opened: Driver) -> None:
    definition = product("float16")
    kernel = on_matrices(opened, definition)
    (a, b), _ = definition.example((1, 17, 24, 40), 1)
    a[3, 5], a[11, 7], a[12, 8], b[9, 11] = np.nan, np.inf, -np.inf, np.inf
    assert wrong_on(opened, definition, smallest(kernel, 1), a, b) is None


@thorough
def test_subgroups_share_a_tile_of_which_some_have_all_and_others_a_part(opened: Driver) -> None:
    definition = product("float16")
    kernel = on_matrices(opened, definition)
    several = [one for one in kernel.candidates if one["SPLIT_K"] == 1 and one.workgroup_size[1] > 1]
    chosen = min(several, key=lambda one: (one["TILE_X"] * one["TILE_Y"], one.workgroup_size[0]))
    for size in [(1, chosen["TILE_Y"] - 3, chosen["TILE_X"], 40), (1, chosen["TILE_Y"] // 2, 2 * chosen["TILE_X"] - 8, 24)]:
        arrays, _ = definition.example(size, 3)
        assert wrong_on(opened, definition, chosen, *arrays) is None


@pytest.mark.parametrize("is_causal", [pytest.param(False, marks=thorough), True])
def test_attention_of_whole_fragments_is_that_of_float64(
    opened: Driver,
    is_causal: bool,  # noqa: FBT001 -- a case
) -> None:
    definition = attention_of("float16", is_causal=is_causal)
    kernel = made(opened, definition)
    chosen = min(kernel.candidates, key=lambda one: one["TILE_X"])
    dice = np.random.default_rng(3)
    for queries, keys, more in [(9, 21, {}), (16, 16, {"scale": 0.5}), (1, 7, {}), (5, 0, {})]:
        shapes = (2, 4, queries, 16), (2, 2, keys, 16), (2, 2, keys, 16)
        arrays = [dice.standard_normal(one).astype(np.float16) for one in shapes]
        assert wrong_on(opened, definition, chosen, *arrays, **more) is None
        for shift in (2**31 - 1, -(2**31), keys - queries, -3) if is_causal else ():
            assert wrong_on(opened, definition, chosen, *arrays, shift=shift) is None, (queries, keys, shift)


def test_heads_that_matrices_do_not_take_are_warned_of_once_or_refused(opened: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_said", set())
    kernel, tensor = (kernels.attention(opened, "float16", require=one) for one in (None, "tensor"))
    q, k = np.ones((2, 9, 20), np.float16), np.ones((1, 33, 20), np.float16)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        for rows in (9, 5):
            assert wrong(kernel.definition, kernel(q[:, :rows], k, k), q[:, :rows], k, k) is None
        monkeypatch.setattr(products, "_said", set())
        kernel(*map(opened.buffer, (q, k, k)))  # buffers take another way there
    _, n, depth = kernel.definition.fragment(kernel.device)
    problem = f"20 elements of a head are no multiple of {n if 20 % n else depth}"
    why = f"attention got heads of 20 elements, which tensor cores do not take: {problem}"
    told = [(one.category, str(one.message), one.filename) for one in caught_warnings]
    slower = "they are multiplied on ordinary units, which are slower"
    assert told == [(kernels.PerformanceWarning, f"{why}; {slower}", __file__)] * 2
    with pytest.raises(UnsupportedFeature) as caught:
        tensor(q, k, k)
    assert str(caught.value) == (
        f"{why}. Fix: append zeros to the rows of q, k and v, to 128 elements, and give the scale, or leave require out to run "
        "it on ordinary units."
    )
    q, k = np.ones((2, 9, 200), np.float16), np.ones((1, 33, 200), np.float16)
    with pytest.raises(UnsupportedFeature) as caught:
        tensor(q, k, k)
    assert str(caught.value) == (
        "attention got heads of 200 elements, which tensor cores do not take: 200 elements are more than 128. "
        "Fix: leave require out to run it on ordinary units."
    )
    q, k = np.ones((2, 9, 300), np.float16), np.ones((1, 33, 300), np.float16)
    with pytest.raises(UnsupportedFeature) as caught:
        tensor(q, k, k)
    assert str(caught.value) == (
        "attention got heads of 300 elements, which tensor cores do not take: 300 elements are more than 128. "
        "Fix: multiply with kernels.matmul, and weigh the scores with kernels.softmax."
    )
    with pytest.raises(LimitExceeded) as limited:  # and no warning of ordinary units, which do not take it either
        kernel(q, k, k)
    assert str(limited.value) == (
        "attention got heads of 300 elements, and takes 256. "
        "Fix: multiply with kernels.matmul, and weigh the scores with kernels.softmax."
    )
