"""Streams in which something fails: what comes back before is right, what fails is raised in its place, and nothing hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl

from vyre_driver.errors import VyreError
from vyre_driver.kompute import memory as memory_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

LAYERED = ["shared with the host", "writable by the host", "out of the host's reach"]
APART = LAYERED[1:]
COUNT = 1000
STEPS = {"factor": 2, "summand": 1}


def chunks_of(count: int, length: int = COUNT) -> list[NDArray[np.uint32]]:
    """Chunks of equal numbers: 0s, 1s, 2s, ..."""
    return [np.full(length, number, np.uint32) for number in range(count)]


def given_before(stream: Iterable[Any]) -> tuple[list[int], Exception | None]:
    """The number that each result consists of, -1 where it is not one of STEP's, and what the stream ended with."""
    found: list[int] = []
    try:
        found.extend(int(one[0]) if (one == one[0]).all() else -1 for one in stream)
    except Exception as error:  # noqa: BLE001 -- which is looked at
        return found, error
    return found, None


@pytest.fixture
def copied_to(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The addresses that each copy of spans writes to."""
    calls: list[list[int]] = []
    copy = _layer.copy_spans

    def noted(pairs: Any) -> None:  # noqa: ANN401 -- pairs of buffers
        calls.append([np.frombuffer(target, np.uint8).ctypes.data for target, _ in pairs])
        copy(pairs)

    monkeypatch.setattr(_layer, "copy_spans", noted)
    return calls


@pytest.mark.parametrize("place", LAYERED, indirect=True)
@pytest.mark.usefixtures("_nothing_fails_any_more")
def test_a_chunk_that_is_not_handed_over_leaves_those_before_it_whole(
    place: tuple[Driver, bool, bool], copied_to: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "_LONG_BYTES", 2000)
    step = place[0].compile(glsl(STEP))
    assert given_before(place[0].stream(step, chunks_of(2), **STEPS)) == ([1, 3], None)
    copied_to.clear()
    _layer.inject("submit", 4, -1)
    stream = place[0].stream(step, chunks_of(9), **STEPS)
    found, error = given_before(stream)
    assert found == [2 * number + 1 for number in range(stream.finished)]
    assert (len(found) > 2, isinstance(error, VyreError) and error.context["chunk"]) == (True, len(found))
    assert [call for call in copied_to if len(set(call)) < len(call)] == []  # the first try's copies are not made again
