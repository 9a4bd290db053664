"""What a driver tells of its work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from kernels import STEP, glsl
from listeners import Heard

from vyre_driver import Driver, DriverPool
from vyre_driver.backends import DispatchConfig, acquire
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device
X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}
STEPS = {"factor": 2, "summand": 1}


def test_a_driver_tells_of_every_step(driver: Driver) -> None:
    heard = Heard()
    driver.events.add_listener(heard)
    kernel = driver.compile(shipped_module("saxpy"))
    missed = heard.told()
    kernel(X, X, push_constants=PUSH, label="mine")
    called = [(kind, count, timed) for kind, count, timed, _ in heard.told()]
    kernel(X, X, push_constants=PUSH, label="mine")
    again = heard.told()
    driver.compile(shipped_module("saxpy"))
    hit = [(kind, count, timed) for kind, count, timed, _ in heard.told()]
    assert [(kind, count, timed) for kind, count, timed, _ in missed] == [("miss", 1, True)]
    assert (called, again, hit) == (
        [("compile", 1, True), ("dispatch", 1, True)],
        [("dispatch", 1, True, "mine")],
        [("hit", 1, True)],
    )
    assert {one.key for one in driver.events.recent()} == {kernel.trace.key}


def test_replays_futures_and_batches_are_told_once_each(driver: Driver) -> None:
    kernel = driver.compile(glsl(STEP))
    bound = kernel.bind(driver.buffer(np.ones(64, np.uint32)), push_constants=STEPS)
    heard = Heard()
    driver.events.add_listener(heard)
    bound.run()
    bound.submit().result()
    with driver.batch() as batch:
        for _ in range(3):
            batch.add(bound)
    batch.submit().result()
    assert heard.told() == [
        ("dispatch", 1, True, ""),
        ("dispatch", 1, False, ""),
        ("complete", 1, True, ""),
        ("dispatch", 3, True, "batch"),
        ("dispatch", 3, False, "batch"),
        ("complete", 3, True, "batch"),
    ]
    assert driver.events.counts()[EventKind.DISPATCH] == 8


def test_kernels_and_labels_are_named_on_every_path(driver: Driver) -> None:
    saxpy, step = driver.compile(shipped_module("saxpy")), driver.compile(glsl(STEP))
    values, x = driver.buffer(np.ones(64, np.uint32)), driver.buffer(X)
    bound = step.bind(values, push_constants=STEPS, label="bound")
    heard = Heard()
    driver.events.add_listener(heard)
    saxpy(X, X, push_constants=PUSH, label="call")
    bound.run()
    bound.submit().result()
    step.bind(values, push_constants=STEPS).run()
    batch = driver.batch(label="both")
    batch.add(bound)
    batch.add(saxpy.bind(x, driver.buffer(X), push_constants=PUSH))
    batch.run()
    batch.submit().result()
    list(driver.stream(saxpy, [(X, X)], label="chunk", push_constants=PUSH))
    named = [(one.kind.value, one.kernel, one.detail) for one in heard.events if one.kind is not EventKind.COMPILE]
    assert named == [
        ("dispatch", saxpy.name, "call"),
        ("dispatch", step.name, "bound"),
        ("dispatch", step.name, "bound"),
        ("complete", step.name, "bound"),
        ("dispatch", step.name, ""),
        ("dispatch", f"{step.name}, {saxpy.name}", "both"),
        ("dispatch", f"{step.name}, {saxpy.name}", "both"),
        ("complete", f"{step.name}, {saxpy.name}", "both"),
        ("dispatch", saxpy.name, "chunk"),
    ]
    counted = {one.name: one.dispatches for one in driver.events.kernels()}
    assert (counted[saxpy.name], counted[step.name]) == (4, 5)
    for refused in (lambda: step.bind(values, label=1), lambda: driver.batch(label=2)):  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="label is of type int"):
            refused()


def test_a_dispatch_that_fails_is_not_told_as_one(driver: Driver) -> None:
    kernel = driver.compile(shipped_module("saxpy"))
    with pytest.raises(ValueError, match="takes 2 array"):
        kernel(X, push_constants=PUSH)
    assert driver.events.counts()[EventKind.DISPATCH] == 0


def test_an_eviction_is_told_to_every_driver_of_a_cache(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "cache")
    with Driver(cache=cache) as first, Driver(cache=cache) as second:
        first.compile(shipped_module("saxpy"))
        assert cache.prune(max_bytes=1 << 20).entries == 0
        report = cache.prune(max_bytes=0)
        found = [
            [(one.count, one.detail) for one in each.events.recent() if one.kind is EventKind.EVICT] for each in (first, second)
        ]
    assert (report.entries, found) == (1, [[(1, f"{report.freed_bytes} bytes freed")]] * 2)


def test_a_label_of_a_configuration_is_told() -> None:
    with acquire("kompute") as backend:
        loaded = backend.load(shipped_module("saxpy"), config=DispatchConfig(label="mine"))
        loaded.dispatch([X, X], push_constants=PUSH)
        loaded.dispatch_timed([X, X], push_constants=PUSH)
        recent = backend.driver.events.recent()  # type: ignore[attr-defined]
    assert [one.detail for one in recent if one.kind is EventKind.DISPATCH] == ["mine", "mine"]


def families(text: str) -> dict[str, list[Any]]:
    parser = imported("prometheus_client.parser")
    return {family.name: family.samples for family in parser.text_string_to_metric_families(text)}


def test_a_drivers_metrics_are_its_counters(driver: Driver) -> None:
    kernel = driver.compile(shipped_module("saxpy"))
    for _ in range(5):
        kernel(X, X, push_constants=PUSH)
    found = families(driver.metrics())
    device = {"device": driver.device.name, "uuid": driver.device.device_uuid.hex()}
    device["number"] = str(driver.number)
    assert all(device.items() <= one.labels.items() for samples in found.values() for one in samples)
    events = {one.labels["kind"]: one.value for one in found["vyre_driver_events"]}
    assert events == {
        "compile": 1,
        "hit": 0,
        "miss": 1,
        "dispatch": 5,
        "complete": 0,
        "tune": 0,
        "evict": 0,
        "failure": 0,
        "fetch": 0,
    }
    seconds = {one.labels["kind"]: one.value for one in found["vyre_driver_event_seconds"]}
    assert seconds == {kind.value: spent / 1e9 for kind, spent in driver.events.total_ns().items()}
    counts: Any = driver.report()["cache"]
    assert {one.labels["what"]: one.value for one in found["vyre_driver_cache"]} == counts["counts"]
    assert [one.value for one in found["vyre_driver_device_lost"]] == [0]
    assert "vyre_driver_layer_pipelines_created" in found


def test_every_line_of_the_metrics_is_of_the_format(driver: Driver) -> None:
    sample = re.compile(r'[a-z_]+\{([a-z]+="(\\.|[^"\\\n])*",?)*\} [0-9.e+-]+')
    lines = driver.metrics().splitlines()
    assert [line for line in lines if not line.startswith("# ") and not sample.fullmatch(line)] == []


def series(text: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]


def test_two_drivers_of_one_device_have_no_series_in_common(driver: Driver) -> None:
    with Driver() as other:
        found = series(driver.metrics()), series(other.metrics())
    assert (len(found[0]) > 10, set(found[0]) & set(found[1])) == (True, set())


def test_a_pool_tells_of_all_its_drivers_in_one_text() -> None:
    heard = Heard()
    with DriverPool([0, 0]) as pool:
        pool.add_listener(heard)
        kernel = pool.compile(shipped_module("saxpy"))
        kernel.map([(X, X)] * 4, push_constants=PUSH)
        pool.remove_listener(heard)
        kernel.map([(X, X)], push_constants=PUSH)
        text, drivers = pool.metrics(), pool.drivers
    families(text)
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    counted = [line for line in text.splitlines() if "jobs_done_total{" in line]
    done = {line.partition('number="')[2].partition('"')[0]: line[-1] for line in counted}
    dispatches = [one for one in heard.events if one.kind is EventKind.DISPATCH]
    assert (len(names), len(set(series(text)))) == (len(set(names)), len(series(text)))
    assert (set(done), sum(map(int, done.values())), len(dispatches)) == ({str(one.number) for one in drivers}, 5, 4)
