"""Constants, grids and replays: what may change from call to call, and what is made anew then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

CONSTANTS = """
layout(constant_id = 0) const uint U = 4000000000u;
layout(constant_id = 1) const int I = -5;
layout(constant_id = 2) const float F = 0.5;
layout(constant_id = 3) const bool B = true;
layout(binding = 0) writeonly buffer Seen { uint seen[4]; };
void main() { seen[0] = U; seen[1] = uint(I); seen[2] = floatBitsToUint(F); seen[3] = B ? 1u : 0u; }
"""
GRID = """
#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer Seen { uint seen[4]; };
void main() {
    uvec3 count = gl_NumWorkGroups;
    if (gl_WorkGroupID == uvec3(0)) { seen[0] = count.x; seen[1] = count.y; seen[2] = count.z; }
    atomicAdd(seen[3], 1u);
}
""".lstrip()
VECTORS = """
layout(push_constant) uniform Push { vec3 f; ivec2 i; uint u; };
layout(binding = 0) writeonly buffer Seen { uint seen[6]; };
void main() {
    seen[0] = floatBitsToUint(f.x); seen[1] = floatBitsToUint(f.y); seen[2] = floatBitsToUint(f.z);
    seen[3] = uint(i.x); seen[4] = uint(i.y); seen[5] = u;
}
"""
SOME = """
layout(push_constant) uniform Push { uint value; uint count; };
layout(binding = 0) writeonly buffer Seen { uint seen[]; };
void main() { if (gl_GlobalInvocationID.x < count) seen[gl_GlobalInvocationID.x] = value; }
"""


def bits(*values: np.generic) -> list[int]:
    return [int(value.view(np.uint32)) for value in values]


def run_saxpy(kernel: Kernel, count: int, alpha: float = 2) -> bool:
    x = np.arange(count, dtype=np.float32)
    got = kernel(x, x, push_constants={"alpha": alpha, "count": count})
    return bool(np.array_equal(got, np.float32(alpha) * x + x))


def test_specialization_constants_that_are_not_given_keep_their_defaults(compiled: CompileText) -> None:
    seen = compiled(CONSTANTS)(workgroups=(1,))
    assert seen.tolist() == [*bits(np.uint32(4000000000), np.int32(-5), np.float32(0.5)), 1]


def test_specialization_constants_of_all_four_types_reach_the_shader(compiled: CompileText) -> None:
    seen = compiled(CONSTANTS, {"U": 7, "I": -(2**31), "F": -1.25, "B": False})(workgroups=(1,))
    assert seen.tolist() == [*bits(np.uint32(7), np.int32(-(2**31)), np.float32(-1.25)), 0]


def test_one_specialization_constant_changes_no_other(compiled: CompileText) -> None:
    seen = compiled(CONSTANTS, {"F": 2})(workgroups=(1,))
    assert seen.tolist() == [*bits(np.uint32(4000000000), np.int32(-5), np.float32(2)), 1]


def test_specialization_constant_ids_may_have_gaps(compiled: CompileText) -> None:
    text = CONSTANTS.replace("constant_id = 3", "constant_id = 9").replace("constant_id = 0", "constant_id = 5")
    seen = compiled(text, {"U": 11, "B": False})(workgroups=(1,))
    assert seen.tolist() == [*bits(np.uint32(11), np.int32(-5), np.float32(0.5)), 0]


def test_a_specialized_workgroup_size_counts_in_the_grid(compiled: CompileText) -> None:
    kernel = compiled(
        "#version 450\nlayout(local_size_x_id = 0) in;\nlayout(constant_id = 0) const uint SIZE = 4;\n"
        "layout(binding = 0) writeonly buffer Seen { uint seen[]; };\n"
        "void main() { if (gl_GlobalInvocationID.x < seen.length()) seen[gl_GlobalInvocationID.x] = gl_WorkGroupSize.x; }",
        {"SIZE": 8},
    )
    assert (kernel.workgroup_size, kernel(out_shapes={"seen": 20}).tolist()) == ((8, 1, 1), [8] * 20)


def test_push_constants_of_every_type_and_vectors_reach_the_shader(compiled: CompileText) -> None:
    seen = compiled(VECTORS)(push_constants={"f": (1.5, -2, 3), "i": [-1, 2], "u": 4000000000}, workgroups=(1,))
    assert seen.tolist() == bits(
        np.float32(1.5), np.float32(-2), np.float32(3), np.int32(-1), np.int32(2), np.uint32(4000000000)
    )


def test_numpy_scalars_serve_as_push_constants(compiled: CompileText) -> None:
    push = {"f": (np.float32(1), np.float64(2), np.int64(3)), "i": [np.int32(4), np.uint8(5)], "u": np.uint64(6)}
    seen = compiled(VECTORS)(push_constants=push, workgroups=(1,))
    assert seen.tolist() == [*bits(np.float32(1), np.float32(2), np.float32(3)), 4, 5, 6]


def test_an_array_serves_as_a_push_constant_vector(compiled: CompileText) -> None:
    push = {"f": np.array([1, 2, 3], np.float32), "i": np.array([4, 5]), "u": 6}
    seen = compiled(VECTORS)(push_constants=push, workgroups=(1,))
    assert seen.tolist() == [*bits(np.float32(1), np.float32(2), np.float32(3)), 4, 5, 6]


def test_push_constants_may_change_between_calls(saxpy: Kernel) -> None:
    assert [run_saxpy(saxpy, 100, alpha) for alpha in (2, 3, -1, 2)] == [True] * 4


def test_new_push_constants_need_no_new_pipeline(saxpy: Kernel) -> None:
    run_saxpy(saxpy, 100, alpha=2)
    run_saxpy(saxpy, 100, alpha=3)
    assert saxpy.trace.pipeline_ns == 0


@pytest.mark.parametrize(("groups", "counts"), [((3,), [3, 1, 1]), ((2, 5), [2, 5, 1]), ((2, 3, 4), [2, 3, 4])])
def test_the_grid_has_as_many_workgroups_as_were_given(compiled: CompileText, groups: tuple[int], counts: list[int]) -> None:
    seen = compiled(GRID)(np.zeros(4, np.uint32), workgroups=groups)
    assert seen.tolist() == [*counts, int(np.prod(counts))]


def test_groups_may_change_between_calls(compiled: CompileText) -> None:
    kernel = compiled(GRID)
    seen = [kernel(np.zeros(4, np.uint32), workgroups=groups)[3] for groups in ((3,), (1, 7), (3,))]
    assert seen == [3, 7, 3]


def test_the_grid_is_one_invocation_for_each_element_of_the_largest_output(compiled: CompileText) -> None:
    kernel = compiled("""
        layout(binding = 0) writeonly buffer Short { uint brief[]; };
        layout(binding = 1) writeonly buffer Long { uint extended[]; };
        void main() { brief[0] = 1u; if (gl_GlobalInvocationID.x == 0u) extended[0] = gl_NumWorkGroups.x; }""")
    assert kernel(out_shapes={"brief": 1, "extended": 129})[1][0] == 3


def test_a_replay_makes_no_pipeline(saxpy: Kernel) -> None:
    made = []
    for _ in range(3):
        run_saxpy(saxpy, 100)
        made.append(saxpy.trace.pipeline_ns != 0)
    assert made == [True, False, False]


def test_a_replay_reads_the_arrays_anew(saxpy: Kernel) -> None:
    x, y = np.zeros((2, 4), np.float32)
    push = {"alpha": 1, "count": 4}
    got = [saxpy(np.full_like(x, value), y, push_constants=push).tolist() for value in (1, 2, 3)]
    assert got == [[1] * 4, [2] * 4, [3] * 4]


def test_what_the_shader_does_not_write_is_zero_in_every_call(compiled: CompileText) -> None:
    kernel = compiled(SOME)
    got = [
        kernel(push_constants={"value": value, "count": count}, out_shapes={"seen": 3}).tolist()
        for value, count in ((5, 3), (6, 1))
    ]
    assert got == [[5, 5, 5], [6, 0, 0]]


def test_what_the_shader_does_not_write_stays_as_it_was_given(compiled: CompileText) -> None:
    got = compiled(SOME)(np.array([7, 8, 9], np.uint32), push_constants={"value": 5, "count": 1})
    assert got.tolist() == [5, 8, 9]


def test_stages_submitted_apart_give_the_same_results(saxpy: Kernel) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 1000), np.float32)
    push = {"alpha": 2.5, "count": 1000}
    together, apart, together_again = (saxpy(x, y, push_constants=push, split=split) for split in (False, True, False))
    expected = np.float32(2.5) * x + y
    assert [np.array_equal(got, expected) for got in (together, apart, together_again)] == [True] * 3


def test_more_shapes_than_are_kept_stay_right(saxpy: Kernel) -> None:
    assert [run_saxpy(saxpy, count) for count in [*range(1, 13), *range(1, 13)]] == [True] * 24


def test_the_shape_that_was_used_longest_ago_is_made_anew(saxpy: Kernel) -> None:
    made = []
    for count in [*range(1, 9), 1, 9, 1, 2]:
        run_saxpy(saxpy, count)
        made.append(saxpy.trace.pipeline_ns != 0)
    assert made == [True] * 8 + [False, True, False, True]


def test_the_trace_tells_the_stages_of_the_last_call(saxpy: Kernel) -> None:
    before = saxpy.trace
    run_saxpy(saxpy, 10)
    after = saxpy.trace
    assert (before.stages, after.stages is None, after.key, after.verdict) == (None, False, before.key, before.verdict)


def test_the_report_names_device_backend_and_cache(driver: Driver) -> None:
    device = driver.device
    assert driver.report() == {
        "device": device.name,
        "device_type": device.device_type.name.lower(),
        "is_software": device.is_software,
        "driver": f"{device.driver_name} {device.driver_info}".strip(),
        "api_version": device.api,
        "backend": "kompute kp-0.9.0",
        "cache": driver.cache.stats(),
        "layer": driver.context.device.report(),
    }
