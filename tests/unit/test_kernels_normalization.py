"""What layernorm and rmsnorm refuse, what of them may be tuned on which device, and which modules a call takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from columns import candidate_with
from literals import DEVICE, LARGE, refusal

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels.rows import LAYERNORM, RMSNORM

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import KernelDefinition

FACTS = DeviceFacts(DEVICE, frozenset({"storageBuffer16BitAccess"}))
WITHOUT_HALVES = DeviceFacts(DEVICE, frozenset())
BOTH = [LAYERNORM, RMSNORM]
F32, F16, F64 = (np.dtype(one) for one in (np.float32, np.float16, np.float64))


SPACE = LAYERNORM.space(FACTS)
FIRST = candidate_with(SPACE, (256, 1, 1), 4, (16384, 0, 0))


def given(definition: KernelDefinition, rows: int, columns: int, dtype: np.dtype[Any] = F32) -> dict[str, Operand]:
    return {name: Operand((rows, columns) if name == "x" else (columns,), dtype) for name in definition.inputs}


def test_a_workgroup_holds_rows_of_16384_numbers_in_registers() -> None:
    assert [one["UNROLL"] * 4 * 1024 for one in SPACE.candidates(LARGE) if one.workgroup_size == (1024, 1, 1)][:1] == [16384]


RULED_OUT = [
    ((64, 1, 1), 4, 16384, "1 rows with 64 invocations each; several rows are for 64 invocations or fewer"),
    ((128, 4, 1), 4, 16384, "4 rows with 128 invocations each; several rows are for 64 invocations or fewer"),
    ((8, 8, 1), 4, 16384, "8 rows make a workgroup of 64; 128 to 512 are worth trying"),
    ((64, 16, 1), 4, 16384, "16 rows make a workgroup of 1024; 128 to 512 are worth trying"),
    ((64, 4, 1), 4, 4096, "rows are split at 4096 for more than 64 invocations"),
    ((1024, 1, 1), 8, 16384, "1024 invocations hold 32768 numbers, and a row's part has 16384"),
]


@pytest.mark.parametrize(("workgroup", "unroll", "tile", "why"), RULED_OUT)
def test_candidates_that_are_not_worth_trying_are_told_apart(
    workgroup: tuple[int, int, int], unroll: int, tile: int, why: str
) -> None:
    assert SPACE.refusal(candidate_with(SPACE, workgroup, unroll, (tile, 0, 0)), LARGE) == why


REFUSED: dict[str, tuple[KernelDefinition, dict[str, Operand], dict[str, Any], str]] = {
    "another type": (
        *(RMSNORM, given(RMSNORM, 3, 4, F64), {}),
        (
            "x of rmsnorm has the type float64, and must have the type float32 or float16. "
            "Fix: convert it with .astype(numpy.float32)."
        ),
    ),
    "no axis": (
        *(LAYERNORM, {**given(LAYERNORM, 3, 4), "x": Operand((), F32)}, {}),
        "x of layernorm has the shape (), and must have one axis or more. Fix: give an array of one row or more.",
    ),
    "a weight of another type than the rows of a batch": (
        *(RMSNORM, {**given(RMSNORM, 3, 4), "x": Operand((2, 3, 4), F16)}, {}),
        (
            "weight of rmsnorm has the shape (4,) and the type float32, and must be as a row of x: (4,), float16. "
            "Fix: convert it with .astype(numpy.float16)."
        ),
    ),
    "a weight of another length": (
        *(LAYERNORM, {**given(LAYERNORM, 3, 4), "weight": Operand((3,), F32)}, {}),
        (
            "weight of layernorm has the shape (3,) and the type float32, and must be as a row of x: (4,), float32. "
            "Fix: pass an array of the shape (4,)."
        ),
    ),
    "a weight with two axes": (
        *(RMSNORM, {**given(RMSNORM, 1, 4), "weight": Operand((1, 4), F32)}, {}),
        (
            "weight of rmsnorm has the shape (1, 4) and the type float32, and must be as a row of x: (4,), float32. "
            "Fix: pass weight.reshape(-1)."
        ),
    ),
    "a bias of another type": (
        *(LAYERNORM, {**given(LAYERNORM, 3, 4, F16), "bias": Operand((4,), F32)}, {}),
        (
            "bias of layernorm has the shape (4,) and the type float32, and must be as a row of x: (4,), float16. "
            "Fix: convert it with .astype(numpy.float16)."
        ),
    ),
    "a bias for nothing": (
        *(LAYERNORM, {**given(LAYERNORM, 3, 0), "bias": Operand((1,), F32)}, {}),
        (
            "bias of layernorm has the shape (1,) and the type float32, and must be as a row of x: (0,), float32. "
            "Fix: pass an array of the shape (0,)."
        ),
    ),
    "an unknown parameter": (
        *(LAYERNORM, given(LAYERNORM, 3, 4), {"epsilon": 1e-5}),
        "layernorm takes eps and got 'epsilon'. Fix: leave 'epsilon' out.",
    ),
    **{
        f"eps of {value!r}": (
            *(RMSNORM, given(RMSNORM, 3, 4), {"eps": value}),
            f"eps of rmsnorm is {value!r}, which is not a number from 0 on. Fix: give a float.",
        )
        for value in (-1e-6, float("nan"), -(10**400), np.float32("nan"), True, "1e-5", None, 1j)
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case: str) -> None:
    definition, operands, parameters, message = REFUSED[case]
    assert refusal(lambda: definition.size(operands, parameters)) == (InvalidInput, 2201, message)


@pytest.mark.parametrize(
    ("value", "pushed"),
    [
        *((0, 0.0), (0.0, 0.0), (-0.0, 0.0), (1e-5, float(np.float32(1e-5))), (np.float64(0.25), 0.25), (1e-60, 0.0)),
        *((1e300, np.inf), (10**400, np.inf), (np.inf, np.inf)),
    ],
)
def test_eps_is_any_number_from_0_on_rounded_to_float32(value: float, pushed: float) -> None:
    plan = RMSNORM.plan(RMSNORM.call(given(RMSNORM, 3, 4), {"eps": value}, FIRST, FACTS))
    assert plan.steps[0].push_constants == {"rows": 3, "columns": 4, "eps": pushed}


def test_eps_is_pytorchs_for_layernorm_and_that_of_most_models_for_rmsnorm() -> None:
    plans = [one.plan(one.call(given(one, 3, 4), {}, FIRST, FACTS)) for one in BOTH]
    assert [plan.steps[0].push_constants["eps"] for plan in plans] == [float(np.float32(1e-5)), float(np.float32(1e-6))]
    assert [[(one.name, one.default) for one in definition.parameters] for definition in BOTH] == [
        [("eps", 1e-5)],
        [("eps", 1e-6)],
    ]


def test_float16_is_refused_where_the_device_cannot_read_it() -> None:
    call = LAYERNORM.call(given(LAYERNORM, 3, 8, F16), {}, FIRST, WITHOUT_HALVES)
    assert refusal(lambda: LAYERNORM.plan(call)) == (
        UnsupportedFeature,
        1002,
        (
            "layernorm of float16 needs storageBuffer16BitAccess, and 'Example GPU 9000' is open without it. Fix: "
            "choose another device, or convert the arrays to float32."
        ),
    )
    assert {one.name for one in LAYERNORM.modules(WITHOUT_HALVES)} == {
        *("layernorm.spv", "layernorm_wide.spv", "layernorm_subgroups.spv", "layernorm_subgroups_wide.spv"),
        *("layernorm_statistics.spv", "layernorm_statistics_wide.spv", "layernorm_apply.spv", "layernorm_apply_wide.spv"),
    }


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_the_modules_do_without_subgroup_operations_where_there_are_none(definition: KernelDefinition) -> None:
    bare = DeviceFacts(replace(DEVICE, subgroup_operations=0x1), FACTS.features)
    names = [[one.name for one in definition.modules(facts)] for facts in (FACTS, bare)]
    assert [(len(found), sum("subgroups" in one for one in found)) for found in names] == [(16, 4), (16, 0)]


TAKEN = [
    (LAYERNORM, (3, 8), F32, (256, 1, 1), "layernorm_subgroups_wide.spv"),
    (LAYERNORM, (3, 7), F32, (256, 1, 1), "layernorm_subgroups.spv"),
    (LAYERNORM, (3, 8), F16, (256, 1, 1), "layernorm_f16_subgroups_wide.spv"),
    (LAYERNORM, (3, 12), F16, (256, 1, 1), "layernorm_f16_subgroups.spv"),
    (RMSNORM, (3, 12), F32, (8, 16, 1), "rmsnorm_wide.spv"),
    (RMSNORM, (3, 13), F32, (8, 16, 1), "rmsnorm.spv"),
    (RMSNORM, (3, 13), F16, (64, 4, 1), "rmsnorm_f16.spv"),
]


@pytest.mark.parametrize(("definition", "shape", "dtype", "workgroup", "module"), TAKEN)
def test_rows_of_whole_vectors_of_16_bytes_are_read_as_vectors(
    definition: KernelDefinition, shape: tuple[int, int], dtype: np.dtype[Any], workgroup: tuple[int, int, int], module: str
) -> None:
    candidate = candidate_with(SPACE, workgroup, 4, (16384, 0, 0))
    plan = definition.plan(definition.call(given(definition, *shape, dtype), {}, candidate, FACTS))
    groups = -(-shape[0] // workgroup[1])
    assert [(step.module.name, step.buffers, step.workgroups) for step in plan.steps] == [
        (module, (*definition.inputs, "y"), (groups, 1, 1))
    ]
    assert (dict(plan.outputs), dict(plan.temporaries)) == ({"y": Operand(shape, dtype)}, {})


@pytest.mark.parametrize(("definition", "numbers"), [(LAYERNORM, 4), (RMSNORM, 1)], ids=["layernorm", "rmsnorm"])
def test_a_row_longer_than_its_tile_is_split(definition: KernelDefinition, numbers: int) -> None:
    plan = definition.plan(definition.call(given(definition, 3, 16385, F16), {}, FIRST, FACTS))
    assert [(step.module.name, step.buffers, step.workgroups) for step in plan.steps] == [
        (f"{definition.name}_f16_statistics.spv", ("x", "parts"), (6, 1, 1)),
        (f"{definition.name}_f16_apply.spv", (*definition.inputs, "y", "parts"), (6, 1, 1)),
    ]
    assert dict(plan.temporaries) == {"parts": Operand((3, 2, numbers), F32)}


def test_all_sizes_but_the_first_are_of_half_a_gigabyte() -> None:
    assert {rows * columns * byte_len for rows, columns, byte_len in LAYERNORM.sizes[1:]} == {2**29}


def test_a_tolerance_is_that_of_the_type_and_grows_with_the_row() -> None:
    found = [LAYERNORM.tolerance(size) for size in ((3, 0, 4), (3, 4096, 4), (3, 4096, 2))]
    assert found == [16 * 2.0**-23, 18 * 2.0**-23, 2.0**-10 + 18 * 2.0**-23]


@pytest.mark.parametrize("definition", BOTH, ids=lambda one: one.name)
def test_an_example_is_of_the_type_that_a_size_says(definition: KernelDefinition) -> None:
    found = [definition.example((5, 7, byte_len), 3)[0] for byte_len in (4, 2)]
    assert [[one.dtype for one in arrays] for arrays in found] == [[one] * len(definition.inputs) for one in (F32, F16)]
    assert [one.shape for one in found[0]] == [(5, 7), (7,), (7,)][: len(definition.inputs)]
    assert refusal(lambda: definition.example((5, 7, 8), 3)) == (
        InvalidInput,
        2201,
        (
            f"numbers of {definition.name} are to have 8 bytes, and have 4 (float32) or 2 (float16). "
            "Fix: give a size of rows, columns and 4 or 2."
        ),
    )
