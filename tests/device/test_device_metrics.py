"""The metrics of drivers and pools: histograms, kernels, memory, bytes that moved, and what is under way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from kernels import STEP, Spin, glsl

from vyre_driver import Driver, DriverPool
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind
from vyre_driver.telemetry.opentelemetry import export

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.device
X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}
STEPS = {"factor": 2, "summand": 1}


@pytest.fixture
def layered() -> Iterator[Driver]:
    """A driver."""
    with Driver() as opened:
        yield opened


def families(text: str) -> dict[str, list[Any]]:
    parser = imported("prometheus_client.parser")
    return {family.name: family.samples for family in parser.text_string_to_metric_families(text)}


def values(driver: Driver | DriverPool, name: str, label: str = "") -> dict[str, float]:
    """The samples of a family by one of their labels; of a histogram those of one driver by suffix and bound."""
    samples = families(driver.metrics())[f"vyre_driver_{name}"]
    return {one.labels.get(label, "") if label else one.name.removeprefix(f"vyre_driver_{name}"): one.value for one in samples}


def test_durations_are_histograms_whose_buckets_grow_and_whose_last_is_the_count(driver: Driver) -> None:
    kernel = driver.compile(glsl(STEP))
    bound = kernel.bind(driver.buffer(np.ones(64, np.uint32)), push_constants=STEPS)
    for _ in range(3):
        bound.run()
    bound.submit().result()
    found = families(driver.metrics())
    for kind, number in (("dispatch", 3), ("complete", 1), ("compile", 1)):
        samples = found[f"vyre_driver_{kind}_seconds"]
        buckets = [(float(one.labels["le"]), one.value) for one in samples if one.name.endswith("_bucket")]
        sums = {one.name.rpartition("_")[2]: one.value for one in samples if not one.name.endswith("_bucket")}
        assert [bound for bound, _ in buckets] == [*(2**place / 1e9 for place in range(10, 35, 2)), float("inf")]
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert (buckets[-1][1], sums["count"]) == (number, number)
        assert sums["sum"] == driver.events.total_ns()[EventKind(kind)] / 1e9 > 0
        assert sum(driver.events.histogram(EventKind(kind))) == number


def test_kernels_are_counted_by_name_with_their_time(driver: Driver) -> None:
    saxpy, step = driver.compile(shipped_module("saxpy")), driver.compile(glsl(STEP))
    driver.compile(shipped_module("saxpy"))(X, X, push_constants=PUSH)
    saxpy(X, X, push_constants=PUSH)
    bound = step.bind(driver.buffer(np.ones(64, np.uint32)), push_constants=STEPS)
    bound.submit().result()
    batch = driver.batch()
    for _ in range(3):
        batch.add(bound)
    batch.run()
    assert values(driver, "kernel_dispatches", "kernel") == {saxpy.name: 2, step.name: 4}
    total_ns = driver.events.total_ns()
    seconds = values(driver, "kernel_seconds", "kernel")
    assert sum(seconds.values()) == pytest.approx((total_ns[EventKind.DISPATCH] + total_ns[EventKind.COMPLETE]) / 1e9)
    assert "vyre_driver_kernel_device_seconds" not in families(driver.metrics())


def test_what_the_device_has_measured_is_counted_for_its_kernel(layered: Driver) -> None:
    if layered.device.compute_family is None or not layered.context.device.is_timed:
        pytest.skip("the device has no clock")
    bound = layered.compile(glsl(STEP)).bind(layered.buffer(np.ones(64, np.uint32)), push_constants=STEPS, label="mine")
    times = bound.run_timed(3)
    (found,) = values(layered, "kernel_device_seconds", "kernel").values()
    assert found == (times.device_ns or 0) / 1e9
    assert [(one.kind, one.detail) for one in layered.events.recent()][-1] == (EventKind.DISPATCH, "mine")


def test_no_more_than_256_kernels_are_counted_by_name(driver: Driver) -> None:
    for number in range(300):
        driver.events.dispatches(None, (f"kernel {number}",)).handed_over()
    found = values(driver, "kernel_dispatches", "kernel")
    assert (len(found), found["kernel 255"], found["(others)"]) == (257, 1, 44)


def test_bytes_that_go_up_and_come_down_are_counted_on_each_way(driver: Driver) -> None:
    kernel = driver.compile(shipped_module("saxpy"))

    def moved(call: object) -> tuple[float, float]:
        before = values(driver, "moved_bytes", "direction")
        call()  # type: ignore[operator]
        after = values(driver, "moved_bytes", "direction")
        return after["up"] - before["up"], after["down"] - before["down"]

    resident = driver.buffer(X)
    assert moved(lambda: kernel(X, X, push_constants=PUSH)) == (800, 400)
    assert moved(lambda: kernel(resident, resident, push_constants=PUSH)) == (0, 0)
    assert moved(lambda: resident.write(X)) == (400, 0)
    assert moved(resident.read) == (0, 400)
    assert moved(resident[10:20].read) == (0, 40)
    assert moved(lambda: list(driver.stream(kernel, [(X, X)] * 3, push_constants=PUSH))) == (2400, 1200)


def test_memory_is_counted_by_the_names_of_buffers(driver: Driver) -> None:
    weights = [driver.empty(1000, np.uint32, "weights") for _ in range(2)]
    kernel = driver.compile(shipped_module("saxpy"))
    kernel(X, X, push_constants=PUSH)
    found = driver.context.snapshot()["memory"]["buffers"]
    assert (found["weights"], found["(calls)"]) == ((2, 8000), (2, 800))
    assert values(driver, "memory_bytes") == {"": sum(byte_len for _, byte_len in found.values())}
    shown = values(driver, "buffers", "buffer"), values(driver, "buffer_bytes", "buffer")
    assert shown == ({name: number for name, (number, _) in found.items()}, {name: size for name, (_, size) in found.items()})
    more = [driver.empty(number, np.uint32, f"more {number}") for number in range(1000, 1040)]
    sizes = {"weights": 8000, **{one.name: 4 * number for number, one in enumerate(more, 1000) if number >= 1009}}
    assert values(driver, "buffer_bytes", "buffer") == sizes
    weights[0].close()
    assert driver.context.snapshot()["memory"]["buffers"]["weights"] == (1, 4000)


def test_what_is_under_way_is_a_gauge(layered: Driver) -> None:
    spin = Spin(layered, 0.2)
    future = spin.bound.submit()
    under_way = values(layered, "in_flight")
    future.result()
    assert (under_way, values(layered, "in_flight")) == ({"": 1}, {"": 0})


def test_jobs_of_a_pool_that_wait_raise_or_are_cancelled_are_counted() -> None:
    began, goes_on = threading.Event(), threading.Event()

    def hold(_: Driver) -> None:
        began.set()
        goes_on.wait(60)

    def refuse(_: Driver) -> None:
        raise InvalidInput("no", fix="nothing")

    with DriverPool([0]) as pool:
        held = pool.submit(hold)
        began.wait(60)
        waiting = [pool.submit(refuse), pool.submit(refuse), pool.submit(hold)]
        assert waiting[1].cancel()
        states = [list(values(pool, f"pool_jobs_{name}").values()) for name in ("waiting", "running", "done")]
        goes_on.set()
        assert (held.result(60), waiting[2].result(60), type(waiting[0].exception(60))) == (None, None, InvalidInput)
        names = ("waiting", "done", "failed", "cancelled")
        after = [list(values(pool, f"pool_jobs_{name}").values()) for name in names]
    assert (states, after[0], after[2:]) == ([[3], [1], [0]], [0], [[1], [1]])


def test_an_isolated_drivers_metrics_are_its_own_and_have_what_was_counted_here() -> None:
    with Driver(isolated=True) as one, Driver(isolated=True) as other:
        kernel = one.compile(shipped_module("saxpy"))
        kernel(X, X, push_constants=PUSH)
        resident = one.buffer(X, "mine")
        bound = kernel.bind(one.buffer(X), resident, push_constants=PUSH, label="bound")
        bound.run()
        batch = one.batch(label="all")
        batch.add(bound)
        batch.run()
        with pytest.raises(InvalidInput):
            kernel(X, push_constants=PUSH)
        with pytest.raises(InvalidInput):
            bound.run(timeout=-1)
        with pytest.raises(InvalidInput):
            one.batch().run()
        with pytest.raises(InvalidInput):
            kernel.bind(X, push_constants=PUSH)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            one.compile(3)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            one.tune(shipped_module("saxpy"), X, X)
        named = [(event.kind.value, event.kernel, event.detail) for event in one.events.recent() if event.failure is None]
        failures = one.events.failures()
        text = one.metrics(), other.metrics()
        found = values(one, "events", "kind")
        buffers = one.context.snapshot()["memory"]["buffers"]
    assert named == [("dispatch", kernel.name, ""), ("dispatch", kernel.name, "bound"), ("dispatch", kernel.name, "all")]
    wrong = {(EventKind.DISPATCH, 2201): 4, (EventKind.COMPILE, 2201): 1, (EventKind.TUNE, 2201): 1}
    assert (failures, buffers["mine"]) == (wrong, (1, 400))
    assert {kind: number for kind, number in found.items() if number} == {"compile": 1, "miss": 1, "dispatch": 3, "failure": 6}
    series = [{line.rpartition(" ")[0] for line in one.splitlines() if not line.startswith("#")} for one in text]
    assert (len(series[0] & series[1]), f'number="{one.number}"' in text[0]) == (0, True)


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
def test_a_real_driver_is_exported_through_opentelemetry(isolated: bool) -> None:  # noqa: FBT001
    sdk, sdk_export = imported("opentelemetry.sdk.metrics"), imported("opentelemetry.sdk.metrics.export")
    reader = sdk_export.InMemoryMetricReader()
    with Driver(isolated=isolated) as driver:
        export(driver, None, sdk.MeterProvider([reader]))
        kernel = driver.compile(shipped_module("saxpy"))
        kernel(X, X, push_constants=PUSH)
        (found,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
        numbers = {metric.name.removeprefix("vyre_driver."): list(metric.data.data_points) for metric in found.metrics}
    here = {"compile.duration", "in_flight", "memory", "moved"}
    assert set(numbers) == {"events", "kernel.dispatches", "dispatch.duration"} | (set() if isolated else here)
    assert [(one.attributes["vyre_driver.kernel"], one.value) for one in numbers["kernel.dispatches"]] == [(kernel.name, 1)]
    assert numbers["dispatch.duration"][0].sum > 0
    assert [one.value for one in numbers.get("moved", ())] == ([] if isolated else [800, 400])
