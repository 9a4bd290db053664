"""Kernels with their best constants: calls and bindings, the memory they keep, records, and what VYRE_AUTOTUNE does."""

from __future__ import annotations

import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from made_kernels import TurningKernel

from vyre_driver import Driver, kernels
from vyre_driver.autotune import AutotuneStore, AutotuneWarning, Budget, Candidate
from vyre_driver.autotune.measure import tune as tuning
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, InvalidInput
from vyre_driver.kernels import KERNELS, TunedKernel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import RunChild
    from numpy.typing import NDArray

pytestmark = pytest.mark.device

SLOW, BEST = 5000, 100
MARKED = TurningKernel((SLOW, BEST, 200), ((BEST, "wrong"),))  # what its second candidate gives tells that it ran


@pytest.fixture
def layered() -> Iterator[Driver]:
    """A driver under the layer, whose records are in memory."""
    with Driver(autotune=AutotuneStore()) as opened:
        yield opened


@pytest.fixture
def quick_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tuned unasked is timed a few times only."""
    monkeypatch.setattr(tuning, "UNASKED", Budget(seconds=30, max_samples=8))


def memory_in_use(driver: Driver) -> int:
    """Bytes of buffers that live on the device."""
    backend = driver.device
    backend._available()  # noqa: SLF001 -- counts what was given back
    return backend._allocated  # noqa: SLF001 -- nothing else tells


def limit_memory(driver: Driver, byte_len: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device have room for so many bytes of buffers."""
    monkeypatch.setattr(driver.device, "_heap_bytes", driver.device._copies * byte_len)  # noqa: SLF001 -- of this test alone


def words(count: int) -> NDArray[np.uint32]:
    return np.arange(count, dtype=np.uint32)


def floats(count: int) -> NDArray[np.float32]:
    return np.arange(count, dtype=np.float32)


def keep(kernel: TunedKernel, unroll: int, size: str, samples: int = 1) -> None:
    kernel.driver.tuning.keep(kernel.target, kernel.target.record(Candidate((1, 1, 1), (("TURNS", unroll),)), samples, 1, size))


@pytest.mark.parametrize("count", [1, 3, 64, 5001])
def test_calls_give_what_numpy_gives(driver: Driver, count: int) -> None:
    x, y = floats(count), np.ones(count, np.float32)
    found = (
        kernels.saxpy(driver)(x, y, alpha=3.0),
        kernels.reduce_max(driver)(x),
        kernels.histogram(driver)(words(count), bins=7),
    )
    expected = 3 * x + y, x.max(), np.bincount(words(count)[:7], minlength=7)
    assert [np.asarray(one).tolist() for one in found] == [one.tolist() for one in expected]


def test_the_buffers_of_the_last_four_shapes_are_kept_whatever_the_parameters(driver: Driver) -> None:
    before = memory_in_use(driver)
    saxpy = kernels.saxpy(driver)
    used = []
    for count in (1024, 1024, 2048, 1024, 4096, 8192, 16384, 32768):
        for alpha in (1.0, 2.0, -1.0):
            x = floats(count)
            np.testing.assert_array_equal(saxpy(x, x, alpha=alpha), np.float32(alpha) * x + x)
        used.append((memory_in_use(driver) - before) // (12 * 1024))
    saxpy.close()
    assert (used, memory_in_use(driver)) == ([1, 1, 3, 3, 7, 15, 1 + 4 + 8 + 16, 4 + 8 + 16 + 32], before)
    np.testing.assert_array_equal(saxpy(x, x, alpha=-1.0), 0 * x)
    saxpy.close()
    saxpy.close()
    assert memory_in_use(driver) == before


def test_the_buffers_go_with_a_kernel_that_nobody_uses_any_more(driver: Driver) -> None:
    before = memory_in_use(driver)
    gc.disable()
    try:
        x = floats(1000)
        np.testing.assert_array_equal(kernels.saxpy(driver)(x, x), 2 * x)
        assert memory_in_use(driver) == before
    finally:
        gc.enable()


def test_outputs_of_another_shape_have_buffers_of_their_own(driver: Driver) -> None:
    histogram = kernels.histogram(driver)
    found = [histogram(words(100), bins=bins).tolist() for bins in (10, 20, 10)]
    assert found == [[1] * 10, [1] * 20, [1] * 10]


def test_a_parameter_counts_with_its_sign_and_type(layered: Driver) -> None:
    saxpy = kernels.saxpy(layered)
    x, y = np.ones(8, np.float32), np.full(8, -0.0, np.float32)
    found = [np.signbit(saxpy(x, y, alpha=alpha)).all() for alpha in (0.0, -0.0, 0, -0.0)]
    assert found == [False, True, False, True]


def test_buffers_of_earlier_shapes_make_room_and_what_does_not_fit_leaves_nothing(
    layered: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    saxpy, before = kernels.saxpy(layered), memory_in_use(layered)
    limit_memory(layered, before + 12 * 3000, monkeypatch)
    for count in (1000, 1500, 2500):
        np.testing.assert_array_equal(saxpy(floats(count), floats(count)), 2 * floats(count))
    kept = memory_in_use(layered) - before
    with pytest.raises(DeviceOutOfMemory) as first:  # which holds on to all that its traceback names
        saxpy(floats(4000), floats(4000))
    left = memory_in_use(layered) - before
    np.testing.assert_array_equal(saxpy(floats(2500), floats(2500)), 2 * floats(2500))
    assert (kept, left, first.value.code) == (12 * 2500, 0, 1001)


def test_where_the_second_temporary_does_not_fit_the_first_goes_too(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    saxpy, x, out = kernels.saxpy(layered), layered.buffer(floats(3)), layered.empty(3, np.float32)
    held = memory_in_use(layered)
    limit_memory(layered, held + 24, monkeypatch)  # each takes 16 bytes
    with pytest.raises(DeviceOutOfMemory) as caught:
        saxpy.bind(x, x, out=out)
    assert (memory_in_use(layered), caught.value.context["available_bytes"] > 0) == (held, True)


def test_where_temporaries_do_not_fit_the_other_buffers_go_too(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    reduce_sum, before = kernels.reduce_sum(layered), memory_in_use(layered)
    x, out = layered.buffer(floats(20_000)), layered.empty((), np.float32)
    held = memory_in_use(layered)
    limit_memory(layered, held + 8, monkeypatch)
    with pytest.raises(DeviceOutOfMemory) as at_bind:
        reduce_sum.bind(x, out=out)
    bound_nothing = memory_in_use(layered)
    x.close()
    out.close()
    limit_memory(layered, before + 80_000 + 8, monkeypatch)
    with pytest.raises(DeviceOutOfMemory) as at_call:
        reduce_sum(floats(20_000))
    assert (bound_nothing, memory_in_use(layered)) == (held, before)
    assert [one.value.code for one in (at_bind, at_call)] == [1001, 1001]


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "message"),
    [
        ("saxpy", (floats(4),), {}, r"saxpy takes 2 arrays \(x, y\) and got 1"),
        ("saxpy", (floats(4), floats(5)), {}, "x of saxpy has 4 elements and y has 5"),
        ("saxpy", (floats(4), words(4)), {}, "y of saxpy holds float32 and got uint32"),
        ("saxpy", (floats(4), floats(4)), {"beta": 1}, "saxpy takes alpha and got 'beta'"),
        ("histogram", (words(4),), {"bins": [4]}, r"bins of histogram is \[4\]"),
        ("transpose", (floats(4),), {}, "a of transpose has the shape"),
    ],
)
def test_what_a_kernel_does_not_take_is_refused_by_name(
    layered: Driver, name: str, arrays: tuple[Any, ...], parameters: dict[str, Any], message: str
) -> None:
    before = memory_in_use(layered)
    kernel = TunedKernel(layered, KERNELS[name])
    with pytest.raises(InvalidInput, match=f"^{message}"):
        kernel(*arrays, **parameters)
    assert memory_in_use(layered) == before


def test_what_cannot_be_bound_is_refused_by_name(layered: Driver) -> None:
    saxpy, x, out = kernels.saxpy(layered), layered.buffer(floats(4)), layered.empty(4, np.float32)
    other = layered.empty(5, np.float32)
    in_place = TunedKernel(layered, TurningKernel((1,), in_place=True))
    y, z = layered.buffer(words(4)), layered.buffer(words(4))
    refusals = []
    cases: list[tuple[TunedKernel, tuple[Any, ...], Any]] = [
        (saxpy, (x, floats(4)), out),
        (saxpy, ([1.0], x), out),
        (saxpy, (x, x), floats(4)),
        (saxpy, (x,), out),
        (saxpy, (x, x), (out, out)),
        (saxpy, (x, x), other),
        (in_place, (y,), z),
    ]
    for kernel, buffers, outputs in cases:
        with pytest.raises(InvalidInput) as caught:
            kernel.bind(*buffers, out=outputs)
        refusals.append(str(caught.value.problem))
    assert refusals == [
        "argument 2 of bind is of type ndarray, and bind takes resident buffers",
        "argument 1 of bind is of type list, and bind takes resident buffers",
        "argument 3 of bind is of type ndarray, and bind takes resident buffers",
        "saxpy takes 2 arrays (x, y) and got 1",
        "saxpy writes 1 buffers and got 2 as out",
        "out of saxpy has shape (4,) and type float32, and the buffer has (5,) and float32",
        "turning works on x in place, and out is another buffer than x",
    ]


def test_a_kernel_that_works_in_place_leaves_the_arrays_of_a_call_alone(driver: Driver) -> None:
    kernel = TunedKernel(driver, TurningKernel((1,), in_place=True))
    x = words(100)
    found = [np.asarray(kernel(x)).tolist() for _ in range(2)]
    resident = driver.buffer(x)
    bound = kernel.bind(resident, out=resident)
    bound.run()
    bound.run()
    assert (found, x.tolist(), resident.read().tolist()) == (
        [(3 * x + 1).tolist()] * 2,
        list(range(100)),
        (9 * x + 4).tolist(),
    )


def test_a_bound_plan_of_several_dispatches_may_be_closed_while_it_runs_and_gives_its_temporaries_back(driver: Driver) -> None:
    reduce_sum = kernels.reduce_sum(driver)
    x, out = driver.buffer(words(300_000)), driver.empty((), np.uint32)
    before = memory_in_use(driver)
    bound = reduce_sum.bind(x, out=out)
    held, dispatches = memory_in_use(driver), len(bound.bound)
    bound.run()
    first = int(out.read())
    x.write(words(300_000)[::-1] * np.uint32(2))
    future = bound.submit()
    bound.close()
    future.result()
    bound.close()
    total = int(words(300_000).sum(dtype=np.uint32))
    del future
    assert (first, int(out.read()), dispatches) == (total, 2 * total % 2**32, 2)
    assert (held > before, memory_in_use(driver)) == (True, before)
    for use in (bound.run, bound.submit):
        with pytest.raises(DispatchFailed, match="the bound reduce_sum is closed"):
            use()


def test_the_record_of_the_nearest_size_is_run_and_a_later_one_after_forget(layered: Driver) -> None:
    kernel = TunedKernel(layered, MARKED)
    keep(kernel, BEST, "4096")
    keep(kernel, 200, "64")
    near = [kernel.candidate((count,))["TURNS"] for count in (5000, 20_000, 64, 100)]
    wrong = kernel(words(5000)).tolist() == (3 * words(5000) + 2).tolist()
    keep(kernel, 200, "4096", samples=2)
    kept = kernel.candidate((5000,))["TURNS"]
    kernel.forget()
    right = kernel(words(5000)).tolist() == (3 * words(5000) + 1).tolist()
    assert (near, wrong, kept, kernel.candidate((5000,))["TURNS"], right) == ([BEST, BEST, 200, 200], True, BEST, 200, True)


def test_a_candidate_that_is_given_takes_the_place_of_the_record(layered: Driver) -> None:
    kernel = TunedKernel(layered, MARKED)
    x, out = layered.buffer(words(100)), layered.empty(100, np.uint32)
    kernel.bind(x, out=out, candidate=Candidate((1, 1, 1), (("TURNS", BEST),))).run()
    given = out.read().tolist()
    kernel.bind(x, out=out).run()
    assert (given, out.read().tolist()) == ((3 * words(100) + 2).tolist(), (3 * words(100) + 1).tolist())


@pytest.mark.parametrize(("mode", "unroll"), [("off", SLOW), ("read", BEST), ("tune", BEST)])
def test_a_record_is_used_as_the_mode_says(mode: str, unroll: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", mode)
    with Driver(autotune=AutotuneStore()) as driver:
        kernel = TunedKernel(driver, MARKED)
        keep(kernel, BEST, "4096")
        found = np.asarray(kernel(words(4096)))
        assert (kernel.candidate((4096,))["TURNS"], int(found[0]), len(driver.tuning.store)) == (
            unroll,
            2 if unroll == BEST else 1,
            1,
        )


SECOND = """
from made_kernels import TurningKernel
import numpy as np
from vyre_driver import Driver
from vyre_driver.autotune.measure import tune as tuning
from vyre_driver.kernels import TunedKernel

def refuse(*_, **__):
    raise AssertionError("tuned again")

tuning.tune = refuse
with Driver() as driver:
    kernel = TunedKernel(driver, TurningKernel((5000, 100)))
    print(kernel(np.arange(5000, dtype=np.uint32))[1], kernel.candidate((5000,))["TURNS"])
"""


@pytest.mark.usefixtures("quick_tuning")
def test_what_one_process_tuned_at_its_first_call_the_next_one_uses(
    tmp_path: Path, run_python: RunChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "autotune.toml"
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(path))
    with Driver() as driver:
        kernel = TunedKernel(driver, TurningKernel((SLOW, BEST)))
        np.testing.assert_array_equal(kernel(words(5000)), 3 * words(5000) + 1)
    written = path.read_bytes()
    done = run_python("-c", SECOND, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.stdout, done.stderr, path.read_bytes() == written) == (f"4 {BEST}\n", "", True)


@pytest.mark.usefixtures("quick_tuning")
def test_forced_a_kernel_is_tuned_once_a_driver_though_it_has_a_better_measured_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "force")
    path = tmp_path / "autotune.toml"
    samples = []
    for _ in range(2):
        with Driver(autotune=path) as driver:
            kernel = TunedKernel(driver, TurningKernel((SLOW, BEST)))
            keep(kernel, SLOW, "4096", samples=10**6)
            for _ in range(2):
                kernel(words(4096))
                (record,) = AutotuneStore.load(path).records().values()
                samples.append((record.tile[0], record.samples <= 8, record.measured_at))
            kernel(words(4000))
            samples.append((record.tile[0], AutotuneStore.load(path).records() != {}, record.measured_at))
    assert [one[:2] for one in samples] == [(BEST, True)] * 6
    assert samples[0] == samples[1]


@pytest.mark.usefixtures("quick_tuning")
def test_where_the_record_cannot_be_saved_the_call_goes_on_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "autotune.toml"
    path.write_text("schema = 2\n")
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=path) as driver:
        kernel = TunedKernel(driver, TurningKernel((SLOW, BEST)))
        with pytest.warns(AutotuneWarning, match="tuning did not come to its end: .* has schema 2") as told:
            found = [np.asarray(kernel(words(5000))).tolist() for _ in range(2)]
        assert (found, kernel.candidate((5000,))["TURNS"]) == ([(3 * words(5000) + 1).tolist()] * 2, BEST)
    assert (len(told), path.read_text()) == (1, "schema = 2\n")


def test_a_file_that_cannot_be_used_is_a_warning_and_the_call_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "autotune.toml"
    path.write_text("no = [toml")
    with Driver(autotune=path) as driver:
        kernel = TunedKernel(driver, MARKED)
        with pytest.warns(AutotuneWarning, match="^nothing is known of tuned kernels: ") as told:
            found = [np.asarray(kernel(words(5000))).tolist() for _ in range(2)]
    assert (len(told), found, path.read_text()) == (1, [(3 * words(5000) + 1).tolist()] * 2, "no = [toml")


def test_a_kernel_without_a_right_candidate_is_called_all_the_same_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        kernel = TunedKernel(driver, TurningKernel((1, 2), ((1, "wrong"), (2, "wrong"))))
        with pytest.warns(AutotuneWarning, match="^tuning did not come to its end: turning of size") as told:
            found = [np.asarray(kernel(words(5000))).tolist() for _ in range(2)]
    assert (len(told), found) == (1, [(3 * words(5000) + 2).tolist()] * 2)


@pytest.mark.usefixtures("quick_tuning")
def test_earlier_calls_make_room_for_tuning_and_what_does_not_fit_even_so_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        kernel = TunedKernel(driver, TurningKernel((SLOW, BEST)))
        kernel(words(2800))
        limit_memory(driver, memory_in_use(driver) + 19_000, monkeypatch)
        found = np.asarray(kernel(words(5000)))
        warned = pytest.warns(AutotuneWarning, match="^tuning did not come to its end: the buffers need [24]00000 bytes")
        with warned, pytest.raises(DeviceOutOfMemory):
            kernel(words(50_000))
    assert found.tolist() == (3 * words(5000) + 1).tolist()


def test_eight_threads_call_one_kernel_with_two_shapes(layered: Driver) -> None:
    saxpy = kernels.saxpy(layered)
    barrier = threading.Barrier(8)

    def call(thread: int) -> list[bool]:
        barrier.wait()
        x = floats(1000 + thread % 2)
        return [
            np.array_equal(saxpy(x, x, alpha=float(thread + turn)), np.float32(thread + turn) * x + x) for turn in range(20)
        ]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, range(8)))
    assert found == [[True] * 20] * 8


@pytest.mark.usefixtures("quick_tuning")
def test_threads_that_call_first_tune_each_size_once_and_all_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    tuned, tune = [], tuning.tune

    def counted(kernel: TunedKernel, size: tuple[int, ...], **how: Any) -> object:  # noqa: ANN401 -- those of tune
        tuned.append(size)
        return tune(kernel, size, **how)

    monkeypatch.setattr(tuning, "tune", counted)
    with Driver(autotune=AutotuneStore()) as driver:
        kernel = TunedKernel(driver, TurningKernel((1, SLOW, BEST), ((1, "wrong"),)))
        sizes = (2000, 4000) * 4
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda count: int(kernel(words(count))[-1]), sizes))
        unrolls = {kernel.candidate((count,))["TURNS"] for count in sizes}
    assert (found, sorted(tuned), unrolls) == ([3 * count - 2 for count in sizes], [(2000,), (4000,)], {BEST})


def test_a_kernel_that_reads_what_it_would_have_overwritten_is_not_bound_to_one_buffer(driver: Driver) -> None:
    square = driver.buffer(np.arange(16, dtype=np.float32).reshape(4, 4))
    with pytest.raises(InvalidInput) as caught:
        kernels.transpose(driver).bind(square, out=square)
    assert str(caught.value) == (
        "transpose reads a after it began to write b, and both are one buffer. Fix: give another buffer as out."
    )
