"""The kernels on matrices give what numpy gives, at every size and with every extreme of what may be tuned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from columns import candidate_with
from literals import refusal
from poisoned import distance, on_a_narrow_grid, result, untried

from vyre_driver import Driver, kernels
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.errors import LimitExceeded
from vyre_driver.kernels.matmul import MATMUL, MATMUL_F16, TRANSPOSE
from vyre_driver.kernels.rows import SOFTMAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import DeviceFacts, KernelDefinition
    from vyre_driver.autotune.search.space import Candidate

pytestmark = pytest.mark.device

MATMUL_SIZES = (
    *((1, 1, 1), (1, 70, 3), (70, 1, 9), (3, 5, 7), (4, 4, 4), (31, 32, 33), (33, 31, 32), (63, 64, 65), (64, 64, 64)),
    *((65, 63, 64), (127, 129, 65), (129, 132, 8), (200, 300, 100), (5, 260, 17), (1100, 36, 5), (2, 3, 1000)),
    *((5, 8, 2100), (17, 140, 390), (130, 3, 1601)),
)
TRANSPOSE_SIZES = (
    *((1, 1), (1, 70), (70, 1), (3, 5), (4, 4), (4, 7), (31, 32), (32, 33), (63, 65), (64, 64), (65, 64), (127, 129)),
    *((200, 300), (132, 260), (700, 36), (36, 700)),
)
SOFTMAX_SIZES = (
    *((1, 1), (1, 70), (70, 1), (3, 5), (4, 4), (9, 31), (9, 32), (2, 33), (5, 127), (3, 4096), (2, 4097), (2, 4100)),
    *((2, 16384), (1, 16387), (2, 40000), (1, 70001)),
)
MATMUL_SPACE, TRANSPOSE_SPACE, SOFTMAX_SPACE = (one.space(cast("DeviceFacts", None)) for one in (MATMUL, TRANSPOSE, SOFTMAX))
# Of each kernel what takes every value of every axis, of those that a small CPU device can run.
MATMUL_CANDIDATES = (
    candidate_with(MATMUL_SPACE, (16, 16, 1), 8, (128, 128, 1)),
    candidate_with(MATMUL_SPACE, (8, 8, 1), 16, (64, 64, 2)),
    candidate_with(MATMUL_SPACE, (16, 8, 1), 16, (128, 96, 1)),
    candidate_with(MATMUL_SPACE, (16, 4, 1), 8, (128, 32, 4)),
    candidate_with(MATMUL_SPACE, (16, 4, 1), 16, (128, 16, 128)),
    candidate_with(MATMUL_SPACE, (8, 16, 1), 16, (32, 128, 8)),
    candidate_with(MATMUL_SPACE, (8, 4, 1), 8, (32, 16, 1)),
    candidate_with(MATMUL_SPACE, (16, 8, 1), 16, (128, 64, 32)),
    candidate_with(MATMUL_SPACE, (8, 16, 1), 8, (64, 128, 16)),
)
TRANSPOSE_CANDIDATES = (
    candidate_with(TRANSPOSE_SPACE, (256, 1, 1), 4, (64, 64, 8)),
    candidate_with(TRANSPOSE_SPACE, (512, 1, 1), 2, (64, 64, 1)),
    candidate_with(TRANSPOSE_SPACE, (128, 1, 1), 2, (32, 32, 64)),
    candidate_with(TRANSPOSE_SPACE, (64, 1, 1), 1, (32, 64, 8)),
    candidate_with(TRANSPOSE_SPACE, (512, 1, 1), 1, (64, 32, 1)),
    candidate_with(TRANSPOSE_SPACE, (1024, 1, 1), 1, (64, 64, 64)),
)
SOFTMAX_CANDIDATES = (
    candidate_with(SOFTMAX_SPACE, (256, 1, 1), 4, (16384, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (512, 1, 1), 8, (16384, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (128, 1, 1), 1, (4096, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (1024, 1, 1), 2, (65536, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (64, 4, 1), 1, (16384, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (32, 16, 1), 2, (16384, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (32, 8, 1), 8, (16384, 0, 0)),
)
# The same for a device of 128 invocations and 16 KiB, as far as those above are too large for it: at some of the sizes.
SMALL_MATMUL_CANDIDATES = (
    candidate_with(MATMUL_SPACE, (8, 8, 1), 8, (64, 96, 1)),
    candidate_with(MATMUL_SPACE, (8, 4, 1), 16, (64, 16, 1)),
    *(candidate_with(MATMUL_SPACE, (16, 8, 1), 8, (128, 64, parts)) for parts in (2, 8, 32, 128)),
)
SMALL_TRANSPOSE_CANDIDATES = (candidate_with(TRANSPOSE_SPACE, (128, 1, 1), 4, (64, 32, 1)),)
SMALL_SOFTMAX_CANDIDATES = (
    candidate_with(SOFTMAX_SPACE, (32, 4, 1), 4, (16384, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (128, 1, 1), 2, (65536, 0, 0)),
    candidate_with(SOFTMAX_SPACE, (128, 1, 1), 8, (16384, 0, 0)),
)
CASES = (
    *((MATMUL, one, MATMUL_SIZES) for one in MATMUL_CANDIDATES),
    *((MATMUL_F16, one, MATMUL_SIZES) for one in MATMUL_CANDIDATES[4:5]),
    *((TRANSPOSE, one, TRANSPOSE_SIZES) for one in TRANSPOSE_CANDIDATES),
    *((SOFTMAX, one, SOFTMAX_SIZES) for one in SOFTMAX_CANDIDATES),
)
# On a device that takes all of those, these find nothing else.
SMALL_CASES = (
    *((MATMUL_F16, one, MATMUL_SIZES) for one in MATMUL_CANDIDATES[1:2]),
    *((MATMUL, one, MATMUL_SIZES[1::4]) for one in SMALL_MATMUL_CANDIDATES),
    *((TRANSPOSE, one, TRANSPOSE_SIZES[1::4]) for one in SMALL_TRANSPOSE_CANDIDATES),
    *((SOFTMAX, one, SOFTMAX_SIZES[1::4]) for one in SMALL_SOFTMAX_CANDIDATES),
)


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver on the best device; these kernels know nothing of the layer."""
    with Driver() as opened:
        yield opened


def apart(definition: KernelDefinition, found: NDArray[Any], expected: NDArray[Any]) -> float:
    """How far two results are apart; of a transpose, whether."""
    return float(found.tobytes() != expected.tobytes()) if definition is TRANSPOSE else distance(found, expected)


def missed(driver: Driver, definition: KernelDefinition, candidate: Candidate, sizes: tuple[tuple[int, ...], ...]) -> list[Any]:
    """The sizes at which a kernel is off by more than its tolerance, and how far."""
    found = []
    for seed, size in enumerate(sizes):
        arrays, _ = definition.example(size, seed)
        off = apart(definition, result(driver, definition, candidate, *arrays), definition.expected(*arrays))
        if not off <= definition.tolerance(size):
            found.append((size, off))
    return found


@pytest.mark.parametrize(
    ("definition", "candidate", "sizes"),
    [
        *(pytest.param(*case, id=f"{case[0].name} {case[1]}") for case in CASES[::3]),
        *(
            pytest.param(*case, id=f"{case[0].name} {case[1]}", marks=pytest.mark.thorough)
            for case in (*CASES[1::3], *CASES[2::3], *SMALL_CASES)
        ),
    ],
)
def test_results_are_numpys_within_the_tolerance_told(
    driver: Driver, definition: KernelDefinition, candidate: Candidate, sizes: tuple[tuple[int, ...], ...]
) -> None:
    assert missed(driver, definition, candidate, sizes) == []


@pytest.mark.parametrize("definition", [MATMUL, MATMUL_F16, TRANSPOSE, SOFTMAX], ids=lambda one: one.name)
def test_the_candidates_tried_here_take_every_value_of_every_axis_that_this_device_takes(
    driver: Driver, definition: KernelDefinition
) -> None:
    kernel = TunedKernel(driver, definition)
    tried = [
        one for found, one, _ in (*CASES, *SMALL_CASES) if found is definition or {found, definition} == {MATMUL, MATMUL_F16}
    ]
    assert untried(kernel, tried) == set()


@pytest.mark.parametrize("definition", [MATMUL, MATMUL_F16, TRANSPOSE, SOFTMAX], ids=lambda one: one.name)
def test_a_call_with_arrays_returns_the_same_as_bound_buffers(driver: Driver, definition: KernelDefinition) -> None:
    arrays, _ = definition.example((37, 41, 43) if definition.name.startswith("matmul") else (37, 41), 1)
    found = TunedKernel(driver, definition)(*arrays)
    assert np.array_equal(found, result(driver, definition, None, *arrays))


@pytest.mark.parametrize("definition", [MATMUL, MATMUL_F16], ids=lambda one: one.name)
@pytest.mark.parametrize("n", [36, 37])
def test_infinities_and_nans_stay_in_their_row_and_column(driver: Driver, definition: KernelDefinition, n: int) -> None:
    """Fifteen products are one less than two steps of eight: what lies behind a row's end is the next one's NaN."""
    (a, b), _ = definition.example((35, n, 15), 1)
    a[34, 14], a[1, 0] = np.inf, np.nan
    b[14, n - 1], b[0, 1] = -np.inf, np.nan
    found, expected = result(driver, definition, None, a, b), definition.expected(a, b)
    finite = np.isfinite(expected)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
    assert np.abs(found[finite] - expected[finite]).max() <= definition.tolerance((35, n, 15)) * np.abs(expected[finite]).max()
    assert int(finite.sum()) == 33 * (n - 2)


@pytest.mark.parametrize("definition", [MATMUL, MATMUL_F16], ids=lambda one: one.name)
@pytest.mark.parametrize("n", [4, 5])
def test_infinities_and_nans_of_one_part_of_k_reach_its_sums_alone(
    driver: Driver, definition: KernelDefinition, n: int
) -> None:
    """Of 7 parts the last one is short, and so is its first step."""
    candidate = candidate_with(MATMUL_SPACE, (16, 4, 1), 16, (128, 16, 8))
    (a, b), _ = definition.example((3, n, 205), 1)
    a[0, 204], b[100, 1], a[1, 31], a[1, 32] = np.inf, np.nan, np.inf, -np.inf
    b[:, 0], b[204] = 1, 1
    found, expected = result(driver, definition, candidate, a, b), definition.expected(a, b)
    assert (np.isinf(expected[0]).sum(), np.isnan(expected[1]).sum(), np.isnan(expected[2]).sum()) == (
        n - 1,
        expected[1].size - np.isinf(expected[1]).sum(),
        1,
    )
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
    assert missed(driver, definition, candidate, ((3, n, 205),)) == []


@pytest.mark.parametrize("dtype", [np.float32, np.uint32, np.int32])
def test_a_transpose_moves_the_bits_of_every_type(driver: Driver, dtype: type) -> None:
    bits = np.array([[0x7FA00001, 0xFFC12345, 0], [0x80000000, 0xFFFFFFFF, 0x00000001]], np.uint32)
    found = result(driver, TRANSPOSE, None, bits.view(dtype))
    assert (found.dtype, found.view(np.uint32).tolist()) == (dtype, bits.T.tolist())


def special_rows(columns: int) -> NDArray[np.float32]:
    """Rows that the formula makes NaN of (the first three), and rows whose numbers are too large or too small for ``exp``."""
    rows = np.zeros((8, columns), np.float32)
    rows[0, columns // 2], rows[1, columns - 1], rows[2] = np.nan, np.inf, -np.inf
    rows[3, 1:], rows[4, : columns - 1] = -np.inf, -np.inf
    rows[5], rows[6, 2], rows[7] = np.finfo(np.float32).min, np.finfo(np.float32).max, 1000 + np.arange(columns) % 7
    return rows


@pytest.mark.parametrize("candidate", SOFTMAX_CANDIDATES[:6], ids=str)
@pytest.mark.parametrize("columns", [5, 64, 4101, 20000])
def test_softmax_treats_infinities_and_nans_as_numpy_does(driver: Driver, candidate: Candidate, columns: int) -> None:
    rows = special_rows(columns)
    found, expected = result(driver, SOFTMAX, candidate, rows), SOFTMAX.expected(rows)
    told = np.isnan(expected).all(axis=1).tolist()
    assert (told, np.array_equal(np.isnan(found), np.isnan(expected))) == ([True] * 3 + [False] * 5, True)
    assert np.abs(found[3:] - expected[3:]).max() <= SOFTMAX.tolerance(rows.shape)


def test_softmax_takes_a_row_of_a_million_numbers(driver: Driver) -> None:
    (x,), _ = SOFTMAX.example((1, 2**20), 1)
    found, expected = result(driver, SOFTMAX, None, x), SOFTMAX.expected(x)
    assert distance(found, expected) <= SOFTMAX.tolerance((1, 2**20))


SKINNY = [(1, 1000, 1300), (1, 1001, 1300), (16, 260, 900), (300, 1, 700), (300, 20, 900), (40, 44, 3000), (3, 5, 5000)]


@pytest.mark.parametrize(
    ("definition", "size"),
    [*((MATMUL, size) for size in SKINNY), (MATMUL_F16, SKINNY[1]), (MATMUL_F16, SKINNY[4])],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_what_is_taken_of_few_rows_or_columns_untuned_is_right(
    driver: Driver, definition: KernelDefinition, size: tuple[int, int, int]
) -> None:
    kernel = TunedKernel(driver, definition)
    (a, b), _ = definition.example(size, 1)
    twice = [kernel(a, b), kernel(driver.buffer(a), driver.buffer(b)).read()]
    chosen = kernel.candidate(size)
    assert (chosen["SPLIT_K"] > 1, missed(driver, definition, chosen, (size,))) == (True, [])
    apart = result(driver, definition, chosen, a, b)
    assert [np.array_equal(one, apart) for one in twice] == [True, True]


NARROW_GRIDS = [
    (MATMUL, (900, 3, 2), None),
    (MATMUL, (30, 37, 70), candidate_with(MATMUL_SPACE, (8, 8, 1), 16, (64, 64, 4))),
    (TRANSPOSE, (3, 400), None),
    (SOFTMAX, (10, 3), None),
    (SOFTMAX, (4, 5000), candidate_with(SOFTMAX_SPACE, (128, 1, 1), 1, (4096, 0, 0))),
]


@pytest.mark.parametrize(("definition", "size", "candidate"), NARROW_GRIDS)
def test_grids_that_are_full_along_x_go_on_along_y(
    driver: Driver, definition: KernelDefinition, size: tuple[int, ...], candidate: Candidate | None
) -> None:
    """As on a device that takes three workgroups along x; of the last row of workgroups some have nothing to do."""
    found, expected = on_a_narrow_grid(driver, definition, size, candidate)
    assert apart(definition, found, expected) <= definition.tolerance(size)


def test_what_is_larger_than_a_buffer_is_refused_by_name_before_any_memory_is_taken(
    opened: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = min(opened.device.limits.max_storage_buffer_range, 2**32 - 4)
    side = math.isqrt(limit // 4) + 1
    large, rows = np.broadcast_to(np.float32(1), (1, limit // 4 + 1)), np.ones((side, 1), np.float32)
    kernel, resident = kernels.matmul(opened), opened.buffer(rows)
    matrix = np.broadcast_to(np.float32(1), (large.shape[1], 1))
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "a": (lambda: kernel(large, matrix), large.size * 4),
        "b": (lambda: kernel(resident[:1], large), large.size * 4),
        "c": (lambda: kernel(rows, rows.T), 4 * side * side),
    }
    calls["c of buffers"] = lambda: kernel(resident, resident.reshape(1, side)), 4 * side * side

    def no_memory(*_: object) -> None:
        pytest.fail("memory was taken")

    monkeypatch.setattr("vyre_driver.kompute.buffer.TensorBuffer", no_memory)
    for name, (call, size) in calls.items():
        assert refusal(call)[::2] == (
            LimitExceeded,
            (
                f"{name[0]} of matmul has {size} bytes, and {opened.device.name!r} allows {limit} bytes a buffer. "
                "Fix: pass it in parts."
            ),
        )
