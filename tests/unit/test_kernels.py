"""What the kernels of ``KERNELS`` answer alike: what may be tuned, what is moved, examples, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import DEVICE, LARGE, SMALLEST, SOFTWARE, refusal

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kernels import KERNELS
from vyre_driver.specialization import specialize

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import Size

HALVES = frozenset({"storageBuffer16BitAccess"})
F32, F16, U32 = (np.dtype(one) for one in (np.float32, np.float16, np.uint32))
# A small size of each that is made of a shader.
SIZES: dict[str, Size] = {
    **dict.fromkeys(("saxpy", "reduce_sum", "reduce_max", "inclusive_scan"), (50,)),
    "histogram": (50, 9),
    **dict.fromkeys(("transpose", "softmax"), (6, 7)),
    **dict.fromkeys(("layernorm", "rmsnorm"), (5, 7, 4)),
    **dict.fromkeys(("matmul", "matmul_f16"), (3, 4, 5)),
    **dict.fromkeys(("linear_int4", "linear_int8"), (3, 20, 64, 32, 4)),
}
# For the least device, a CPU and a large GPU; others have what they have.
COUNTS = {
    "layernorm": [24, 81, 81],
    "rmsnorm": [24, 81, 81],
    "linear_int4": [42, 70, 70],
    "linear_int8": [42, 70, 70],
}


@pytest.mark.parametrize("name", SIZES)
def test_every_device_has_a_dozen_candidates_and_none_too_many_to_try(name: str) -> None:
    found = []
    for limits in (SMALLEST, SOFTWARE, LARGE):
        space = KERNELS[name].space(DeviceFacts(replace(DEVICE, limits=limits), HALVES))
        found.append(space.candidates(limits))
        assert len(set(found[-1])) == len(found[-1])
        assert limits is SMALLEST or found[-1][0] == space.preferred
    counts = [len(one) for one in found]
    assert counts == COUNTS.get(name, sorted(counts))
    assert 12 <= min(counts) <= max(counts) <= 150


@pytest.mark.parametrize("name", SIZES)
def test_an_example_has_the_size_that_was_asked_for_and_is_the_same_for_the_same_seed(name: str) -> None:
    definition, size = KERNELS[name], SIZES[name]
    (arrays, parameters), (again, _), (other, _) = (definition.example(size, seed) for seed in (1, 1, 2))
    assert definition.size(definition.operands(arrays), parameters) == size
    equal = [[np.array_equal(*pair) for pair in zip(arrays, made, strict=True)] for made in (again, other)]
    assert equal == [[True] * len(arrays), [False] * len(arrays)]


FIGURES: list[tuple[str, Size, int, int]] = [
    ("matmul", (2, 3, 4), 2 * 3 * 4 * 2, (8 + 12 + 6) * 4),
    ("matmul_f16", (2, 3, 4), 2 * 3 * 4 * 2, (8 + 12) * 2 + 6 * 4),
    ("transpose", (2, 3), 0, 48),
    ("softmax", (2, 3), 0, 48),
    ("layernorm", (10, 6, 4), 0, 528),
    ("layernorm", (10, 6, 2), 0, 264),
    ("rmsnorm", (10, 6, 4), 0, 504),
    ("linear_int4", (2, 10, 64, 32, 2), 2560, 2 * 2 * 74 + 10 * 32 + 2 * 10 * 2),
    ("linear_int8", (2, 10, 64, 64, 4), 2560, 4 * 2 * 74 + 10 * 64 + 2 * 10),
]


@pytest.mark.parametrize(("name", "size", "operations", "moved"), FIGURES)
def test_operations_and_bytes_are_those_that_no_kernel_does_without(name: str, size: Size, operations: int, moved: int) -> None:
    assert (KERNELS[name].operations(size), KERNELS[name].moved_bytes(size)) == (operations, moved)


# A candidate of each, the bytes of shared memory that its space counts, and those that the largest of its modules declares.
SHARED: list[tuple[str, dict[str, int], int, int]] = [
    ("matmul", {"TILE_X": 128, "TILE_Y": 128, "SPLIT_K": 1, "WORKGROUP_X": 16, "WORKGROUP_Y": 16, "UNROLL": 8}, 16640, 16640),
    ("transpose", {"TILE_X": 64, "TILE_Y": 64, "BAND": 8, "WORKGROUP_X": 256, "UNROLL": 4}, 16640, 16640),
    ("softmax", {"WORKGROUP_X": 256, "WORKGROUP_Y": 1, "UNROLL": 4, "TILE_X": 16384}, 2048, 2048),
    ("layernorm", {"WORKGROUP_X": 32, "WORKGROUP_Y": 16, "UNROLL": 4, "TILE_X": 16384}, 8192, 8192),
    ("rmsnorm", {"WORKGROUP_X": 32, "WORKGROUP_Y": 16, "UNROLL": 4, "TILE_X": 16384}, 8192, 2048),
]


@pytest.mark.parametrize(("name", "values", "shared", "declares"), SHARED)
def test_no_module_declares_more_shared_memory_than_its_space_counts(
    name: str, values: dict[str, int], shared: int, declares: int
) -> None:
    facts = DeviceFacts(DEVICE, HALVES)
    space = KERNELS[name].space(facts)
    candidate = space.candidate(**values)
    allowed, refused = (
        space.refusal(candidate, replace(LARGE, max_compute_shared_memory_size=most)) for most in (shared, shared - 1)
    )
    assert (allowed, f" {shared} bytes, and a workgroup may share {shared - 1}" in str(refused)) == (None, True)
    declared = set()
    for module in KERNELS[name].modules(facts):
        constants = module.reflection.spec_constants
        words = specialize(constants, {one.name: values[one.name] for one in constants}).words
        declared.add(sum(one.formula.value(words) for one in module.reflection.sized_shared))
    assert max(declared) == declares


NEED_HALVES = {"matmul_f16": ", or convert the matrices to float32", "linear_int4": "", "linear_int8": ""}


@pytest.mark.parametrize("name", NEED_HALVES)
def test_a_device_that_cannot_read_float16_is_refused(name: str) -> None:
    assert refusal(lambda: KERNELS[name].space(DeviceFacts(DEVICE, frozenset()))) == (
        UnsupportedFeature,
        1002,
        (
            f"{name} needs storageBuffer16BitAccess, and 'Example GPU 9000' is open without it. Fix: "
            f"choose another device{NEED_HALVES[name]}."
        ),
    )


TRANSPOSE_FIXES = {
    "type": "convert it with .astype(numpy.float32), or reinterpret another type of 4 bytes with .view(numpy.uint32)",
    "axes": "pass one matrix: a vector as a.reshape(1, -1), the matrices of a batch one by one",
}
NO_PARAMETERS = ("matmul", "matmul_f16", "transpose", "softmax")
REFUSED: list[tuple[str, dict[str, Operand], dict[str, Any], str]] = [
    *(
        ("matmul", {"a": Operand(a, F32), "b": Operand(b, b_type)}, {}, message)
        for a, b, b_type, message in (
            ((3, 4), (5, 6), F32, "a of matmul has 4 columns and b has 5 rows. Fix: pass matrices that can be multiplied."),
            ((3, 0), (1, 6), F32, "a of matmul has 0 columns and b has 1 rows. Fix: pass matrices that can be multiplied."),
            (
                *((3,), (3, 6), F32),
                (
                    "a of matmul has the shape (3,), and must have two axes or more. "
                    "Fix: give a matrix: reshape a vector to one row or one column."
                ),
            ),
            (
                *((3, 4), (4, 6), F16),
                (
                    "b of matmul has the type float16, and must have the type float32. "
                    "Fix: convert it with .astype(numpy.float32)."
                ),
            ),
        )
    ),
    (
        *("matmul_f16", {"a": Operand((2, 3, 4), F16), "b": Operand((2, 4, 5), F16)}, {}),
        (
            "b of matmul_f16 has the shape (2, 4, 5), and must be one matrix for all rows of a. "
            "Fix: call kernels.matmul(driver, 'float16'), which multiplies batches."
        ),
    ),
    *(
        (
            *("transpose", {"a": Operand(shape, dtype)}, {}),
            (
                f"a of transpose has the shape {shape} and the type {dtype}, and must be a matrix of float32, uint32 or int32. "
                f"Fix: {TRANSPOSE_FIXES[fix]}."
            ),
        )
        for shape, dtype, fix in (((3, 4), F16, "type"), ((3,), F32, "axes"), ((3, 4, 5), F16, "axes"))
    ),
    *(
        (
            *("softmax", {"x": Operand(shape, U32)}, {}),
            "x of softmax has the type uint32, and must have the type float32. Fix: convert it with .astype(numpy.float32).",
        )
        for shape in ((3, 4), (3,), (0, 4), (3, 4, 5))
    ),
    (
        *("softmax", {"x": Operand((), F32)}, {}),
        "x of softmax has the shape (), and must have one axis or more. Fix: give an array of one row or more.",
    ),
    *((name, {}, {"axis": 1}, f"{name} takes no parameters and got 'axis'. Fix: leave 'axis' out.") for name in NO_PARAMETERS),
]


@pytest.mark.parametrize(("name", "operands", "parameters", "message"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(
    name: str, operands: dict[str, Operand], parameters: dict[str, Any], message: str
) -> None:
    assert refusal(lambda: KERNELS[name].size(operands, parameters)) == (InvalidInput, 2201, message)
