"""Which record a kernel runs with, what VYRE_AUTOTUNE does, and what comes of a tuning that nobody asked for."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from made_kernels import TurningKernel
from tunings import BEST, SLOW, limit_memory, memory_in_use, words

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, AutotuneWarning, Candidate
from vyre_driver.autotune.measure import tune as tuning
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.kernels import TunedKernel

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device
MARKED = TurningKernel((SLOW, BEST, 200), ((BEST, "wrong"),))  # what its second candidate gives tells that it ran


def keep(kernel: TunedKernel, unroll: int, size: str, samples: int = 1) -> None:
    kernel.driver.tuning.keep(kernel.target, kernel.target.record(Candidate((1, 1, 1), (("TURNS", unroll),)), samples, 1, size))


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
