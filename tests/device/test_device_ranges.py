"""Pipelines that see parts of buffers, and copies around a dispatch for parts that a device cannot bind."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import SHIFT, glsl

from vyre_driver import Driver
from vyre_driver.errors import DeviceLost, DeviceOutOfMemory
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.kompute.pipeline import BoundPipeline
from vyre_driver.kompute.recording import record, record_alone
from vyre_driver.kompute.views import Pieces
from vyre_driver.lowering.source import PipelineSource
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("_nothing_fails_any_more")]

NEVER = Deadline(None, "the device")
WORDS = 256
LENGTHS = """
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
void main() { if (gl_GlobalInvocationID.x == 0u) { y[0] = x.length(); y[1] = y.length(); } }
"""
ADD = """
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] += x[i]; }
"""


def filled(driver: Driver, values: NDArray[np.uint32]) -> TensorBuffer:
    memory = TensorBuffer(driver.context.device, values.nbytes, 4)
    memory.write_range(0, values, NEVER)
    return memory


def words(memory: TensorBuffer) -> NDArray[np.uint32]:
    return memory.read_range(0, memory.byte_len, NEVER).view(np.uint32)


def bound(driver: Driver, text: str, buffers: list[TensorBuffer], ranges: Any = None) -> BoundPipeline:  # noqa: ANN401 -- also wrong ones
    groups = (buffers[-1].byte_len // 4 // 64, 1, 1)
    return BoundPipeline(
        driver.context.device, PipelineSource(glsl(text).runnable.code, (), 0), Pieces(tuple(buffers), ranges), groups
    )


def run(driver: Driver, *groups: list[Any]) -> None:
    record(driver.context.device, groups, groups).run(NEVER)


@pytest.fixture
def step(opened: Driver) -> int:
    """Bytes that parts may begin at."""
    return max(opened.device.limits.min_storage_buffer_offset_alignment, 4)


def test_a_shader_sees_the_parts_and_their_lengths(opened: Driver, step: int) -> None:
    x, y = filled(opened, np.arange(WORDS, dtype=np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    run(opened, [bound(opened, LENGTHS, [x, y], ((step, 20), (2 * step, 12))).dispatch(())])
    expected = np.zeros(WORDS, np.uint32)
    expected[step // 2 : step // 2 + 2] = [5, 3]
    np.testing.assert_array_equal(words(y), expected)


def test_one_pipeline_is_shared_and_each_user_sees_its_own_parts(opened: Driver, step: int) -> None:
    x, y = filled(opened, np.arange(WORDS, dtype=np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    layer: Any = opened.context.device.layer
    before = layer.counters()
    ranges = [((0, 40), (0, 40)), ((step, 16), (step, 16)), None, ((step, 16), (4 * step, 8))]
    pipelines = [bound(opened, ADD, [x, y], one) for one in ranges]
    after = layer.counters()
    expected = np.zeros(WORDS, np.uint32)
    values = np.arange(WORDS, dtype=np.uint32)
    first = step // 4
    for pipeline in pipelines:
        run(opened, [pipeline.dispatch(())])
    expected[:10] += values[:10]
    expected[first : first + 4] += values[first : first + 4]
    expected += values
    expected[4 * first : 4 * first + 2] += values[first : first + 2]
    np.testing.assert_array_equal(words(y), expected)
    assert [after[name] - before[name] for name in ("pipelines_created", "pipelines_shared")] == [1, 3]


@pytest.mark.parametrize(
    ("ranges", "written"),
    [
        (((0, 0), (0, 4)), 1),
        (((0, 4 * WORDS + 4), (0, 4)), 1),
        (((4 * WORDS, 4), (4 * WORDS + 256, 4)), 0),
        (((2**64 - 256, 512), (0, 4)), 1),
    ],
)
def test_ranges_that_do_not_fit_leave_no_pipeline(opened: Driver, ranges: Any, written: int) -> None:  # noqa: ANN401 -- wrong ones
    x, y = filled(opened, np.ones(WORDS, np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    with pytest.raises(ValueError, match=f"^2 parts for 2 buffers, of which {written} have one within them$"):
        bound(opened, ADD, [x, y], ranges)
    gc.collect()
    run(opened, [bound(opened, ADD, [x, y]).dispatch(())])
    assert words(y).tolist() == [1] * WORDS


@pytest.mark.parametrize(("ranges", "error"), [(((0, -4), (0, 4)), OverflowError), (((0,),), ValueError), (5, TypeError)])
def test_what_are_no_ranges_is_refused(opened: Driver, ranges: Any, error: type[Exception]) -> None:  # noqa: ANN401 -- wrong ones
    x = filled(opened, np.ones(WORDS, np.uint32))
    with pytest.raises(error):
        bound(opened, ADD, [x, x], ranges)


def test_a_pipeline_made_inside_of_one_with_ranges_has_none(opened: Driver, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """A finalizer may make one at any allocation."""
    x, y = filled(opened, np.ones(WORDS, np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    made: list[BoundPipeline] = []
    real = _layer.create_pipeline

    def nested(device: Any, make: Any, arguments: Any, *rest: Any) -> Any:  # noqa: ANN401 -- passed on
        def make_both(*given: object) -> object:
            monkeypatch.setattr(_layer, "create_pipeline", real)
            made.append(bound(opened, ADD, [x, y]))
            return make(*given)

        return real(device, make_both, arguments, *rest)

    monkeypatch.setattr(_layer, "create_pipeline", nested)
    around = bound(opened, ADD, [x, y], ((0, 8), (step, 8)))
    run(opened, [around.dispatch(())])
    assert words(y).sum() == 2
    run(opened, [made[0].dispatch(())])
    assert words(y).sum() == WORDS + 2


def beside(x: TensorBuffer, part: TensorBuffer, offset: int) -> tuple[list[Any], list[Any]]:
    """Copy a part of ``x``, that begins anywhere, to a buffer of its own, and back."""
    here, there = x.handle, part.handle
    return [(here, offset, there, 0, part.byte_len)], [(there, 0, here, offset, part.byte_len)]


def test_other_buffers_are_bound_to_a_pipeline_that_is_kept_and_outlives_what_it_was_made_for(opened: Driver) -> None:
    x, y, z = (filled(opened, np.full(WORDS, value, np.uint32)) for value in (1, 10, 100))
    made = bound(opened, ADD, [x, y])
    kept = made.kept()
    assert kept is not None
    del made
    source = PipelineSource(glsl(ADD).runnable.code, (), 0)
    other = BoundPipeline(opened.context.device, source, Pieces((x, z)), (WORDS // 64, 1, 1), kept)
    del kept
    record_alone(other, ()).run(NEVER)
    run(opened, [other.dispatch(())])  # of an algorithm of kompute's, made now
    assert (words(y).tolist(), words(z).tolist()) == ([10] * WORDS, [102] * WORDS)


@pytest.mark.parametrize(("result", "error"), [(-1, DeviceOutOfMemory), (-1000069000, DeviceOutOfMemory), (-4, DeviceLost)])
def test_a_binding_that_the_device_refuses_leaves_nothing(opened: Driver, result: int, error: type[Exception]) -> None:
    x, y = filled(opened, np.ones(WORDS, np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    kept = bound(opened, ADD, [x, y]).kept()
    source = PipelineSource(glsl(ADD).runnable.code, (), 0)
    _layer.inject("bind_buffers", 1, result)
    with pytest.raises(error):
        BoundPipeline(opened.context.device, source, Pieces((x, y)), (WORDS // 64, 1, 1), kept)
    if error is not DeviceLost:
        other = BoundPipeline(opened.context.device, source, Pieces((x, y)), (WORDS // 64, 1, 1), kept)
        record_alone(other, ()).run(NEVER)
        assert words(y).sum() == WORDS


@pytest.mark.parametrize(
    "part", [(0, 0, 4), (1, 0, 4), (None, 0, 4 * WORDS + 1), (None, 8, 4 * WORDS), (None, 0, 0), (None, 2**64 - 4, 8)]
)
def test_parts_that_no_buffer_has_are_not_bound(opened: Driver, part: tuple[int | None, int, int]) -> None:
    x = filled(opened, np.ones(WORDS, np.uint32))
    kept, layer = bound(opened, ADD, [x, x]).kept(), opened.context.device.layer
    assert kept is not None
    handle = x.handle
    wrong = (handle if part[0] is None else part[0], *part[1:])
    with pytest.raises(ValueError, match="buffer 1 has not"):
        _layer.bind_buffers(layer, kept, ((handle, 0, 4), wrong))
    with pytest.raises(ValueError, match="65 buffers are bound, and 64 are the most"):
        _layer.bind_buffers(layer, kept, ((handle, 0, 4),) * 65)


@pytest.mark.parametrize("grouped", [False, True])
def test_copies_go_with_their_dispatch(*, grouped: bool) -> None:
    with Driver() as opened:
        ones = filled(opened, np.ones(WORDS, np.uint32))
        data = np.random.default_rng(3).integers(0, 99, 4000, np.uint8)
        x = TensorBuffer(opened.context.device, data.nbytes, 1)
        x.write_range(0, data, NEVER)
        operations, expected, parts = [], data.copy(), []
        for offset in (3, 1501):
            part = filled(opened, np.zeros(WORDS, np.uint32))
            parts.append(part)
            operation = bound(opened, ADD, [ones, part]).dispatch(())
            operations += [(operation, *beside(x, part, offset))] * 3
            expected[offset : offset + part.byte_len].view(np.uint32)[:] += 3
        run(opened, operations if grouped else [], *([] if grouped else ([one] for one in operations)))
        np.testing.assert_array_equal(x.read_range(0, data.nbytes, NEVER), expected)


def test_dispatches_before_and_after_wait_for_the_copies(opened: Driver) -> None:
    """A chain in which each dispatch and each copy needs all of what the one before wrote, and overwrites what that read."""
    values = np.arange(1 << 16, dtype=np.uint32)
    a, b, part = (filled(opened, values) for _ in range(3))
    there, back = bound(opened, SHIFT, [a, b]), bound(opened, SHIFT, [part, a])
    copy = [(b.handle, 0, part.handle, 0, b.byte_len)]
    chain = [[there.dispatch(())], [(back.dispatch(()), copy, [])], [(there.dispatch(()), [], copy)], [back.dispatch(())]]
    run(opened, *chain, *chain)
    for _ in range(8):
        values = 3 * np.roll(values, -67) + 1
    np.testing.assert_array_equal(words(a), values)


@pytest.mark.parametrize("place_of_it", [1, 2])
def test_copies_that_do_not_fit_are_refused_and_forgotten(opened: Driver, place_of_it: int) -> None:
    x, y = filled(opened, np.ones(WORDS, np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    operation = bound(opened, ADD, [x, y]).dispatch(())
    wrong: list[Any] = [operation, [], []]
    wrong[place_of_it] = [(x.handle, 0, y.handle, 8, 4 * WORDS)]
    said = "the regions beside an operation do not fit into their buffers, or it is not a dispatch"
    with pytest.raises(ValueError, match=said):
        run(opened, [tuple(wrong)])
    run(opened, [operation])
    assert words(y).tolist() == [1] * WORDS


def test_copies_beside_what_is_no_dispatch_are_refused(opened: Driver) -> None:
    x, y = filled(opened, np.ones(WORDS, np.uint32)), filled(opened, np.zeros(WORDS, np.uint32))
    copy = import_module(opened.context.device.api.manager.__module__).OpTensorSyncLocal([opened.context.device.stand_in])
    with pytest.raises(ValueError, match="or it is not a dispatch"):
        run(opened, [(copy, [], [(x.handle, 0, y.handle, 0, 8)])])
    run(opened, [bound(opened, ADD, [x, y]).dispatch(())])
    assert words(y).tolist() == [1] * WORDS


@pytest.mark.parametrize("operation", [(1,), (1, [], [], []), (1, 5, []), (1, [], [(1, 2)])])
def test_what_is_no_operation_with_copies_is_refused(opened: Driver, operation: Any) -> None:  # noqa: ANN401 -- wrong ones
    with pytest.raises((TypeError, ValueError)):
        run(opened, [operation])


def test_what_is_recorded_inside_of_an_operation_with_copies_takes_none_of_them(opened: Driver) -> None:
    x, y, z = (filled(opened, np.full(WORDS, value, np.uint32)) for value in (1, 0, 5))
    device = opened.context.device
    outer, inner = bound(opened, ADD, [x, y]).dispatch(()), bound(opened, ADD, [x, z]).dispatch(())
    sequences = [device.manager.sequence(), device.manager.sequence()]

    class Disturbed:
        def record(self, operation: object) -> None:
            _layer.record(sequences[1], [[inner]], device_only=False)
            sequences[0].record(operation)

    _layer.record(Disturbed(), [[(outer, [(None, 7, y.handle, 0, 4 * WORDS)], [])]], device_only=False)
    sequences[1].eval()
    assert (words(y)[0], words(z)[0]) == (0, 6)
    sequences[0].eval()
    assert (words(y).tolist(), words(z)[0]) == ([8] * WORDS, 6)
