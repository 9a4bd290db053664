"""Programs of somebody's own: tuned on a call, compiled with what was found, and the same to whoever runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from example_programs import example
from tuned_code import FEW, X, floats, key, saxpy

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, AutotuneWarning, Candidate, Status
from vyre_driver.autotune.measure import definition
from vyre_driver.autotune.target import program_target
from vyre_driver.cache.entry import Verdict
from vyre_driver.errors import InvalidProgram, LimitExceeded
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, if_, load, store
from vyre_driver.ir.predicates import And, AtMost, Exactly, MultipleOf, ShapePredicate
from vyre_driver.lowering.program import prepare_for
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [pytest.mark.device, pytest.mark.usefixtures("records_in_memory")]


def keep_for_program(driver: Driver, program: Program, workgroup: int, config: DispatchConfig | None = None) -> None:
    target = program_target(prepare_for(driver.context.device, program, None, config), config, driver.device)
    driver.tuning.keep(target, target.record(Candidate((workgroup, 1, 1)), 9, 100))


def overridden(driver: Driver, program: Program, workgroup: int) -> str:
    return key(driver.compile(program, config=DispatchConfig(workgroup_override=(workgroup, 1, 1))))


def test_a_program_is_tuned_without_arrays_and_compiled_with_what_was_found(driver: Driver) -> None:
    result = driver.tune(saxpy(), budget=FEW)
    (best, *others) = result.record.workgroup_size
    kernel = driver.compile(saxpy())
    expected = key(driver.compile(saxpy(), config=DispatchConfig(workgroup_override=(best, 1, 1))))
    with Driver(autotune=AutotuneStore()) as fresh:
        untuned = key(fresh.compile(saxpy()))
    assert (others, key(kernel), kernel.workgroup_size) == ([1, 1], untuned if best == 64 else expected, (64, 1, 1))
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
    x, y = floats(1000, 1), floats(1000, 2)
    np.testing.assert_array_equal(kernel(x, y), np.float32(2.5) * x + y)


def test_a_tuned_program_covers_its_elements_with_the_size_of_the_record(driver: Driver) -> None:
    untuned = driver.compile(saxpy())
    keep_for_program(driver, saxpy(), 256)
    tuned = driver.compile(saxpy())
    assert (key(tuned), key(tuned) == key(untuned), tuned.workgroup_size) == (
        overridden(driver, saxpy(), 256),
        False,
        (64, 1, 1),
    )
    x, y = floats(1000, 1), floats(1000, 2)
    resident = driver.buffer(y)
    tuned.bind(driver.buffer(x), resident).run()
    expected = np.asarray(untuned(x, y)).tobytes()
    assert [np.asarray(tuned(x, y)).tobytes(), resident.read().tobytes()] == [expected] * 2
    assert tuned.trace.key == key(tuned)


def test_a_grid_of_the_callers_gives_what_the_untuned_program_gives(driver: Driver) -> None:
    untuned = driver.compile(saxpy())
    keep_for_program(driver, saxpy(), 256)
    tuned = driver.compile(saxpy())
    x, y = floats(1000, 1), floats(1000, 2)
    expected = np.asarray(untuned(x, y, workgroups=(3,)))
    assert np.flatnonzero(expected != y).size == 192
    bound = [driver.buffer(y), driver.buffer(y)]
    for kernel, buffer in zip((untuned, tuned), bound, strict=True):
        kernel.bind(driver.buffer(x), buffer, workgroups=(3,)).run()
    found = [np.asarray(tuned(x, y, workgroups=(3,))), *[one.read() for one in bound]]
    assert [one.tobytes() for one in found] == [expected.tobytes()] * 3
    assert (tuned.trace.key, tuned.trace.verdict) == (key(untuned), Verdict.HIT)
    tuned(x, y)
    assert tuned.trace.key == overridden(driver, saxpy(), 256)


@pytest.mark.parametrize("invocations", [192, (100,), 1000, 0])
def test_invocations_of_the_callers_are_those_of_the_untuned_program(
    driver: Driver, invocations: int | tuple[int, ...]
) -> None:
    untuned = driver.compile(saxpy())
    keep_for_program(driver, saxpy(), 256)
    tuned = driver.compile(saxpy())
    x, y = floats(1000, 1), floats(1000, 2)
    expected = np.asarray(untuned(x, y, invocations=invocations)).tobytes()
    assert np.asarray(tuned(x, y, invocations=invocations)).tobytes() == expected
    resident = driver.buffer(y)
    tuned.bind(driver.buffer(x), resident, invocations=invocations).run()
    assert resident.read().tobytes() == expected


def test_a_workgroup_of_the_callers_wins(driver: Driver) -> None:
    config = DispatchConfig(workgroup_override=(32, 1, 1))
    untuned = driver.compile(saxpy(), config=config)
    keep_for_program(driver, saxpy(), 256)
    keep_for_program(driver, saxpy(), 256, config)
    again = driver.compile(saxpy(), config=config)
    assert (key(again), again.workgroup_size) == (key(untuned), (32, 1, 1))


def test_a_program_that_is_bound_to_its_workgroup_is_never_changed_by_a_record(
    driver: Driver, quick_tuning: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = example("prefix_sum")
    untuned = driver.compile(program)
    keep_for_program(driver, program, 64)
    assert key(driver.compile(program)) == key(untuned)
    monkeypatch.setenv("VYRE_AUTOTUNE", "force")
    with Driver(autotune=driver.tuning.store) as forced:
        assert (key(forced.compile(program)), quick_tuning) == (key(untuned), [])


@pytest.mark.parametrize(
    ("mode", "tunings"), [("tune", [1, 1, 1, 2]), ("force", [1, 1, 2, 3]), ("read", [0] * 4), ("off", [0] * 4)]
)
def test_a_program_is_tuned_at_its_first_compilation_where_the_mode_says_so(
    mode: str, tunings: list[int], quick_tuning: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", mode)
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(tmp_path / "autotune.toml"))
    if mode == "read":
        (tmp_path / "autotune.toml").write_text("schema = 1\n")  # who reads only is warned of a file that is not there
    x, y = floats(1000, 1), floats(1000, 2)
    found = []
    for _ in range(2):
        with Driver() as driver:
            for _ in range(2):
                np.testing.assert_array_equal(driver.compile(saxpy())(x, y), np.float32(2.5) * x + y)
                found.append(len(quick_tuning))
    with Driver() as driver:
        driver.compile(saxpy(), config=DispatchConfig(workgroup_override=(128, 1, 1)))
        config = DispatchConfig(ulp_budget=2)
        driver.compile(saxpy(), config=config)
    found.append(len(quick_tuning))
    assert [found[0], found[1], found[3], found[4]] == tunings
    assert len(AutotuneStore.load(tmp_path / "autotune.toml")) == (2 if tunings[0] else 0)


def with_few_groups(driver: Driver, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device allow so many workgroups along an axis."""
    device = driver.device
    limits = replace(device.limits, max_compute_work_group_count=(most, most, most))
    monkeypatch.setattr(driver.context.device, "physical", replace(device, limits=limits))
    monkeypatch.setattr(driver, "device", replace(device, limits=limits))


def test_what_needs_too_many_workgroups_of_the_tuned_size_runs_as_declared(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_few_groups(driver, 50, monkeypatch)
    untuned = driver.compile(saxpy())
    keep_for_program(driver, saxpy(), 32)
    tuned = driver.compile(saxpy())
    keys = []
    for count in (1000, 1601, 3200, 1000):
        x, y = floats(count, 1), floats(count, 2)
        expected = np.asarray(untuned(x, y)).tobytes()
        resident = driver.buffer(y)
        tuned.bind(driver.buffer(x), resident).run()
        assert [np.asarray(tuned(x, y)).tobytes(), resident.read().tobytes()] == [expected] * 2
        keys.append(tuned.trace.key)
    small, large = overridden(driver, saxpy(), 32), key(untuned)
    assert keys == [small, large, large, small]
    x, y = floats(3201, 1), driver.buffer(floats(3201, 2))
    for use in (lambda: tuned(x, x), lambda: tuned.bind(y, y)):
        with pytest.raises(LimitExceeded, match="the grid has 51 workgroups along x, and the device allows 50"):
            use()


def test_a_size_that_needs_too_many_workgroups_is_a_failed_candidate(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    with_few_groups(driver, 50, monkeypatch)
    result = driver.tune(saxpy(), floats(3200, 1), floats(3200, 2), budget=FEW)
    failed = [one.candidate.workgroup_size[0] for one in result.outcomes if one.status is Status.FAILED]
    assert (failed, result.best.candidate.workgroup_size[0] >= 64) == ([32], True)


def incremented(predicate: ShapePredicate) -> Program:
    data = BufferDecl.read_write("data", 0, DataType.U32).with_shape_predicate(predicate)
    i = gid_x()
    return Program.wrapped([data], (64, 1, 1), [store(data, i, load(data, i) + 1)])


@pytest.mark.parametrize("predicate", [MultipleOf(3), And(MultipleOf(7), AtMost(1000)), Exactly(96)])
@pytest.mark.usefixtures("quick_tuning")
def test_a_program_with_a_shape_predicate_is_tuned_on_an_example_that_fulfils_it(
    predicate: ShapePredicate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        kernel = driver.compile(incremented(predicate))
        count = next(count for count in range(20, 200) if predicate.holds(count))
        found = np.asarray(kernel(X[:count])).tolist()
        assert (found, len(driver.tuning.store)) == ((X[:count] + 1).tolist(), 1)
        with pytest.raises(InvalidProgram, match="its shape predicate is"):
            kernel(X[:19])


def test_where_no_example_fulfils_a_predicate_compiling_goes_on_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "tune")
    with Driver(autotune=AutotuneStore()) as driver:
        program = incremented(And(Exactly(95), Exactly(96)))
        with pytest.warns(AutotuneWarning, match="^tuning did not come to its end: .*its shape predicate is"):
            kernel = driver.compile(program)
        assert (kernel.workgroup_size, len(driver.tuning.store)) == ((64, 1, 1), 0)


def test_outputs_that_are_only_written_have_the_counts_that_are_given_or_made_up(driver: Driver) -> None:
    y = BufferDecl.output("y", 0, DataType.U32)
    i = gid_x()
    program = Program.wrapped([y], (64, 1, 1), [store(y, i, i * 3)])
    sizes = []
    bytes_of = definition.KernelOfCall.moved_bytes
    for call in ({"out_shapes": {"y": 500}}, {}):
        made: list[int] = []

        def moved(kernel: Any, size: tuple[int, ...], made: list[int] = made) -> int:  # noqa: ANN401 -- a KernelOfCall
            made.append(bytes_of(kernel, size))
            return made[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(definition.KernelOfCall, "moved_bytes", moved)
            driver.tune(program, budget=FEW, **call)
        sizes += sorted(set(made))
    found = driver.compile(program)(out_shapes={"y": 100})
    assert (sizes, np.asarray(found).tolist()) == ([2000, 4 << 20], [3 * one for one in range(100)])


def test_a_guarded_program_with_a_short_input_is_tuned_on_the_arrays_of_the_call(driver: Driver) -> None:
    x, y = BufferDecl.read("x", 0, DataType.U32), BufferDecl.output("y", 1, DataType.U32)
    i = gid_x()
    program = Program.wrapped([x, y], (64, 1, 1), [if_(i < 900, [store(y, i, load(x, i) + 7)])])
    call = {"out_shapes": {"y": 1000}}
    untuned = np.asarray(driver.compile(program)(X[:10], **call))
    result = driver.tune(program, X[:10], budget=FEW, **call)
    assert np.asarray(driver.compile(program)(X[:10], **call)).tobytes() == untuned.tobytes()
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
