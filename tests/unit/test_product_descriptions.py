"""Descriptions of matrix products: what there is no kernel for, what one shares, and that each is valid SPIR-V."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices.description import SCALAR, ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import BF16, F16, F32, S8, S32
from vyre_driver.matrices.product import IMAGE, product_module
from vyre_driver.matrices.tiles import PUSHED
from vyre_driver.process.tools import SPIRV_VAL, find_tool
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType

TILING = Tiling((128, 128, 32), (2, 2), (16, 16, 16), 32)
ORDINARY = Tiling((64, 64, 16), (8, 8), SCALAR, 1)
BYTES = Tiling((128, 128, 64), (2, 2), (16, 16, 32), 32)
PLAIN = ProductDescription(F16, Result(F32, F32), TILING)


def tiled(
    tile: tuple[int, int, int], split: tuple[int, int] = (2, 2), fragment: tuple[int, int, int] = (16, 16, 16)
) -> ProductDescription:
    return replace(PLAIN, tiling=Tiling(tile, split, fragment, 32))


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        (PLAIN, None),
        (tiled((100, 128, 32)), "100 along m are not 2 times whole fragments of 16"),
        (tiled((128, 48, 32)), "48 along n are not 2 times whole fragments of 16"),
        (tiled((128, 128, 24)), "24 along k are not 1 times whole fragments of 16"),
        (tiled((32, 32, 16), (1, 1), (16, 16, 4)), "fragments of 4 along a line of a do not begin at vectors of 8"),
        (
            tiled((12, 16, 16), (1, 1), (4, 8, 8)),
            "the part of a, 12 lines of 16, has no whole vectors, or no groups of 8 lines",
        ),
        (tiled((16, 16, 16), (1, 1), (8, 8, 8)), None),
        (tiled((16, 128, 16)), "16 along m are not 2 times whole fragments of 16"),
        (tiled((16, 128, 16), (1, 4)), "128 invocations cannot load 32 vectors of a in equal shares"),
        (
            replace(PLAIN, tiling=replace(BYTES, fragment=(8, 8, 8)), operand=S8),
            "fragments of 8 along a line of a do not begin at vectors of 16",
        ),
        (replace(PLAIN, is_convolution=True), None),
        (replace(PLAIN, is_convolution=True, a_transposed=True), "windows of images are not stored, and so not transposed"),
        (
            replace(tiled((32, 32, 48), (1, 1)), is_convolution=True),
            "32 invocations cannot each read the same one of the 6 parts of their lines",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_cut_so_is_told(description: ProductDescription, problem: str | None) -> None:
    assert description.problem() == problem
    if problem is not None:
        with pytest.raises(InvalidInput) as caught:
            product_module(description)
        fix = "Fix: choose a tile, a split and a fragment that divide each other."
        assert str(caught.value) == f"there is no such product: {problem}. {fix}"


def complaint(code: bytes) -> str:
    tool = find_tool(SPIRV_VAL)
    assert tool is not None, "the extra glsl brings spirv-val"
    command = [tool.path, "--target-env", "vulkan1.3", "-"]
    return subprocess.run(command, input=code, capture_output=True, check=False).stderr.decode()


@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)), ids=str)
@pytest.mark.parametrize(
    ("operand", "out", "tiling"),
    [(F16, F32, TILING), (F16, F16, TILING), (BF16, BF16, TILING), (S8, S32, BYTES)],
    ids=lambda one: getattr(one, "name", "tiling"),
)
def test_every_layout_is_valid_and_shares_what_it_says(
    operand: ElementType, out: ElementType, tiling: Tiling, transposed: tuple[bool, bool], *, is_exact: bool
) -> None:
    accumulator = F32 if operand.is_float else S32
    aligned = ProductDescription(
        operand, Result(accumulator, out), tiling, *transposed, has_whole_tiles=is_exact, has_whole_steps=is_exact
    )
    for description in (aligned, *(() if is_exact else (replace(aligned, is_aligned=False),))):
        code = product_module(description)
        reflection = SpirvModule.from_bytes(code).runnable.reflection
        shape = reflection.products[0].shape(())
        assert complaint(code) == ""
        assert reflection.shared_bytes == description.shared_bytes
        assert (shape.sizes, shape.types) == (tiling.fragment, (operand.name, operand.name, accumulator.name, accumulator.name))


@pytest.mark.parametrize("is_aligned", [False, True])
@pytest.mark.parametrize(
    ("operand", "tiling"),
    [(F16, TILING), (BF16, TILING), (S8, BYTES), (F16, ORDINARY), (BF16, ORDINARY), (S8, ORDINARY), (F32, ORDINARY)],
    ids=lambda one: getattr(one, "name", "tiling"),
)
def test_every_convolution_is_valid_and_pushes_what_every_device_takes(
    operand: ElementType, tiling: Tiling, *, is_aligned: bool
) -> None:
    accumulator = F32 if operand.is_float else S32
    any_size = ProductDescription(operand, Result(accumulator, accumulator), tiling, b_transposed=True, is_convolution=True)
    for is_exact in (False, True)[: 1 + is_aligned]:
        description = replace(any_size, is_aligned=is_aligned, has_whole_tiles=is_exact, has_whole_steps=is_exact)
        code = product_module(description)
        reflection = SpirvModule.from_bytes(code).runnable.reflection
        assert complaint(code) == ""
        assert reflection.shared_bytes == description.shared_bytes
        assert tuple(one.name for one in reflection.push_constants) == PUSHED + IMAGE
        assert reflection.push_constant_bytes == 92  # of the 128 that every device has


def test_the_same_description_is_the_same_module_and_another_is_another() -> None:
    others = [
        replace(PLAIN, has_whole_tiles=True),
        replace(PLAIN, has_whole_steps=True),
        replace(PLAIN, is_aligned=False),
        replace(PLAIN, tiling=replace(TILING, band=4)),
    ]
    modules = [product_module(one) for one in (PLAIN, PLAIN, *others)]
    assert (modules[0] == modules[1], len(set(modules))) == (True, 1 + len(others))
