"""How products are cut on a device, what their results need, and that what is emitted for ordinary units is valid."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import LIMITS, device, refusal

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Step
from vyre_driver.autotune.search.space import Candidate
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.kernels.product_plans import fragment_for, holds_sums, untuned
from vyre_driver.kernels.products import product
from vyre_driver.matrices.description import SCALAR, ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import BF16, F16, F32, S8, S32
from vyre_driver.matrices.product import parts_module, product_module
from vyre_driver.process.tools import SPIRV_VAL, find_tool
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.matrices import CooperativeMatrixShape, FlexibleMatrixShape

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType

Shape = tuple[int, ...]
STORAGE = frozenset({"storageBuffer16BitAccess", "storageBuffer8BitAccess"})
MATRICES = STORAGE | {"cooperativeMatrix", "vulkanMemoryModel", "shaderFloat16", "shaderInt8"}
FLEXIBLE = MATRICES | {"cooperativeMatrixFlexibleDimensions"}


@pytest.mark.parametrize(
    ("lacking", "asked"),
    [("storageBuffer16BitAccess", ("float16", "float32")), ("storageBuffer8BitAccess", ("int8", "int32"))],
)
def test_a_device_that_cannot_store_a_type_is_refused(lacking: str, asked: tuple[str, str]) -> None:
    facts = DeviceFacts(device(), STORAGE - {lacking})
    definition = product(asked[0], out_dtype=asked[1])
    assert refusal(lambda: definition.space(facts)) == (
        UnsupportedFeature,
        1002,
        (
            f"matmul needs {lacking}, and 'Example GPU 9000' is open without it. "
            "Fix: choose another device, or convert the matrices to float32."
        ),
    )


@pytest.mark.parametrize(
    ("result", "is_plain", "extra"),
    [
        (Result(F32, F32), True, ()),
        (Result(F32, F16), True, ()),
        (Result(S32, S32), True, ()),
        (Result(F32, BF16), False, ()),
        (Result(S32, F32), False, ()),
        (Result(S32, F16), False, ()),
        (Result(F32, F32, activation="relu"), False, ()),
        (Result(F32, F32, has_bias=True), False, ("bias",)),
        (Result(F32, F32, has_residual=True), False, ("residual",)),
        (Result(F32, F16, has_bias=True, has_residual=True), False, ("bias", "residual")),
    ],
    ids=str,
)
def test_a_result_is_plain_where_matrices_can_do_it(result: Result, is_plain: bool, extra: tuple[str, ...]) -> None:  # noqa: FBT001 -- a case
    assert (result.is_plain, result.extra_buffers) == (is_plain, extra)


def test_fragments_that_are_stored_number_by_number_are_staged_one_for_each_subgroup() -> None:
    plain = ProductDescription(F16, Result(F32, F16), Tiling((128, 128, 32), (2, 4), (16, 8, 16), 32), has_whole_tiles=True)
    staged = 2 * 4 * 16 * 8 * 4
    assert plain.staged_bytes == 0
    edges, biased = replace(plain, has_whole_tiles=False), replace(plain, result=Result(F32, F16, has_bias=True))
    assert [one.staged_bytes for one in (edges, biased, replace(plain, is_direct=False))] == [staged] * 3
    assert edges.shared_bytes == plain.shared_bytes + staged
    scalar = replace(plain, tiling=Tiling((64, 32, 16), (8, 8), SCALAR, 1), has_whole_tiles=False)
    assert (scalar.staged_bytes, scalar.shared_bytes) == (0, (64 + 32) * 16 * 4)


@pytest.mark.parametrize(
    ("tile", "split", "problem"),
    [
        ((64, 64, 16), (8, 8), None),
        ((60, 64, 16), (8, 8), "60 along m are not 8 times whole fragments of 1"),
        ((64, 20, 16), (8, 8), "20 along n are not 8 times whole fragments of 1"),
        ((8, 8, 4), (8, 8), "64 invocations cannot load 32 numbers of a in equal shares"),
        ((64, 8, 4), (8, 8), "64 invocations cannot load 32 numbers of b in equal shares"),
    ],
    ids=str,
)
def test_what_ordinary_units_cannot_share_is_told(
    tile: tuple[int, int, int], split: tuple[int, int], problem: str | None
) -> None:
    assert ProductDescription(F16, Result(F32, F32), Tiling(tile, split, SCALAR, 1)).problem() == problem


def candidates(sides: Shape = (128, 64), parts: Shape = (1, 2, 4, 8)) -> list[Candidate]:
    chosen = itertools.product(sides, sides, parts)
    return [Candidate((1, 1, 1), (("TILE_X", x), ("TILE_Y", y), ("SPLIT_K", split))) for x, y, split in chosen]


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((1, 4096, 4096, 4096), (128, 128, 1)),
        ((1, 1024, 2048, 64), (128, 64, 1)),  # 128 of the large tiles, 256 of those between, and the first of these
        ((1, 1024, 1024, 4096), (64, 64, 1)),
        ((300, 16, 16, 64), (128, 128, 1)),
        ((1, 128, 4096, 4096), (64, 64, 2)),  # fewer parts before larger tiles
        ((1, 64, 64, 1023), (64, 64, 1)),  # one workgroup in any case: of the smallest tile
        ((1, 64, 64, 1024), (64, 64, 2)),
        ((1, 64, 64, 4096), (64, 64, 8)),
        ((1, 0, 64, 64), (64, 64, 1)),
    ],
    ids=str,
)
def test_what_nobody_tuned_makes_enough_workgroups_of_the_largest_tiles(size: Shape, wanted: tuple[int, int, int]) -> None:
    found = untuned(candidates(), size)
    assert (found["TILE_X"], found["TILE_Y"], found["SPLIT_K"]) == wanted


def fixed(  # noqa: PLR0913 -- what tells one from another
    m: int, n: int, k: int, operand: str, result: str, scope: str = "subgroup"
) -> CooperativeMatrixShape:
    return CooperativeMatrixShape(m, n, k, operand, operand, result, result, saturating=False, scope=scope)


def flexible(m: int, n: int, k: int, operand: str, result: str) -> FlexibleMatrixShape:
    return FlexibleMatrixShape(m, n, k, operand, operand, result, result, False, "subgroup", 0)


def facts(*shapes: CooperativeMatrixShape | FlexibleMatrixShape, features: frozenset[str] = FLEXIBLE) -> DeviceFacts:
    fixed_ones = tuple(one for one in shapes if isinstance(one, CooperativeMatrixShape))
    flexible_ones = tuple(one for one in shapes if isinstance(one, FlexibleMatrixShape))
    return DeviceFacts(device(cooperative_matrices=fixed_ones, flexible_matrices=flexible_ones), features)


HALF, LARGE_HALF = fixed(16, 8, 8, "float16", "float32"), fixed(16, 16, 16, "float16", "float32")


@pytest.mark.parametrize(
    ("operand", "shapes", "wanted"),
    [
        (F16, (HALF, LARGE_HALF), (16, 16, 16)),
        (F16, (HALF,), (16, 8, 8)),
        (F16, (fixed(16, 8, 4, "float16", "float32"),), None),
        (F16, (fixed(16, 16, 16, "float16", "float32", "workgroup"),), None),
        (F16, (fixed(16, 16, 16, "float16", "float16"),), None),
        (S8, (fixed(8, 8, 8, "sint8", "sint32"), flexible(8, 8, 8, "sint8", "sint32")), (16, 16, 16)),
        (S8, (fixed(16, 16, 32, "sint8", "sint32"),), (16, 16, 32)),
        # The first one's steps do not divide a vector, those of the second do: each is held against its own.
        (F16, (flexible(3, 3, 3, "float16", "float32"), flexible(16, 8, 8, "float16", "float32")), (16, 8, 8)),
        (F16, (flexible(3, 3, 3, "float16", "float32"),), None),
        (BF16, (fixed(16, 16, 16, "bfloat16", "float32"),), None),  # its features are off
        (F32, (fixed(16, 16, 16, "float32", "float32"),), None),
    ],
    ids=str,
)
def test_a_fragment_is_the_largest_of_whole_vectors_that_subgroups_have(
    operand: ElementType, shapes: tuple[CooperativeMatrixShape, ...], wanted: tuple[int, int, int] | None
) -> None:
    assert fragment_for(operand, F32 if operand.is_float else S32, facts(*shapes)) == wanted


def test_a_cpu_is_not_given_larger_fragments_than_it_names() -> None:
    on = facts(fixed(8, 8, 8, "sint8", "sint32"), flexible(8, 8, 8, "sint8", "sint32"))
    cpu = replace(on, physical=replace(on.physical, device_type=DeviceType.CPU))
    assert [fragment_for(S8, S32, one) for one in (on, cpu)] == [(16, 16, 16), None]


def test_a_device_whose_matrices_are_off_has_no_fragments() -> None:
    for lacking in ("cooperativeMatrix", "vulkanMemoryModel", "shaderFloat16", "storageBuffer16BitAccess"):
        assert fragment_for(F16, F32, facts(LARGE_HALF, features=FLEXIBLE - {lacking})) is None


def test_results_of_float16_are_stored_as_matrices_only_where_the_device_has_such() -> None:
    definition = product("float16", out_dtype="float16")
    given = {name: Operand((64, 64), np.dtype(np.float16)) for name in "ab"}
    found = {}
    for name, shapes in {
        "one": (LARGE_HALF,),
        "both": (LARGE_HALF, fixed(16, 16, 16, "float16", "float16")),
        "other": (LARGE_HALF, fixed(16, 8, 16, "float16", "float16")),
        "flexible": (LARGE_HALF, flexible(8, 8, 8, "float16", "float16")),
    }.items():
        on = facts(*shapes)
        call = Call(given, {}, (1, 64, 64, 64), definition.space(on).candidates(LIMITS)[0], on)
        (step,) = definition.plan(call).steps
        assert isinstance(step.module, SpirvModule)
        stored = {kind for one in step.module.runnable.reflection.matrices for kind in one.component_names()}
        found[name] = "float16" in stored, holds_sums(F16, (16, 16, 16), on), len(step.module.runnable.reflection.matrices)
    assert found == {
        "one": (True, False, 3),
        "both": (True, True, 4),
        "other": (True, False, 3),
        "flexible": (True, True, 4),
    }


@pytest.mark.parametrize(
    ("batch", "limits", "parts"),
    [
        (3, {}, 4),
        (65533 // 3, {}, 3),
        (40_000, {}, 1),
        (65533, {}, 1),
        (3, {"max_storage_buffer_range": 3 * 64 * 64 * 4 * 4}, 4),
        (3, {"max_storage_buffer_range": 3 * 64 * 64 * 4 * 4 - 1}, 3),
        (3, {"max_storage_buffer_range": 3 * 64 * 64 * 4}, 1),
    ],
    ids=str,
)
def test_k_is_in_no_more_parts_than_the_grid_and_a_buffer_have_room_for(batch: int, limits: dict[str, Any], parts: int) -> None:
    on = DeviceFacts(device(limits=replace(LIMITS, **{"max_storage_buffer_range": 2**32 - 1} | limits)), STORAGE)
    definition = product("int8")
    given = {"a": Operand((batch, 64, 480), np.dtype(np.int8)), "b": Operand((batch, 480, 64), np.dtype(np.int8))}
    chosen = next(one for one in definition.space(on).candidates(LIMITS) if one["SPLIT_K"] == 4)
    plan = definition.plan(definition.call(given, {}, chosen, on))
    assert (plan.steps[0].workgroups or ())[2] == batch * parts
    assert [one.shape for one in plan.temporaries.values()] == [(batch * parts * 64 * 64,)] * (parts > 1)


def test_a_step_has_buffers_as_the_code_has_them() -> None:
    class Seen:
        def __init__(self, *said: object) -> None:
            self.said = said

        def reshape(self, *shape: int) -> Seen:
            return Seen(*self.said, shape)

        def view(self, dtype: np.dtype[Any]) -> Seen:
            return Seen(*self.said, dtype)

    views = {"a": np.dtype((np.uint32, 4)), "c": np.dtype(np.uint16)}
    step = Step(SpirvModule.from_bytes(parts_module(Result(F32, F32))), ("c", "b", "a"), (1, 1, 1), views=views)
    found = step.arguments({name: Seen(name) for name in "abc"})  # type: ignore[misc]
    assert [one.said for one in found] == [  # type: ignore[attr-defined]
        ("c", (-1,), np.dtype(np.uint16), (-1,)),
        ("b",),
        ("a", (-1,), np.dtype(np.uint32), (-1, 4)),
    ]


def complaint(code: bytes, environment: str) -> str:
    tool = find_tool(SPIRV_VAL)
    assert tool is not None, "the extra glsl brings spirv-val"
    command = [tool.path, "--target-env", environment, "-"]
    return subprocess.run(command, input=code, capture_output=True, check=False).stderr.decode()


RESULTS = [
    Result(F32, F32),
    Result(F32, F16, has_bias=True, activation="gelu"),
    Result(F32, BF16, has_residual=True, activation="silu"),
    Result(F32, F32, has_bias=True, has_residual=True, activation="relu"),
]


WHOLE = [Result(S32, S32), Result(S32, F32, has_bias=True), Result(S32, BF16, has_residual=True, activation="gelu")]


@pytest.mark.parametrize("result", RESULTS + WHOLE, ids=str)
def test_the_sum_of_parts_is_valid_for_vulkan_1_1(result: Result) -> None:
    code = parts_module(result)
    buffers = [one.name for one in SpirvModule.from_bytes(code).runnable.reflection.buffers]
    assert (complaint(code, "vulkan1.1"), buffers) == ("", ["partial", "c", *result.extra_buffers])


@pytest.mark.parametrize(
    ("operand", "result"),
    [*itertools.product((F16, BF16, F32), RESULTS), *itertools.product((S8,), WHOLE)],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_products_on_ordinary_units_are_valid_for_vulkan_1_1_and_share_what_they_say(
    operand: ElementType, result: Result
) -> None:
    tiling = Tiling((64, 32, 16), (8, 8), SCALAR, 1)
    for transposed in ((False, True), (True, False)):
        description = ProductDescription(operand, result, tiling, *transposed, is_aligned=False, is_direct=False)
        code = product_module(description)
        reflection = SpirvModule.from_bytes(code).runnable.reflection
        assert complaint(code, "vulkan1.1") == ""
        assert (reflection.shared_bytes, reflection.matrices) == (description.shared_bytes, ())
        assert [one.name for one in reflection.buffers] == ["a", "b", "c", *result.extra_buffers]
