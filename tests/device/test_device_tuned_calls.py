"""Modules of somebody's own: tuned on a call, compiled with what was found, and the same to whoever runs them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from example_programs import example
from kernels import glsl
from made_kernels import IN_PLACE
from tuned_code import COUNT, FEW, X, key, saxpy

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore, Axis, Candidate, Status, TuningSpace
from vyre_driver.autotune.target import module_target
from vyre_driver.errors import InvalidInput, InvalidSpecialization
from vyre_driver.specialization.values import SpecMap, SpecValue
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from vyre_driver import Kernel
    from vyre_driver.autotune.search.space import Limits

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("records_in_memory")]
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
CALL = {"push_constants": {"factor": 3}, "out_shapes": {"y": COUNT}}


def groups(one: Candidate) -> tuple[int, int, int]:
    return -(-COUNT // (one.workgroup_size[0] * one["DEPTH"])), 1, 1


def keep_for_module(driver: Driver, best: Candidate, specs: dict[str, object] | None = None) -> None:
    target = module_target(MODULE, specs, SPACE, driver.device)
    driver.tuning.keep(target, target.record(best, 9, 100))


def called(kernel: Kernel) -> list[int]:
    """What the module gives: right whatever the constants are, with enough workgroups."""
    found: list[int] = np.asarray(kernel(X, workgroups=(COUNT, 1, 1), **CALL)).tolist()
    return found


def test_a_modules_record_is_used_and_without_one_what_it_declares(driver: Driver) -> None:
    declared = driver.compile(MODULE, space=SPACE)
    keep_for_module(driver, SPACE.candidate(GROUP=256, DEPTH=1))
    tuned = driver.compile(MODULE, space=SPACE)
    expected = [driver.compile(MODULE), driver.compile(MODULE, {"GROUP": 256, "DEPTH": 1})]
    assert [key(declared), key(tuned)] == [key(one) for one in expected]
    assert (tuned.workgroup_size, key(driver.compile(MODULE)), called(tuned)) == (
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


def test_records_of_modules_without_a_name_and_of_programs_can_be_told_apart(driver: Driver) -> None:
    named = replace(MODULE, name="thirds.comp")
    titles = [module_target(one, None, SPACE, driver.device).record(SPACE.preferred, 1, 1).kernel for one in (MODULE, named)]
    code = module_target(named, None, SPACE, driver.device).code.hex()
    assert titles == [f"<source> {code[:8]}", "thirds.comp"]
    record = driver.tune(saxpy(), budget=FEW).record
    assert re.fullmatch("program [0-9a-f]{8}", record.kernel)


def test_a_module_is_tuned_on_a_call_and_compiled_with_what_was_found(driver: Driver) -> None:
    result = driver.tune(MODULE, X, space=SPACE, workgroups=groups, budget=FEW, **CALL)
    best = {"GROUP": result.record.workgroup_size[0], "DEPTH": result.record.tile[0]}
    kernel = driver.compile(MODULE, space=SPACE)
    assert {one.status for one in result.outcomes} <= {Status.TIMED, Status.DROPPED}
    assert (len(result.outcomes), key(kernel)) == (8, key(driver.compile(MODULE, best)))
    found = kernel(X, workgroups=groups(result.best.candidate), **CALL)
    assert np.asarray(found).tolist() == (3 * X + 5).tolist()


def test_rule_and_grid_see_the_constants_that_the_caller_gives(driver: Driver) -> None:
    seen = []

    def told(one: Candidate) -> tuple[int, int, int]:
        seen.append(one)
        return groups(one)

    result = driver.tune(MODULE, X, space=SPACE, workgroups=told, constants={"GROUP": 256}, budget=FEW, **CALL)
    assert (
        set(seen) == {one.candidate for one in result.outcomes} == {SPACE.candidate(GROUP=256, DEPTH=depth) for depth in (2, 1)}
    )
    tuned = driver.compile(MODULE, {"GROUP": 256}, space=SPACE)
    expected = driver.compile(MODULE, {"GROUP": 256, "DEPTH": result.record.tile[0]})
    assert (result.record.workgroup_size, key(tuned)) == ((256, 1, 1), key(expected))


def test_a_candidate_whose_grid_is_over_a_limit_failed_and_the_others_are_timed(driver: Driver) -> None:
    most = driver.device.limits.max_compute_work_group_count[0]

    def too_many(one: Candidate) -> tuple[int, int, int]:
        return (most + 1, 1, 1) if one["DEPTH"] == 4 else groups(one)

    result = driver.tune(MODULE, X, space=SPACE, workgroups=too_many, budget=FEW, **CALL)
    failed = {one.candidate["DEPTH"]: one.detail for one in result.outcomes if one.status is Status.FAILED}
    assert (list(failed), failed[4].partition(". Fix")[0]) == (
        [4],
        f"the grid has {most + 1} workgroups along x, and the device allows {most}",
    )


def test_a_module_that_works_in_place_is_tuned_on_fresh_inputs_and_leaves_the_callers_alone(driver: Driver) -> None:
    module, x = glsl(IN_PLACE), X.copy()
    space = TuningSpace((Axis("TURNS", (20_000, 50)),))
    result = driver.tune(module, x, space=space, invocations=COUNT, budget=FEW)
    found = driver.compile(module, space=space)(x)
    assert (x.tolist(), np.asarray(found).tolist()) == (X.tolist(), (3 * X + 1).tolist())
    # Where only the host tells the time, most of it is not the device's.
    assert result.record.tile[0] == 50 or not (driver.context.device.is_timed or driver.device.is_software)


@pytest.mark.parametrize(
    ("code", "call", "problem"),
    [
        ("module", {}, "is to be tuned without a space"),
        ("module", {"space": SPACE, "constants": {"GROUP": 64, "DEPTH": 1}}, "every constant that may be tuned of .* is given"),
        (
            "program",
            {"space": SPACE, "workgroups": (1, 1, 1)},
            "a program is to be tuned with space, workgroups, which it has by itself",
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
