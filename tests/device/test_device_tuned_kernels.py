"""Kernels with their best constants: calls, bindings, and the memory they keep."""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from made_kernels import TurningKernel
from tunings import floats, limit_memory, memory_in_use, words

from vyre_driver import Driver, kernels
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, InvalidInput
from vyre_driver.kernels import KERNELS, TunedKernel

if TYPE_CHECKING:
    from vyre_driver import SpirvModule
    from vyre_driver.autotune.measure.definition import DeviceFacts

pytestmark = pytest.mark.device


@pytest.mark.parametrize("count", [1, 3, 64, 5001])
def test_calls_give_what_numpy_gives(driver: Driver, count: int) -> None:
    x, y = floats(count), np.ones(count, np.float32)
    found = (
        kernels.saxpy(driver)(x, y, alpha=3.0),
        kernels.reduce_max(driver)(x),
        kernels.histogram(driver)(words(count), bins=7),
    )
    expected = 3 * x + y, x.max(), np.bincount(words(count)[:7], minlength=7)
    assert [np.asarray(one).tolist() for one in found] == [one.tolist() for one in expected]


@pytest.mark.parametrize("name", [name for name in kernels.__all__ if name in {*KERNELS, "attention", "conv2d", "linear"}])
def test_making_a_kernel_neither_reads_modules_nor_looks_for_candidates(layered: Driver, name: str) -> None:
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        made = getattr(kernels, name)(layered)
    finally:
        sys.setprofile(None)
    assert (len(calls) < 500, {"modules", "target", "candidates"} & {*calls}) == (True, set())
    assert made.candidates[0] == made.space.first(layered.device.limits)


def test_a_definition_whose_module_cannot_be_bound_is_refused_when_the_kernel_is_made(driver: Driver) -> None:
    @dataclass(frozen=True)
    class Unbound(TurningKernel):
        def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
            return (replace(self.module, entry="absent"),)

    with pytest.raises(InvalidInput, match="absent"):
        TunedKernel(driver, Unbound((1, 2)))


def test_the_buffers_of_the_last_four_shapes_are_kept_whatever_the_parameters(driver: Driver) -> None:
    before = memory_in_use(driver)
    saxpy = kernels.saxpy(driver)
    used = []
    for count in (1024, 1024, 2048, 1024, 4096, 8192, 16384, 32768):
        for alpha in (1.0, 2.0, -1.0):
            x = floats(count)
            np.testing.assert_array_equal(saxpy(x, x, alpha=alpha), np.float32(alpha) * x + x)
        used.append((memory_in_use(driver) - before) // (12 * 1024))
    saxpy.close()
    assert (used, memory_in_use(driver)) == ([1, 1, 3, 3, 7, 15, 1 + 4 + 8 + 16, 4 + 8 + 16 + 32], before)
    np.testing.assert_array_equal(saxpy(x, x, alpha=-1.0), 0 * x)
    saxpy.close()
    saxpy.close()
    assert memory_in_use(driver) == before


def test_the_buffers_go_with_a_kernel_that_nobody_uses_any_more(driver: Driver) -> None:
    before = memory_in_use(driver)
    gc.disable()
    try:
        x = floats(1000)
        np.testing.assert_array_equal(kernels.saxpy(driver)(x, x), 2 * x)
        assert memory_in_use(driver) == before
    finally:
        gc.enable()


def test_outputs_of_another_shape_have_buffers_of_their_own(driver: Driver) -> None:
    histogram = kernels.histogram(driver)
    found = [histogram(words(100), bins=bins).tolist() for bins in (10, 20, 10)]
    assert found == [[1] * 10, [1] * 20, [1] * 10]


def test_a_parameter_counts_with_its_sign_and_type(layered: Driver) -> None:
    saxpy = kernels.saxpy(layered)
    x, y = np.ones(8, np.float32), np.full(8, -0.0, np.float32)
    found = [np.signbit(saxpy(x, y, alpha=alpha)).all() for alpha in (0.0, -0.0, 0, -0.0)]
    assert found == [False, True, False, True]


def test_buffers_of_earlier_shapes_make_room_and_what_does_not_fit_leaves_nothing(
    layered: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    saxpy, before = kernels.saxpy(layered), memory_in_use(layered)
    limit_memory(layered, before + 12 * 3000, monkeypatch)
    for count in (1000, 1500, 2500):
        np.testing.assert_array_equal(saxpy(floats(count), floats(count)), 2 * floats(count))
    kept = memory_in_use(layered) - before
    with pytest.raises(DeviceOutOfMemory) as first:  # which holds on to all that its traceback names
        saxpy(floats(4000), floats(4000))
    left = memory_in_use(layered) - before
    np.testing.assert_array_equal(saxpy(floats(2500), floats(2500)), 2 * floats(2500))
    assert (kept, left, first.value.code) == (12 * 2500, 0, 1001)


def test_where_the_second_temporary_does_not_fit_the_first_goes_too(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    saxpy, x, out = kernels.saxpy(layered), layered.buffer(floats(3)), layered.empty(3, np.float32)
    held = memory_in_use(layered)
    limit_memory(layered, held + 24, monkeypatch)  # each takes 16 bytes
    with pytest.raises(DeviceOutOfMemory) as caught:
        saxpy.bind(x, x, out=out)
    assert (memory_in_use(layered), caught.value.context["available_bytes"] > 0) == (held, True)


def test_where_temporaries_do_not_fit_the_other_buffers_go_too(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    reduce_sum, before = kernels.reduce_sum(layered), memory_in_use(layered)
    x, out = layered.buffer(floats(20_000)), layered.empty((), np.float32)
    held = memory_in_use(layered)
    limit_memory(layered, held + 8, monkeypatch)
    with pytest.raises(DeviceOutOfMemory) as at_bind:
        reduce_sum.bind(x, out=out)
    bound_nothing = memory_in_use(layered)
    x.close()
    out.close()
    limit_memory(layered, before + 80_000 + 8, monkeypatch)
    with pytest.raises(DeviceOutOfMemory) as at_call:
        reduce_sum(floats(20_000))
    assert (bound_nothing, memory_in_use(layered)) == (held, before)
    assert [one.value.code for one in (at_bind, at_call)] == [1001, 1001]


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "message"),
    [
        ("saxpy", (floats(4),), {}, r"saxpy takes 2 arrays \(x, y\) and got 1"),
        ("saxpy", (floats(4), floats(5)), {}, "x of saxpy has 4 elements and y has 5"),
        ("saxpy", (floats(4), words(4)), {}, "y of saxpy holds float32 and got uint32"),
        ("saxpy", (floats(4), floats(4)), {"beta": 1}, "saxpy takes alpha and got 'beta'"),
        ("histogram", (words(4),), {"bins": [4]}, r"bins of histogram is \[4\]"),
        ("transpose", (floats(4),), {}, "a of transpose has the shape"),
    ],
)
def test_what_a_kernel_does_not_take_is_refused_by_name(
    layered: Driver, name: str, arrays: tuple[Any, ...], parameters: dict[str, Any], message: str
) -> None:
    before = memory_in_use(layered)
    kernel = TunedKernel(layered, KERNELS[name])
    with pytest.raises(InvalidInput, match=f"^{message}"):
        kernel(*arrays, **parameters)
    assert memory_in_use(layered) == before


def test_what_cannot_be_bound_is_refused_by_name(layered: Driver) -> None:
    saxpy, x, out = kernels.saxpy(layered), layered.buffer(floats(4)), layered.empty(4, np.float32)
    other = layered.empty(5, np.float32)
    in_place = TunedKernel(layered, TurningKernel((1,), in_place=True))
    y, z = layered.buffer(words(4)), layered.buffer(words(4))
    refusals = []
    cases: list[tuple[TunedKernel, tuple[Any, ...], Any]] = [
        (saxpy, (x, floats(4)), out),
        (saxpy, ([1.0], x), out),
        (saxpy, (x, x), floats(4)),
        (saxpy, (x,), out),
        (saxpy, (x, x), (out, out)),
        (saxpy, (x, x), other),
        (in_place, (y,), z),
    ]
    for kernel, buffers, outputs in cases:
        with pytest.raises(InvalidInput) as caught:
            kernel.bind(*buffers, out=outputs)
        refusals.append(str(caught.value.problem))
    assert refusals == [
        "argument 2 of bind is of type ndarray, and bind takes resident buffers",
        "argument 1 of bind is of type list, and bind takes resident buffers",
        "argument 3 of bind is of type ndarray, and bind takes resident buffers",
        "saxpy takes 2 arrays (x, y) and got 1",
        "saxpy writes 1 buffer and got 2 as out",
        "out of saxpy has shape (4,) and type float32, and the buffer has (5,) and float32",
        "turning works on x in place, and out is another buffer than x",
    ]


def test_a_kernel_that_works_in_place_leaves_the_arrays_of_a_call_alone(driver: Driver) -> None:
    kernel = TunedKernel(driver, TurningKernel((1,), in_place=True))
    x = words(100)
    found = [np.asarray(kernel(x)).tolist() for _ in range(2)]
    resident = driver.buffer(x)
    bound = kernel.bind(resident, out=resident)
    bound.run()
    bound.run()
    assert (found, x.tolist(), resident.read().tolist()) == (
        [(3 * x + 1).tolist()] * 2,
        list(range(100)),
        (9 * x + 4).tolist(),
    )


def test_a_bound_plan_of_several_dispatches_may_be_closed_while_it_runs_and_gives_its_temporaries_back(driver: Driver) -> None:
    reduce_sum = kernels.reduce_sum(driver)
    x, out = driver.buffer(words(300_000)), driver.empty((), np.uint32)
    before = memory_in_use(driver)
    bound = reduce_sum.bind(x, out=out)
    held, dispatches = memory_in_use(driver), len(bound.bound)
    bound.run()
    first = int(out.read())
    x.write(words(300_000)[::-1] * np.uint32(2))
    future = bound.submit()
    bound.close()
    future.result()
    bound.close()
    total = int(words(300_000).sum(dtype=np.uint32))
    del future
    assert (first, int(out.read()), dispatches) == (total, 2 * total % 2**32, 2)
    assert (held > before, memory_in_use(driver)) == (True, before)
    for use in (bound.run, bound.submit):
        with pytest.raises(DispatchFailed, match="the bound reduce_sum is closed"):
            use()


def test_eight_threads_call_one_kernel_with_two_shapes(layered: Driver) -> None:
    saxpy = kernels.saxpy(layered)
    barrier = threading.Barrier(8)

    def call(thread: int) -> list[bool]:
        barrier.wait()
        x = floats(1000 + thread % 2)
        return [
            np.array_equal(saxpy(x, x, alpha=float(thread + turn)), np.float32(thread + turn) * x + x) for turn in range(20)
        ]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, range(8)))
    assert found == [[True] * 20] * 8


def test_a_kernel_that_reads_what_it_would_have_overwritten_is_not_bound_to_one_buffer(driver: Driver) -> None:
    square = driver.buffer(np.arange(16, dtype=np.float32).reshape(4, 4))
    with pytest.raises(InvalidInput) as caught:
        kernels.transpose(driver).bind(square, out=square)
    assert str(caught.value) == (
        "transpose reads a after it began to write b, and both are one buffer. Fix: give another buffer as out."
    )
