"""The names of kernels in events, metrics and profiles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.cache import Verdict
from vyre_driver.errors import VyreError
from vyre_driver.lang import In, Index, Out, elementwise, f32, fuse, kernel, reduction, scan
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device

X = np.ones(9, np.float32)


@kernel
def first(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] + 1.0


@kernel
def second(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] + 1.0


@elementwise
def halved(x: f32) -> f32:
    return x * 0.5


def added(a: float, b: float) -> float:
    return a + b


def of_dispatches(driver: Driver) -> list[str]:
    return [event.kernel for event in driver.events.recent() if event.kind is EventKind.DISPATCH]


def test_events_and_metrics_have_the_names_of_python_kernels(layered: Driver) -> None:
    first.on(layered)(X)
    second.on(layered)(X)
    assert {event.kernel for event in layered.events.recent()} == {"first", "second"}
    counted = [line for line in layered.metrics().splitlines() if line.startswith("vyre_driver_kernel_dispatches_total")]
    assert [line.partition('kernel="')[2].partition('"')[0] for line in counted] == ["first", "second"]


def test_elementwise_functions_reductions_and_scans_have_their_names(layered: Driver) -> None:
    halved.on(layered)(X)
    reduction(added, zero=0.0).on(layered)(X)
    scan(added).on(layered)(X)
    assert of_dispatches(layered) == ["halved", "added", "added"]


def test_functions_without_a_name_are_called_what_they_are(layered: Driver) -> None:
    fuse(lambda x: x + 1.0).on(layered)(X)
    reduction(lambda a, b: a + b, zero=0.0).on(layered)(X)
    scan(lambda a, b: a + b).on(layered)(X)
    assert of_dispatches(layered) == ["fused", "reduction", "scan"]


def test_a_program_has_its_own_name_or_none(layered: Driver) -> None:
    program = first.program()
    layered.compile(replace(program, entry_op_id="mine::scale"))(X, X)
    unnamed = layered.compile(replace(program, entry_op_id=None))
    assert (of_dispatches(layered), unnamed.name) == (["mine::scale"], "the lowered program")


def test_kernels_of_one_program_share_its_entry_under_their_own_names(layered: Driver) -> None:
    one, other = layered.compile(first), layered.compile(second)
    assert (one.name, other.name) == ("first", "second")
    assert one.trace.key == other.trace.key
    assert (one.trace.verdict, other.trace.verdict) == (Verdict.MISS, Verdict.HIT)


def test_the_cache_lists_entries_with_the_names_of_events(tmp_path: Path) -> None:
    with Driver(cache=tmp_path) as driver:
        first.on(driver)(X)
        second.on(driver)(X)
        fuse(lambda x: x * 3.0).on(driver)(X)
        driver.compile(shipped_module("saxpy"))
        events = {event.key: event.kernel for event in driver.events.recent() if event.kind is EventKind.MISS}
        assert {entry.key: entry.kernel for entry in driver.cache.entries()} == events
    assert sorted(events.values()) == ["first", "fused", "saxpy.spv"]


def test_only_who_compiles_an_entry_writes_its_name(tmp_path: Path) -> None:
    with Driver(cache=tmp_path) as driver:
        driver.compile(first)(X, X)
    names = tmp_path / "kernels.names"
    names.unlink()
    with Driver(cache=tmp_path) as driver:
        compiled = driver.compile(second)
        compiled(X, X)
        assert compiled.trace.verdict is Verdict.HIT
        assert ([entry.kernel for entry in driver.cache.entries()], names.exists()) == ([""], False)


def test_a_profile_has_the_names_of_events(layered: Driver) -> None:
    with layered.profile() as profile:
        first.on(layered)(X)
    assert "first" in profile.summary(bandwidth=0)


def test_an_error_of_compiling_names_the_kernel(layered: Driver) -> None:
    with pytest.raises(VyreError):
        layered.compile(first, constants={"nothing": 1})
    (event,) = [event for event in layered.events.recent() if event.kind is EventKind.FAILURE]
    assert event.kernel == "first"


def test_an_isolated_driver_names_kernels_too() -> None:
    with Driver(isolated=True) as driver:
        compiled = driver.compile(first)
        assert compiled.name == "first"
        compiled(X, X)
        assert of_dispatches(driver) == ["first"]
