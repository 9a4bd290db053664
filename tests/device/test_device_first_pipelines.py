"""The first pipeline of a module: compiled by few, taken by the rest, and never made of a blob that killed a driver.

Below ours stands the witness layer, as a driver that gives blobs away; what it writes down tells compiling (no initial data)
from taking a blob.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from racing import USE, expect_to_wait, race
from witnessed import seen

from vyre_driver import Driver
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.cache.flight import SingleFlight
from vyre_driver.errors import CacheNotWarm
from vyre_driver.identity import PipelineCacheKey, device_fields, encode_manifest, manifest_digest
from vyre_driver.runtime.pipelines import FirstPipelines
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import DeviceType

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver.runtime.kernel import Trace
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = [pytest.mark.device, pytest.mark.cold_mesa]

X = np.arange(100, dtype=np.float32)
DIED = "a process died when the driver was given its compiled blob"
TWICE = "the driver has died on this blob twice"
RACERS = 4


def use(driver: Driver) -> tuple[bool, Trace]:
    """Whether a kernel computes right, and its trace."""
    kernel = driver.compile(shipped_module("saxpy"))
    right = np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)
    return bool(right), kernel.trace


def use_new_driver() -> tuple[bool, Trace, dict[str, int]]:
    with Driver() as driver:
        right, trace = use(driver)
        counts = driver.cache.stats()["counts"]
    assert isinstance(counts, dict)
    return right, trace, counts


def given(witness: Path) -> list[int]:
    """How many bytes of initial data each pipeline cache got, since the last call."""
    return [len(data) for data in seen(witness)] if witness.exists() else []


def die(run_python: RunChild) -> None:
    """Let a process be killed inside the call that gives the driver the blob."""
    assert run_python("-c", USE, env={"WITNESS_KILLS": "1"}).status == -9


def test_a_blob_that_kills_the_driver_is_set_aside_and_after_the_second_time_never_given_to_it_again(
    witness: Path, run_python: RunChild, tmp_path: Path
) -> None:
    _, first, _ = use_new_driver()
    die(run_python)
    right, trace, counts = use_new_driver()
    assert (right, trace.verdict.name, trace.reason) == (True, "MISS", f"no entry: {DIED}")
    assert counts == {"crashed": 1, "miss": 1, "put": 2, "quarantined": 1}
    assert (tmp_path / "home" / "pipelines" / "quarantine" / f"{first.key}.bin").is_file()
    assert given(witness) == [0, 1032, 0]
    die(run_python)
    assert (use_new_driver()[0], given(witness)) == (True, [1032, 0])
    done = run_python("-c", USE, env={"WITNESS_KILLS": "1"})
    assert (done.status, done.stdout, given(witness)) == (0, "ready\nTrue\n", [0])


def test_a_blob_that_kills_another_process_meanwhile_is_not_given_to_the_driver(witness: Path, run_python: RunChild) -> None:
    use_new_driver()
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        die(run_python)
        right = np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)
        trace, counts = kernel.trace, driver.cache.stats()["counts"]
    assert (bool(right), trace.verdict.name, given(witness)) == (True, "HIT", [0, 1032, 0])
    assert trace.reason.endswith(f" bytes; compiled afresh: {DIED}")
    assert counts == {"crashed": 1, "hit": 1, "put": 1, "quarantined": 1}


def test_a_blob_that_was_taken_once_costs_no_marker_again(witness: Path, run_python: RunChild, tmp_path: Path) -> None:
    use_new_driver()
    use_new_driver()
    marks = tmp_path / "home" / "pipelines" / "marks"
    assert [path.suffix for path in marks.iterdir()] == [".good"]
    die(run_python)
    assert [path.suffix for path in marks.iterdir()] == [".good"]
    assert (use_new_driver()[0], given(witness)) == (True, [0, 1032, 1032, 1032])


def test_processes_that_miss_a_key_at_once_compile_it_at_most_twice(
    witness: Path, physical_device: PhysicalDevice, tmp_path: Path
) -> None:
    expect_to_wait(tmp_path / "home" / "pipelines", physical_device)
    assert race(RACERS) == ["True\n"] * RACERS
    sizes = given(witness)
    assert (len(sizes), 1 <= sizes.count(0) <= 2, set(sizes) <= {0, 1032}) == (RACERS, True, True)


def test_two_drivers_of_one_process_compile_a_key_once(witness: Path) -> None:
    with Driver() as one, Driver() as other:
        kernels = [driver.compile(shipped_module("saxpy")) for driver in (one, other)]
        for kernel in kernels:
            kernel(X, X, push_constants={"alpha": 2, "count": 100})
    assert given(witness) == [0, 1032]
    assert kernels[0].trace.reason == "no entry"
    assert kernels[1].trace.reason.endswith(" bytes; another has compiled it since")


def test_two_drivers_of_one_process_compile_a_key_once_in_memory(witness: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    with Driver() as one, Driver(cache=one.cache) as other:
        kernels = [driver.compile(shipped_module("saxpy")) for driver in (one, other)]
        for kernel in kernels:
            kernel(X, X, push_constants={"alpha": 2, "count": 100})
    assert given(witness) == [0, 1032]


def test_what_a_driver_compiled_itself_it_takes_back_without_a_marker(witness: Path, tmp_path: Path) -> None:
    with Driver() as driver:
        assert [use(driver)[0], use(driver)[0]] == [True, True]
    assert (given(witness)[:1], (tmp_path / "home" / "pipelines" / "marks").exists()) == ([0], False)


def test_only_the_first_pipeline_of_a_kernel_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        kernel(X, X, push_constants={"alpha": 2, "count": 100})
        monkeypatch.setattr(FirstPipelines, "make", None)
        got = kernel(X[:50], X[:50], push_constants={"alpha": 2, "count": 50})
    np.testing.assert_array_equal(got, 3 * X[:50], strict=True)


def test_a_pipeline_that_cannot_be_made_leaves_no_lock_and_no_marker(witness: Path, tmp_path: Path) -> None:
    from vyre_driver.errors import KernelCompileFailed
    from vyre_driver.vulkan.layer import _layer

    for _ in range(2):
        with Driver() as driver:
            _layer.inject("create_pipeline", 1, -13)
            with pytest.raises(KernelCompileFailed):
                use(driver)
            assert use(driver)[0]
    left = {path.suffix for folder in ("flight", "marks") for path in (tmp_path / "home" / "pipelines" / folder).iterdir()}
    assert left == {".pace", ".good"}
    assert given(witness)


def test_a_device_that_gives_no_blobs_is_remembered_and_nobody_locks_for_it(
    physical_device: PhysicalDevice, tmp_path: Path
) -> None:
    if physical_device.device_type is not DeviceType.CPU:
        pytest.skip("hardware gives blobs")
    use_new_driver()
    (pace,) = (tmp_path / "home" / "pipelines" / "flight").iterdir()
    assert (pace.suffix, pace.read_bytes()) == (".pace", b"none")
    pace.parent.chmod(0o500)
    before = pace.parent.stat().st_mtime_ns
    assert (use_new_driver()[0], pace.parent.stat().st_mtime_ns) == (True, before)


def assert_warm_by_call(driver: Driver, _: pytest.MonkeyPatch) -> None:
    driver.assert_warm()


def assert_warm_by_variable(_: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_ASSERT_WARM", "1")


each_way = pytest.mark.parametrize("assert_warm", [assert_warm_by_call, assert_warm_by_variable])


def refusal(key: str, reason: str) -> str:
    fix = "fill the cache with a run that may compile, on this device and driver, before this one"
    return f"pipeline {key} would have to be compiled: {reason}. Fix: {fix}."


@each_way
def test_a_miss_is_refused_where_the_cache_must_be_warm(assert_warm: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with Driver() as driver:
        assert_warm(driver, monkeypatch)  # type: ignore[operator]
        with pytest.raises(CacheNotWarm) as error:
            driver.compile(shipped_module("saxpy"))
        key = str(error.value.context["key"])
        assert (str(error.value), error.value.context) == (refusal(key, "no entry"), {"key": key, "reason": "no entry"})
        assert driver.cache.stats()["counts"] == {"miss": 1}


def test_a_refused_miss_is_told_by_what_the_nearest_entry_differs_in() -> None:
    with Driver() as driver:
        near = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": 16}).trace.key
        driver.assert_warm()
        with pytest.raises(CacheNotWarm) as error:
            driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": 32})
    told = error.value.context["reason"]
    assert told == f"no entry; the nearest of 1 entries is {near[:8]}, which differs in MAX_ITERATIONS: 16 -> 32"


@each_way
def test_a_hit_without_compiled_code_is_refused_at_the_first_call(
    witness: Path, assert_warm: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Driver() as driver:
        driver.compile(shipped_module("saxpy"))
        assert_warm(driver, monkeypatch)  # type: ignore[operator]
        kernel = driver.compile(shipped_module("saxpy"))
        with pytest.raises(CacheNotWarm) as error:
            kernel(X, X, push_constants={"alpha": 2, "count": 100})
        trace = kernel.trace
    assert (str(error.value), given(witness)) == (refusal(trace.key, trace.reason), [])


def test_where_the_cache_must_be_warm_nobody_waits_for_who_compiles(
    witness: Path, physical_device: PhysicalDevice, tmp_path: Path
) -> None:
    expect_to_wait(tmp_path / "home" / "pipelines", physical_device)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        driver.assert_warm()
        device = manifest_digest(encode_manifest(device_fields(physical_device)))
        key = kernel._pipelines.key  # noqa: SLF001 -- the entry's key
        with SingleFlight(driver.cache, device).acquire(key, 1, lambda: None), pytest.raises(CacheNotWarm):
            kernel(X, X, push_constants={"alpha": 2, "count": 100})
        assert "flight_overdue" not in driver.cache.stats()["counts"]  # type: ignore[operator]
    assert given(witness) == []


def test_what_another_has_compiled_since_counts_as_warm(witness: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WITNESS_HITS", "1")
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        use_new_driver()
        driver.assert_warm()
        kernel(X, X, push_constants={"alpha": 2, "count": 100})
    assert given(witness) == [0, 1032]


@each_way
def test_a_warm_cache_runs_where_it_must_be_warm(witness: Path, assert_warm: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WITNESS_HITS", "1")
    use_new_driver()
    with Driver() as driver:
        assert_warm(driver, monkeypatch)  # type: ignore[operator]
        assert (use(driver)[0], given(witness)) == (True, [0, 1032])


@pytest.mark.parametrize("imported", [True, False])
def test_what_a_driver_hands_out_that_was_given_an_imported_blob_counts_as_imported(
    witness: Path, tmp_path: Path, *, imported: bool
) -> None:
    use_new_driver()
    cache = DiskPipelineCache(tmp_path / "home" / "pipelines")
    (stored,) = cache.entries()
    key = PipelineCacheKey.from_manifest(stored.manifest)
    first = cache.peek(key).entry
    assert first is not None
    other = replace(first, native=first.native[:-1] + b"\0", imported=imported)
    cache.put(key, other)
    assert (use_new_driver()[0], given(witness)) == (True, [0, 1032])
    assert DiskPipelineCache(cache.root).peek(key).entry == replace(first, imported=imported)


@each_way
def test_a_blob_in_which_the_driver_finds_nothing_is_refused_where_the_cache_must_be_warm(
    witness: Path, assert_warm: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_new_driver()
    with Driver() as driver:
        assert_warm(driver, monkeypatch)  # type: ignore[operator]
        with pytest.raises(CacheNotWarm, match="the driver did not find its pipeline in the blob of 1032 bytes"):
            use(driver)
    assert given(witness) == [0, 1032]


@each_way
def test_a_warm_cache_runs_on_a_device_that_gives_no_blobs(assert_warm: object, monkeypatch: pytest.MonkeyPatch) -> None:
    use_new_driver()
    with Driver() as driver:
        assert_warm(driver, monkeypatch)  # type: ignore[operator]
        assert use(driver)[0]
