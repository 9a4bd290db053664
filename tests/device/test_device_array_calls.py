"""Calls with arrays and buffers in every mixture: by position and name, with targets, shapes and grids."""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, Spin, glsl
from literals import refusal

from vyre_driver.errors import DispatchTimeout, InvalidInput, InvalidPushConstant, LimitExceeded
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, if_, load, store
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CompileText

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

MIX = """
layout(push_constant) uniform Push { uint factor; uint summand; };
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[3]; };
layout(binding = 2) buffer Z { uint z[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < 3) { y[i] = factor * x[i] + summand; z[i] += 100u * x[i]; }
}
"""
PUSH = {"factor": 10, "summand": 1}
X, Y, Z = (np.array(one, np.uint32) for one in ([1, 2, 3], [7, 7, 7], [5, 6, 7]))
WANTED = [[11, 21, 31], [105, 206, 307]]
NAMES = "\nlayout(push_constant) uniform Push {{ {constants} }} p;\nlayout(binding = 0) buffer V {{ uint {buffer}[]; }} v;\n"
STEP_PUSH = {"factor": 2, "summand": 1}


def lists(found: Any) -> Any:  # noqa: ANN401 -- arrays and buffers
    return [np.asarray(one).tolist() for one in (found if isinstance(found, tuple) else (found,))]


@pytest.fixture
def mix(compiled: CompileText) -> Kernel:
    """Of a read-only, a write-only of a fixed size, and a read-write buffer."""
    return compiled(MIX)


@pytest.mark.parametrize("given", ["xyz", "xz"])
def test_arrays_and_buffers_come_by_position_and_name_in_every_mixture(driver: Driver, mix: Kernel, given: str) -> None:
    """Each array by position or name, and numpy's or resident; what comes back is of buffers where all are."""
    arrays = {"x": X, "y": Y, "z": Z}
    pushes: list[dict[str, Any]] = [dict(PUSH), {"push_constants": PUSH}, {"factor": 10, "push_constants": {"summand": 1}}]
    for turn, which in enumerate(itertools.product([False, True], repeat=2 * len(given))):
        named, resident = which[: len(given)], which[len(given) :]
        both = zip(given, resident, strict=True)
        values = [driver.buffer(arrays[name]) if is_buffer else arrays[name] for name, is_buffer in both]
        by_position = [value for value, is_named in zip(values, named, strict=True) if not is_named]
        by_name = {name: value for name, value, is_named in zip(given, values, named, strict=True) if is_named}
        found = mix(*by_position, **by_name, **pushes[turn % 3])
        assert lists(found) == WANTED, which
        assert [isinstance(one, np.ndarray) for one in found] == [not all(resident)] * 2, which
        if resident[-1]:
            assert values[-1].read().tolist() == WANTED[1]
    assert (X.tolist(), Y.tolist(), Z.tolist()) == ([1, 2, 3], [7, 7, 7], [5, 6, 7])


def test_a_bind_takes_names_too(driver: Driver, mix: Kernel) -> None:
    x, y, z = (driver.buffer(one) for one in (X, Y, Z))
    bound = mix.bind(x, z=z, y=y, **PUSH)
    bound.run()
    assert lists((y, z)) == WANTED
    assert mix.bind(x, y, z, push_constants=PUSH).pipeline is bound.pipeline


TAKES = "the shader takes 2 array(s), 'x' (input), 'z' (input_output), and got"
FIX = "Fix: pass them in binding order; an output's may be left out when out_shapes gives its shape."
GIVE_EACH = "Fix: give each, by position or by its name."
REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "unknown": (
        (X, Z),
        {"facto": 1},
        InvalidInput,
        (
            "the shader has no buffer or push constant 'facto'. Fix: write factor= if you meant that, or name one of its "
            "buffers 'x', 'y', 'z' or its push constants 'factor', 'summand'."
        ),
    ),
    "option of 0.1": (
        (X, Z),
        {"push": {}},
        InvalidInput,
        (
            "the shader has no buffer or push constant 'push'. Fix: write push_constants= if you meant that, or name one of "
            "its buffers 'x', 'y', 'z' or its push constants 'factor', 'summand'."
        ),
    ),
    "missing": ((X,), PUSH, InvalidInput, f"{TAKES} 1. {FIX}"),
    "missing behind a name": ((X,), {"y": Y, **PUSH}, InvalidInput, f"the shader got no array for 'z'. {GIVE_EACH}"),
    "missing before names": ((), {"y": Y, "z": Z, **PUSH}, InvalidInput, f"the shader got no array for 'x'. {GIVE_EACH}"),
    "twice": (
        (X, Y, Z),
        {"x": X, **PUSH},
        InvalidInput,
        (
            "the shader takes 2 array(s), and got 3 by position beside 'x' by name. Fix: give each once, by position or by its "
            "name."
        ),
    ),
    "too many": ((X, Y, Z, Z), PUSH, InvalidInput, f"{TAKES} 4. {FIX}"),
    "an array and a shape": (
        (X, Z),
        {"y": Y, "out_shapes": {"y": 3}, **PUSH},
        InvalidInput,
        "the output 'y' is given an array and, by out or out_shapes, a shape. Fix: give one of them.",
    ),
    "an array and a shape by position": ((X, Y, Z), {"out_shapes": {"y": 3}, **PUSH}, InvalidInput, f"{TAKES} 3. {FIX}"),
    "a shape of what is none": (
        (X, Y, Z),
        {"out_shapes": {"nope": 3}, **PUSH},
        InvalidInput,
        "out_shapes names 'nope', which is not a write-only buffer of the shader. Fix: name one of ['y'].",
    ),
    "a constant missing": (
        (X, Z),
        {"factor": 1},
        InvalidPushConstant,
        "push constant 'summand' (u32) was not given. Fix: give it, for example summand=1, or --push summand=1.",
    ),
    "a constant twice": (
        (X, Z),
        {**PUSH, "push_constants": {"factor": 1}},
        InvalidInput,
        "the push constant 'factor' is given twice. Fix: give it by keyword or in push_constants.",
    ),
    "constants that are none": (
        (X, Z),
        {"factor": 1, "push_constants": 5},
        InvalidPushConstant,
        "push constants came as int, and are given by name. Fix: pass a dictionary from names to values.",
    ),
    "constants in pairs": (
        (X,),
        {"z": Z, "push_constants": list(PUSH.items())},
        InvalidPushConstant,
        "push constants came as list, and are given by name. Fix: pass a dictionary from names to values.",
    ),
}


@pytest.mark.parametrize("resident", [False, True], ids=["arrays", "buffers"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_words_and_changes_nothing(
    driver: Driver,
    mix: Kernel,
    what: str,
    resident: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    arrays, named, kind, said = REFUSED[what]

    def taken(one: object) -> Any:  # noqa: ANN401 -- what it is given, or a buffer of it
        return driver.buffer(one) if resident and isinstance(one, np.ndarray) else one

    given = [taken(one) for one in arrays]
    found = refusal(lambda: mix(*given, **{name: taken(one) for name, one in named.items()}))
    assert (found[0], found[2]) == (kind, said)
    assert lists(tuple(given)) == [one.tolist() for one in arrays]


def test_names_that_calls_have_of_their_own_are_passed_in_other_ways(compiled: CompileText) -> None:
    text = NAMES.format(constants="uint label; uint timeout; uint self;", buffer="strict")
    kernel = compiled(text.replace("} v;", "};") + "void main() { strict[0] = p.label + 10 * p.timeout + 100 * p.self; }")
    given = np.zeros(1, np.uint32)
    assert kernel(given, push_constants={"label": 1, "timeout": 2, "self": 3}, label="of mine").tolist() == [321]
    assert kernel(given, self=3, push_constants={"label": 1, "timeout": 2}, timeout=60).tolist() == [321]
    assert [name for name in inspect.signature(kernel).parameters if name in ("self", "strict", "label", "timeout")] == [
        "self",
        "timeout",
        "strict",
        "label",
    ]


def test_a_name_of_a_buffer_and_a_push_constant_is_refused_for_an_array(compiled: CompileText) -> None:
    head = NAMES.format(constants="uint n; uvec2 m;", buffer="n").replace("} v;", "};")
    kernel = compiled(head + "void main() { n[0] = p.n + p.m.y; }")
    given = np.zeros(1, np.uint32)
    assert refusal(lambda: kernel(n=given, m=(0, 1)))[::2] == (
        InvalidInput,
        (
            "'n' is a buffer and a push constant of the shader. Fix: pass the array by position, and the number as "
            "push_constants={'n': ...}."
        ),
    )
    assert kernel(given, push_constants={"n": 5, "m": (0, 1)}).tolist() == [6]


SAXPY = {"alpha": 2, "count": 4}
FLOATS, ONES = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
SUM = [1, 3, 5, 7]


def test_a_result_is_written_to_the_target_and_the_target_returned(driver: Driver, saxpy: Kernel) -> None:
    for strict in (False, True):
        for x, y in itertools.product((FLOATS, driver.buffer(FLOATS)), (ONES.copy(), driver.buffer(ONES))):
            for target in (np.zeros(4, np.float32), driver.zeros(4, np.float32), driver.zeros((2, 2), np.float32).reshape(4)):
                assert saxpy(x, y, **SAXPY, out=target, strict=strict) is target or not isinstance(target, np.ndarray)
                in_place = not isinstance(y, np.ndarray) and isinstance(target, np.ndarray)
                assert (lists(target), lists((x, y))) == ([SUM], [FLOATS.tolist(), SUM if in_place else ONES.tolist()])
                y[...] = ONES
            assert lists(saxpy(x, y, **SAXPY, out=(None,), strict=strict)) == [SUM]
            y[...] = ONES


def test_a_target_may_be_an_input_where_that_is_read_first(driver: Driver, saxpy: Kernel) -> None:
    x, y = FLOATS.copy(), ONES.copy()
    assert (saxpy(x, y, **SAXPY, out=y) is y, saxpy(x, ONES, **SAXPY, out=x) is x, lists((x, y))) == (True, True, [SUM, SUM])
    here = driver.buffer(ONES)
    assert saxpy(FLOATS, here, **SAXPY, out=here) is here
    assert saxpy(driver.buffer(FLOATS), here, **SAXPY, out=here) is here
    assert lists(here) == [[1, 5, 9, 13]]


def test_a_target_may_overlap_what_it_begins_with(layered: Driver) -> None:
    overlapping = layered.buffer(np.arange(8, dtype=np.uint32))
    found = layered.compile(glsl(STEP))(overlapping[:4], **STEP_PUSH, out=overlapping[2:6])
    assert lists((found, overlapping)) == [[1, 3, 5, 7], [0, 1, 1, 3, 5, 7, 6, 7]]


@pytest.mark.parametrize("strict", [False, True])
def test_a_target_that_would_be_overwritten_before_it_is_read_is_refused(
    driver: Driver,
    saxpy: Kernel,
    strict: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    whole = driver.buffer(np.arange(8, dtype=np.float32))
    said = (
        "out for input_output 'y' shares memory with input 'x', and would begin with what 'y' is given, before the kernel has "
        "read it. Fix: give out memory of its own, or 'x' as a copy (copy.copy)."
    )
    for y in (ONES, driver.buffer(ONES)):
        for x in (whole[:4], whole[2:6], whole[3:7]):
            assert refusal(lambda x=x, y=y: saxpy(x, y, **SAXPY, out=whole[:4], strict=strict))[::2] == (InvalidInput, said)
    assert lists(whole) == [list(range(8))]


SWAP = """
layout(binding = 0) buffer A { uint a[]; };
layout(binding = 1) buffer B { uint b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) { a[i] += 10u; b[i] += 20u; } }
"""


def test_targets_of_several_outputs_are_arrays_buffers_and_none(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(SWAP)
    a, b = driver.buffer(X), driver.buffer(Z)
    array, buffer = np.zeros(3, np.uint32), driver.zeros(3, np.uint32)
    found = kernel(X, b, out=(array, buffer))
    assert (found[0] is array, found[1] is buffer, lists(found), lists(b)) == (
        True,
        True,
        [[11, 12, 13], [25, 26, 27]],
        [Z.tolist()],
    )
    found = kernel(X, Z, out=[None, array])
    assert (found[1] is array, lists(found)) == (True, [[11, 12, 13], [25, 26, 27]])
    assert refusal(lambda: kernel(a, b, out=(b, a)))[0] is InvalidInput
    assert lists((a, b)) == [X.tolist(), Z.tolist()]
    both = np.zeros(4, np.uint32)
    said = "input_output 'a' and input_output 'b' would be written to memory that overlaps"
    share = f"{said}. Fix: give each output memory of its own."
    for out in ((both[:3], both[1:]), (both[:3], both[:3]), (buffer, buffer), (buffer, buffer[:])):
        assert refusal(lambda out=out: kernel(X, Z, out=out))[::2] == (InvalidInput, share)
    assert lists((both, buffer)) == [[0] * 4, [25, 26, 27]]


TARGETS: dict[str, tuple[Callable[[Driver], object], str]] = {
    "another shape": (
        lambda _: np.zeros(5, "f4"),
        "out= has shape (5,) and type float32, and",
    ),
    "another type": (lambda _: np.zeros(4, "f8"), "out= has shape (4,) and type float64"),
    "strided": (lambda _: np.zeros(8, "f4")[::2], "out= for input_output 'y' is not contiguous"),
    "read-only": (lambda _: np.frombuffer(bytes(16), "f4"), "out= for input_output 'y' cannot be written to"),
    "a list": (lambda _: [0.0] * 4, "out gives 4 array(s), and the shader writes 1: 'y'"),
    "nothing": (lambda _: (), "out gives 0 array(s), and the shader writes 1: 'y'"),
    "text": (lambda _: "abcd", "out has something of type str for 'y'"),
    "a number": (lambda _: 0, "out has something of type int for 'y'"),
    "a buffer of another shape": (lambda driver: driver.zeros((2, 2), "f4"), "out has a Buffer of shape (2, 2)"),
    "a buffer of another type": (lambda driver: driver.zeros(4, "i4"), "out has a Buffer of shape (4,) and type int32"),
}


@pytest.mark.parametrize("what", TARGETS)
def test_a_target_that_does_not_fit_is_refused_and_nothing_runs(driver: Driver, saxpy: Kernel, what: str) -> None:
    make, said = TARGETS[what]
    here = driver.buffer(ONES)
    for y in (ONES, here):
        kind, _, message = refusal(lambda y=y: saxpy(FLOATS, y, **SAXPY, out=make(driver)))
        assert (kind, message.startswith(said)) == (InvalidInput, True), message
    assert lists((here, ONES)) == [[1] * 4] * 2


def test_a_call_that_is_refused_later_has_not_written_its_target(driver: Driver, saxpy: Kernel) -> None:
    target, here = driver.buffer(np.full(4, 9, np.float32)), driver.buffer(ONES)
    too_many = driver.device.limits.max_compute_work_group_count[0] + 1
    for y in (ONES, here):
        assert refusal(lambda y=y: saxpy(FLOATS, y, **SAXPY, out=target, workgroups=too_many))[0] is LimitExceeded
    assert lists((target, here)) == [[9] * 4, [1] * 4]


def test_what_a_program_gives_back_of_an_output_is_what_its_target_takes(driver: Driver) -> None:
    words = DataType.U32
    x, y = BufferDecl.read("x", 0, words), BufferDecl.output("y", 1, words).with_count(4).with_output_byte_range((4, 12))
    body = [if_(gid_x() < 4, [store("y", gid_x(), load("x", gid_x()))])]
    kernel = driver.compile(Program.wrapped([x, y], [64, 1, 1], body))
    given = np.arange(5, 9, dtype=np.uint32)
    array, buffer = np.zeros(2, np.uint32), driver.zeros(4, np.uint32)
    for one in (given, driver.buffer(given)):
        for strict in (False, True):
            array[:] = 0
            buffer.fill(0)
            assert kernel(one, out=array, strict=strict) is array
            part = kernel(one, out=buffer, strict=strict)
            assert (array.tolist(), part.read().tolist(), kernel(one, strict=strict)[...].shape) == ([6, 7], [6, 7], (2,))
            assert buffer.read()[1:3].tolist() == [6, 7]
        assert refusal(lambda one=one: kernel(one, out=np.zeros(4, np.uint32)))[0] is InvalidInput
        assert refusal(lambda one=one: kernel(one, out=driver.zeros(2, np.uint32)))[0] is InvalidInput


def test_stages_of_a_call_with_buffers_are_not_told_apart(driver: Driver, saxpy: Kernel) -> None:
    here = driver.buffer(ONES)
    calls: list[Callable[[], object]] = [
        lambda: saxpy(here, here, **SAXPY, split=True),
        lambda: saxpy(FLOATS, here, **SAXPY, split=True),
        lambda: saxpy(FLOATS, ONES, **SAXPY, split=True, out=here),
    ]
    message = (
        "split=True is given, and a call with resident buffers has no upload, dispatch and read-back to tell apart. "
        "Fix: leave split out, or call with arrays alone."
    )
    assert [refusal(call) for call in calls] == [(InvalidInput, 2201, message)] * 3
    assert here.read().tolist() == [1] * 4


def test_a_call_waits_no_longer_than_it_may_and_leaves_buffers_usable(opened: Driver) -> None:
    spin, kernel = Spin(opened, 0.5), opened.compile(glsl(STEP))
    here = opened.buffer(X)
    kernel(here, **STEP_PUSH)
    calls: list[Callable[[], object]] = [
        lambda: kernel(here, **STEP_PUSH, timeout=0.02),
        lambda: kernel(X, **STEP_PUSH, out=here, timeout=0.02),
        lambda: kernel(here, **STEP_PUSH, out=opened.empty(3, np.uint32), timeout=0.02),
        lambda: kernel(here, **STEP_PUSH, out=np.zeros(3, np.uint32), timeout=0.02),
        lambda: kernel(here, **STEP_PUSH, strict=True, timeout=0.02),
        lambda: kernel.bind(here, **STEP_PUSH).run(timeout=0.02),
    ]
    for number, call in enumerate(calls):
        running = spin.bound.submit()
        assert refusal(call)[::2] == (
            DispatchTimeout,
            (
                f"the work on {opened.device.name!r} did not end in 0.02 s and is still running. Fix: wait longer, or make the "
                "shader do less in one dispatch."
            ),
        ), number
        assert running.done() is False, number
        running.result()
    here.write(X)
    assert lists(kernel(here, **STEP_PUSH)) == [[3, 5, 7]]


def test_a_call_is_one_event_with_its_label_however_it_goes(driver: Driver, mix: Kernel) -> None:
    x, y, z = (driver.buffer(one) for one in (X, Y, Z))
    calls = [(x, y, z), (X, Z), (X, z), (x, y, Z)]
    for number, arrays in enumerate(calls):
        for strict in (False, True):
            before = driver.events.counts()[EventKind.DISPATCH]
            mix(*arrays, **PUSH, label=f"call {number}", strict=strict)
            told = [one for one in driver.events.recent() if one.kind is EventKind.DISPATCH]
            assert (driver.events.counts()[EventKind.DISPATCH], told[-1].detail, told[-1].count) == (
                before + 1,
                f"call {number}",
                1,
            )
    failures = driver.events.counts()[EventKind.FAILURE]
    assert refusal(lambda: mix(x, **PUSH))[0] is InvalidInput
    assert driver.events.counts()[EventKind.FAILURE] == failures + 1
