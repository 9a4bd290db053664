"""Calls of tuned kernels with buffers and with ``out``: what is written, what comes back, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import glsl
from made_kernels import TurningKernel
from tunings import floats, limit_memory, memory_in_use, words

from vyre_driver import Buffer, Driver, kernels
from vyre_driver.autotune.measure.definition import KernelDefinition, Plan, Step
from vyre_driver.autotune.measure.tuned import BoundPlan
from vyre_driver.autotune.search.space import TuningSpace
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, InvalidInput
from vyre_driver.kernels import KERNELS, TunedKernel
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from vyre_driver import SpirvModule
    from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Size

pytestmark = pytest.mark.device

X, Y = floats(6), np.full(6, 10, np.float32)
SUM = [10, 11, 12, 13, 14, 15]

SPLIT = """
layout(binding = 0) buffer A { uint a[]; };
layout(binding = 1) readonly buffer B { uint b[]; };
layout(binding = 2) writeonly buffer Sums { uint sums[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= a.length()) return;
    sums[i] = a[i] + b[i];
    a[i] = 2u * a[i];
}
"""


@dataclass(frozen=True)
class Doubled(KernelDefinition):
    """``a`` is doubled in place, and what ``a`` and ``b`` sum up to is an output of its own."""

    may_overwrite: bool = False
    name = "doubled"
    inputs = ("a", "b")
    sizes = ((100,),)

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        return (glsl(SPLIT),)

    def space(self, _device: DeviceFacts) -> TuningSpace:
        return TuningSpace(())

    def size(self, operands: Mapping[str, Operand], _parameters: Mapping[str, Any]) -> Size:
        return operands["a"].shape

    def plan(self, call: Call) -> Plan:
        groups = (-(-call.size[0] // 64), 1, 1)
        step = Step(glsl(SPLIT), ("a", "b", "sums"), groups)
        return Plan((step,), {"a": call.operands["a"], "sums": call.operands["a"]})

    def example(self, size: Size, _seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        return (words(size[0]), words(size[0])), {}

    def expected(self, *_arrays: NDArray[Any], **_: object) -> None:
        """Nobody asks."""

    def moved_bytes(self, size: Size) -> int:
        return 16 * size[0]


def lists(*found: Any) -> list[Any]:  # noqa: ANN401 -- arrays and buffers
    return [np.asarray(one).tolist() for one in found]


def refusal(call: Callable[[], object]) -> tuple[type[Exception], str]:
    with pytest.raises((InvalidInput, DispatchFailed)) as caught:
        call()
    return type(caught.value), str(caught.value)


def test_arrays_alone_give_an_array_and_out_is_written_and_returned(driver: Driver) -> None:
    saxpy, out = kernels.saxpy(driver), np.zeros(6, np.float32)
    found = [saxpy(X, Y), saxpy(X, Y, alpha=2.0, out=out), saxpy(X, Y, alpha=2.0, out=(out,)), saxpy(X, Y, out={"out": None})]
    assert (found[1] is out, found[2] is out, lists(*found)) == (
        True,
        True,
        [SUM, lists(2 * X + Y)[0], lists(2 * X + Y)[0], SUM],
    )
    y = Y.copy()
    assert (saxpy(X, y, out=y) is y, saxpy(X, y, out=y) is y, lists(y, X)) == (True, True, lists(2 * X + Y, floats(6)))


def test_buffers_alone_give_a_buffer_and_nothing_is_read_to_the_host(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    saxpy, x, y = kernels.saxpy(driver), driver.buffer(X), driver.buffer(Y)
    out = driver.empty(6, np.float32)
    with monkeypatch.context() as patched:
        for moved in ("read", "write"):
            patched.delattr(Buffer, moved)
        found = saxpy(x, y)
        given = saxpy(x, y, alpha=2.0, out=out)
    assert (type(found), found.name, given is out) == (Buffer, "out", True)
    assert lists(found, given, x, y) == lists(X + Y, 2 * X + Y, X, Y)
    assert (saxpy(x, y, out=y) is y, saxpy(x, y, out=y) is y, lists(y)) == (True, True, lists(2 * X + Y))


def test_buffers_beside_arrays_give_an_array_and_stay_as_they_are(driver: Driver) -> None:
    saxpy, y, out, array = kernels.saxpy(driver), driver.buffer(Y), driver.empty(6, np.float32), np.zeros(6, np.float32)
    before = memory_in_use(driver)
    found = [saxpy(X, y), saxpy(X, y, out=out), saxpy(X, Y, out=out), saxpy(driver.buffer(X), y, out=array)]
    assert [type(one) for one in found] == [np.ndarray, Buffer, Buffer, np.ndarray]
    assert (found[1] is out, found[2] is out, found[3] is array, lists(*found, y)) == (True, True, True, [SUM] * 4 + lists(Y))
    assert memory_in_use(driver) == before


@pytest.mark.parametrize("count", [1, 3, 5001, 300_000])
def test_calls_with_buffers_give_what_calls_with_arrays_give_at_every_size(driver: Driver, count: int) -> None:
    x, given = words(count), driver.buffer(words(count))
    made = {name: TunedKernel(driver, KERNELS[name]) for name in ("reduce_sum", "inclusive_scan", "histogram")}
    found = {name: lists(kernel(x), kernel(given)) for name, kernel in made.items()}
    bins = np.bincount(x[x < 256], minlength=256)
    expected = {"reduce_sum": x.sum(dtype=np.uint32), "inclusive_scan": np.cumsum(x, dtype=np.uint32), "histogram": bins}
    assert found == {name: lists(one, one) for name, one in expected.items()}


def test_views_are_read_and_written_where_they_lie(layered: Driver) -> None:
    whole = layered.buffer(floats(192))
    found = kernels.saxpy(layered)(whole[:64], whole[64:128], alpha=2.0, out=whole[128:])
    expected = floats(192)
    expected[128:] = 2 * expected[:64] + expected[64:128]
    assert (found.shape, lists(whole)) == ((64,), lists(expected))


def test_a_buffer_that_is_worked_on_in_place_is_updated_and_an_array_is_written_through_out_alone(driver: Driver) -> None:
    kernel = TunedKernel(driver, TurningKernel((1,), in_place=True))
    x, once = words(100), 3 * words(100) + np.uint32(1)
    here, other, array = driver.buffer(x), driver.zeros(100, np.uint32), np.zeros(100, np.uint32)
    assert (kernel(here) is here, lists(here)) == (True, lists(once))
    assert (kernel(here, out=here) is here, lists(here)) == (True, lists(3 * once + 1))
    here.write(x)
    assert (kernel(here, out=other) is other, lists(here, other)) == (True, lists(x, once))
    assert (kernel(x, out=other) is other, lists(x, other)) == (True, lists(words(100), once))
    assert (kernel(here, out=array) is array, lists(here, array)) == (True, lists(once, once))
    assert (kernel(x, out=x) is x, lists(x)) == (True, lists(once))


def test_of_several_outputs_each_has_its_own_target(driver: Driver) -> None:
    kernel, a, b = TunedKernel(driver, Doubled()), words(5), np.full(5, 7, np.uint32)
    twice, sums = lists(2 * a, a + b)
    here, other, array = driver.buffer(a), driver.zeros(5, np.uint32), np.zeros(5, np.uint32)
    found = [kernel(a, b), kernel(a, b, out=(None, other)), kernel(here, b, out={"sums": array})]
    assert [lists(*one) for one in found] == [[twice, sums]] * 3
    kinds = [[type(one) for one in both] for both in found]
    assert kinds == [[np.ndarray] * 2, [np.ndarray, Buffer], [np.ndarray] * 2]
    assert (found[1][1] is other, found[2][1] is array, lists(here, a, b)) == (True, True, [twice, *lists(words(5), b)])
    given = a.copy(), b.copy()
    assert (kernel(*given, out=given)[1] is given[1], lists(*given)) == (True, [twice, sums])


def test_arrays_without_elements_have_their_shapes_and_run_nothing(driver: Driver) -> None:
    nothing, zeros = driver.zeros(0, np.float32), driver.zeros((0, 7), np.float32)
    made, out = np.ones((3, 4), np.float32), driver.empty((3, 4), np.float32)
    matmul = kernels.matmul(driver)
    found = [
        kernels.saxpy(driver)(nothing, nothing, out=nothing),
        kernels.transpose(driver)(zeros),
        matmul(driver.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32), out=made),
        matmul(np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32), out=out),
    ]
    assert [one.shape for one in found] == [(0,), (7, 0), (3, 4), (3, 4)]
    assert (found[2] is made, lists(*found)) == (True, [[], [[]] * 7, [[0] * 4] * 3, [[0] * 4] * 3])


FLOATS = (
    "out= has shape {} and type {}, and out of saxpy gives shape (6,) and type float32. Fix: give numpy.empty((6,), 'float32')."
)
COPIED = "out= for out of saxpy {}. Fix: give a contiguous array that can be written to, and copy from that."
BUFFER = "out of saxpy has shape (6,) and type float32, and the buffer has {}. Fix: give a buffer of that shape and type."
TUPLE = "Fix: give a tuple with an array, a buffer or None for each, in that order."
NUMBER = f"out gives {{}} array(s), and saxpy writes 1: 'out'. {TUPLE}"
OTHER = "out has something of type {} for 'out'. Fix: give a numpy array or a buffer, which the result is written to, or None."
TARGETS: dict[str, tuple[Callable[[Driver], object], str]] = {
    "an array of another shape": (lambda _: np.zeros(5, "f4"), FLOATS.format((5,), "float32")),
    "an array of another type": (lambda _: np.zeros(6, "f8"), FLOATS.format((6,), "float64")),
    "a strided array": (lambda _: np.zeros(12, "f4")[::2], COPIED.format("is not contiguous")),
    "a read-only array": (lambda _: np.frombuffer(bytes(24), "f4"), COPIED.format("cannot be written to")),
    "a buffer of another shape": (lambda driver: driver.zeros((2, 3), "f4"), BUFFER.format("(2, 3) and float32")),
    "two": (lambda driver: (driver.zeros(6, "f4"), None), NUMBER.format(2)),
    "none": (lambda _: (), NUMBER.format(0)),
    "another name": (lambda _: {"y": None}, "out names 'y', which saxpy does not write. Fix: name 'out'."),
    "text": (lambda _: "abc", OTHER.format("str")),
}


@pytest.mark.parametrize("what", TARGETS)
def test_a_target_that_does_not_fit_is_refused_before_anything_runs(driver: Driver, what: str) -> None:
    make, said = TARGETS[what]
    saxpy, x = kernels.saxpy(driver), driver.buffer(X)
    for y in (Y, x):
        assert refusal(lambda y=y: saxpy(x, y, out=make(driver))) == (InvalidInput, said)
    assert refusal(lambda: saxpy(X, Y, out=make(driver))) == (InvalidInput, said)


def test_what_is_read_after_it_is_written_is_refused_whichever_view_of_it_is_given(driver: Driver) -> None:
    square = driver.buffer(floats(16).reshape(4, 4))
    whole = driver.buffer(floats(128))
    one = "transpose reads a after it began to write b, and both are one buffer. Fix: give another buffer as out."
    part = "saxpy reads x after it began to write out, and both share memory. Fix: give another buffer as out."
    for out in (square, square[:], square.reshape(-1).reshape(4, 4)):
        assert refusal(lambda out=out: kernels.transpose(driver)(square, out=out)) == (InvalidInput, one)
        assert refusal(lambda out=out: kernels.transpose(driver).bind(square, out=out)) == (InvalidInput, one)
    assert refusal(lambda: kernels.saxpy(driver)(whole[:64], floats(64), out=whole[32:96])) == (InvalidInput, part)
    assert lists(square.reshape(-1), whole) == lists(floats(16), floats(128))


def test_an_overwritten_or_shared_target_of_several_outputs_is_refused(driver: Driver) -> None:
    a, b = driver.buffer(words(5)), driver.buffer(words(5))
    strict, free = TunedKernel(driver, Doubled()), TunedKernel(driver, Doubled(may_overwrite=True))
    array = np.zeros(10, np.uint32)
    begun = (
        "out for a of doubled shares memory with b, and would begin with what a is given, before the kernel has read it. "
        "Fix: give out memory of its own."
    )
    shared = (
        "a of doubled and sums of doubled would be written to memory that overlaps. Fix: give each output memory of its own."
    )
    read = "doubled reads b after it began to write {}, and both are one buffer. Fix: give another buffer as out."
    assert [
        refusal(call)[1]
        for call in (
            lambda: free(a, b, out=(b, None)),
            lambda: free(words(5), b, out=(b, None)),
            lambda: strict(a, b, out=(a, a[:])),
            lambda: strict(words(5), words(5), out=(array[:5], array[4:9])),
            lambda: strict(a, b, out=(None, b)),
            lambda: strict(a, a),
        )
    ] == [begun, begun, shared, shared, read.format("sums"), read.format("a")]
    assert lists(a, b, array) == lists(words(5), words(5), np.zeros(10))


def test_buffers_that_are_closed_or_of_another_driver_are_refused_by_name(driver: Driver) -> None:
    saxpy, x, closed, empty = kernels.saxpy(driver), driver.buffer(X), driver.buffer(Y), driver.zeros(0, np.float32)
    closed.close()
    empty.close()
    said = DispatchFailed, "the buffer is closed. Fix: make a new one."
    assert [
        refusal(lambda: saxpy(x, closed)),
        refusal(lambda: saxpy(X, Y, out=closed)),
        refusal(lambda: saxpy(empty, empty)),
    ] == [said] * 3
    with Driver(driver.device.index) as other:
        there = other.buffer(X)
        found = [refusal(lambda: saxpy(X, there)), refusal(lambda: saxpy(x, x, out=there))]
    where = f"got a buffer of another driver, on {driver.device.name!r}. Fix: make it with the driver of the kernel."
    assert found == [(InvalidInput, f"{name} of saxpy {where}") for name in ("y", "out")]


def test_what_a_kernel_does_not_take_is_refused_of_buffers_too_and_counts_as_one_failure(driver: Driver) -> None:
    saxpy, x = kernels.saxpy(driver), driver.buffer(X)
    key = EventKind.DISPATCH, 2201
    before = driver.events.failures().get(key, 0)
    said = "x of saxpy has 6 elements and y has 5. Fix: pass arrays of one length."
    assert refusal(lambda: saxpy(x, floats(5))) == (InvalidInput, said)
    assert driver.events.failures()[key] == before + 1


@pytest.mark.parametrize("error", [DispatchFailed("the device is broken", fix="mend it"), KeyboardInterrupt()])
def test_what_fails_half_way_closes_what_the_call_made(
    layered: Driver, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    saxpy, y = kernels.saxpy(layered), layered.buffer(floats(7))
    saxpy(floats(7), y)
    before = memory_in_use(layered)

    def fails(*_: object, **_named: object) -> None:
        raise error

    for place in ((BoundPlan, "run"), (Buffer, "write"), (Buffer, "read")):
        with monkeypatch.context() as patched:
            patched.setattr(*place, fails)
            with pytest.raises(type(error)) as caught:  # which holds on to all that its traceback names
                saxpy(floats(7), y)
            assert (caught.value, memory_in_use(layered)) == (error, before)
    assert lists(saxpy(floats(7), y)) == lists(2 * floats(7))


def test_memory_of_earlier_calls_makes_room_and_what_does_not_fit_leaves_nothing(
    layered: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    saxpy, x = kernels.saxpy(layered), layered.buffer(floats(1000))
    saxpy(floats(1000), floats(1000))
    held = memory_in_use(layered)
    limit_memory(layered, held, monkeypatch)
    found = saxpy(x, x)
    kept = memory_in_use(layered) - held
    limit_memory(layered, memory_in_use(layered), monkeypatch)
    with pytest.raises(DeviceOutOfMemory) as caught:
        saxpy(x, floats(1000))
    assert (kept, lists(found), caught.value.code) == (4000 - 12000, lists(2 * floats(1000)), 1001)
    assert memory_in_use(layered) == held + kept
