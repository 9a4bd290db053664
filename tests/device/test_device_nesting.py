"""What a finalizer makes or submits while a call is making or submitting something: a garbage collection may come anywhere."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import glsl

from vyre_driver import Driver
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

X = np.arange(64, dtype=np.float32)
PUSH = {"alpha": 2, "count": X.size}
LENGTH = """#version 450
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { uint8_t x[]; };
layout(binding = 1) buffer Y { uint n; };
void main() { n = uint(x.length()); }
"""


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver under the layer."""
    with Driver() as opened:
        assert opened.context.device.layer is not None
        yield opened


def inside(monkeypatch: pytest.MonkeyPatch, name: str, finalizer: Callable[[], object], *, after: bool) -> list[int]:
    """Let ``finalizer`` run inside the next call of kompute that the function of the layer makes; counts that it did."""
    real, ran = getattr(_layer, name), []

    def once(device: Any, make: Callable[..., object], arguments: tuple[object, ...], *rest: object, **named: object) -> object:  # noqa: ANN401 -- passed on
        def disturbed(*given: object) -> object:
            made = make(*given) if after else None
            if not ran:
                ran.append(1)
                finalizer()
            return made if after else make(*given)

        return real(device, disturbed, arguments, *rest, **named)

    monkeypatch.setattr(_layer, name, once)
    return ran


def inside_block(monkeypatch: pytest.MonkeyPatch, driver: Driver, finalizer: Callable[[], object], *, after: bool) -> list[int]:
    """Let ``finalizer`` run inside the making of the driver's first block of memory; counts that it did."""
    call, ran = driver.context.device.call_kompute, []

    def disturbed(what: str, run: Callable[[object], object], *rest: object) -> object:
        def run_disturbed(manager: Any) -> object:  # noqa: ANN401 -- kp has no types
            def tensor(*arguments: object) -> object:
                made = manager.tensor_t(*arguments) if after else None
                if not ran:
                    ran.append(1)
                    finalizer()
                return made if after else manager.tensor_t(*arguments)

            return run(SimpleNamespace(tensor_t=tensor))

        return call(what, run_disturbed if what == "allocate memory" else run, *rest)

    monkeypatch.setattr(driver.context.device, "call_kompute", disturbed)
    return ran


def saxpy(driver: Driver) -> Kernel:
    return driver.compile(shipped_module("saxpy"))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_buffer_made_while_another_is_made_leaves_its_length_alone(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    kernel = driver.compile(glsl(LENGTH))
    kept = []
    ran = inside_block(monkeypatch, driver, lambda: kept.append(driver.buffer(np.zeros(8, np.uint32))), after=after)
    found = kernel(np.zeros(6, np.uint8), np.zeros(1, np.uint32), workgroups=(1,))
    assert (ran, np.asarray(found).tolist(), kept[0].read().tolist()) == ([1], [6], [0] * 8)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_buffer_refused_while_another_is_made_is_no_failure_of_it(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    def refused() -> None:
        _layer.inject("allocate", 1, -2)
        with contextlib.suppress(DeviceOutOfMemory):
            driver.empty(8, np.uint32)

    ran = inside_block(monkeypatch, driver, refused, after=after)
    assert (driver.buffer(X).read().tolist(), ran) == (X.tolist(), [1])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_pipeline_made_while_another_is_made_leaves_its_facts_alone(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    """The pipeline around is made anew, and the one inside is an equal one of what was there."""
    earlier = saxpy(driver)
    earlier(X, X, push_constants=PUSH)
    kernel = driver.compile(glsl(LENGTH))
    ran = inside(
        monkeypatch,
        "create_pipeline",
        lambda: saxpy(driver)(X[:3], X[:3], push_constants={"alpha": 2, "count": 3}),
        after=after,
    )
    facts: list[_layer.PipelineFacts] = []
    noted = _layer.create_pipeline
    monkeypatch.setattr(_layer, "create_pipeline", lambda *given: (made := noted(*given), facts.append(made[1]))[0])
    found = kernel(np.zeros(6, np.uint8), np.zeros(1, np.uint32), workgroups=(1,))
    around = facts[-1]
    told = (around.created, around.shared, around.compile_ns > 0)
    assert (ran, np.asarray(found).tolist(), told) == ([1], [6], (True, False, True))


def test_work_submitted_inside_a_submission_has_a_fence_of_its_own(driver: Driver) -> None:
    x, y, z = driver.buffer(X), driver.buffer(X), driver.buffer(X)
    pipelines = [saxpy(driver).bind(x, one, push_constants=PUSH) for one in (y, z)]
    device = driver.context.device

    def sequence_of(bound: Any) -> Any:  # noqa: ANN401 -- kp has no types
        sequence = device.manager.sequence()
        _layer.record(sequence, [[bound.pipeline.dispatch(bound.push_words)]], device_only=False)
        return sequence

    outer, inner = (sequence_of(bound) for bound in pipelines)
    inside_work = _layer.Work(device.layer, inner.eval, device.manager)

    def submit_both() -> None:
        assert inside_work.submit() is None
        outer.eval()

    around = _layer.Work(device.layer, submit_both, device.manager)
    assert around.submit() is None
    assert (around.is_pending, inside_work.is_pending) == (True, True)
    assert (around.wait(), inside_work.wait(), around.is_pending, inside_work.is_pending) == (0, 0, False, False)
    assert [y.read().tolist(), z.read().tolist()] == [(3 * X).tolist()] * 2
