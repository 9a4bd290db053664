"""What a profile sees of each way on which work comes to the device, and what it leaves."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
import threading
from typing import TYPE_CHECKING, Any

import c_table
import numpy as np
import pytest
from kernels import STEP, glsl
from lacking_devices import lack_features
from traces import faults, on_device, on_host, thread_names

from vyre_driver import Driver, DriverPool
from vyre_driver import driver as driver_module
from vyre_driver.errors import DispatchFailed, ForkError, InvalidInput
from vyre_driver.profiling import profile as profiles
from vyre_driver.profiling.trace_events import joined, read_document
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver import Kernel
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.vulkan.devices import PhysicalDevice

pytestmark = pytest.mark.device
X = np.arange(64, dtype=np.uint32)
PUSH = {"factor": 2, "summand": 1}
HANDED = ["vkQueueSubmit", "wait for the device"]


def step(driver: Driver) -> Kernel:
    return driver.compile(SpirvModule.from_bytes(glsl(STEP).code, name="step"))


def profiled(driver: Driver, act: Callable[[], Any]) -> dict[str, Any]:
    with driver.profile() as profile:
        act()
    found = profile.trace
    assert faults(found) == []
    return found


def within(name: str, *inside: str) -> list[str]:
    return [name, *(f"{name} > {one}" for one in inside)]


def call_arrays(kernel: Kernel, _: Buffer) -> None:
    kernel(X, push_constants=PUSH)


def call_buffers(kernel: Kernel, values: Buffer) -> None:
    kernel(values, push_constants=PUSH)


def run_bound(kernel: Kernel, values: Buffer) -> None:
    kernel.bind(values, push_constants=PUSH).run()


def submit_bound(kernel: Kernel, values: Buffer) -> None:
    kernel.bind(values, push_constants=PUSH).submit().result()


PATHS: dict[str, tuple[Callable[[Kernel, Buffer], None], list[str], list[str]]] = {
    "a call with arrays": (
        call_arrays,
        [*within("step", "upload", "execute"), *(f"step > execute > {one}" for one in HANDED), "step > read back"],
        ["step"],
    ),
    "a call with buffers": (call_buffers, within("step", *HANDED), ["step"]),
    "a run of a bound kernel": (run_bound, within("step", *HANDED), ["step"]),
    "a submission": (submit_bound, [*within("submit", "vkQueueSubmit"), "wait"], ["step"]),
}


@pytest.mark.parametrize("path", PATHS)
def test_each_path_appears_with_its_stages_on_the_host_and_its_work_on_the_device(layered: Driver, path: str) -> None:
    act, on_the_host, on_the_device = PATHS[path]
    kernel, values = step(layered), layered.buffer(X)
    act(kernel, values)  # what is made once is made before
    found = profiled(layered, lambda: act(kernel, values))
    assert (on_host(found), on_device(found)) == (on_the_host, on_the_device)


def test_batches_are_named_by_their_kernels(layered: Driver) -> None:
    bound = step(layered).bind(layered.buffer(X), push_constants=PUSH)
    batch = layered.batch()
    batch.add(bound)
    batch.add(bound)
    batch.run()

    def act() -> None:
        batch.run()
        batch.submit().result()

    found = profiled(layered, act)
    ran = [*within("batch", "execute"), *(f"batch > execute > {one}" for one in HANDED)]
    assert on_host(found) == [*ran, *within("submit", "vkQueueSubmit"), "wait"]
    assert on_device(found) == ["step x2", "step x2"]


def test_what_moves_buffers_appears_with_its_bytes(layered: Driver) -> None:
    values, other = layered.buffer(X), layered.buffer(X)

    def act() -> None:
        values.write(X)
        values.fill(0)
        values.copy_to(other)
        other.read()

    found = profiled(layered, act)
    moved = [(one["name"], one["args"]["bytes"]) for one in found["traceEvents"] if one.get("cat") == "transfer"]
    assert moved == [(name, X.nbytes) for name in ("write buffer", "fill buffer", "copy buffer", "read buffer")]
    assert {"fill", "copy"} <= set(on_device(found))


def test_the_chunks_of_a_stream_go_on_beside_each_other_and_the_device_has_each(layered: Driver) -> None:
    kernel = step(layered)
    found = profiled(layered, lambda: list(layered.stream(kernel, [X] * 6, push_constants=PUSH)))
    chunks = [one for one in found["traceEvents"] if one["ph"] == "b"]
    assert [one["name"] for one in chunks] == ["step"] * 6
    assert on_device(found).count("step") == 6


def test_what_c_code_runs_is_on_the_device_by_the_kernels_name(layered: Driver) -> None:
    vyre = c_table.table()
    handle = vyre.bound_take(step(layered).bind(layered.buffer(X), push_constants=PUSH), None)
    found = profiled(layered, lambda: vyre.bound_run(handle, 2**64 - 1))
    vyre.bound_drop(handle)
    assert (on_host(found), on_device(found)) == ([], ["step"])


def test_a_compilation_has_its_stages(layered: Driver) -> None:
    found = profiled(layered, lambda: step(layered))
    assert [one for one in on_host(found) if "spirv-val" not in one] == [
        "compile",
        "compile > cache look-up",
        "compile > lower",
        "compile > store in cache",
    ]


def test_the_devices_clock_may_be_left_out(layered: Driver) -> None:
    bound = step(layered).bind(layered.buffer(X), push_constants=PUSH)
    with layered.profile(device_clock=False) as profile:
        bound.run()
        bound.submit().result()
    found = profile.trace
    assert (faults(found), on_device(found)) == ([], ["step", "step"])
    assert found["otherData"]["drivers"][0]["clock"] == "the host's clock, from submission to end"


def test_a_device_that_cannot_read_both_clocks_is_placed_by_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with Driver() as driver:
        bound = step(driver).bind(driver.buffer(X), push_constants=PUSH)
        bound.run()
        found = profiled(driver, bound.run)
        (run,) = [one for one in found["traceEvents"] if one.get("cat") == "call"]
        (work,) = [one for one in found["traceEvents"] if one.get("cat") == "device dispatch"]
    assert "placed by round trips" in found["otherData"]["drivers"][0]["clock"]
    assert run["ts"] <= work["ts"] <= run["ts"] + run["dur"]


def test_the_devices_times_lie_within_the_run_that_waited_for_it(layered: Driver) -> None:
    bound = step(layered).bind(layered.buffer(X), push_constants=PUSH)

    def act() -> None:
        for _ in range(50):
            bound.run()

    found = profiled(layered, act)["traceEvents"]
    runs = [one for one in found if one.get("cat") == "call"]
    work = [one for one in found if one.get("cat") == "device dispatch"]
    slack = 50.0  # us between the two clocks
    assert len(runs) == len(work) == 50
    assert all(
        run["ts"] <= one["ts"] and one["ts"] + one["dur"] <= run["ts"] + run["dur"] + slack
        for run, one in zip(runs, work, strict=True)
    )


def test_an_error_in_the_block_ends_it_and_what_failed_is_in_the_trace(layered: Driver) -> None:
    kernel = step(layered)
    with pytest.raises(InvalidInput), layered.profile() as profile:  # noqa: PT012 -- the block is what is tested
        kernel(X, push_constants=PUSH)
        kernel(X.astype(np.float32), push_constants=PUSH)
    assert faults(profile.trace) == []
    failures = [one["name"] for one in profile.trace["traceEvents"] if one.get("cat") == "failure"]
    assert (failures, layered.events.timeline.is_on) == (["InvalidInput 2201"], False)


def test_after_a_profile_nothing_is_kept(layered: Driver) -> None:
    bound = step(layered).bind(layered.buffer(X), push_constants=PUSH)
    with layered.profile() as profile:
        bound.run()
    bound.run()
    assert on_device(profile.trace) == ["step"]
    assert not layered.events.timeline.is_on
    layer = layered.context.device.layer
    assert len(_layer.intervals(layer)) == 1


def test_profiles_of_one_driver_may_overlap(layered: Driver) -> None:
    bound = step(layered).bind(layered.buffer(X), push_constants=PUSH)
    outer, inner = layered.profile(), layered.profile()
    with outer:
        bound.run()
        with inner:
            bound.run()
        bound.run()
    assert [on_device(one.trace) for one in (outer, inner)] == [["step"] * 3, ["step"]]


def test_a_profile_goes_up_to_the_closing_of_its_driver(tmp_path: Path) -> None:
    driver = Driver(cache=tmp_path)
    bound = step(driver).bind(driver.buffer(X), push_constants=PUSH)
    with driver.profile() as profile:
        bound.run()
        bound.submit()
        driver.close()
    assert (faults(profile.trace), on_device(profile.trace)) == ([], ["step", "step"])
    with pytest.raises(DispatchFailed, match="is closed"):
        driver.profile().start()


def test_two_drivers_are_told_apart_and_a_pool_has_both(tmp_path: Path) -> None:
    with DriverPool([0, 0], cache=tmp_path, allow_software=True) as pool:
        first, second = pool.drivers
        kernels = [step(one) for one in pool.drivers]
        with pool.profile() as both, first.profile() as one:
            for kernel in kernels:
                kernel(X, push_constants=PUSH)
    assert (faults(both.trace), on_device(both.trace), on_device(one.trace)) == ([], ["step", "step"], ["step"])
    queues = {name for name in thread_names(both.trace) if name.endswith("queue")}
    assert queues == {f"{driver.device.name} #{driver.number} queue" for driver in (first, second)}


def test_an_isolated_driver_is_seen_in_both_processes(tmp_path: Path) -> None:
    with Driver(cache=tmp_path, isolated=True) as driver:
        kernel = step(driver)
        found = profiled(driver, lambda: kernel(X, push_constants=PUSH))
    assert len({one["pid"] for one in found["otherData"]["drivers"]}) == 2
    assert on_device(found) == ["step"]


def test_threads_have_their_names_and_each_its_own_calls(layered: Driver) -> None:
    kernel = step(layered)
    kernel(X, push_constants=PUSH)

    def work() -> None:
        for _ in range(20):
            kernel(X, push_constants=PUSH)

    def act() -> None:
        threads = [threading.Thread(target=work, name=f"worker {number}") for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    found = profiled(layered, act)
    names = {one["tid"]: one["args"]["name"] for one in found["traceEvents"] if one["name"] == "thread_name"}
    calls = [names[one["tid"]] for one in found["traceEvents"] if one.get("cat") == "call"]
    assert {name: calls.count(name) for name in calls} == {f"worker {number}": 20 for number in range(8)}
    assert on_device(found) == ["step"] * 160


def test_what_is_beyond_the_limit_is_counted(layered: Driver) -> None:
    bound = step(layered).bind(layered.buffer(X), push_constants=PUSH)
    with layered.profile(events=10) as profile:
        for _ in range(30):
            bound.run()
    missing = profile.trace["otherData"]["drivers"][0]["missing"]
    assert missing == {"host events beyond the limit": 20, "device spans beyond the limit": 20}
    assert "missing: 20 device spans beyond the limit" in profile.summary(bandwidth=0)


def test_a_profile_is_of_its_process(layered: Driver) -> None:
    with layered.profile() as profile:
        child = os.fork()
        if not child:
            status = 1
            with contextlib.suppress(BaseException):
                profile.stop()
                try:
                    profile.save("/nowhere")
                except ForkError:
                    status = 0
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        step(layered)(X, push_constants=PUSH)
    assert on_device(profile.trace) == ["step"]


def test_what_is_saved_can_be_read_and_joined(layered: Driver, tmp_path: Path) -> None:
    kernel = step(layered)
    with layered.profile() as profile:
        kernel(X, push_constants=PUSH)
    profile.save(tmp_path / "trace.json")
    profile.save(tmp_path / "trace.json.gz")
    found = read_document(tmp_path / "trace.json")
    assert found == json.loads(json.dumps(profile.trace)) == read_document(tmp_path / "trace.json.gz")
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == (tmp_path / "trace.json").read_bytes()
    with pytest.raises(InvalidInput, match="is in two of the traces"):
        joined([found, found])


def test_a_page_has_every_kernel_and_loads_nothing(layered: Driver, tmp_path: Path) -> None:
    kernel = step(layered)
    with layered.profile() as profile:
        for _ in range(6):
            kernel(X, push_constants=PUSH)
    profile.save_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert ["<td>step</td>" in page, "<script" in page, "http" in page, "url(" in page] == [True, False, False, False]


def test_a_profile_that_has_not_begun_or_has_ended_says_so(layered: Driver) -> None:
    profile = layered.profile()
    with pytest.raises(DispatchFailed, match="has not begun"):
        _ = profile.trace
    profile.start()
    profile.stop()
    profile.stop()
    with pytest.raises(DispatchFailed, match="has begun before"):
        profile.start()
    with pytest.raises(InvalidInput, match="events is 0"):
        layered.profile(events=0)


def test_a_process_that_is_told_to_writes_its_trace_at_its_end(run_python: RunChild, tmp_path: Path) -> None:
    code = "import vyre_driver; vyre_driver.Driver().zeros(8, 'u4')"
    done = run_python("-c", code, env={"VYRE_TRACE": str(tmp_path / "trace-{pid}.json")})
    (written,) = tmp_path.glob("trace-*.json")
    assert (done.status, done.stderr, faults(read_document(written))) == (0, "", [])
    for name in ("none/trace.json", ""):
        refused = run_python("-c", code, env={"VYRE_TRACE": str(tmp_path / name)})
        assert "InvalidSetting" in refused.stderr


@pytest.mark.parametrize("limit", [1 << 20, 65_536])
def test_a_report_takes_no_buffer_larger_than_the_device_allows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: int
) -> None:
    def select(*arguments: object, **options: bool) -> PhysicalDevice:
        found = select_device(*arguments, **options)  # type: ignore[arg-type]
        return dataclasses.replace(found, limits=dataclasses.replace(found.limits, max_storage_buffer_range=limit))

    monkeypatch.setattr(driver_module, "select_device", select)
    monkeypatch.setattr(profiles, "_known", {})
    with Driver() as driver:
        with driver.profile() as profile:
            step(driver)(X, push_constants=PUSH)
        assert "step" in profile.summary()
        profile.save_html(tmp_path / "report.html")
        assert profiles.measure_bandwidth(driver) > 0
