"""Push constants of a bound kernel, replaced without binding anew."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, TURNS, Spin, glsl
from literals import refusal

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed, InvalidPushConstant, LimitExceeded
from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, gid_x, if_, load, store
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CompileText

    from vyre_driver import BoundKernel, Buffer

pytestmark = pytest.mark.device

SHAPED = """
struct Pair { uint first; uint second; };
layout(push_constant) uniform Push { uvec3 three; uint one; Pair pair; uint many[2]; };
layout(binding = 0) writeonly buffer V { uint v[8]; };
void main() {
    if (gl_GlobalInvocationID.x != 0u) return;
    v[0] = three.x; v[1] = three.y; v[2] = three.z; v[3] = one;
    v[4] = pair.first; v[5] = pair.second; v[6] = many[0]; v[7] = many[1];
}
"""
TWIN = """
layout(push_constant) uniform Push { uint first; uint second; };
layout(binding = 0) writeonly buffer V { uint v[2]; };
void main() { if (gl_GlobalInvocationID.x == 0u) { v[0] = first; v[1] = second; } }
"""


def ran(bound: BoundKernel, buffer: Buffer) -> list[int]:
    """Return what a run makes of ones."""
    buffer.fill(1)
    bound.run()
    found: list[int] = buffer.read().tolist()
    return found


def test_those_that_are_named_are_replaced_and_the_others_keep_their_values(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.empty(2, np.uint32)
    bound = compiled(STEP).bind(buffer, factor=10, summand=0)
    found = [ran(bound, buffer)]
    for values in ({"summand": 1}, {"factor": 2}, {"factor": 3, "summand": 4}, {}, {"factor": np.uint32(7)}):
        assert bound.set(**values) is None  # type: ignore[func-returns-value]
        found.append(ran(bound, buffer))
    assert found == [[value] * 2 for value in (10, 11, 3, 7, 7, 11)]


def test_members_of_every_shape_are_replaced_as_a_whole(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.empty(8, np.uint32)
    given = {"three": (1, 2, 3), "one": 4, "pair": {"first": 5, "second": 6}, "many": [7, 8]}
    bound = compiled(SHAPED).bind(buffer, push_constants=given, workgroups=1)
    found = [ran(bound, buffer)]
    for values in ({"pair": {"first": 50, "second": 60}}, {"three": np.array([10, 20, 30]), "many": (70, 80)}, {"one": 40}):
        bound.set(**values)
        found.append(ran(bound, buffer))
    assert found == [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [1, 2, 3, 4, 50, 60, 7, 8],
        [10, 20, 30, 4, 50, 60, 70, 80],
        [10, 20, 30, 40, 50, 60, 70, 80],
    ]


def test_each_binding_of_the_same_buffers_has_values_of_its_own(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer, push = compiled(STEP), driver.empty(2, np.uint32), {"factor": 2, "summand": 0}
    first, second = kernel.bind(buffer, **push), kernel.bind(buffer, **push)
    first.set(summand=5)
    third = kernel.bind(buffer, **push)
    third.set(summand=6)
    found = [ran(one, buffer)[0] for one in (first, second, third, kernel.bind(buffer, **push), first)]
    assert (found, kernel(buffer, **push) is buffer, buffer.read().tolist()) == ([7, 2, 8, 2, 7], True, [14, 14])


def test_submissions_keep_the_values_that_they_were_handed_over_with(driver: Driver, compiled: CompileText) -> None:
    """More of them than may be under way, with futures that nobody keeps."""
    buffer, expected = driver.buffer(np.ones(4, np.uint32)), np.ones(4, np.uint32)
    bound = compiled(STEP).bind(buffer, factor=1, summand=0)
    for turn in range(200):
        bound.set(factor=turn % 7)
        bound.set(summand=turn)
        for _ in range(turn % 4):
            bound.submit()
            expected = np.uint32(turn % 7) * expected + np.uint32(turn)
    bound.run()
    expected = np.uint32(199 % 7) * expected + np.uint32(199)
    np.testing.assert_array_equal(buffer.read(), expected, strict=True)


def test_replacing_waits_for_nothing_that_is_under_way(opened: Driver) -> None:
    spin, layer = Spin(opened, 0.2), opened.context.device.layer
    before = layer.counters()["work_pending"]
    spin.bound.submit()  # whose future nobody keeps
    for turns in (TURNS - 1, TURNS):
        spin.bound.set(turns=turns)
    pending = layer.counters()["work_pending"] - before
    spin.bound.run()
    assert (pending, spin.runs()) == (1, 2)


def test_submissions_with_other_values_count_among_those_under_way(opened: Driver) -> None:
    spin, buffer = Spin(opened, 0.3), opened.buffer(np.zeros(4, np.uint32))
    bound = opened.compile(glsl(STEP)).bind(buffer, factor=1, summand=0)
    long = spin.bound.submit()
    for summand in range(64):
        bound.set(summand=summand)
        bound.submit(block=False)
    bound.set(summand=1000)
    with pytest.raises(LimitExceeded) as caught:
        bound.submit(block=False)
    was_running = not long.done()
    bound.submit(block=True)
    bound.submit().result()
    assert (was_running, str(caught.value.problem)) == (
        True,
        "64 submissions of this kernel are under way, and this would be number 65",
    )
    assert buffer.read().tolist() == [sum(range(64)) + 2000] * 4


def test_a_batch_takes_the_new_values_when_it_is_next_run_or_submitted(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer, other = compiled(STEP), driver.buffer(np.ones(4, np.uint32)), driver.buffer(np.ones(4, np.uint32))
    first, second = kernel.bind(buffer, factor=2, summand=0), kernel.bind(other, factor=3, summand=0)
    batch = driver.batch()
    for one in (first, second, first):
        batch.add(one)
    batch.run()
    first.set(factor=10)
    futures = [batch.submit()]
    second.set(summand=1)
    futures += [batch.submit(), batch.submit()]
    first.set(factor=1)
    for future in futures:
        future.result()
    batch.run()
    assert (buffer.read().tolist(), other.read().tolist()) == ([4 * 100**3] * 4, [((9 * 3 + 1) * 3 + 1) * 3 + 1] * 4)


def test_a_batch_under_way_keeps_its_values(opened: Driver) -> None:
    spin, buffer = Spin(opened, 0.3), opened.buffer(np.ones(4, np.uint32))
    bound = opened.compile(glsl(STEP)).bind(buffer, factor=10, summand=0)
    batch = opened.batch()
    batch.add(spin.bound)
    batch.add(bound)
    running = batch.submit()
    bound.set(summand=5)
    was_running = not running.done()
    bound.run()
    assert (was_running, buffer.read().tolist()) == (True, [105] * 4)


WRONG: dict[str, dict[str, object]] = {
    "unknown": {"facto": 1},
    "unknown beside a known one": {"factor": 1, "facto": 1},
    "negative": {"factor": 5, "summand": -1},
    "too large": {"factor": 2**32},
    "a fraction": {"summand": 1.5},
    "text": {"summand": "1"},
    "two": {"summand": [1, 2]},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused_as_a_call_refuses_it_and_all_values_stay(
    driver: Driver, compiled: CompileText, what: str
) -> None:
    kernel, buffer = compiled(STEP), driver.empty(2, np.uint32)
    bound = kernel.bind(buffer, factor=3, summand=4)
    wanted = refusal(lambda: kernel.bind(buffer, push_constants={"factor": 3, "summand": 4, **WRONG[what]}))
    key = EventKind.DISPATCH, wanted[1]
    before = driver.events.failures()[key]  # type: ignore[index]
    assert refusal(lambda: bound.set(**WRONG[what])) == wanted
    assert (wanted[0], driver.events.failures()[key], ran(bound, buffer)) == (InvalidPushConstant, before + 1, [7, 7])  # type: ignore[index]


def test_a_kernel_without_push_constants_has_none_to_replace(driver: Driver, compiled: CompileText) -> None:
    i = gid_x()
    values = BufferDecl.read_write("values", 0, DataType.U32)
    body = [if_(i < buf_len(values), [store(values, i, load(values, i) + 1)])]
    program = driver.compile(Program.wrapped([values], (64, 1, 1), body))
    module = compiled("layout(binding = 0) buffer V { uint v[]; };\nvoid main() { v[0] = 5u; }")
    buffer = driver.empty(3, np.uint32)
    found = []
    for kernel in (program, module):
        bound = kernel.bind(buffer, workgroups=1)
        bound.set()
        said = refusal(lambda bound=bound: bound.set(n=1))[2]
        found.append((said, ran(bound, buffer)[:2]))
    said = "the program has no push constants, and 'n' was given"
    assert found == [
        (f"{said}. Fix: leave it out; declare it with BufferDecl.push, or give it as a constant of compile.", [2, 2]),
        ("the shader has no push constant 'n'. Fix: leave it out: it declares none.", [5, 1]),
    ]


def test_a_dispatch_that_runs_nothing_takes_values_too(driver: Driver, compiled: CompileText) -> None:
    bound = compiled(STEP).bind(driver.empty(0, np.uint32), factor=1, summand=0)
    bound.set(factor=2)
    bound.run()
    bound.submit().result()
    assert bound.push_words == (2, 0)


def test_a_view_that_is_copied_before_each_run_is_copied_with_new_values_too(layered: Driver) -> None:
    whole = layered.buffer(np.arange(8, dtype=np.uint32))
    bound = layered.compile(glsl(STEP)).bind(whole[1:4], factor=10, summand=0)
    bound.run()
    bound.set(summand=1)
    bound.run()
    assert whole.read().tolist() == [0, 101, 201, 301, 4, 5, 6, 7]


def test_after_the_driver_was_closed_nothing_is_replaced() -> None:
    with Driver() as driver:
        bound = driver.compile(glsl(STEP)).bind(driver.empty(2, np.uint32), factor=1, summand=0)
    with pytest.raises(DispatchFailed, match="is closed"):
        bound.set(factor=2)
    assert bound.push_words == (1, 0)


def test_threads_never_see_one_new_and_one_old_value(layered: Driver) -> None:
    buffer = layered.zeros(2, np.uint32)
    bound = layered.compile(glsl(TWIN)).bind(buffer, first=0, second=0, workgroups=1)
    ending = threading.Event()
    mixed: list[Any] = []

    def replace(start: int) -> None:
        value = start
        while not ending.is_set():
            bound.set(first=value, second=value)
            value += 2

    threads = [threading.Thread(target=replace, args=(start,)) for start in (0, 1)]
    for one in threads:
        one.start()
    for turn in range(300):
        (bound.run if turn % 2 else bound.submit().result)()
        first, second = buffer.read().tolist()
        if first != second:
            mixed.append((first, second))
    ending.set()
    for one in threads:
        one.join()
    assert (mixed, int(buffer.read()[0]) > 0) == ([], True)


def test_what_was_under_way_goes_with_the_bound_kernel(layered: Driver) -> None:
    kernel = layered.compile(glsl(STEP))
    memory = layered.context.device.memory

    def use() -> None:
        with layered.empty(4096, np.uint32) as buffer:
            bound = kernel.bind(buffer, factor=1, summand=0)
            for summand in range(40):
                bound.set(summand=summand)
                bound.submit()

    use()
    before = memory.available
    use()
    gc.collect()
    assert memory.available == before


def test_a_value_by_a_name_of_a_parameter_is_taken(driver: Driver, compiled: CompileText) -> None:
    kernel: Callable[..., Any] = compiled(
        "layout(push_constant) uniform Push { uint self; uint timeout; };\n"
        "layout(binding = 0) buffer V { uint v[]; };\nvoid main() { v[0] = 10u * self + timeout; }"
    ).bind
    buffer = driver.zeros(1, np.uint32)
    bound = kernel(buffer, push_constants={"self": 1, "timeout": 2}, workgroups=1)
    bound.set(self=3, timeout=4)
    assert ran(bound, buffer) == [34]
