"""Modules and programs of somebody's own: tuned on a call, compiled with what was found, and the same to whoever runs them."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import glsl
from made_kernels import IN_PLACE

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, AutotuneWarning, Axis, Budget, Candidate, Status, TuningSpace
from vyre_driver.autotune.choice import module_target, program_target
from vyre_driver.autotune.measure import calls
from vyre_driver.autotune.measure import tune as tuning
from vyre_driver.cache.entry import Verdict
from vyre_driver.errors import InvalidInput, InvalidProgram, InvalidSpecialization, LimitExceeded
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, if_, load, store
from vyre_driver.ir.predicates import And, AtMost, Exactly, MultipleOf, ShapePredicate
from vyre_driver.lowering.program import prepare_for
from vyre_driver.specialization.values import SpecMap, SpecValue
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vyre_driver import Kernel
    from vyre_driver.autotune.search.space import Limits

pytestmark = pytest.mark.device

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = Budget(seconds=60, max_samples=8, run_timeout=20)
MODULE = glsl("""#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64;
layout(constant_id = 1) const uint DEPTH = 2;
layout(constant_id = 2) const uint SUMMAND = 5;
layout(push_constant) uniform Push { uint factor; };
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    for (uint turn = 0u; turn < DEPTH; turn++) {
        uint i = (gl_WorkGroupID.x * DEPTH + turn) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (i < y.length()) y[i] = factor * x[i] + SUMMAND;
    }
}
""")


def at_most_512(one: Candidate, _: Limits) -> str | None:
    return "too much for a workgroup" if one.workgroup_size[0] * one["DEPTH"] > 512 else None


SPACE = TuningSpace((Axis("GROUP", (128, 64, 256), workgroup="x"), Axis("DEPTH", (4, 2, 1))), rule=at_most_512)
COUNT = 3000
X = np.arange(COUNT, dtype=np.uint32)
CALL = {"push": {"factor": 3}, "out_counts": {"y": COUNT}}


def groups(one: Candidate) -> tuple[int, int, int]:
    return -(-COUNT // (one.workgroup_size[0] * one["DEPTH"])), 1, 1


@pytest.fixture
def driver(layer: str) -> Iterator[Driver]:
    """A driver with and without the layer, whose records are in memory."""
    assert layer
    with Driver(autotune=AutotuneStore()) as opened:
        yield opened


@pytest.fixture
def quick_tuning(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is tuned unasked is timed a few times only; the names of what was tuned."""
    tuned, tune = [], tuning.tune

    def counted(kernel: Any, *given: Any, **how: Any) -> object:  # noqa: ANN401 -- those of tune
        tuned.append(kernel.definition.name)
        return tune(kernel, *given, **how)

    monkeypatch.setattr(tuning, "UNASKED", Budget(seconds=30, max_samples=8))
    monkeypatch.setattr(tuning, "tune", counted)
    return tuned


def keep_for_module(driver: Driver, best: Candidate, specs: dict[str, object] | None = None) -> None:
    target = module_target(MODULE, specs, SPACE, driver.physical_device)
    driver.tuning.keep(target, target.record(best, 9, 100))


def keep_for_program(driver: Driver, program: Program, workgroup: int, config: DispatchConfig | None = None) -> None:
    target = program_target(prepare_for(driver.device, program, None, config), config, driver.physical_device)
    driver.tuning.keep(target, target.record(Candidate((workgroup, 1, 1)), 9, 100))


def key(kernel: Kernel) -> str:
    return kernel.trace.key


def called(kernel: Kernel) -> list[int]:
    """What the module gives: right whatever the constants are, with enough workgroups."""
    found: list[int] = np.asarray(kernel(X, groups=(COUNT, 1, 1), **CALL)).tolist()
    return found


def test_a_modules_record_is_used_and_without_one_what_it_declares(driver: Driver) -> None:
    declared = driver.compile(MODULE, space=SPACE)
    keep_for_module(driver, SPACE.candidate(GROUP=256, DEPTH=1))
    tuned = driver.compile(MODULE, space=SPACE)
    expected = [driver.compile(MODULE), driver.compile(MODULE, {"GROUP": 256, "DEPTH": 1})]
    assert [key(declared), key(tuned)] == [key(one) for one in expected]
    assert (tuned.workgroup, key(driver.compile(MODULE)), called(tuned)) == (
        (256, 1, 1),
        key(declared),
        (3 * X + 5).tolist(),
    )


def test_a_constant_of_the_callers_wins_and_has_records_of_its_own(driver: Driver) -> None:
    keep_for_module(driver, SPACE.candidate(GROUP=256, DEPTH=1))
    untuned = driver.compile(MODULE, {"GROUP": 64}, space=SPACE)
    keep_for_module(driver, SPACE.candidate(GROUP=64, DEPTH=4), {"GROUP": 64})
    tuned = [driver.compile(MODULE, specs, space=SPACE) for specs in ({"GROUP": 64}, SpecMap({"GROUP": SpecValue.u32(64)}))]
    others = [driver.compile(MODULE, specs, space=SPACE) for specs in ({"GROUP": 128}, {"SUMMAND": 6}, {})]
    expected: list[dict[str, object]] = [
        {"GROUP": 64},
        {"GROUP": 64, "DEPTH": 4},
        {"GROUP": 64, "DEPTH": 4},
        {"GROUP": 128},
        {"SUMMAND": 6},
        {"GROUP": 256, "DEPTH": 1},
    ]
    assert [key(one) for one in (untuned, *tuned, *others)] == [key(driver.compile(MODULE, specs)) for specs in expected]


def test_each_value_that_the_caller_gives_has_its_own_record(driver: Driver) -> None:
    best = {1: 256, 2: 128, 4: 64}
    for depth, group in best.items():
        keep_for_module(driver, SPACE.candidate(GROUP=group, DEPTH=depth), {"DEPTH": depth})
    found = [key(driver.compile(MODULE, {"DEPTH": depth}, space=SPACE)) for depth in best]
    assert found == [key(driver.compile(MODULE, {"DEPTH": depth, "GROUP": group})) for depth, group in best.items()]


def test_switched_off_a_module_runs_as_declared(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_for_module(driver, SPACE.candidate(GROUP=256, DEPTH=1))
    monkeypatch.setenv("VYRE_AUTOTUNE", "off")
    with Driver(autotune=driver.tuning.store) as off:
        assert key(off.compile(MODULE, space=SPACE)) == key(off.compile(MODULE))


def test_a_record_that_is_not_of_the_space_is_not_taken(driver: Driver) -> None:
    keep_for_module(driver, SPACE.candidate(GROUP=256, DEPTH=4))  # which the rule refuses
    assert key(driver.compile(MODULE, space=SPACE)) == key(driver.compile(MODULE))


def test_a_space_that_does_not_fit_the_code_is_refused(driver: Driver) -> None:
    space = TuningSpace((Axis("WIDTH", (1, 2)),))
    with pytest.raises(InvalidInput, match=r"the tuning space names the constant 'WIDTH', and .* has GROUP, DEPTH, SUMMAND"):
        driver.compile(MODULE, space=space)
    with pytest.raises(InvalidSpecialization, match="no specialization constant 'WIDTH'"):
        driver.compile(MODULE, {"WIDTH": 1}, space=SPACE)
    with pytest.raises(InvalidInput, match="compile got a space for a program, which has its own"):
        driver.compile(saxpy(), space=SPACE)


def test_a_module_is_tuned_on_a_call_and_compiled_with_what_was_found(driver: Driver) -> None:
    result = driver.tune(MODULE, X, space=SPACE, groups=groups, budget=FEW, **CALL)
    best = {"GROUP": result.record.workgroup_size[0], "DEPTH": result.record.tile[0]}
    kernel = driver.compile(MODULE, space=SPACE)
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
    assert (len(result.outcomes), key(kernel)) == (8, key(driver.compile(MODULE, best)))
    found = kernel(X, groups=groups(result.best.candidate), **CALL)
    assert np.asarray(found).tolist() == (3 * X + 5).tolist()


def test_rule_and_grid_see_the_constants_that_the_caller_gives(driver: Driver) -> None:
    seen = []

    def told(one: Candidate) -> tuple[int, int, int]:
        seen.append(one)
        return groups(one)

    result = driver.tune(MODULE, X, space=SPACE, groups=told, specs={"GROUP": 256}, budget=FEW, **CALL)
    assert (
        set(seen) == {one.candidate for one in result.outcomes} == {SPACE.candidate(GROUP=256, DEPTH=depth) for depth in (2, 1)}
    )
    tuned = driver.compile(MODULE, {"GROUP": 256}, space=SPACE)
    expected = driver.compile(MODULE, {"GROUP": 256, "DEPTH": result.record.tile[0]})
    assert (result.record.workgroup_size, key(tuned)) == ((256, 1, 1), key(expected))


def test_a_candidate_whose_grid_is_over_a_limit_failed_and_the_others_are_timed(driver: Driver) -> None:
    most = driver.physical_device.limits.max_compute_work_group_count[0]

    def too_many(one: Candidate) -> tuple[int, int, int]:
        return (most + 1, 1, 1) if one["DEPTH"] == 4 else groups(one)

    result = driver.tune(MODULE, X, space=SPACE, groups=too_many, budget=FEW, **CALL)
    failed = {one.candidate["DEPTH"]: one.detail for one in result.outcomes if one.status is Status.FAILED}
    assert (list(failed), failed[4].partition(". Fix")[0]) == (
        [4],
        f"the grid has {most + 1} workgroups along x, and the device allows {most}",
    )


def test_a_module_that_works_in_place_is_tuned_on_fresh_inputs_and_leaves_the_callers_alone(driver: Driver) -> None:
    module, x = glsl(IN_PLACE), X.copy()
    space = TuningSpace((Axis("TURNS", (20_000, 50)),))
    result = driver.tune(module, x, space=space, budget=FEW)
    found = driver.compile(module, space=space)(x)
    assert (x.tolist(), np.asarray(found).tolist()) == (X.tolist(), (3 * X + 1).tolist())
    # Without the layer only the host tells the time, and on a GPU most of it is kompute's own.
    assert result.record.tile[0] == 50 or not (driver.device.is_timed or driver.physical_device.is_software)


@pytest.mark.parametrize(
    ("code", "call", "problem"),
    [
        ("module", {}, "is to be tuned without a space"),
        ("module", {"space": SPACE, "specs": {"GROUP": 64, "DEPTH": 1}}, "every constant that may be tuned of .* is given"),
        (
            "program",
            {"space": SPACE, "groups": (1, 1, 1)},
            "a program is to be tuned with space, groups, which it has by itself",
        ),
        (
            "program",
            {"config": DispatchConfig(workgroup_override=(32, 1, 1))},
            r"the configuration sets the workgroup to \(32, 1, 1\), which is what would be tuned",
        ),
        ("bound", {}, "the program has nothing that can be tuned: "),
    ],
)
def test_what_leaves_nothing_to_tune_is_refused_and_nothing_is_kept(code: str, call: dict[str, Any], problem: str) -> None:
    made = {"module": MODULE, "program": saxpy(), "bound": example("prefix_sum")}[code]
    with Driver(autotune=AutotuneStore()) as driver:
        with pytest.raises(InvalidInput, match=problem):
            driver.tune(made, X, **call)
        assert len(driver.tuning.store) == 0


def example(name: str, *arguments: object) -> Program:
    made: Program = runpy.run_path(str(EXAMPLES / f"{name}.py"))[name](*arguments)
    return made


def saxpy() -> Program:
    return example("saxpy", 2.5)


def floats(count: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(count, np.float32)


def overridden(driver: Driver, program: Program, workgroup: int) -> str:
    return key(driver.compile(program, config=DispatchConfig(workgroup_override=(workgroup, 1, 1))))


def test_a_program_is_tuned_without_arrays_and_compiled_with_what_was_found(driver: Driver) -> None:
    result = driver.tune(saxpy(), budget=FEW)
    (best, *others) = result.record.workgroup_size
    kernel = driver.compile(saxpy())
    expected = key(driver.compile(saxpy(), config=DispatchConfig(workgroup_override=(best, 1, 1))))
    with Driver(autotune=AutotuneStore()) as fresh:
        untuned = key(fresh.compile(saxpy()))
    assert (others, key(kernel), kernel.workgroup) == ([1, 1], untuned if best == 64 else expected, (64, 1, 1))
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
    x, y = floats(1000, 1), floats(1000, 2)
    np.testing.assert_array_equal(kernel(x, y), np.float32(2.5) * x + y)


def test_a_tuned_program_covers_its_elements_with_the_size_of_the_record(driver: Driver) -> None:
    untuned = driver.compile(saxpy())
    keep_for_program(driver, saxpy(), 256)
    tuned = driver.compile(saxpy())
    assert (key(tuned), key(tuned) == key(untuned), tuned.workgroup) == (overridden(driver, saxpy(), 256), False, (64, 1, 1))
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
    expected = np.asarray(untuned(x, y, groups=(3,)))
    assert np.flatnonzero(expected != y).size == 192
    bound = [driver.buffer(y), driver.buffer(y)]
    for kernel, buffer in zip((untuned, tuned), bound, strict=True):
        kernel.bind(driver.buffer(x), buffer, groups=(3,)).run()
    found = [np.asarray(tuned(x, y, groups=(3,))), *[one.read() for one in bound]]
    assert [one.tobytes() for one in found] == [expected.tobytes()] * 3
    assert (tuned.trace.key, tuned.trace.verdict) == (key(untuned), Verdict.HIT)
    tuned(x, y)
    assert tuned.trace.key == overridden(driver, saxpy(), 256)


def test_a_workgroup_of_the_callers_wins(driver: Driver) -> None:
    config = DispatchConfig(workgroup_override=(32, 1, 1))
    untuned = driver.compile(saxpy(), config=config)
    keep_for_program(driver, saxpy(), 256)
    keep_for_program(driver, saxpy(), 256, config)
    again = driver.compile(saxpy(), config=config)
    assert (key(again), again.workgroup) == (key(untuned), (32, 1, 1))


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
    device = driver.physical_device
    limits = replace(device.limits, max_compute_work_group_count=(most, most, most))
    monkeypatch.setattr(driver, "physical_device", replace(device, limits=limits))


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
        assert (kernel.workgroup, len(driver.tuning.store)) == ((64, 1, 1), 0)


def test_outputs_that_are_only_written_have_the_counts_that_are_given_or_made_up(driver: Driver) -> None:
    y = BufferDecl.output("y", 0, DataType.U32)
    i = gid_x()
    program = Program.wrapped([y], (64, 1, 1), [store(y, i, i * 3)])
    sizes = []
    bytes_of = calls.CallKernel.moved_bytes
    for call in ({"out_counts": {"y": 500}}, {}):
        made: list[int] = []

        def moved(kernel: Any, size: tuple[int, ...], made: list[int] = made) -> int:  # noqa: ANN401 -- a CallKernel
            made.append(bytes_of(kernel, size))
            return made[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(calls.CallKernel, "moved_bytes", moved)
            driver.tune(program, budget=FEW, **call)
        sizes += sorted(set(made))
    found = driver.compile(program)(out_counts={"y": 100})
    assert (sizes, np.asarray(found).tolist()) == ([2000, 4 << 20], [3 * one for one in range(100)])


def test_a_guarded_program_with_a_short_input_is_tuned_on_the_arrays_of_the_call(driver: Driver) -> None:
    x, y = BufferDecl.read("x", 0, DataType.U32), BufferDecl.output("y", 1, DataType.U32)
    i = gid_x()
    program = Program.wrapped([x, y], (64, 1, 1), [if_(i < 900, [store(y, i, load(x, i) + 7)])])
    call = {"out_counts": {"y": 1000}}
    untuned = np.asarray(driver.compile(program)(X[:10], **call))
    result = driver.tune(program, X[:10], budget=FEW, **call)
    assert np.asarray(driver.compile(program)(X[:10], **call)).tobytes() == untuned.tobytes()
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
