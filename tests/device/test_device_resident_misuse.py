"""What resident buffers, bindings, batches and futures refuse, in which words, and that all works on afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl
from literals import refusal

from vyre_driver import DispatchConfig, Driver
from vyre_driver.backends.kompute import KomputeBackend
from vyre_driver.backends.reference import run
from vyre_driver.errors import DispatchFailed, InvalidInput, LimitExceeded
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import CompileText

    from vyre_driver import Kernel
    from vyre_driver.runtime.bound import BoundKernel

pytestmark = pytest.mark.device

PUSH = {"factor": 1, "summand": 1}
NO_SHAPE = "which is not integers of at least 0. Fix: give the number of elements, or a tuple of such numbers."
NO_NUMBERS = "which is not a type of numbers that shaders can have."
NO_BOUND = "Fix: add what kernel.bind(...) returns."
NO_TIME = "which is not a number of seconds of at least 0. Fix: give seconds, or None to wait for ever."
NO_BUFFER = "and bind takes resident buffers. Fix: make one with driver.buffer(array), or call the kernel with arrays."


@pytest.fixture
def kernel(compiled: CompileText) -> Kernel:
    """A kernel that adds 1 in place."""
    return compiled(STEP)


@pytest.fixture
def bound(driver: Driver, kernel: Kernel) -> BoundKernel:
    """It, bound to four zeros."""
    return kernel.bind(driver.buffer(np.zeros(4, np.uint32)), push_constants=PUSH)


@pytest.fixture
def other() -> Iterator[Driver]:
    """A second driver on the same device."""
    with Driver() as opened:
        yield opened


@pytest.mark.parametrize(
    ("shape", "shown"),
    [(-1, "-1"), ((2, -3), "(2, -3)"), (2.0, "2.0"), ((2, 1.5), "(2, 1.5)"), ("12", "'12'"), (None, "None")],
)
def test_a_shape_that_is_none_is_refused(driver: Driver, shape: Any, shown: str) -> None:  # noqa: ANN401 -- what a caller may give
    expected = InvalidInput, 2201, f"the shape of a buffer is {shown}, {NO_SHAPE}"
    assert refusal(lambda: driver.empty(shape, np.uint32)) == expected


@pytest.mark.parametrize("dtype", [None, object, "V0", "U3"])
def test_a_type_that_is_none_of_numbers_is_refused(driver: Driver, dtype: Any) -> None:  # noqa: ANN401 -- what a caller may give
    text = f"the type of a buffer is {dtype!r}, {NO_NUMBERS} Fix: give a type such as numpy.float32."
    assert refusal(lambda: driver.empty(3, dtype)) == (InvalidInput, 2201, text)


def test_a_type_that_is_left_out_is_refused(driver: Driver) -> None:
    text = f"the type of a buffer is None, {NO_NUMBERS} Fix: give a type such as numpy.float32."
    for make in (driver.empty, driver.zeros, driver.pinned):
        assert refusal(lambda make=make: make(3)) == (InvalidInput, 2201, text)


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [
        ("S4", "give numpy.uint8, and the number of bytes as the last axis of the buffer's shape"),
        ("M8[s]", "give numpy.int64"),
        ("m8[us]", "give numpy.int64"),
        (">f4", "give float32"),
        ("g", "give a type such as numpy.float32"),
        ([("a", "f4"), ("b", [("c", "S2")])], "give a type such as numpy.float32"),
        ([("a", ">f4")], "give a type such as numpy.float32"),
    ],
)
def test_a_type_that_no_shader_has_is_refused_everywhere(driver: Driver, dtype: Any, fix: str) -> None:  # noqa: ANN401 -- the same
    buffer, array = driver.zeros(48, np.uint8), np.zeros(3, dtype)
    for make, given in (
        (lambda: driver.empty(3, dtype), dtype),
        (lambda: driver.zeros(0, dtype), dtype),
        (lambda: buffer.view(dtype), dtype),
        (lambda: driver.buffer(array), array.dtype),
    ):
        text = f"the type of a buffer is {given!r}, {NO_NUMBERS} Fix: {fix}."
        assert refusal(make) == (InvalidInput, 2201, text)


def test_a_type_that_is_an_array_of_its_own_is_refused_and_the_fix_says_what_stands_for_it(driver: Driver) -> None:
    text = (
        f"the type of a buffer is '(2,)f4', {NO_NUMBERS} "
        "Fix: give float32, and its shape (2,) as the last axes of the buffer's."
    )
    assert refusal(lambda: driver.empty(3, "(2,)f4")) == (InvalidInput, 2201, text)


def test_a_type_that_numpy_does_not_know_is_refused(driver: Driver) -> None:
    assert refusal(lambda: driver.empty(3, "float33")) == (
        InvalidInput,
        2201,
        (
            "the type of a buffer is 'float33', which numpy does not know (data type 'float33' not understood). "
            "Fix: give a type such as numpy.float32."
        ),
    )


@pytest.mark.parametrize("shape", [(2**62, 4), 2**70, (2**40, 2**40)], ids=["wraps to 0", "over an int64", "wraps twice"])
def test_a_size_that_would_wrap_around_is_refused_as_what_it_is(driver: Driver, shape: Any) -> None:  # noqa: ANN401 -- what a caller may give
    device = driver.device
    size = 4 * int(np.prod(np.array(shape, object)))
    limit = min(device.limits.max_storage_buffer_range, 2**32 - 4)
    assert refusal(lambda: driver.empty(shape, np.uint32)) == (
        LimitExceeded,
        2104,
        f"a resident buffer has {size} bytes, and {device.name!r} allows {limit} bytes a buffer. Fix: pass it in parts.",
    )


def test_what_is_no_array_is_refused_by_buffer_and_write(driver: Driver) -> None:
    buffer = driver.buffer(np.zeros(2))
    refusals = [refusal(call) for call in (lambda: driver.buffer([[1], [2, 3]]), lambda: buffer.write([[1], [2, 3]]))]
    head = "a buffer got something that is not an array ("
    tail = "). Fix: pass a numpy array, or an object with the buffer protocol, __array_interface__ or DLPack."
    assert [(kind, code, text[: len(head)], text[-len(tail) :]) for kind, code, text in refusals] == [
        (InvalidInput, 2201, head, tail)
    ] * 2


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (np.zeros(4, np.int32), "16 bytes of int32"),
        (np.zeros(4, ">u4"), "16 bytes of >u4"),
        (np.zeros(5, np.uint32), "20 bytes of uint32"),
        (np.zeros(3, np.uint32), "12 bytes of uint32"),
        (np.zeros(0, np.uint32), "0 bytes of uint32"),
        ([1, 2, 3, 4], "32 bytes of int64"),
        (None, "8 bytes of object"),
    ],
)
def test_a_write_of_another_type_or_size_is_refused_and_changes_nothing(driver: Driver, given: object, shown: str) -> None:
    buffer = driver.buffer(np.array([5, 6, 7, 8], np.uint32))
    fix = "Fix: write an array of the buffer's type and size."
    assert refusal(lambda: buffer.write(given)) == (
        InvalidInput,
        2201,
        f"Buffer of shape (4,) and type uint32 holds 16 bytes of uint32 and got {shown}. {fix}",
    )
    assert buffer.read().tolist() == [5, 6, 7, 8]


def test_a_closed_buffer_is_refused(driver: Driver, kernel: Kernel) -> None:
    buffer = driver.buffer(np.zeros(4, np.uint32))
    buffer.close()
    calls = (buffer.read, lambda: buffer.write(np.zeros(4, np.uint32)), lambda: kernel.bind(buffer, push_constants=PUSH))
    expected = DispatchFailed, 1005, "the buffer is closed. Fix: make a new one."
    assert [refusal(call) for call in calls] == [expected] * 3


def test_everything_made_on_a_closed_driver_is_refused(driver: Driver, kernel: Kernel, bound: BoundKernel) -> None:
    buffer, batch, future = driver.buffer(np.zeros(4, np.uint32)), driver.batch(), bound.submit()
    batch.add(bound)
    driver.close()
    calls = (
        lambda: driver.buffer(np.zeros(4)),
        lambda: driver.empty(4, np.uint32),
        buffer.read,
        lambda: buffer.write(np.zeros(4, np.uint32)),
        lambda: kernel.bind(buffer, push_constants=PUSH),
        bound.run,
        bound.submit,
        batch.run,
        batch.submit,
    )
    expected = DispatchFailed, 1005, f"{driver.device.name!r} is closed. Fix: make a new Driver."
    assert ([refusal(call) for call in calls], future.result()) == ([expected] * len(calls), None)


def test_closing_a_buffer_of_a_closed_driver_does_nothing(driver: Driver) -> None:
    buffer = driver.buffer(np.zeros(4))
    driver.close()
    buffer.close()
    expected = DispatchFailed, 1005, f"{driver.device.name!r} is closed. Fix: make a new Driver."
    assert refusal(buffer.read) == expected


@pytest.mark.parametrize(("given", "shown"), [(np.zeros(4, np.uint32), "ndarray"), (None, "NoneType"), ([1], "list")])
def test_what_is_no_buffer_is_refused_by_bind(kernel: Kernel, given: Any, shown: str) -> None:  # noqa: ANN401 -- what a caller may give
    expected = InvalidInput, 2201, f"argument 1 of bind is of type {shown}, {NO_BUFFER}"
    assert refusal(lambda: kernel.bind(given, push_constants=PUSH)) == expected


def test_a_buffer_is_refused_where_arrays_alone_are_taken(driver: Driver) -> None:
    values = BufferDecl.read_write("values", 0, DataType.U32)
    program = Program.wrapped([values], (64, 1, 1), [store("values", gid_x(), gid_x())])
    here, backend = driver.buffer(np.arange(64, dtype=np.uint32)), KomputeBackend(driver)
    calls: list[Callable[[], object]] = [
        lambda: run(program, [here]),
        lambda: backend.dispatch(program, [here]),
        lambda: backend.load(program).dispatch_timed([here]),
        lambda: backend.dispatch(program, [here], DispatchConfig(fixpoint_iterations=2)),
        lambda: driver.tune(program, here),
    ]
    text = (
        "input_output 'values' got a resident buffer, which a kernel's call and bind alone take. "
        "Fix: pass buffer.read(), or call a kernel that the buffer's driver has compiled."
    )
    assert [refusal(call) for call in calls] == [(InvalidInput, 2201, text)] * len(calls)
    assert here.read().tolist() == list(range(64))


def test_a_buffer_of_another_driver_is_refused(driver: Driver, other: Driver, saxpy: Kernel) -> None:
    ours, theirs = driver.buffer(np.zeros(4, np.float32)), other.buffer(np.zeros(4, np.float32))
    assert refusal(lambda: saxpy.bind(ours, theirs, push_constants={"alpha": 1, "count": 4})) == (
        InvalidInput,
        2201,
        (
            f"argument 2 of bind is a buffer of another driver, on {driver.device.name!r}. "
            "Fix: make it with the driver that compiled the kernel."
        ),
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_or_too_many_buffers_are_refused(driver: Driver, saxpy: Kernel, count: int) -> None:
    buffers = [driver.buffer(np.zeros(4, np.float32)) for _ in range(count)]
    assert refusal(lambda: saxpy.bind(*buffers, push_constants={"alpha": 1, "count": 4})) == (
        InvalidInput,
        2201,
        (
            f"the shader takes 2 buffer(s), 'x' (input), 'y' (input_output), and got {count}. "
            "Fix: pass a buffer for each binding, in binding order."
        ),
    )


def test_a_buffer_of_another_type_is_refused(driver: Driver, kernel: Kernel) -> None:
    assert refusal(lambda: kernel.bind(driver.empty(4, np.float32), push_constants=PUSH)) == (
        InvalidInput,
        2201,
        (
            "input_output 'values' holds uint32 and got an array of float32. "
            "Fix: convert it with .astype(numpy.uint32), which keeps the numbers, or with .view(numpy.uint32), which keeps the "
            "bits."
        ),
    )


def test_push_constants_and_groups_of_a_binding_are_checked(driver: Driver, kernel: Kernel) -> None:
    buffer = driver.empty(4, np.uint32)
    bad = [
        {"push_constants": {"factor": 1}},
        {"push_constants": {**PUSH, "more": 1}},
        {"push_constants": PUSH, "workgroups": (0,)},
    ]
    refusals = [refusal(lambda options=options: kernel.bind(buffer, **options)) for options in bad]  # type: ignore[misc]
    assert [code for _, code, _ in refusals] == [2103, 2103, 2201]


@pytest.mark.parametrize("given", [None, "kernel", 3])
def test_what_is_no_bound_kernel_is_refused_by_a_batch(driver: Driver, bound: BoundKernel, given: Any) -> None:  # noqa: ANN401 -- what a caller may give
    batch = driver.batch()
    batch.add(bound)
    assert refusal(lambda: batch.add(given)) == (
        InvalidInput,
        2201,
        f"a batch takes bound kernels and got something of type {type(given).__name__}. {NO_BOUND}",
    )
    batch.run()


def test_a_kernel_that_is_not_bound_is_refused_by_a_batch(driver: Driver, kernel: Kernel) -> None:
    assert refusal(lambda: driver.batch().add(kernel)) == (  # type: ignore[arg-type]
        InvalidInput,
        2201,
        f"a batch takes bound kernels and got something of type Kernel. {NO_BOUND}",
    )


def test_kernels_of_two_drivers_are_refused_in_one_batch(driver: Driver, other: Driver, bound: BoundKernel) -> None:
    theirs = other.buffer(np.zeros(4, np.uint32))
    batch = driver.batch()
    batch.add(bound)
    batch.add(other.compile(glsl(STEP)).bind(theirs, push_constants=PUSH))
    expected = InvalidInput, 2201, "the batch holds kernels of 2 drivers. Fix: make a batch for each driver."
    assert [refusal(call) for call in (batch.run, batch.submit)] == [expected] * 2
    assert theirs.read().tolist() == [0] * 4


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), "1", (1,), True], ids=str)
def test_a_time_out_that_is_no_time_is_refused_before_anything_runs(driver: Driver, kernel: Kernel, timeout: Any) -> None:  # noqa: ANN401 -- what a caller may give
    buffer = driver.buffer(np.zeros(4, np.uint32))
    bound, batch = kernel.bind(buffer, push_constants=PUSH), driver.batch()
    batch.add(bound)
    calls = (
        lambda: bound.run(timeout=timeout),
        lambda: batch.run(timeout=timeout),
        lambda: kernel(np.zeros(4, np.uint32), push_constants=PUSH, timeout=timeout),
    )
    expected = InvalidInput, 2201, f"timeout is {timeout!r}, {NO_TIME}"
    assert [refusal(call) for call in calls] == [expected] * 3
    assert buffer.read().tolist() == [0] * 4


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 2**64, np.float32(60), 60], ids=str)
def test_a_time_out_may_be_any_number_however_large(driver: Driver, kernel: Kernel, timeout: Any) -> None:  # noqa: ANN401 -- what a caller may give
    buffer = driver.buffer(np.zeros(4, np.uint32))
    bound = kernel.bind(buffer, push_constants=PUSH)
    bound.run(timeout=timeout)
    bound.submit().result(timeout=timeout)
    assert buffer.read().tolist() == [2] * 4


BLUR = """
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = x[i] + x[(i + 1u) % x.length()]; }
"""


@pytest.mark.parametrize("strict", [False, True])
def test_out_that_is_read_is_right_for_an_array_and_refused_for_a_buffer(
    driver: Driver,
    compiled: CompileText,
    strict: bool,  # noqa: FBT001 -- a case
) -> None:
    kernel, numbers = compiled(BLUR), np.arange(200, dtype=np.uint32)
    array, buffer, other = numbers.copy(), driver.buffer(numbers), driver.zeros(200, np.uint32)
    expected = (numbers + np.roll(numbers, -1)).tolist()
    assert (kernel(array, out=array, strict=strict) is array, array.tolist()) == (True, expected)
    for given, out in ((buffer, buffer), (buffer[:], buffer), (buffer[:100], buffer[:100]), (buffer[50:150], buffer[100:])):
        with pytest.raises(InvalidInput) as caught:
            kernel(given, out=out, strict=strict)
        assert str(caught.value).partition(". Fix: ")[0] in {
            "out for output 'y' shares memory with input 'x', which may be read after it was written",
            "input 'x' and output 'y' share memory, and one is written",
        }
    assert buffer.read().tolist() == numbers.tolist()
    assert kernel(buffer, out=other, strict=strict) is other
    assert other.read().tolist() == expected
    assert kernel(numbers, out=buffer, strict=strict) is buffer
    assert buffer.read().tolist() == expected
