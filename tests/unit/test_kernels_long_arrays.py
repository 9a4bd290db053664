"""What the kernels for long arrays say of themselves: spaces, plans up to the largest arrays, refusals. No device is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from literals import DEVICE, LIMITS, SMALLEST, refusal
from spirv_machine import decoded

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand, Plan
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels import KERNELS
from vyre_driver.kernels.long_arrays import copies

if TYPE_CHECKING:
    from vyre_driver.autotune.search.space import Candidate

STREAMS = ["saxpy", "reduce_sum", "reduce_max", "inclusive_scan", "histogram"]
MOST = 2**30 - 1
LARGE = replace(
    LIMITS,
    max_compute_work_group_invocations=1024,
    max_compute_work_group_size=(1024, 1024, 64),
    max_compute_work_group_count=(2**31 - 1, 65535, 65535),
    max_compute_shared_memory_size=49152,
)


FLOATS, WORDS = np.dtype(np.float32), np.dtype(np.uint32)


def facts(limits: object = LARGE, subgroup_operations: int = 0xFF) -> DeviceFacts:
    physical = replace(DEVICE, limits=limits, subgroup_operations=subgroup_operations, subgroup_stages=0x20)
    return DeviceFacts(physical, frozenset())


def operands(name: str, *counts: int) -> dict[str, Operand]:
    dtype = WORDS if name == "histogram" else FLOATS
    inputs = KERNELS[name].inputs
    return {one: Operand((count,), dtype) for one, count in zip(inputs, counts * len(inputs), strict=False)}


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "inclusive_scan"])
def test_workgroups_are_whole_subgroups_on_every_device(name: str) -> None:
    """A subgroup has a power of two of invocations, 128 at most (Vulkan 1.3, ``VkPhysicalDeviceSubgroupProperties``)."""
    found = KERNELS[name].space(facts()).candidates(LARGE)
    assert {one.workgroup_size[0] % 128 for one in found} == {0}


@pytest.mark.parametrize("name", STREAMS)
def test_the_least_device_that_vulkan_allows_has_candidates(name: str) -> None:
    assert KERNELS[name].space(facts(SMALLEST)).candidates(SMALLEST)[0].workgroup_size == (128, 1, 1)


def words_shared(candidate: Candidate, name: str) -> int:
    return candidate["SHARED_WORDS"] if name == "histogram" else candidate.workgroup_size[0] * candidate["UNROLL"]


def test_shared_memory_is_what_candidates_are_refused_for() -> None:
    refused = {}
    for name in ("reduce_sum", "inclusive_scan", "histogram"):
        space = KERNELS[name].space(facts())
        roomy = replace(LARGE, max_compute_shared_memory_size=2**20)
        largest = max(space.candidates(roomy), key=lambda one: words_shared(one, name))
        refused[name] = space.refusal(largest, replace(LARGE, max_compute_shared_memory_size=4000))
    assert refused == {
        "reduce_sum": "its sums take 4096 bytes, and a workgroup may share 4000",
        "inclusive_scan": "its sums take 32772 bytes, and a workgroup may share 4000",
        "histogram": "its counts take 32768 bytes, and a workgroup may share 4000",
    }


def greatest_index(plan: Plan, candidate: Candidate, count: int) -> int:
    """Return a number that no index in the shaders comes to: of the vector after one more round, of a number past a tile."""
    turns = candidate["TURNS"] if "TURNS" in plan.steps[0].constants else 1
    taken = candidate.workgroup_size[0] * candidate["UNROLL"] * turns
    vectors = count // 4 + taken
    return max(vectors + max(step.workgroups[0] for step in plan.steps) * taken, 4 * vectors + 3)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("most", [2**31 - 1, 65535])
def test_the_largest_arrays_fit_grids_and_32_bit_indices(name: str, most: int) -> None:
    limits = replace(LARGE, max_compute_work_group_count=(most, 65535, 65535))
    kernel, device = KERNELS[name], facts(limits)
    found = []
    for candidate in kernel.space(device).candidates(limits):
        plan = kernel.plan(kernel.call(operands(name, MOST), {}, candidate, device))
        found.append((max(step.workgroups[0] for step in plan.steps), greatest_index(plan, candidate, MOST)))
    assert (max(groups for groups, _ in found) <= most, max(index for _, index in found) < 2**32) == (True, True)


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "inclusive_scan"])
def test_a_device_without_subgroup_arithmetic_gets_other_modules(name: str) -> None:
    found = [
        KERNELS[name].modules(facts(subgroup_operations=bits))[0].name.partition(".")[0] for bits in (0x5, 0x1, 0x4, 0, 0xFF)
    ]
    plain = "scan" if name == "inclusive_scan" else "reduce"
    assert found == [f"{plain}_subgroups", plain, plain, plain, f"{plain}_subgroups"]


@pytest.mark.parametrize("name", STREAMS)
def test_the_sizes_to_tune_run_from_small_to_large_and_say_what_they_move(name: str) -> None:
    kernel = KERNELS[name]
    counts = [size[0] for size in kernel.sizes]
    per_number = {"saxpy": 12, "inclusive_scan": 8}.get(name, 4)
    extra = {"reduce_sum": 4, "reduce_max": 4, "histogram": 1024}.get(name, 0)
    assert counts == [2**16, 2**22, 2**28]
    assert [kernel.moved_bytes(size) for size in kernel.sizes] == [per_number * count + extra for count in counts]


def test_the_copies_of_a_histogram_are_a_power_of_two_that_fits() -> None:
    found = {bins: copies(bins, 8192) for bins in (1, 256, 257, 2048, 4096, 4097, 8192, 8193)}
    assert found == {1: 32, 256: 32, 257: 16, 2048: 4, 4096: 2, 4097: 1, 8192: 1, 8193: 0}


def test_a_tolerance_grows_with_the_array_and_only_sums_have_one() -> None:
    found = [[KERNELS[name].tolerance((count,)) for count in (1, 2**28)] for name in STREAMS]
    least, most = 200 * 2.0**-24, (200 + 2**28 // (4 * 128 * 1056)) * 2.0**-24
    assert found == [[0.0, 0.0], [least, most], [0.0, 0.0], [least, most], [0.0, 0.0]]


def test_no_product_or_sum_of_saxpy_may_be_contracted() -> None:
    fadd, fmul, vector_times_scalar, decorate, no_contraction = 129, 133, 142, 71, 42
    module = KERNELS["saxpy"].modules(facts())[0]
    body = decoded(module.code)
    computed = {operands[1] for opcode, operands in body if opcode in {fadd, fmul, vector_times_scalar}}
    kept = {operands[0] for opcode, operands in body if opcode == decorate and operands[1] == no_contraction}
    assert (len(computed), computed - kept) == (2, set())


def given(name: str, **changed: Operand) -> dict[str, Operand]:
    return {**operands(name, 8), **changed}


REFUSED = {
    "another type": (
        "saxpy",
        given("saxpy", y=Operand((8,), np.dtype(np.float64))),
        {},
        "y of saxpy holds float32 and got float64. Fix: convert it with .astype(numpy.float32).",
    ),
    "another type of three": (
        "reduce_max",
        {"x": Operand((8,), np.dtype(np.int64))},
        {},
        "x of reduce_max holds float32 or uint32 or int32 and got int64. Fix: convert it with .astype(numpy.float32).",
    ),
    "two axes": (
        "inclusive_scan",
        {"x": Operand((2, 4), FLOATS)},
        {},
        "x of inclusive_scan has one axis and got 2. Fix: pass array.reshape(-1).",
    ),
    "nothing": (
        "reduce_max",
        {"x": Operand((0,), FLOATS)},
        {},
        (
            "reduce_max got x with 0 elements, and a maximum has no identity: none is the largest of nothing. "
            "Fix: pass one element or more."
        ),
    ),
    "too much": (
        "histogram",
        {"x": Operand((MOST + 1,), WORDS)},
        {},
        f"x of histogram has 1073741824 elements, and {MOST} can be done. Fix: pass parts of at most {MOST} elements.",
    ),
    "two lengths": (
        "saxpy",
        given("saxpy", y=Operand((9,), FLOATS)),
        {},
        "x of saxpy has 8 elements and y has 9. Fix: pass arrays of one length.",
    ),
    "no number": (
        "saxpy",
        given("saxpy"),
        {"alpha": True},
        "alpha of saxpy is True, which is not a real number. Fix: give a float.",
    ),
    "a text": (
        "saxpy",
        given("saxpy"),
        {"alpha": "2"},
        "alpha of saxpy is '2', which is not a real number. Fix: give a float.",
    ),
    "no bins": (
        "histogram",
        given("histogram"),
        {"bins": 0},
        "bins of histogram is 0, which is not an integer from 1 to 1073741823. Fix: give the number of bins.",
    ),
    "an unknown parameter": (
        "histogram",
        given("histogram"),
        {"bin": 3},
        "histogram takes bins and got 'bin'. Fix: leave 'bin' out.",
    ),
    "a parameter": (
        "reduce_sum",
        given("reduce_sum"),
        {"axis": 0},
        "reduce_sum takes no parameters and got 'axis'. Fix: leave 'axis' out.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case: str) -> None:
    name, arrays, parameters, message = REFUSED[case]
    assert refusal(lambda: KERNELS[name].size(arrays, parameters)) == (InvalidInput, 2201, message)


def test_a_whole_number_beyond_float32_is_an_infinite_alpha() -> None:
    kernel, device = KERNELS["saxpy"], facts()
    candidate = kernel.space(device).candidates(LARGE)[0]
    found = [
        kernel.plan(kernel.call(operands("saxpy", 8), {"alpha": alpha}, candidate, device)).steps[0].push_constants
        for alpha in (10**400, -(10**400))
    ]
    assert found == [{"alpha": float("inf"), "count": 8}, {"alpha": float("-inf"), "count": 8}]
