"""Buffers that stay on the device, and kernels bound to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import SHIFT, STEP, Spin, glsl

from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from conftest import CompileText
    from numpy.typing import NDArray

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

RECORD = np.dtype([("id", "<u2"), ("weight", "<f4")])


@pytest.mark.parametrize(
    "given",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(2.5),
        np.array([1, -2, 3], np.int8),
        np.array([True, False, True, True, False]),
        np.array([1 + 2j, 3 - 4j], np.complex64),
        np.array([(1, 0.5), (2, 1.5), (3, 2.5)], RECORD),
        np.arange(12, dtype=np.int64).reshape(3, 4).T,
        np.arange(20, dtype=np.uint16)[::-3],
        np.broadcast_to(np.float64(7), (2, 2)),
    ],
    ids=["matrix", "scalar", "bytes", "booleans", "complex", "records", "transposed", "strided", "broadcast"],
)
def test_a_buffer_gives_back_what_it_was_given(driver: Driver, given: NDArray[Any]) -> None:
    np.testing.assert_array_equal(driver.buffer(given).read(), given, strict=True)


def test_a_list_is_taken_as_numpy_takes_it(driver: Driver) -> None:
    np.testing.assert_array_equal(driver.buffer([[1, 2], [3, 4]]).read(), np.array([[1, 2], [3, 4]]), strict=True)


@pytest.mark.parametrize(
    ("shape", "expected"), [(3, (3,)), (np.int64(3), (3,)), ((2, 3), (2, 3)), ([2, np.uint8(3)], (2, 3)), ((), ())]
)
def test_an_empty_buffer_has_the_shape_and_type_asked_for(driver: Driver, shape: Any, expected: tuple[int, ...]) -> None:  # noqa: ANN401 -- what a caller may give
    made = driver.empty(shape, "f4")
    read = made.read()
    assert (made.shape, made.dtype, made.nbytes, read.shape, read.dtype) == (
        expected,
        np.float32,
        4 * int(np.prod(expected)),
        expected,
        np.float32,
    )


def test_what_was_read_is_a_copy_that_may_be_written(driver: Driver) -> None:
    buffer = driver.buffer(np.array([1, 2, 3]))
    first = buffer.read()
    first[:] = 9
    buffer.write(np.array([4, 5, 6]))
    assert (first.tolist(), buffer.read().tolist()) == ([9, 9, 9], [4, 5, 6])


def test_the_array_that_was_written_may_change_afterwards(driver: Driver) -> None:
    given = np.array([1, 2, 3])
    buffer = driver.buffer(given)
    given[:] = 9
    assert buffer.read().tolist() == [1, 2, 3]


def test_a_write_of_another_shape_keeps_the_buffers_own(driver: Driver) -> None:
    buffer = driver.buffer(np.zeros((2, 3), np.int32))
    buffer.write(np.arange(6, dtype=np.int32))
    np.testing.assert_array_equal(buffer.read(), np.array([[0, 1, 2], [3, 4, 5]], np.int32), strict=True)


def test_a_bound_kernel_works_in_place_each_time_it_runs(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.arange(70, dtype=np.uint32))
    bound = compiled(STEP).bind(buffer, push_constants={"factor": 2, "summand": 1})
    for _ in range(3):
        bound.run()
    assert buffer.read().tolist() == [8 * i + 7 for i in range(70)]


def test_an_upload_a_dispatch_and_a_read_back_may_follow_each_other_at_will(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.empty(1000, np.uint32)
    bound = compiled(STEP).bind(buffer, push_constants={"factor": 3, "summand": 5})
    random = np.random.default_rng(7)
    right = []
    for round_ in range(20):
        given = random.integers(0, 2**32, 1000, np.uint32)
        buffer.write(given)
        runs = round_ % 4
        for _ in range(runs):
            bound.run()
            given = 3 * given + np.uint32(5)
        right.append(np.array_equal(buffer.read(), given))
    assert right == [True] * 20


def test_push_constants_belong_to_the_binding(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer = compiled(STEP), driver.buffer(np.ones(4, np.uint32))
    tenfold, plus_one = (kernel.bind(buffer, push_constants={"factor": f, "summand": s}) for f, s in ((10, 0), (1, 1)))
    for bound in (tenfold, plus_one, tenfold, plus_one):
        bound.run()
    assert buffer.read().tolist() == [111] * 4


def test_the_same_kernel_may_be_called_and_bound_in_turn(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer = compiled(STEP), driver.buffer(np.ones(4, np.uint32))
    push = {"factor": 2, "summand": 3}
    bound = kernel.bind(buffer, push_constants=push)
    got = []
    for _ in range(2):
        bound.run()
        called = kernel(np.full(4, 7, np.uint32), push_constants=push)
        assert isinstance(called, np.ndarray)
        got.append((buffer.read().tolist(), called.tolist()))
    assert got == [([5] * 4, [17] * 4), ([13] * 4, [17] * 4)]


def test_groups_of_a_binding_say_how_much_of_the_buffer_is_worked_on(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.zeros(130, np.uint32))
    compiled(STEP).bind(buffer, push_constants={"factor": 1, "summand": 1}, workgroups=(2,)).run()
    assert buffer.read().tolist() == [1] * 128 + [0] * 2


def test_one_buffer_may_be_read_and_written_under_two_bindings(driver: Driver, saxpy: Kernel) -> None:
    both = driver.buffer(np.arange(8, dtype=np.float32))
    saxpy.bind(both, both, push_constants={"alpha": 2, "count": 8}).run()
    assert both.read().tolist() == [3 * i for i in range(8)]


def test_one_buffer_for_two_of_a_shader_that_declares_one_restrict_is_refused(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(
        "layout(binding = 0) readonly restrict buffer X { uint x[]; };\nlayout(binding = 1) buffer Y { uint y[]; };\n"
        "void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] += x[i]; }"
    )
    one, other = (driver.buffer(np.arange(4, dtype=np.uint32)) for _ in range(2))
    with pytest.raises(InvalidInput, match=r"input 'x' \(binding 0\) and input_output 'y' \(binding 1\) are the same buffer"):
        kernel.bind(one, one)
    kernel.bind(one, other).run()
    assert other.read().tolist() == [0, 2, 4, 6]


def test_two_buffers_may_change_places(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(SHIFT)
    one, other = (driver.buffer(np.arange(200, dtype=np.uint32)) for _ in range(2))
    expected = np.arange(200, dtype=np.uint32)
    for bound in (kernel.bind(one, other), kernel.bind(other, one)) * 3:
        bound.run()
        expected = 3 * np.roll(expected, -67) + np.uint32(1)
    np.testing.assert_array_equal(one.read(), expected, strict=True)


def test_a_closed_buffer_stays_with_the_kernel_that_is_bound_to_it(driver: Driver, compiled: CompileText) -> None:
    kernel, values, other = compiled(SHIFT), driver.buffer(np.arange(4, dtype=np.uint32)), driver.empty(4, np.uint32)
    bound = kernel.bind(values, other)
    values.close()
    values.close()
    driver.buffer(np.full(4, 9, np.uint32))  # would take the memory if that were free
    bound.run()
    assert other.read().tolist() == [10, 1, 4, 7]


def test_a_write_waits_for_the_work_that_still_reads_the_buffer(driver: Driver) -> None:
    spin = Spin(driver, seconds=0.2)
    future = spin.bound.submit()
    spin.each.write(np.array([1000], np.uint32))
    future.result()
    assert spin.runs() == 1


def test_a_read_waits_for_the_work_that_still_writes_the_buffer(driver: Driver) -> None:
    spin = Spin(driver, seconds=0.2)
    spin.bound.submit()
    assert spin.ended.read().tolist() == [spin.groups]


def test_a_buffer_without_elements_is_mixed_with_arrays(driver: Driver) -> None:
    saxpy, none = driver.compile(shipped_module("saxpy")), np.empty(0, np.float32)
    for given in ((driver.zeros(0, "f4"), none), (none, driver.zeros(0, "f4"))):
        np.testing.assert_array_equal(saxpy(*given, alpha=1, count=0), none, strict=True)


HALF = """
layout(binding = 0) readonly buffer From { uint from[]; };
layout(binding = 1) writeonly buffer To { uint to[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < to.length() && i % 2u == 0u) to[i] = from[i]; }
"""


def test_what_a_shader_leaves_out_of_an_array_of_a_mixed_call_is_zeros(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    half, made = driver.compile(glsl(HALF)), Buffer.__init__
    buffer, out = driver.buffer(np.full(6, 5, np.uint32)), np.full(6, 9, np.uint32)

    def filled(self: Buffer, *given: Any) -> None:  # noqa: ANN401 -- as its own
        made(self, *given)
        self.fill(0xDEADBEEF)

    monkeypatch.setattr(Buffer, "__init__", filled)
    assert half(buffer, out=out) is out
    assert out.tolist() == [5, 0, 5, 0, 5, 0]
