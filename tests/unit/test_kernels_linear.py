"""What linear_int4 and linear_int8 refuse, which dispatch a call is, and how weights are quantized."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from columns import candidate_with
from literals import DEVICE, LARGE, SMALLEST, refusal

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import quantized_int4, quantized_int8
from vyre_driver.kernels.linear import INT4, INT8, LINEAR_INT4, LINEAR_INT8

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.autotune.search.space import Limits
    from vyre_driver.kernels.linear import Linear, WeightFormat

FACTS = DeviceFacts(DEVICE, frozenset({"storageBuffer16BitAccess"}))
BOTH = [LINEAR_INT4, LINEAR_INT8]
F32, F16, U8, I8 = (np.dtype(one) for one in (np.float32, np.float16, np.uint8, np.int8))


SPACE = LINEAR_INT4.space(FACTS)
FIRST = SPACE.preferred


def given(definition: Linear, *sizes: int, dtype: np.dtype[Any] = F16) -> dict[str, Operand]:
    """The arrays of a batch, n, k and a number of groups."""
    batch, n, k, groups = sizes
    columns = k // definition.format.per_byte
    weight = Operand((n, columns), definition.format.dtype)
    return {"x": Operand((batch, k), dtype), "weight": weight, "scales": Operand((n, groups), F16)}


RULED_OUT = [
    ((64, 1, 1), 2, (16, 4, 0), LARGE, "an invocation would have 32 loads under way, and 16 are worth trying"),
    ((64, 1, 1), 1, (16, 8, 0), LARGE, "an invocation would have 128 sums, and 16 to 64 are worth trying"),
    ((64, 1, 1), 1, (2, 4, 0), LARGE, "an invocation would have 8 sums, and 16 to 64 are worth trying"),
    ((512, 1, 1), 1, (16, 4, 0), SMALLEST, "a workgroup of 512x1x1, and the device allows 1 to 128 along an axis"),
    (
        *((512, 1, 1), 1, (16, 4, 0), replace(LARGE, max_compute_shared_memory_size=32767)),
        "its sums take 32768 bytes, and a workgroup may share 32767",
    ),
]


@pytest.mark.parametrize(("workgroup", "unroll", "tile", "limits", "why"), RULED_OUT)
def test_candidates_that_are_not_worth_trying_are_told_apart(
    workgroup: tuple[int, int, int], unroll: int, tile: tuple[int, int, int], limits: Limits, why: str
) -> None:
    assert SPACE.refusal(candidate_with(SPACE, workgroup, unroll, tile), limits) == why


REFUSED: dict[str, tuple[Linear, dict[str, Operand], dict[str, Any], str]] = {
    "x of another type": (
        *(LINEAR_INT4, given(LINEAR_INT4, 1, 4, 64, 2, dtype=np.dtype(np.float64)), {}),
        (
            "x of linear_int4 has the type float64, and must have the type float16 or float32. "
            "Fix: convert it with .astype(numpy.float16)."
        ),
    ),
    "x with one axis": (
        *(LINEAR_INT8, {**given(LINEAR_INT8, 1, 4, 64, 2), "x": Operand((64,), F16)}, {}),
        (
            "x of linear_int8 has the shape (64,), and must have two axes or more. "
            "Fix: give a matrix: reshape a vector to one row or one column."
        ),
    ),
    "weights of the other kind": (
        *(LINEAR_INT4, {**given(LINEAR_INT4, 1, 4, 64, 2), "weight": Operand((4, 64), I8)}, {}),
        (
            "weight of linear_int4 has the shape (4, 64) and the type int8, and must be a matrix of uint8. "
            "Fix: pass what kernels.quantized_int4 returns."
        ),
    ),
    "scales of float32": (
        *(LINEAR_INT8, {**given(LINEAR_INT8, 1, 4, 64, 2), "scales": Operand((4, 2), F32)}, {}),
        (
            "scales of linear_int8 has the shape (4, 2) and the type float32, and must be a matrix of float16. "
            "Fix: pass what kernels.quantized_int8 returns."
        ),
    ),
    "weights of another length": (
        *(LINEAR_INT4, {**given(LINEAR_INT4, 1, 4, 64, 2), "weight": Operand((4, 64), U8)}, {}),
        "weight of linear_int4 has 128 numbers a row, and x has 64. Fix: pass those of one layer.",
    ),
    "columns that are no multiple of 32": (
        *(LINEAR_INT8, given(LINEAR_INT8, 1, 4, 48, 1), {}),
        (
            "x of linear_int8 has 48 columns, and these must be a multiple of 32, and not 0. "
            "Fix: append columns of zeros to x, and to the weights before they are quantized."
        ),
    ),
    "no columns": (
        *(LINEAR_INT4, given(LINEAR_INT4, 1, 4, 0, 0), {}),
        (
            "x of linear_int4 has 0 columns, and these must be a multiple of 32, and not 0. "
            "Fix: append columns of zeros to x, and to the weights before they are quantized."
        ),
    ),
    **{
        f"scales of the shape {shape}": (
            *(LINEAR_INT4, {**given(LINEAR_INT4, 1, 4, 96, 3), "scales": Operand(shape, F16)}, {}),
            (
                f"scales of linear_int4 has the shape {shape}, and must have 4 rows, and columns for equal groups of a "
                "multiple of 32 of the 96 weights in a row. Fix: pass those that the weights were quantized with."
            ),
        )
        for shape in ((3, 3), (4, 0), (4, 2), (4, 6))
    },
    "a parameter": (
        *(LINEAR_INT4, given(LINEAR_INT4, 1, 4, 64, 2), {"group": 32}),
        "linear_int4 takes no parameters and got 'group'. Fix: leave 'group' out.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case: str) -> None:
    definition, operands, parameters, message = REFUSED[case]
    assert refusal(lambda: definition.size(operands, parameters)) == (InvalidInput, 2201, message)


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_the_modules_do_without_subgroup_operations_where_there_are_none(definition: Linear) -> None:
    bare = DeviceFacts(replace(DEVICE, subgroup_operations=0x1), FACTS.features)
    assert [[one.name for one in definition.modules(facts)] for facts in (FACTS, bare)] == [
        [f"{definition.name}_subgroups.spv", f"{definition.name}_f32_subgroups.spv"],
        [f"{definition.name}.spv", f"{definition.name}_f32.spv"],
    ]


@pytest.mark.parametrize(
    ("batch", "at_once", "workgroups"), [(1, 1, 3), (2, 2, 3), (4, 4, 3), (5, 3, 6), (8, 4, 6), (9, 3, 9), (32, 4, 24)]
)
def test_a_batch_is_shared_equally_among_workgroups_of_the_same_weights(batch: int, at_once: int, workgroups: int) -> None:
    candidate = candidate_with(SPACE, (64, 1, 1), 1, (8, 4, 0))
    plan = LINEAR_INT4.plan(LINEAR_INT4.call(given(LINEAR_INT4, batch, 17, 128, 2), {}, candidate, FACTS))
    assert [(one.module.name, one.buffers, one.workgroups) for one in plan.steps] == [
        ("linear_int4_subgroups.spv", ("x", "weight", "scales", "y"), (workgroups, 1, 1))
    ]
    assert plan.steps[0].constants == {"WORKGROUP_X": 64, "UNROLL": 1, "ROWS": 8, "BATCH": at_once, "PER_SCALE": 2}
    assert plan.steps[0].push_constants == {"batch": batch, "rows": 17, "vectors": 4}
    assert dict(plan.outputs) == {"y": Operand((batch, 17), F16)}


def test_a_vector_is_16_weights_of_8_bits_and_the_result_is_of_xs_type() -> None:
    plan = LINEAR_INT8.plan(LINEAR_INT8.call(given(LINEAR_INT8, 1, 17, 128, 1, dtype=F32), {}, FIRST, FACTS))
    (step,) = plan.steps
    assert (step.module.name, step.constants["PER_SCALE"], step.push_constants["vectors"]) == (
        *("linear_int8_f32_subgroups.spv", 8, 8),
    )
    assert dict(plan.outputs) == {"y": Operand((1, 17), F32)}


def test_a_tolerance_is_that_of_the_type_and_grows_with_the_row() -> None:
    found = [LINEAR_INT4.tolerance((1, 5, k, 32, byte_len)) for k, byte_len in ((64, 4), (4096, 4), (4096, 2))]
    assert found == [16 * 2.0**-23, 72 * 2.0**-23, 2.0**-10 + 72 * 2.0**-23]


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_an_example_has_every_weight(definition: Linear) -> None:
    size = (3, 2000, 512, 64, 4)
    arrays, _ = definition.example(size, 1)
    assert definition.size(definition.operands(arrays), {}) == size
    assert np.array_equal(
        np.unique(definition.format.unpacked(arrays[1])), np.arange(-definition.format.most - 1, definition.format.most + 1)
    )


@pytest.mark.parametrize(("group", "byte_len"), [(32, 8), (0, 2), (96, 2)])
def test_an_example_of_no_size_is_refused(group: int, byte_len: int) -> None:
    assert refusal(lambda: LINEAR_INT4.example((1, 2, 64, group, byte_len), 1)) == (
        InvalidInput,
        2201,
        (
            f"(1, 2, 64, {group}, {byte_len}) is no size of linear_int4: it has a group of {group} in 64 and numbers of "
            f"{byte_len} bytes. Fix: give batch, n, k, a group that divides k, and 2 (float16) or 4 (float32)."
        ),
    )


def test_of_two_weights_in_a_byte_the_first_is_in_the_lower_half() -> None:
    row = np.zeros((1, 32), np.float32)
    row[0, :4] = 7, -7, 1, 0
    packed, scales = quantized_int4(row)
    assert (packed.dtype, packed.shape, packed[0, :3].tolist()) == (U8, (1, 16), [0x1F, 0x89, 0x88])
    assert (scales.dtype, scales.tolist()) == (F16, [[1.0]])
    stored, scales = quantized_int8(row * 127 / 7)
    assert (stored.dtype, stored.shape, stored[0, :4].tolist()) == (I8, (1, 32), [127, -127, 18, 0])
    assert (scales.dtype, scales.tolist()) == (F16, [[1.0]])


@pytest.mark.parametrize(("make", "form"), [(quantized_int4, INT4), (quantized_int8, INT8)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("group", [32, 96, 192])
def test_each_weight_is_the_nearest_multiple_of_its_groups_scale(
    make: Callable[..., Any], form: WeightFormat, dtype: type, group: int
) -> None:
    weight = np.random.default_rng(1).standard_normal((9, 192)).astype(dtype)
    stored, scales = make(weight, group)
    largest = np.abs(weight.astype(np.float64)).reshape(9, -1, group).max(axis=2)
    assert np.array_equal(scales, (largest / form.most).astype(np.float16))
    steps = np.repeat(scales.astype(np.float64), group, axis=1)
    wanted = np.rint(weight / steps).clip(-form.most, form.most)
    assert np.array_equal(form.unpacked(stored), wanted)
    assert np.array_equal(form.numbers(stored, scales), wanted * steps)


@pytest.mark.parametrize(("make", "form"), [(quantized_int4, INT4), (quantized_int8, INT8)])
def test_zeros_and_what_is_too_small_for_a_scale_become_zeros(make: Callable[..., Any], form: WeightFormat) -> None:
    weight = np.zeros((3, 64), np.float32)
    weight[1, 40], weight[2] = 7 * 127, 1e-12
    stored, scales = make(weight, 32)
    assert scales.tolist() == [[0, 0], [0, 7 * 127 / form.most], [0, 0]]
    assert form.numbers(stored, scales).nonzero()[0].tolist() == [1]
    nothing = make(np.zeros((0, 64), np.float32))
    assert [(one.shape, one.dtype) for one in nothing] == [((0, 64 // form.per_byte), form.dtype), ((0, 2), F16)]


A_WEIGHT = np.ones((2, 64), np.float32)


def weight_with(value: float) -> np.ndarray:
    weight = A_WEIGHT.astype(np.float64)
    weight[1, 3] = value
    return weight


NOT_QUANTIZED: list[tuple[Callable[[], object], str]] = [
    *(
        (
            lambda value=value: quantized_int8(weight_with(value)),  # type: ignore[misc]
            (
                f"the weight of quantized_int8 has {value} at (1, 3), and a scale makes only finite numbers. "
                "Fix: pass finite weights."
            ),
        )
        for value in (np.nan, np.inf, -np.inf)
    ),
    (
        lambda: quantized_int4(weight_with(-5e5)),
        (
            "the weight of quantized_int4 has -500000.0 at (1, 3), and a scale of float16 reaches to 458528. "
            "Fix: scale the weights down, and what is computed with them up."
        ),
    ),
    (
        lambda: quantized_int4(A_WEIGHT[0]),
        (
            "the weight of quantized_int4 has the shape (64,) and the type float32, and must be a matrix of float32, float16 "
            "or float64. Fix: pass an array of two dimensions, converted with .astype(numpy.float32)."
        ),
    ),
    (
        lambda: quantized_int8(A_WEIGHT.astype(np.int32)),
        (
            "the weight of quantized_int8 has the shape (2, 64) and the type int32, and must be a matrix of float32, float16 "
            "or float64. Fix: pass an array of two dimensions, converted with .astype(numpy.float32)."
        ),
    ),
    (
        lambda: quantized_int8([[1.0]]),  # type: ignore[arg-type]
        (
            "the weight of quantized_int8 is of type list, and must be a matrix of float32, float16 or float64. "
            "Fix: pass an array of two dimensions, converted with .astype(numpy.float32)."
        ),
    ),
    *(
        (
            lambda group=group: quantized_int4(A_WEIGHT, group),  # type: ignore[misc]
            (
                f"the group of quantized_int4 is {group!r}, and must be a multiple of 32 that divides the 64 columns of the "
                "weights. Fix: give 32 or 64."
            ),
        )
        for group in (16, 0, -32, 96, 128, 32.0, True, None)
    ),
    (
        lambda: quantized_int8(A_WEIGHT[:, :0]),
        (
            "the group of quantized_int8 is 32, and must be a multiple of 32 that divides the 0 columns of the weights. "
            "Fix: append columns of zeros to the weights, to 32 of them."
        ),
    ),
    (
        lambda: quantized_int8(np.ones((2, 100), np.float32)),
        (
            "the group of quantized_int8 is 32, and must be a multiple of 32 that divides the 100 columns of the weights. "
            "Fix: append columns of zeros to the weights, to 128 of them."
        ),
    ),
]


@pytest.mark.parametrize(("action", "message"), NOT_QUANTIZED)
def test_what_cannot_be_quantized_is_refused(action: Callable[[], object], message: str) -> None:
    assert refusal(action) == (InvalidInput, 2201, message)
