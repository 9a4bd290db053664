"""What the kernels on matrices refuse, and what of them may be tuned on which device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from columns import candidate_with
from literals import DEVICE, LIMITS, refusal

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.common import grid_of
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16
from vyre_driver.kernels.rows import SOFTMAX
from vyre_driver.kernels.transpose import TRANSPOSE
from vyre_driver.specialization import specialize

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.spirv.module import SpirvModule

FACTS = DeviceFacts(DEVICE, frozenset({"storageBuffer16BitAccess"}))
MATRICES = [MATMUL, MATMUL_F16, TRANSPOSE, SOFTMAX]
F32, F16, U32 = (np.dtype(one) for one in (np.float32, np.float16, np.uint32))
# The least that Vulkan promises, a CPU device, a large GPU.
SMALLEST = replace(
    LIMITS,
    max_compute_work_group_size=(128, 128, 64),
    max_compute_work_group_invocations=128,
    max_compute_shared_memory_size=16384,
)
SOFTWARE = replace(LIMITS, max_compute_work_group_size=(1024, 1024, 1024), max_compute_work_group_invocations=1024)
LARGE = replace(SOFTWARE, max_compute_shared_memory_size=49152)


@pytest.mark.parametrize("definition", MATRICES, ids=lambda one: one.name)
def test_every_device_has_a_dozen_candidates_and_none_too_many_to_try(definition: KernelDefinition) -> None:
    counts = [len(definition.space(FACTS).candidates(limits)) for limits in (SMALLEST, SOFTWARE, LARGE)]
    assert counts == sorted(counts)
    assert 12 <= min(counts) <= max(counts) <= 150


FIRST = [
    (MATMUL, candidate_with(MATMUL.space(FACTS), (16, 8, 1), 16, (128, 64, 1))),
    (MATMUL_F16, candidate_with(MATMUL_F16.space(FACTS), (16, 8, 1), 16, (128, 64, 1))),
    (TRANSPOSE, candidate_with(TRANSPOSE.space(FACTS), (256, 1, 1), 4, (64, 64, 8))),
    (SOFTMAX, candidate_with(SOFTMAX.space(FACTS), (256, 1, 1), 4, (16384, 0, 0))),
]


@pytest.mark.parametrize(("definition", "first"), FIRST, ids=[one.name for one, _ in FIRST])
def test_large_and_software_devices_start_from_one_candidate(definition: KernelDefinition, first: Candidate) -> None:
    space = definition.space(FACTS)
    assert [space.candidates(limits)[0] for limits in (SOFTWARE, LARGE)] == [first, first]


TOO_LITTLE_SHARED = [
    (MATMUL, (16, 16, 1), 8, (128, 128, 1), 16640),
    (TRANSPOSE, (256, 1, 1), 4, (64, 64, 8), 16640),
    (SOFTMAX, (256, 1, 1), 4, (16384, 0, 0), 2048),
]


@pytest.mark.parametrize(("definition", "workgroup", "unroll", "tile", "shared"), TOO_LITTLE_SHARED)
def test_a_candidate_takes_just_the_shared_memory_that_the_shader_declares(
    definition: KernelDefinition, workgroup: tuple[int, int, int], unroll: int, tile: tuple[int, int, int], shared: int
) -> None:
    space = definition.space(FACTS)
    candidate = candidate_with(space, workgroup, unroll, tile)
    found = {one: space.refusal(candidate, replace(LARGE, max_compute_shared_memory_size=one)) for one in (shared, shared - 1)}
    refused = str(found[shared - 1])
    assert (found[shared], f"take {shared} bytes" in refused or f"takes {shared} bytes" in refused) == (None, True)
    declared = {
        sum(one.formula.value(words_of(module, dict(candidate.constants))) for one in module.reflection.sized_shared)
        for module in definition.modules(FACTS)
    }
    assert max(declared) == shared


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


def words_of(module: SpirvModule, constants: dict[str, int]) -> tuple[int, ...]:
    """The words of a module's constants, of those that it has."""
    declared = module.reflection.spec_constants
    return specialize(declared, {one.name: constants[one.name] for one in declared}).words


MATMUL_SHAPES = [
    ((3, 4), F32, (5, 6), F32, "a of matmul has 4 columns and b has 5 rows. Fix: pass matrices that can be multiplied."),
    (
        *((3,), F32, (3, 6), F32),
        (
            "a of matmul has the shape (3,), and must have two axes or more. "
            "Fix: give a matrix: reshape a vector to one row or one column."
        ),
    ),
    (
        *((3, 4), F32, (4, 6), F16),
        ("b of matmul has the type float16, and must have the type float32. Fix: convert it with .astype(numpy.float32)."),
    ),
    (
        *((3, 0), F32, (1, 6), F32),
        "a of matmul has 0 columns and b has 1 rows. Fix: pass matrices that can be multiplied.",
    ),
]


@pytest.mark.parametrize(("a", "a_type", "b", "b_type", "message"), MATMUL_SHAPES)
def test_matrices_that_cannot_be_multiplied_are_refused(
    a: tuple[int, ...], a_type: np.dtype[Any], b: tuple[int, ...], b_type: np.dtype[Any], message: str
) -> None:
    operands = {"a": Operand(a, a_type), "b": Operand(b, b_type)}
    assert refusal(lambda: MATMUL.size(operands, {})) == (InvalidInput, 2201, f"{message}")


@pytest.mark.parametrize(
    ("shape", "dtype", "fix"),
    [
        (
            (3, 4),
            F16,
            "convert it with .astype(numpy.float32), or reinterpret another type of 4 bytes with .view(numpy.uint32)",
        ),
        ((3,), F32, "pass one matrix: a vector as a.reshape(1, -1), the matrices of a batch one by one"),
        ((3, 4, 5), F16, "pass one matrix: a vector as a.reshape(1, -1), the matrices of a batch one by one"),
    ],
)
def test_transpose_refuses_what_is_no_matrix_of_its_types(shape: tuple[int, ...], dtype: np.dtype[Any], fix: str) -> None:
    assert refusal(lambda: TRANSPOSE.size({"a": Operand(shape, dtype)}, {})) == (
        InvalidInput,
        2201,
        (
            f"a of transpose has the shape {shape} and the type {dtype}, and must be a matrix of float32, uint32 or int32. "
            f"Fix: {fix}."
        ),
    )


@pytest.mark.parametrize("shape", [(3, 4), (3,), (0, 4), (3, 4, 5)])
def test_softmax_refuses_other_types_of_any_shape(shape: tuple[int, ...]) -> None:
    assert refusal(lambda: SOFTMAX.size({"x": Operand(shape, U32)}, {})) == (
        InvalidInput,
        2201,
        "x of softmax has the type uint32, and must have the type float32. Fix: convert it with .astype(numpy.float32).",
    )


def test_softmax_refuses_a_number() -> None:
    assert refusal(lambda: SOFTMAX.size({"x": Operand((), F32)}, {})) == (
        InvalidInput,
        2201,
        "x of softmax has the shape (), and must have one axis or more. Fix: give an array of one row or more.",
    )


def test_float16_on_ordinary_units_takes_one_matrix_b() -> None:
    operands = {"a": Operand((2, 3, 4), F16), "b": Operand((2, 4, 5), F16)}
    assert refusal(lambda: MATMUL_F16.size(operands, {})) == (
        InvalidInput,
        2201,
        (
            "b of matmul_f16 has the shape (2, 4, 5), and must be one matrix for all rows of a. "
            "Fix: call kernels.matmul(driver, 'float16'), which multiplies batches."
        ),
    )


@pytest.mark.parametrize("definition", MATRICES, ids=lambda one: one.name)
def test_parameters_are_refused_as_there_are_none(definition: KernelDefinition) -> None:
    message = f"{definition.name} takes no parameters and got ['axis']. Fix: leave them out."
    assert refusal(lambda: definition.size({}, {"axis": 1})) == (InvalidInput, 2201, message)


def test_float16_matrices_are_refused_by_name_where_the_device_cannot_read_them() -> None:
    assert refusal(lambda: MATMUL_F16.space(DeviceFacts(DEVICE, frozenset()))) == (
        UnsupportedFeature,
        1002,
        (
            "matmul_f16 needs storageBuffer16BitAccess, and 'Example GPU 9000' is open without it. Fix: "
            "choose another device, or convert the matrices to float32."
        ),
    )


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


FIGURES = [
    (MATMUL, (2, 3, 4), 2 * 3 * 4 * 2, (8 + 12 + 6) * 4),
    (MATMUL_F16, (2, 3, 4), 2 * 3 * 4 * 2, (8 + 12) * 2 + 6 * 4),
    (TRANSPOSE, (2, 3), 0, 48),
    (SOFTMAX, (2, 3), 0, 48),
]


@pytest.mark.parametrize(("definition", "size", "operations", "moved"), FIGURES)
def test_operations_and_bytes_are_those_that_no_kernel_does_without(
    definition: KernelDefinition, size: tuple[int, ...], operations: int, moved: int
) -> None:
    assert (definition.operations(size), definition.moved_bytes(size)) == (operations, moved)


@pytest.mark.parametrize("definition", MATRICES, ids=lambda one: one.name)
def test_examples_are_the_same_for_the_same_seed_and_have_the_size_they_were_asked_for(definition: KernelDefinition) -> None:
    size = definition.sizes[0]
    (one, _), (same, _), (other, _) = (definition.example(size, seed) for seed in (1, 1, 2))
    operands = definition.operands(one)
    equal = [all(np.array_equal(x, y) for x, y in zip(one, made, strict=True)) for made in (same, other)]
    assert (definition.size(operands, {}), equal) == (size, [True, False])
