"""What no stream can be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl
from literals import refusal

from vyre_driver.errors import InvalidInput
from vyre_driver.lang import In, Index, Out, f32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver import Driver

pytestmark = pytest.mark.device

STEPS = {"factor": 2, "summand": 1}


@kernel
def axpy(i: Index, x: In[f32], y: Out[f32], a: f32) -> None:
    y[i] = a * x[i]


WRONG: dict[str, tuple[Callable[[Driver], object], str]] = {
    "a function": (
        lambda driver: driver.stream(max, []),  # type: ignore[arg-type]
        (
            "stream got a builtin_function_or_method, which is no kernel that it could run. Fix: give what "
            "driver.compile() returns, or a kernel of vyre_driver.lang."
        ),
    ),
    "a number of chunks": (
        lambda driver: driver.stream(axpy, 3),  # type: ignore[arg-type]
        (
            "the chunks of a stream cannot be iterated over: 'int' object is not iterable. Fix: give a list, a generator, or "
            "an array whose rows are the chunks."
        ),
    ),
    "a number for out": (
        lambda driver: driver.stream(axpy, [], out=3),  # type: ignore[arg-type]
        (
            "out of a stream cannot be iterated over: 'int' object is not iterable. Fix: give a list or a generator with "
            "one for each chunk."
        ),
    ),
    "no function": (
        lambda driver: driver.stream(axpy, [], on_progress=3),  # type: ignore[arg-type]
        "on_progress is a int, which cannot be called. Fix: give a function of one argument.",
    ),
    "a time-out before now": (
        lambda driver: driver.stream(axpy, [], timeout=-1),
        "timeout is -1, which is not a number of seconds of at least 0. Fix: give seconds, or None to wait for ever.",
    ),
    "stages": (
        lambda driver: next(driver.stream(driver.compile(glsl(STEP)), [np.zeros(1, "u4")], split=True, **STEPS)),
        "a call of a stream is given 'split'. Fix: leave it out: the stages of several calls go on at once.",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_is_no_stream_is_refused(layered: Driver, which: str) -> None:
    call, message = WRONG[which]
    assert refusal(lambda: call(layered)) == (InvalidInput, 2201, message)


def test_kernels_of_another_driver_are_refused(layered: Driver) -> None:
    def one() -> Iterator[Any]:
        yield np.zeros(1, "u4")

    with type(layered)() as other:
        for made in (other.compile(glsl(STEP)), axpy.on(other)):
            stream = layered.stream(made, one())
            assert refusal(lambda stream=stream: next(stream))[:2] == (InvalidInput, 2201)
