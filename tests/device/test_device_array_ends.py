"""Buffers that are closed, inherited by a fork, or taken for arrays that compute; and what DLPack's consumers keep."""

from __future__ import annotations

import copy
import gc
import operator
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, Spin, glsl
from literals import refusal

from vyre_driver import Driver
from vyre_driver.errors import CopyNeeded, DispatchFailed, ForkError, NotAnArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.kompute.buffer import Buffer

pytestmark = pytest.mark.device

PUSH = {"factor": 2, "summand": 1}
CLOSED = "the buffer is closed. Fix: make a new one."
SHARED = ["shared with the host"]


def uses(driver: Driver, one: Buffer) -> dict[str, Callable[[], object]]:
    """Each way to use the contents of a buffer."""
    kernel = driver.compile(glsl(STEP))
    other = driver.zeros(one.shape, one.dtype)
    given = np.zeros(one.shape, one.dtype)
    return {
        "read": one.read,
        "read into": lambda: one.read(out=given),
        "write": lambda: one.write(given),
        "set": lambda: one.__setitem__(..., 1),
        "fill": lambda: one.fill(1),
        "copy from": lambda: one.copy_to(other),
        "copy to": lambda: other.copy_to(one),
        "copy to itself": lambda: one.copy_to(one),
        "copy": lambda: copy.copy(one),
        "deep copy": lambda: copy.deepcopy(one),
        "array": lambda: np.asarray(one),
        "DLPack": lambda: one.__dlpack__(copy=True),
        "DLPack without a copy": lambda: one.__dlpack__(dl_device=(1, 0)),
        "call": lambda: kernel(one, **PUSH),
        "strict call": lambda: kernel(one, **PUSH, strict=True),
        "out": lambda: kernel(given, **PUSH, out=one),
        "in and out": lambda: kernel(one, **PUSH, out=one),
        "in": lambda: kernel(one, **PUSH, out=other),
        "bind": lambda: kernel.bind(one, **PUSH),
        "slice": lambda: one[...].fill(0),
        "reshape": lambda: one.reshape(-1).read(),
        "view": lambda: one.view(np.int32).read(),
        "with": one.__enter__,
    }


def ways(used: dict[str, Callable[[], object]]) -> dict[str, tuple[type, str]]:
    """How each of them ends."""
    found = {}
    for name, use in used.items():
        kind, _, said = refusal(use)
        found[name] = (kind, said)
    return found


@pytest.mark.parametrize("shape", [(4,), (0,), (2, 0)])
@pytest.mark.parametrize("which", ["buffer", "view", "view of a closed buffer", "view of a closed view"])
def test_a_closed_buffer_is_refused_in_every_place_also_after_it_was_used_there(
    driver: Driver, which: str, shape: tuple[int, ...]
) -> None:
    whole = driver.zeros(shape, np.uint32)
    part = whole[...]
    one = {"buffer": whole, "view": part, "view of a closed buffer": part, "view of a closed view": part[...]}[which]
    used = uses(driver, one)
    for use in used.values():
        use()
    (part if which.startswith("view") and not which.endswith("buffer") else whole).close()
    if which == "view of a closed view":
        one = part[...]
        used = uses(driver, one)
    assert ways(used) == dict.fromkeys(used, (DispatchFailed, CLOSED))
    assert (one.is_closed, repr(one).endswith(", closed>"), one.shape, len(one)) == (True, True, shape, shape[0])
    if not whole.is_closed:
        assert whole.read().shape == shape
    one.close()


def test_every_use_on_a_closed_driver_is_refused(driver: Driver) -> None:
    one = driver.zeros(4, np.uint32)
    used = uses(driver, one)
    driver.close()
    said = f"{driver.device.name!r} is closed. Fix: make a new Driver."
    assert ways(used) == dict.fromkeys(used, (DispatchFailed, said))
    assert (repr(one).endswith(", closed>"), one[1:].shape) == (True, (3,))
    one.close()


def test_what_is_bound_and_what_looks_at_a_buffer_outlive_its_end(driver: Driver) -> None:
    one = driver.buffer(np.arange(8, dtype=np.uint32))
    part, bound = one[2:], driver.compile(glsl(STEP)).bind(one, **PUSH)
    kept = one[2:]
    del one
    gc.collect()
    bound.run()
    assert (part.read().tolist(), kept.is_closed) == ([5, 7, 9, 11, 13, 15], False)


def test_a_closed_view_leaves_the_buffer_and_its_other_views(driver: Driver) -> None:
    one = driver.buffer(np.arange(8, dtype=np.uint32))
    part, other = one[:4], one[:4]
    part.close()
    part.close()
    kernel = driver.compile(glsl(STEP))
    assert kernel(other, **PUSH) is other
    assert (one.read().tolist(), part.is_closed, one.is_closed) == ([1, 3, 5, 7, 4, 5, 6, 7], True, False)


def in_a_fork(action: Callable[[], object]) -> bytes:
    """What an action says in a forked child, within 20 seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            try:
                said = repr(action())
            except BaseException as error:  # noqa: BLE001 -- told to the parent
                said = f"{type(error).__name__}"
            os.write(writer, said.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said_there = pipe.read()
    os.waitpid(child, 0)
    return said_there


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_may_look_at_a_buffer_and_not_use_it(driver: Driver) -> None:
    one = driver.buffer(np.arange(4, dtype=np.uint32))
    used = uses(driver, one)

    def look() -> object:
        found = {name: refusal(use)[0] for name, use in used.items()}
        one.close()
        return [set(found.values()) == {ForkError}, one.shape, one.is_closed]

    assert in_a_fork(look) == b"[True, (4,), True]"
    assert one.read().tolist() == [0, 1, 2, 3]


def test_dlpack_shares_the_memory_that_the_host_sees(driver: Driver) -> None:
    need_shared_memory(driver)
    one = driver.buffer(np.arange(8, dtype=np.float32).reshape(2, 4))
    assert one.__dlpack_device__() == (1, 0)
    seen, part = np.from_dlpack(one), np.from_dlpack(one[1, 1:3])
    one.fill(7)
    assert (seen.tolist(), part.tolist(), seen.dtype, np.shares_memory(seen, part)) == (
        [[7.0] * 4] * 2,
        [7, 7],
        np.float32,
        True,
    )
    for empty in (one[:0], driver.zeros((3, 0), np.int16)):
        found = np.from_dlpack(empty)
        assert (found.shape, found.dtype) == (empty.shape, empty.dtype)
    with pytest.raises(BufferError):
        np.from_dlpack(driver.zeros(2, [("a", "u4")]))


def test_a_copy_is_given_where_one_is_asked_for(place: tuple[Driver, bool, bool]) -> None:
    driver, _, is_shared = place
    one = driver.buffer(np.arange(4, dtype=np.int32))
    assert one.__dlpack_device__() == ((1, 0) if is_shared else (7, driver.device.index))
    if not is_shared:
        fix = "Fix: copy it with numpy.asarray(buffer) or buffer.read(), or ask for copy=True and dl_device=(1, 0)."
        said = f"Buffer of shape (4,) and type int32 cannot be given to the CPU without a copy. {fix}"
        for how in ({}, {"copy": False, "dl_device": (1, 0)}, {"copy": False}):
            assert refusal(lambda how=how: one.__dlpack__(**how)) == (CopyNeeded, 2213, said)
    for dl_device in ((2, 0), (7, 0), (1, 1)):
        assert refusal(lambda dl_device=dl_device: one.__dlpack__(dl_device=dl_device, copy=True))[0] is CopyNeeded
    for how in ({"copy": True}, {"copy": True, "dl_device": (1, 0)}, {"copy": True, "max_version": (1, 0)}):
        found = Consumer(one, how).array()
        one.fill(7)
        assert found.tolist() == [0, 1, 2, 3]
        one.write(np.arange(4, dtype=np.int32))


class Consumer:
    """Has numpy take a capsule that was asked for in a certain way."""

    def __init__(self, one: Buffer, how: dict[str, Any]) -> None:
        self._made = lambda: one.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        return self._made()

    def array(self) -> Any:  # noqa: ANN401 -- an array
        return np.from_dlpack(self)


def need_shared_memory(driver: Driver) -> None:
    """Skip a test of what only a device has whose memory the host sees, as CI's has."""
    if not driver.context.device.shares_memory:
        pytest.skip(f"{driver.device.name} has memory of its own")


def live_bytes(driver: Driver) -> int:
    layer: Any = driver.context.device.layer
    gc.collect()
    return int(layer.counters()["memory_live_bytes"])


def test_what_a_consumer_holds_stays_when_the_buffer_goes_and_goes_with_it(driver: Driver) -> None:
    need_shared_memory(driver)
    before = live_bytes(driver)
    one = driver.buffer(np.arange(1000, dtype=np.uint32))
    seen, unused = np.from_dlpack(one)[10:], one.__dlpack__()
    one.close()
    del one
    driver.buffer(np.full(1000, 9, np.uint32)).close()  # would take the memory if that were free
    held = live_bytes(driver)
    assert (seen.tolist(), held > before) == (list(range(10, 1000)), True)
    del seen
    assert live_bytes(driver) == held  # the capsule that nobody took
    del unused
    assert live_bytes(driver) == before


def test_what_a_consumer_holds_outlives_the_driver_and_the_device_goes_with_the_last(driver: Driver) -> None:
    need_shared_memory(driver)
    layer: Any = driver.context.device.layer
    kept = [np.from_dlpack(driver.buffer(np.full(100, number, np.uint32))) for number in range(2)]
    spin = Spin(driver, 0.05)
    spin.bound.submit()
    seen = np.from_dlpack(spin.ended)
    spin.bound.submit()
    driver.close()
    with Driver() as another:
        another.buffer(np.full(100, 9, np.uint32))
        assert (layer.is_alive, [one.tolist() for one in kept]) == (True, [[0] * 100, [1] * 100])
        assert seen.tolist() == [2 * spin.groups]
        kept.pop()
        del spin, seen
        gc.collect()
        assert (layer.is_alive, kept[0].tolist()) == (True, [0] * 100)
        kept.pop()
        gc.collect()
        assert layer.is_alive is False


def test_another_drivers_buffer_is_refused_in_a_call_and_as_its_target(driver: Driver) -> None:
    kernel = driver.compile(glsl(STEP))
    with Driver() as another:
        one, given = another.zeros(4, np.uint32), np.zeros(4, np.uint32)
        said = f"input_output 'values' got a buffer of another driver, on {driver.device.name!r}"
        fix = "Fix: make it with the driver that compiled the kernel."
        for call in (lambda: kernel(given, **PUSH, out=one), lambda: kernel(one, **PUSH, out=given)):
            assert refusal(call)[2] == f"{said}. {fix}"
        for call in (lambda: kernel(one, **PUSH), lambda: kernel.bind(one, **PUSH)):
            assert refusal(call)[2] == f"argument 1 of bind is a buffer of another driver, on {driver.device.name!r}. {fix}"
        assert one.read().tolist() == [0] * 4


def test_what_a_buffer_is_not_is_refused_by_what_to_do_instead(driver: Driver) -> None:
    made = driver.zeros((2, 3), "f4")
    of = "Buffer of shape (2, 3) and type float32"
    refused: dict[str, Callable[[], object]] = {
        f"{of} has no truth value. Fix: ask for its size, or read() it.": lambda: bool(made),
        f"{of} is not iterated over on the host. Fix: iterate over read().": lambda: list(made),
        f"{of} lives on a device and cannot be pickled. Fix: pickle read().": lambda: pickle.dumps(made),
    }
    for said, action in refused.items():
        with pytest.raises(TypeError) as error:
            action()
        assert str(error.value) == said
    others: list[Callable[[], object]] = [
        lambda: reversed(made),
        lambda: 1.0 in made,  # type: ignore[operator]
        lambda: [1, 2][made[0, 0]],  # type: ignore[call-overload]
        lambda: divmod(made, 2),  # type: ignore[operator]
        lambda: np.add(made, 1),  # type: ignore[call-overload]
        lambda: np.sum(made),  # type: ignore[call-overload]
        lambda: operator.iadd(np.zeros((2, 3), "f4"), made),
    ]
    for action in others:
        with pytest.raises(TypeError):
            action()


TWO_SIDED = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
IN_PLACE = [getattr(operator, name) for name in dir(operator) if name.startswith("i") and hasattr(operator, f"__{name}__")]
IN_PLACE = [one for one in IN_PLACE if one.__name__ in {f"i{other.__name__.strip('_')}" for other in TWO_SIDED}]


def test_arithmetic_is_refused_in_every_form(driver: Driver) -> None:
    made, other = driver.zeros(3, "f4"), driver.zeros(3, "f4")
    assert len(IN_PLACE) == 13
    for compute in (*TWO_SIDED, *IN_PLACE):
        for pair in ((made, 2), (made, other), (made, np.zeros(3, "f4")), (made, np.float32(2))):
            assert refusal(lambda pair=pair, compute=compute: compute(*pair))[:2] == (NotAnArray, 2214), compute
    for compute in TWO_SIDED:
        for left in (2, np.zeros(3, "f4"), np.float32(2), [1, 2, 3], None):
            assert refusal(lambda left=left, compute=compute: compute(left, made))[:2] == (NotAnArray, 2214), compute
    for same in (operator.eq, operator.ne):
        for pair in ((made[0], 0.0), (0, made[0]), (made[2:], True), (made, np.float32(2)), (np.zeros(3, "f4"), made)):
            assert refusal(lambda pair=pair, same=same: same(*pair))[:2] == (NotAnArray, 2214), same
    assert (made == made[:], made != other, made == "text", made in (None, made)) == (False, True, False, True)
    for one_sided in (operator.neg, operator.pos, operator.invert, abs):
        assert refusal(lambda one_sided=one_sided: one_sided(made))[:2] == (NotAnArray, 2214)
    assert refusal(lambda: made + 1)[2] == (
        f"+ was asked of {made!r}, and a buffer is no array that computes. Fix: call "
        "vyre_driver.lang.fuse(lambda x, y: x + y)(a, b), or compute with buffer.read() on the host."
    )
    fixes = [
        refusal(one)[2].partition("Fix: ")[2].partition(", or compute")[0]
        for one in (lambda: -made, lambda: abs(made), lambda: np.sin(made), lambda: np.add.reduce(made), lambda: made @ other)
    ]
    assert fixes == [
        "call vyre_driver.lang.fuse(lambda x: -x)(buffer)",
        "call vyre_driver.lang.fuse(lambda x: abs(x))(buffer)",
        "call vyre_driver.lang.fuse(lambda x: numpy.sin(x))(x)",
        "call what vyre_driver.lang.reduction or scan makes of a function",
        "call vyre_driver.kernels.matmul(driver)(a, b)",
    ]


def test_a_buffer_of_one_element_is_a_number(driver: Driver) -> None:
    numbers = driver.buffer(np.array([[0.0], [2.5]], np.float32))
    assert (float(numbers[1]), int(numbers[1]), numbers[1].item(), bool(numbers[1])) == (2.5, 2, 2.5, True)
    assert (bool(numbers[0]), type(numbers[0].item())) == (False, float)
    assert (int(driver.buffer(np.array(7, np.int64))), driver.buffer(np.array(7)).item()) == (7, 7)
    for what, call in {"float()": float, "int()": int, "item()": lambda buffer: buffer.item()}.items():
        assert refusal(lambda call=call: call(numbers)) == (
            NotAnArray,
            2214,
            f"{what} was asked of {numbers!r}, which has 2 elements. Fix: take one, as buffer[0], or read() it.",
        )
    with pytest.raises(TypeError):
        operator.index(driver.buffer(np.array(7, np.int64)))
