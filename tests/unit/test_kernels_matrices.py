"""What of the kernels on matrices is not worth trying, and which dispatches a call is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from columns import candidate_with
from literals import DEVICE, LARGE, LIMITS

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.kernels.common import grid_of
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16, TRANSPOSE
from vyre_driver.kernels.rows import SOFTMAX

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import KernelDefinition

FACTS = DeviceFacts(DEVICE, frozenset({"storageBuffer16BitAccess"}))


F32, F16, U32 = (np.dtype(one) for one in (np.float32, np.float16, np.uint32))


REFUSED = [
    (MATMUL, (16, 16, 1), 8, (128, 32, 1), "a tile of 128x32 is not a whole number of 4x4 blocks for 16x16 invocations"),
    (MATMUL, (16, 16, 1), 8, (64, 64, 1), "256 invocations cannot load parts of 64x8 and 64x8 in equal shares"),
    (MATMUL, (8, 8, 1), 8, (128, 128, 1), "an invocation would make 16x16 sums, and 4x4 to 8x12 are worth trying"),
    (MATMUL, (16, 8, 1), 8, (128, 128, 1), "an invocation would make 8x16 sums, and 4x4 to 8x12 are worth trying"),
    (
        *(MATMUL, (16, 8, 1), 16, (64, 64, 2)),
        "k is split for tiles that differ, each with one workgroup, and not for 64x64 with 16x8",
    ),
    (TRANSPOSE, (512, 1, 1), 4, (64, 64, 8), "64x64 words are not a whole number of 4 vectors for each of 512 invocations"),
    (
        *(SOFTMAX, (64, 1, 1), 4, (16384, 0, 0)),
        "1 rows with 64 invocations each; several rows are for 64 invocations or fewer",
    ),
    (SOFTMAX, (64, 4, 1), 4, (4096, 0, 0), "rows are split at 4096 for more than 64 invocations"),
    (SOFTMAX, (1024, 1, 1), 8, (16384, 0, 0), "1024 invocations hold 32768 numbers, and a row's part has 16384"),
]


@pytest.mark.parametrize(("definition", "workgroup", "unroll", "tile", "why"), REFUSED)
def test_candidates_that_cannot_work_or_are_not_worth_trying_are_told_apart(
    definition: KernelDefinition, workgroup: tuple[int, int, int], unroll: int, tile: tuple[int, int, int], why: str
) -> None:
    assert definition.space(FACTS).refusal(candidate_with(definition.space(FACTS), workgroup, unroll, tile), LARGE) == why


def test_softmax_does_without_subgroup_operations_where_there_are_none() -> None:
    bare = DeviceFacts(replace(DEVICE, subgroup_operations=0x1), frozenset())
    names = [[one.name for one in SOFTMAX.modules(facts)][2:4] for facts in (FACTS, bare)]
    with_them = ["softmax_subgroups.spv", "softmax_subgroups_wide.spv"]
    assert names == [with_them, ["softmax.spv", "softmax_wide.spv"]]


ROWS = [
    (MATMUL, {"a": (3, 5), "b": (5, 8)}, "matmul_wide.spv"),
    (MATMUL, {"a": (4, 4), "b": (4, 7)}, "matmul.spv"),
    (MATMUL_F16, {"a": (3, 5), "b": (5, 8)}, "matmul_f16_wide.spv"),
    (TRANSPOSE, {"a": (4, 8)}, "transpose_wide.spv"),
    (TRANSPOSE, {"a": (4, 7)}, "transpose.spv"),
    (TRANSPOSE, {"a": (7, 4)}, "transpose.spv"),
    (SOFTMAX, {"x": (3, 8)}, "softmax_subgroups_wide.spv"),
    (SOFTMAX, {"x": (4, 7)}, "softmax_subgroups.spv"),
]


@pytest.mark.parametrize(("definition", "shapes", "module"), ROWS)
def test_rows_of_whole_vectors_are_read_as_vectors(
    definition: KernelDefinition, shapes: dict[str, tuple[int, ...]], module: str
) -> None:
    operands = {name: Operand(shape, F16 if definition is MATMUL_F16 else F32) for name, shape in shapes.items()}
    plan = definition.plan(definition.call(operands, {}, definition.space(FACTS).candidates(LARGE)[0], FACTS))
    assert [step.module.name for step in plan.steps] == [module]


UNTUNED = [
    ((8192, 8192, 8192), (128, 96, 1)),  # enough tiles for the last round not to matter
    ((4096, 4096, 4096), (128, 128, 1)),
    ((2048, 2048, 2048), (128, 128, 1)),
    ((1024, 1024, 1024), (128, 64, 1)),
    ((512, 512, 512), (64, 32, 1)),
    ((64, 64, 64), (64, 64, 1)),  # to add parts would take longer
    ((1, 4096, 4096), (128, 16, 16)),
    ((16, 4096, 4096), (128, 16, 16)),
    ((32, 4096, 4096), (128, 32, 16)),
    ((4096, 1, 4096), (32, 128, 8)),
    ((4096, 64, 4096), (64, 128, 8)),
    ((128, 128, 65536), (128, 128, 128)),
    ((4096, 4096, 64), (128, 128, 1)),
    ((0, 4, 4), (128, 64, 1)),
]


@pytest.mark.parametrize(("size", "tile"), UNTUNED)
def test_a_product_that_nobody_tuned_keeps_a_large_device_busy(size: tuple[int, ...], tile: tuple[int, int, int]) -> None:
    found = MATMUL.untuned(MATMUL.space(FACTS).candidates(LARGE), size)
    assert tuple(found[name] for name in ("TILE_X", "TILE_Y", "SPLIT_K")) == tile


PARTS = [
    ((3, 8, 1000), 4, (1, 1, 4), 256, 4),
    ((3, 8, 1000), 128, (1, 1, 63), 16, 63),  # steps of 16 are not cut
    ((3, 8, 16), 2, (1, 1, 1), 16, None),
    ((4096, 2048, 512), 8, (1024, 1, 2), 256, 2),  # 64 MiB of sums and no more
    ((4096, 4096, 4096), 128, (2048, 1, 1), 4096, None),
]


@pytest.mark.parametrize(("size", "split", "grid", "part", "count"), PARTS)
def test_parts_of_k_are_summed_side_by_side_and_then_added(
    size: tuple[int, int, int], split: int, grid: tuple[int, int, int], part: int, count: int | None
) -> None:
    m, n, k = size
    candidate = candidate_with(MATMUL.space(FACTS), (16, 8, 1), 16, (128, 64, split))
    operands = {"a": Operand((m, k), F32), "b": Operand((k, n), F32)}
    plan = MATMUL.plan(MATMUL.call(operands, {}, candidate, FACTS))
    first, *others = plan.steps
    assert (first.module.name, first.workgroups, first.push_constants) == (
        *("matmul_wide.spv", grid),
        {"m": m, "n": n, "k": k, "part": part},
    )
    adding = [("matmul_parts.spv", ("parts", "c"), {"elements": m * n, "count": count})] if count else []
    assert [(one.module.name, one.buffers, one.push_constants) for one in others] == adding
    assert (first.buffers, dict(plan.temporaries)) == (
        ("a", "b", "parts" if count else "c"),
        {"parts": Operand((count, m, n), F32)} if count else {},
    )


def test_a_row_longer_than_its_tile_is_split() -> None:
    candidate = candidate_with(SOFTMAX.space(FACTS), (256, 1, 1), 4, (16384, 0, 0))
    plan = SOFTMAX.plan(SOFTMAX.call({"x": Operand((3, 16385), F32)}, {}, candidate, FACTS))
    steps = [(step.module.name, step.buffers, step.workgroups) for step in plan.steps]
    assert (steps, dict(plan.temporaries)) == (
        [
            ("softmax_statistics.spv", ("x", "parts"), (6, 1, 1)),
            ("softmax_apply.spv", ("x", "parts", "y"), (6, 1, 1)),
        ],
        {"parts": Operand((3, 2, 2), F32)},
    )


@pytest.mark.parametrize(("tiles", "grid"), [(1, (1, 1, 1)), (65535, (65535, 1, 1)), (65536, (65535, 2, 1))])
def test_grids_grow_along_x_and_then_along_y(tiles: int, grid: tuple[int, int, int]) -> None:
    assert grid_of(tiles, LIMITS) == grid
