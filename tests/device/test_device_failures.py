"""What fails is told once: as an event, in the counts, in the metrics and in the log; spans in tests/unit/test_events.py."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from example_programs import example
from kernels import STEP, Spin, glsl

from vyre_driver import Driver, kernels
from vyre_driver.autotune import Budget
from vyre_driver.errors import DispatchFailed, DispatchTimeout, InvalidInput, VyreError
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, store
from vyre_driver.lang import Index, InOut, f32, kernel
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.device
ONES = np.ones(4, np.uint32)
PUSH = {"factor": 2, "summand": 1}
COMPILE, DISPATCH = EventKind.COMPILE, EventKind.DISPATCH


@pytest.fixture
def layered() -> Iterator[Driver]:
    """A driver."""
    with Driver() as opened:
        yield opened


@kernel
def doubled(i: Index, x: InOut[f32], factor: f32) -> None:
    x[i] = factor * x[i]


def fail(call: Callable[[], object]) -> VyreError:
    with pytest.raises(VyreError) as refused:
        call()
    return refused.value


def told(driver: Driver) -> list[tuple[Failure | None, str, str | None]]:
    return [(one.failure, one.detail, one.key) for one in driver.events.recent() if one.kind is EventKind.FAILURE]


def test_each_compile_call_bind_and_run_that_fails_is_told_once(layered: Driver, caplog: pytest.LogCaptureFixture) -> None:
    spin = Spin(layered, 0.2)
    kernel, key = layered.compile(glsl(STEP)), spin.kernel.trace.key
    out = BufferDecl.output("out", 0, DataType.U32)
    calls: list[tuple[Callable[[], object], Failure, str | None]] = [
        (lambda: layered.compile(glsl(STEP), {"NOPE": 1}), Failure(COMPILE, 2102, "InvalidSpecialization"), None),
        (
            lambda: layered.compile(Program.wrapped([], (1, 1, 1), [store(out, gid_x(), 0)])),
            Failure(COMPILE, 1006, "InvalidProgram"),
            None,
        ),
        (lambda: kernel(ONES, ONES, push_constants=PUSH), Failure(DISPATCH, 2201, "InvalidInput"), kernel.trace.key),
        (lambda: kernel.bind(ONES, push_constants=PUSH), Failure(DISPATCH, 2201, "InvalidInput"), kernel.trace.key),  # type: ignore[arg-type]
        (lambda: spin.bound.run(timeout=0.01), Failure(DISPATCH, 2007, "DispatchTimeout"), key),
        (layered.batch().run, Failure(DISPATCH, 2201, "InvalidInput"), None),
        (lambda: kernels.saxpy(layered)(ONES), Failure(DISPATCH, 2201, "InvalidInput"), None),
    ]
    with caplog.at_level(logging.WARNING, "vyre_driver"):
        errors = [fail(call) for call, _, _ in calls]
    assert told(layered) == [(failure, error.problem, key) for error, (_, failure, key) in zip(errors, calls, strict=True)]
    assert layered.events.counts()[EventKind.FAILURE] == len(calls)
    assert layered.events.failures() == {(COMPILE, 2102): 1, (COMPILE, 1006): 1, (DISPATCH, 2201): 4, (DISPATCH, 2007): 1}
    lines = [one.getMessage() for one in caplog.records if one.name == "vyre_driver.telemetry.events"]
    assert lines[0] == f"compile <source> failed: InvalidSpecialization 2102: {errors[0].problem}"
    assert lines[2] == f"dispatch <source> {kernel.trace.key} failed: InvalidInput 2201: {errors[2].problem}"
    assert len(lines) == len(calls)


def test_streams_awaits_and_tunings_that_fail_are_told_too(layered: Driver) -> None:
    kernel, saxpy = layered.compile(glsl(STEP)), shipped_module("saxpy")
    spin = Spin(layered, 0.2)
    future = spin.bound.submit()

    async def wait() -> None:
        await asyncio.wait_for(future, 0.01)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(wait())
    future.result()
    nothing = told(layered)
    fail(lambda: list(layered.stream(kernel, [(ONES,), (ONES, ONES)], push_constants=PUSH)))
    fail(lambda: layered.tune(saxpy, ONES))
    fail(lambda: layered.tune(Program.wrapped([], (1, 1, 1), []), ONES))
    assert nothing == []
    assert layered.events.failures() == {(DISPATCH, 2201): 1, (EventKind.TUNE, 2201): 1, (EventKind.TUNE, 1002): 1}
    kernels_named = [one.kernel for one in layered.events.recent() if one.kind is EventKind.FAILURE]
    assert kernels_named[1] == saxpy.name


def test_calls_of_python_kernels_that_do_not_fit_are_told_once_with_the_kernels_name(layered: Driver) -> None:
    scaled = doubled.on(layered)
    x, resident = np.ones(8, np.float32), layered.buffer(np.ones(8, np.float32))
    scaled(x, 2.0)
    before = told(layered)
    fail(lambda: scaled(x, "two"))
    fail(lambda: scaled(x))
    fail(lambda: scaled.bind(x, 2.0))
    fail(lambda: doubled(resident, 2.0, 3.0))
    assert before == []
    assert layered.events.failures() == {(DISPATCH, 2201): 4}
    assert {one.kernel for one in layered.events.recent() if one.kind is EventKind.FAILURE} == {"doubled"}


def test_a_tuning_is_an_event_with_its_time(layered: Driver) -> None:
    x, y = np.ones((2, 1000), np.float32)
    found = layered.tune(example("saxpy", 2.5), x, y, budget=Budget(seconds=60, max_samples=8, run_timeout=20))
    (event,) = [one for one in layered.events.recent() if one.kind is EventKind.TUNE]
    assert (event.kernel, (event.duration_ns or 0) >= found.seconds * 1e9) == (found.kernel, True)


def test_failures_are_metrics_by_what_failed_and_code(layered: Driver) -> None:
    fail(lambda: layered.compile(glsl(STEP), {"NOPE": 1}))
    found = [line for line in layered.metrics().splitlines() if line.startswith("vyre_driver_failures_total")]
    assert [line.partition("}")[2] for line in found] == [" 1"]
    assert 'operation="compile",code="2102"' in found[0]


def test_a_future_that_is_asked_too_early_has_not_failed_and_one_of_a_closed_driver_has(layered: Driver) -> None:
    spin = Spin(layered, 0.2)
    future = spin.bound.submit()
    early = fail(lambda: future.result(0.01))
    future.result()
    nothing = told(layered)
    layered.close()
    late = [fail(spin.bound.run), fail(spin.bound.submit)]
    assert (type(early), nothing) == (DispatchTimeout, [])
    assert [one[0] for one in told(layered)] == [Failure(DISPATCH, 1005, "DispatchFailed")] * 2
    assert [type(one) for one in late] == [DispatchFailed] * 2


def test_an_error_that_goes_through_several_layers_is_told_once(layered: Driver) -> None:
    error = InvalidInput("again", fix="nothing")
    for _ in range(2):
        layered.events.failed(DISPATCH, error)
    assert layered.events.failures() == {(DISPATCH, 2201): 1}


def test_errors_of_somebody_else_are_told_without_a_code(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Exception):
        pass

    def fail(*_: object) -> None:
        raise Own("strange")

    monkeypatch.setattr("vyre_driver.lowering.source.check_requirements", fail)
    with pytest.raises(Own):
        layered.compile(glsl(STEP))
    assert [(one[0], one[1]) for one in told(layered)] == [(Failure(COMPILE, 0, "Own"), "strange")]


def test_what_the_protocol_of_an_array_raises_is_the_cause_of_a_refusal(layered: Driver) -> None:
    class Own(Exception):
        pass

    class Strange:
        @property
        def __array_interface__(self) -> Any:  # noqa: ANN401 -- none
            raise Own("strange")

    kernel = layered.compile(glsl(STEP))
    with pytest.raises(InvalidInput) as caught:
        kernel(Strange(), push_constants=PUSH)
    assert type(caught.value.__cause__) is Own
    assert str(caught.value) == (
        "input_output 'values' got something that is not an array (strange). "
        "Fix: pass a numpy array, or an object with the buffer protocol, __array_interface__ or DLPack."
    )


def test_an_interrupt_is_no_failure(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vyre_driver.lowering.source.check_requirements", interrupt)
    with pytest.raises(KeyboardInterrupt):
        layered.compile(glsl(STEP))
    assert told(layered) == []
