"""What a tuning takes: arrays and push constants by name, its grid, its time; and what is refused at once."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from kernels import glsl
from literals import refusal
from tuned_code import COUNT, FEW, X, saxpy

from vyre_driver import Driver, Kernel
from vyre_driver.autotune import Axis, Budget, TuningSpace
from vyre_driver.binding.names import OPTIONS, TUNING_OPTIONS
from vyre_driver.errors import InvalidInput, InvalidPushConstant, TuningFailed

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("records_in_memory")]
MODULE = glsl("""#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64;
layout(constant_id = 1) const uint DEPTH = 2;
layout(push_constant) uniform Push { uint factor; uint seconds; };
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer Z { uint z[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };
void main() {
    for (uint i = gl_GlobalInvocationID.x; i < y.length(); i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
        y[i] = factor * x[i] + z[i] + seconds + 0u * DEPTH;
}
""")
GROUPS = TuningSpace((Axis("GROUP", (128, 64), workgroup="x"),))
SPACE = TuningSpace((Axis("GROUP", (128, 64), workgroup="x"), Axis("DEPTH", (4, 1))))
PUSHED = {"factor": 3, "seconds": 1}
CALL: dict[str, Any] = {"space": GROUPS, "out_shapes": {"y": (COUNT,)}, "budget": FEW}


def test_arrays_and_push_constants_are_given_by_name_as_in_a_call(driver: Driver) -> None:
    seen = [
        driver.tune(MODULE, X, X, push_constants=PUSHED, **CALL),
        driver.tune(MODULE, X, z=X, factor=3, push_constants={"seconds": 1}, **CALL),
        driver.tune(MODULE, z=X, x=X, push_constants=PUSHED, **CALL),
        driver.tune(saxpy(), budget=FEW, **dict.fromkeys(("x", "y"), np.ones(COUNT, np.float32))),
    ]
    assert [len(one.outcomes) for one in seen[:3]] == [2, 2, 2]
    kernel = driver.compile(MODULE, space=GROUPS)
    found = kernel(x=X, z=X, factor=3, seconds=1, out_shapes={"y": COUNT})
    assert found.tolist() == (4 * X + 1).tolist()


def test_what_is_missing_unknown_or_given_twice_is_refused_before_anything_is_timed(driver: Driver) -> None:
    calls: dict[str, Any] = {
        "no push constants": lambda: driver.tune(MODULE, X, X, **CALL),
        "one left": lambda: driver.tune(MODULE, X, X, factor=3, **CALL),
        "unknown": lambda: driver.tune(MODULE, X, X, spaces=1, push_constants=PUSHED, invocations=COUNT),
        "no array": lambda: driver.tune(MODULE, z=X, push_constants=PUSHED, **CALL),
        "twice": lambda: driver.tune(MODULE, X, X, factor=3, push_constants=PUSHED, **CALL),
        "of a program": lambda: driver.tune(saxpy(), alpha=2.0),
        "nothing": lambda: driver.tune(MODULE, X[:0], X[:0], push_constants=PUSHED, space=GROUPS, out_shapes={"y": 0}),
    }
    assert {what: refusal(call)[::2] for what, call in calls.items()} == {
        "no push constants": (
            InvalidPushConstant,
            "push constant 'factor' (u32) was not given. Fix: give it, for example factor=1, or --push factor=1.",
        ),
        "one left": (
            InvalidPushConstant,
            "push constant 'seconds' (u32) was not given. Fix: give it in push_constants={'seconds': ...}, u32.",
        ),
        "unknown": (
            InvalidInput,
            (
                "the shader has no buffer or push constant 'spaces'. Fix: write space= if you meant that, or name one of its "
                "buffers 'x', 'z', 'y' or its push constants 'factor', 'seconds'."
            ),
        ),
        "no array": (InvalidInput, "the shader got no array for 'x'. Fix: give each, by position or by its name."),
        "twice": (
            InvalidInput,
            "the push constant 'factor' is given twice. Fix: give it by keyword or in push_constants.",
        ),
        "of a program": (
            InvalidInput,
            "the program has no buffer or push constant 'alpha'. Fix: name one of its buffers 'x', 'y'.",
        ),
        "nothing": (
            InvalidInput,
            (
                f"{MODULE.name} is to be tuned on arrays without elements, which take no time. "
                "Fix: tune it on arrays as large as those of your calls."
            ),
        ),
    }


def test_the_names_that_tuning_takes_for_itself_are_those_of_its_signature() -> None:
    found = inspect.signature(Driver.tune).parameters.values()
    assert {one.name for one in found if one.kind is one.KEYWORD_ONLY} - OPTIONS == TUNING_OPTIONS


def test_more_than_the_workgroup_is_tuned_with_a_grid_alone_and_no_record_is_replaced_without(driver: Driver) -> None:
    how = CALL | {"space": SPACE, "push_constants": PUSHED}
    kept = driver.tune(MODULE, X, X, workgroups=(20, 1, 1), **how).record
    found = refusal(lambda: driver.tune(MODULE, X, X, **how))
    assert found == (
        InvalidInput,
        2201,
        (
            f"{MODULE.name} is to be tuned without a grid, and what is tuned (DEPTH) may change how many workgroups a call "
            "needs. Fix: give workgroups as a function of the candidate (workgroups=lambda one: ...), or invocations=(x, y, z) "
            "where they are the same for all."
        ),
    )
    assert list(driver.tuning.store.records().values()) == [kept]
    assert len(driver.tune(MODULE, X, X, constants={"DEPTH": 1}, **how).outcomes) == 2


def test_invocations_are_rounded_up_to_the_workgroups_of_each_candidate(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    bind = Kernel.bind

    def watched(kernel: Kernel, *buffers: Any, workgroups: Any, **named: Any) -> Any:  # noqa: ANN401 -- bind's
        seen.add((kernel.workgroup_size[0], workgroups))
        return bind(kernel, *buffers, workgroups=workgroups, **named)

    monkeypatch.setattr(Kernel, "bind", watched)
    driver.tune(MODULE, X, X, invocations=COUNT, push_constants=PUSHED, **CALL | {"space": SPACE})
    assert seen == {(64, (47, 1, 1)), (128, (24, 1, 1))}


@pytest.mark.parametrize("grid", [{"workgroups": lambda _: (1, 1, 1)}, {"workgroups": (1, 1, 1)}])
def test_one_grid_is_given(driver: Driver, grid: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^both workgroups=.* and invocations=5 are given\. Fix: give one of them\.$"):
        driver.tune(MODULE, X, X, invocations=5, push_constants=PUSHED, **CALL, **grid)
    with pytest.raises(InvalidInput, match=r"^workgroups is 0, which is not 1 to 3 numbers of at least 1\."):
        driver.tune(MODULE, X, X, workgroups=0, push_constants=PUSHED, **CALL)


@pytest.mark.parametrize("seconds", ["5", None, True, float("nan"), 0, -1, [5]])
def test_seconds_are_a_number_above_0(driver: Driver, seconds: Any) -> None:  # noqa: ANN401 -- what is given for a number
    if seconds is None:
        assert "seconds" in repr(refusal(lambda: Budget(seconds=seconds)))  # tune takes None for its own
        return
    kind, code, message = refusal(lambda: driver.tune(saxpy(), seconds=seconds))
    assert (kind, code, message) == (
        InvalidInput,
        2201,
        f"seconds of a tuning budget is {seconds!r}. Fix: give a number above 0.",
    )


def test_where_all_fail_for_one_reason_it_is_reported_once(driver: Driver) -> None:
    with pytest.raises(TuningFailed) as caught:
        driver.tune(MODULE, X, X, workgroups=lambda _: (1, 2, 3, 4), push_constants=PUSHED, **CALL)
    problem = caught.value.problem
    assert problem.startswith(f"{MODULE.name} is not tuned: none of 2 candidates was right and timed in ")
    assert problem.endswith(
        "(2 failed): GROUP=128 and 1 more: workgroups is (1, 2, 3, 4), which is not 1 to 3 numbers of at least 1. "
        "Fix: give workgroups=(x, y, z)"
    )
