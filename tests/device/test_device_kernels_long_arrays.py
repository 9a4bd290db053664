"""saxpy, reductions, scan and histogram give what numpy gives: at every size, with every kind of candidate, on odd numbers."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import Driver, SpirvModule
from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.kernels import KERNELS
from vyre_driver.kernels.long_arrays import InclusiveScan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate

    Array = NDArray[Any]

pytestmark = pytest.mark.device

STREAMS = ["saxpy", "reduce_sum", "reduce_max", "inclusive_scan", "histogram"]
WITH_SUBGROUPS = ["reduce_sum", "reduce_max", "inclusive_scan"]
WHOLE_NUMBERS = [np.uint32, np.int32]
SIZES = [1, 2, 3, 4, 5, 7, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 1009, 1023, 1024, 1025, 4093, 65537, 2**20, 2**20 + 1]
NAN, INF, TINY = np.float32(np.nan), np.float32(np.inf), np.float32(1e-40)
SMALLEST_NORMAL = 2.0**-126
ODD = [0.0, -0.0, TINY, -TINY, 1.5, -1.5, 3e38, -3e38, INF, -INF, NAN, -NAN]


def without_subgroups(kernel: TunedKernel) -> TunedKernel:
    """Let the kernel think that subgroups of its device do not compute."""
    facts = kernel.device
    kernel.device = DeviceFacts(replace(facts.physical, subgroup_operations=0), facts.features)
    return kernel


def run(kernel: TunedKernel, *arrays: Array, candidate: Candidate | None = None, **parameters: object) -> Array:
    """Run a kernel twice on resident buffers, from poisoned outputs; both runs give the same bits."""
    expected = kernel.definition.expected(*arrays, **parameters)
    inputs = [kernel.driver.buffer(array) for array in arrays]
    out = kernel.driver.empty(expected.shape, expected.dtype)
    bound = kernel.bind(*inputs, out=out, candidate=candidate, **parameters)
    found = []
    for poison in (0xFF, 0xA5):
        out.write(np.full(out.nbytes, poison, np.uint8).view(out.dtype).reshape(out.shape))
        bound.run()
        found.append(out.read())
    bound.close()
    assert found[0].tobytes() == found[1].tobytes()
    return found[0]


def misfit(found: Array, expected: Array, tolerance: float) -> str | None:
    """Say what of a result is wrong: its form, where NaN and infinities stand, or numbers too far apart; None if nothing."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.shape} {found.dtype}"
    if found.dtype != np.float32:
        return None if np.array_equal(found, expected) else f"{np.count_nonzero(found != expected)} differ"
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return "NaN or infinity"
    got, wanted = found[finite], expected[finite]
    if tolerance == 0.0:
        return None if got.tobytes() == wanted.tobytes() else "bits"
    apart = np.abs(got.astype(np.float64) - wanted).max(initial=0.0)
    most = tolerance * np.abs(wanted).max(initial=0.0) + SMALLEST_NORMAL  # a device may take subnormals as 0
    return None if apart <= most else f"{apart} apart"


def check(kernel: TunedKernel, *arrays: Array, candidate: Candidate | None = None, **parameters: object) -> str | None:
    """Return what of a run is wrong."""
    found = run(kernel, *arrays, candidate=candidate, **parameters)
    expected = kernel.definition.expected(*arrays, **parameters)
    return misfit(found, expected, kernel.definition.tolerance((arrays[0].size,)))


def size_of(name: str, count: int) -> tuple[int, ...]:
    return (count, 256) if name == "histogram" else (count,)


def at_all_sizes(kernel: TunedKernel) -> dict[int, str | None]:
    """Return what is wrong at which size."""
    wrong = {}
    for count in SIZES:
        arrays, parameters = kernel.definition.example(size_of(kernel.definition.name, count), count)
        wrong[count] = check(kernel, *arrays, **parameters)
    return {count: why for count, why in wrong.items() if why is not None}


@pytest.mark.parametrize("name", STREAMS)
def test_a_kernel_is_right_at_every_size(driver: Driver, name: str) -> None:
    assert at_all_sizes(TunedKernel(driver, KERNELS[name])) == {}


@pytest.mark.parametrize("name", WITH_SUBGROUPS)
def test_a_kernel_is_right_at_every_size_without_subgroups(opened: Driver, name: str) -> None:
    assert at_all_sizes(without_subgroups(TunedKernel(opened, KERNELS[name]))) == {}


@pytest.mark.parametrize("name", STREAMS)
def test_robust_access_changes_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("VYRE_ROBUST_ACCESS", "1")
    with Driver() as driver:
        assert at_all_sizes(TunedKernel(driver, KERNELS[name])) == {}


def extremes(kernel: TunedKernel) -> list[Candidate]:
    """Return the candidates of which every number is the least or the greatest that the device has of its axis."""
    names = [axis.constant for axis in kernel.space.axes]
    ends = {name: (min(one[name] for one in kernel.candidates), max(one[name] for one in kernel.candidates)) for name in names}
    return [one for one in kernel.candidates if all(one[name] in values for name, values in ends.items())]


def greatest(kernel: TunedKernel, candidate: Candidate) -> int:
    """Return how many numbers of an extreme candidate are the greatest of their axes."""
    names = [axis.constant for axis in kernel.space.axes]
    return sum(candidate[name] == max(one[name] for one in kernel.candidates) for name in names)


@pytest.mark.parametrize("rest", [0, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("name", "has_subgroups"), [*((name, True) for name in STREAMS), *((name, False) for name in WITH_SUBGROUPS)]
)
def test_the_extreme_candidates_are_right(opened: Driver, name: str, has_subgroups: bool, rest: int) -> None:  # noqa: FBT001 -- a parameter of the test
    """In halves: any two numbers of a candidate meet in both, as long as the device takes such candidates."""
    kernel = TunedKernel(opened, KERNELS[name])
    if not has_subgroups:
        without_subgroups(kernel)
    wrong = []
    for candidate in (one for one in extremes(kernel) if greatest(kernel, one) % 2 == rest):
        for count in (2, 1025, 300_007):
            arrays, parameters = kernel.definition.example(size_of(name, count), count)
            wrong.append((str(candidate), count, check(kernel, *arrays, candidate=candidate, **parameters)))
    assert (len(wrong) >= 2 * 3, [one for one in wrong if one[2] is not None]) == (True, [])


def with_workgroup(kernel: TunedKernel, workgroup: int) -> list[str | None]:
    """Return what is wrong with workgroups of another size than those of the space, for a few sizes."""
    candidate = replace(kernel.candidates[0], workgroup_size=(workgroup, 1, 1))
    wrong = []
    for count in (3, 407, 70_001):
        arrays, parameters = kernel.definition.example(size_of(kernel.definition.name, count), count)
        wrong.append(check(kernel, *arrays, candidate=candidate, **parameters))
    return wrong


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("workgroup", [1, 96, 100])
def test_any_workgroup_size_is_right(opened: Driver, name: str, workgroup: int) -> None:
    assert with_workgroup(without_subgroups(TunedKernel(opened, KERNELS[name])), workgroup) == [None] * 3


@pytest.mark.parametrize("name", WITH_SUBGROUPS)
def test_any_number_of_full_subgroups_is_right(opened: Driver, name: str) -> None:
    """Three, which is not a power of two."""
    subgroup = opened.device.subgroup_size
    assert with_workgroup(TunedKernel(opened, KERNELS[name]), 3 * subgroup) == [None] * 3


def test_a_scan_places_invocations_also_where_subgroups_might_not_be_full(
    opened: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (files("vyre_driver.shaders") / "scan.glsl").read_text("utf-8")
    shortcut = "gl_NumSubgroups * gl_SubgroupSize == WORKGROUP_X"
    changed = SpirvModule.from_glsl("#version 450\n#define SUBGROUPS\n" + text.replace(shortcut, "false"))
    kernel = TunedKernel(opened, KERNELS["inclusive_scan"])
    planned, scan = kernel.definition.plan, kernel.definition.modules(kernel.device)[0]

    def plan(call: Call) -> Plan:
        found = planned(call)
        return replace(found, steps=tuple(replace(one, module=changed) if one.module is scan else one for one in found.steps))

    monkeypatch.setattr(InclusiveScan, "plan", lambda _, call: plan(call))
    assert (text.count(shortcut), with_workgroup(kernel, 256)) == (1, [None] * 3)


# What lies past the end of inputs would show in every result; what lies past the end of outputs is not a sum of it.
COUNTED = {"float32": np.full(4096, 1e30, np.float32), "uint32": np.full(4096, 5, np.uint32)}
UNTOUCHED = np.full(4096, 0xFFFFFFFF, np.uint32)


def on_longer_buffers(kernel: TunedKernel, count: int, **parameters: object) -> tuple[Array, Array, Array]:
    """Run the plan of a call, with every buffer longer than it should be; return the output, what is beyond, and numpy's."""
    size = (count, *parameters.values())
    arrays, given = kernel.definition.example(size, count)
    expected = np.atleast_1d(kernel.definition.expected(*arrays, **given))
    operands = dict(zip(kernel.definition.inputs, map(as_operand, arrays), strict=True))
    plan = kernel.definition.plan(kernel.definition.call(operands, given, kernel.candidates[0], kernel.device))
    buffers = {
        name: kernel.driver.buffer(longer(array, COUNTED[array.dtype.name]))
        for name, array in zip(operands, arrays, strict=True)
    }
    for name, one in {**plan.outputs, **plan.temporaries}.items():
        buffers[name] = kernel.driver.buffer(longer(np.empty(one.shape, one.dtype), UNTOUCHED))
    for step in plan.steps:
        bound = (buffers[name] for name in step.buffers)
        kernel.compiled(step).bind(*bound, workgroups=step.workgroups, push_constants=step.push_constants).run()
    found = buffers[next(iter(plan.outputs))].read()
    return found[: expected.size], found[expected.size :], expected


def as_operand(array: Array) -> Operand:
    return Operand(array.shape, array.dtype)


def longer(array: Array, beyond: Array) -> Array:
    return np.concatenate([array.reshape(-1), beyond.view(array.dtype)])


@pytest.mark.parametrize(
    ("name", "has_subgroups"), [*((name, True) for name in STREAMS), *((name, False) for name in WITH_SUBGROUPS)]
)
def test_nothing_past_the_end_is_read_or_written(opened: Driver, name: str, has_subgroups: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    kernel = TunedKernel(opened, KERNELS[name])
    if not has_subgroups:
        without_subgroups(kernel)
    first = kernel.candidates[0]
    vectors = first.workgroup_size[0] * first["UNROLL"]  # of a tile
    wrong = []
    for count in (1, 2, 3, 5, 4 * vectors - 4, 4 * vectors - 3, 4 * vectors - 1, 4 * vectors, 12 * vectors - 2):
        for parameters in [{"bins": 256}, {"bins": 8193}] if name == "histogram" else [{}]:
            found, beyond, expected = on_longer_buffers(kernel, count, **parameters)
            why = misfit(found, expected, kernel.definition.tolerance((count,)))
            wrong.append((count, parameters, why, np.array_equal(beyond.view(np.uint32), UNTOUCHED)))
    assert [one for one in wrong if one[2:] != (None, True)] == []


@pytest.mark.parametrize("name", WITH_SUBGROUPS)
@pytest.mark.parametrize("dtype", WHOLE_NUMBERS)
@pytest.mark.parametrize("has_subgroups", [True, False])
def test_whole_numbers_wrap_around_and_compare_by_their_sign(
    opened: Driver,
    name: str,
    dtype: type[np.uint32 | np.int32],
    has_subgroups: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    kernel = TunedKernel(opened, KERNELS[name])
    if not has_subgroups:
        without_subgroups(kernel)
    made = np.random.default_rng(7)
    limits = np.iinfo(dtype)
    wrong = {}
    for count in (1, 3, 4, 1021, 100_003):
        given = made.integers(limits.min, limits.max, count, dtype, endpoint=True)
        wrong[count] = run(kernel, given).tolist() == kernel.definition.expected(given).tolist()
        least = np.full(count, limits.min, dtype)
        wrong[-count] = run(kernel, least).tolist() == kernel.definition.expected(least).tolist()
    assert [count for count, is_right in wrong.items() if not is_right] == []


def without_subnormals(numbers: Array) -> Array:
    """Return the numbers as a device has them that takes what is below the smallest normal one as 0: Vulkan lets it."""
    return np.where(np.abs(numbers) < SMALLEST_NORMAL, np.float32(0), numbers)


def test_saxpy_of_odd_numbers_is_numpys_bit_for_bit_but_for_subnormals_and_the_bits_of_a_nan(opened: Driver) -> None:
    kernel = TunedKernel(opened, KERNELS["saxpy"])
    x, y = (one.ravel().astype(np.float32) for one in np.meshgrid(ODD, ODD))
    wrong = []
    for alpha in (1.0, -0.0, 2.5, 1 / 3, 1e39, float("inf"), float("nan"), 2, np.float32(0.1)):
        found, expected = run(kernel, x, y, alpha=alpha), kernel.definition.expected(x, y, alpha=alpha)
        flushed = kernel.definition.expected(without_subnormals(x), without_subnormals(y), alpha=alpha)
        exact = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
        near = (found == without_subnormals(flushed)) | (np.isnan(found) & np.isnan(flushed))
        is_subnormal = (np.abs(x) == TINY) | (np.abs(y) == TINY)
        if not (exact | (near & is_subnormal)).all():
            wrong.append(alpha)
    assert wrong == []
    ones = np.ones(3, np.float32)
    assert run(kernel, ones, ones).tolist() == [2.0] * 3  # without alpha


def test_saxpy_is_not_fused(opened: Driver) -> None:
    """The product, rounded, is 1: the sum is 0 then, and 2^-24 of a fused one."""
    x, y = np.full(9, 1 + 2**-12, np.float32), np.full(9, -(1 + 2**-11), np.float32)
    found = run(TunedKernel(opened, KERNELS["saxpy"]), x, y, alpha=1 + 2**-12)
    assert (found.tolist(), np.float64(1 + 2**-12) ** 2 - (1 + 2**-11)) == ([0.0] * 9, 2**-24)


def test_saxpy_may_write_over_what_it_reads_and_the_scan_too(opened: Driver) -> None:
    saxpy, scan = (TunedKernel(opened, KERNELS[name]) for name in ("saxpy", "inclusive_scan"))
    for count in (2, 10_001, 2**20 + 1):
        x, y = (np.arange(start, start + count, dtype=np.float32) for start in (1, 5))
        for place in (0, 1):
            buffers = [opened.buffer(x), opened.buffer(y)]
            saxpy.bind(*buffers, out=buffers[place], alpha=2).run()
            np.testing.assert_array_equal(buffers[place].read(), 2 * x + y)
        words = opened.buffer(np.arange(count, dtype=np.uint32))
        scan.bind(words, out=words).run()
        np.testing.assert_array_equal(words.read(), np.cumsum(np.arange(count, dtype=np.uint32), dtype=np.uint32))


def test_saxpy_goes_round_where_the_device_has_fewer_workgroups_than_tiles(opened: Driver) -> None:
    kernel = TunedKernel(opened, KERNELS["saxpy"])
    limits = replace(kernel.device.physical.limits, max_compute_work_group_count=(3, 1, 1))
    kernel.device = DeviceFacts(replace(kernel.device.physical, limits=limits), kernel.device.features)
    (x, y), parameters = kernel.definition.example((100_003,), 1)
    for group, unroll, turns in ((64, 1, 1), (128, 8, 16)):
        candidate = kernel.space.candidate(WORKGROUP_X=group, UNROLL=unroll, TURNS=turns)
        assert check(kernel, x, y, candidate=candidate, **parameters) is None


@pytest.mark.parametrize("has_subgroups", [True, False])
def test_the_maximum_is_numpys_also_of_odd_numbers(opened: Driver, has_subgroups: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    kernel = TunedKernel(opened, KERNELS["reduce_max"])
    if not has_subgroups:
        without_subgroups(kernel)
    wrong = []
    for count in (1, 3, 6, 1027, 60_001):
        for below in (-INF, np.float32(-3e38), -TINY, np.float32(-0.0)):
            for odd in ODD:
                for place in {0, count // 2, count - 1}:
                    given = np.full(count, below, np.float32)
                    given[place] = odd
                    # +0 beside -0 is the maximum, where numpy takes either.
                    zero = np.float32(0.0 if (given.view(np.uint32) == 0).any() else -0.0)
                    expected = given.max()
                    expected = zero if expected == 0 else expected
                    if misfit(run(kernel, given), np.asarray(expected), 0.0) is not None:
                        wrong.append((count, below, odd, place))
        with np.errstate(invalid="ignore"):
            assert np.isnan(run(kernel, np.full(count, -NAN, np.float32)))
    assert wrong == []


@pytest.mark.parametrize("name", ["reduce_sum", "inclusive_scan"])
@pytest.mark.parametrize("has_subgroups", [True, False])
def test_infinities_and_nan_go_through_sums(opened: Driver, name: str, has_subgroups: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    kernel = TunedKernel(opened, KERNELS[name])
    if not has_subgroups:
        without_subgroups(kernel)
    wrong = []
    for count in (2, 5, 1027, 60_001):
        for odd in ([INF], [-INF], [NAN], [INF, -INF], [-TINY, TINY], [-0.0, 0.0]):
            for place in {0, count // 3, count - len(odd)}:
                given = np.random.default_rng(count).random(count, np.float32)
                given[place : place + len(odd)] = odd
                if check(kernel, given) is not None:
                    wrong.append((count, odd, place))
    assert wrong == []


def test_sums_of_both_signs_are_as_near_as_their_magnitudes_allow(opened: Driver) -> None:
    given = np.random.default_rng(3).standard_normal(300_001, np.float32)
    most = np.abs(given).sum(dtype=np.float64) * KERNELS["reduce_sum"].tolerance((given.size,))
    total = run(TunedKernel(opened, KERNELS["reduce_sum"]), given)
    running = run(TunedKernel(opened, KERNELS["inclusive_scan"]), given)
    exact = np.cumsum(given, dtype=np.float64)
    assert (abs(float(total) - exact[-1]) <= most, bool((np.abs(running - exact) <= most).all())) == (True, True)


@pytest.mark.parametrize("bins", [1, 2, 3, 31, 256, 257, 1000, 8192, 8193, 70_001])
def test_the_histogram_counts_whatever_the_bins_and_however_the_values_crowd(opened: Driver, bins: int) -> None:
    kernel = TunedKernel(opened, KERNELS["histogram"])
    made = np.random.default_rng(bins)
    ends = np.array([0, bins - 1, bins, bins + 1, 2**31, 2**32 - 1], np.uint32)
    wrong = {}
    for count in (1, 3, 6, 4099, 200_003):
        given = {
            "even": made.integers(0, bins, count, np.uint32),
            "ends": made.choice(ends, count),
            "one value": np.full(count, bins - 1, np.uint32),
            "none": np.full(count, bins, np.uint32),
        }
        wrong |= {(count, kind): check(kernel, values, bins=bins) for kind, values in given.items()}
    assert {case: why for case, why in wrong.items() if why is not None} == {}


@pytest.mark.parametrize("name", STREAMS)
def test_a_kernel_called_with_arrays_again_and_again_gives_the_same(opened: Driver, name: str) -> None:
    kernel = TunedKernel(opened, KERNELS[name])
    for count in (3, 5000, 3):
        arrays, parameters = kernel.definition.example(size_of(name, count), count)
        for _ in range(2):
            found = kernel(*arrays, **parameters)
            assert isinstance(found, np.ndarray)
            expected = kernel.definition.expected(*arrays, **parameters)
            assert misfit(found, expected, kernel.definition.tolerance((count,))) is None
