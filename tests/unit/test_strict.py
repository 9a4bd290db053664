"""How often a strict call runs, and what it takes for poison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import buffer, reflection

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import OutputNotWritten
from vyre_driver.runtime.strict import POISONS, StrictCall
from vyre_driver.spirv.layout import Element, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

COUNT = 4


class Chance:
    """Stands for a recorded dispatch whose last element holds the poison of the first ``lucky`` runs, then something else."""

    def __init__(self, lucky: int, dtype: str) -> None:
        self.lucky = lucky
        self.dtype = np.dtype(dtype)
        self.runs = 0

    def run(
        self, contents: Sequence[NDArray[Any]], *_: object, **__: object
    ) -> tuple[list[NDArray[Any]], None, list[NDArray[Any]]]:
        held = contents[0].view(self.dtype).copy()
        held[:-1] = 1
        if self.runs >= self.lucky:
            held[-1] = 1
        self.runs += 1
        return [held], None, []


def strict_call(recorded: Chance, element: Element) -> StrictCall:
    plan = BindingPlan.from_reflection(reflection(buffer("y", access="w", element=element)))
    return StrictCall(recorded, plan, [None], [((COUNT,), recorded.dtype)])  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "runs"), [("u1", 8), ("u2", 4), ("u4", 2), ("u8", 2)])
def test_64_bits_of_an_element_must_be_poison_before_it_counts_as_not_written(dtype: str, runs: int) -> None:
    size = np.dtype(dtype).itemsize
    element = Element(size, Scalar("u", 8 * size), 1)
    never, once = Chance(runs, dtype), Chance(runs - 1, dtype)
    strict_call(once, element).run((), split=False, timeout_s=None)
    with pytest.raises(OutputNotWritten):
        strict_call(never, element).run((), split=False, timeout_s=None)
    assert (never.runs, once.runs) == (runs, runs)


def test_a_call_that_leaves_no_poison_runs_once() -> None:
    recorded = Chance(0, "u4")
    strict_call(recorded, Element(4, Scalar("u", 32), 1)).run((), split=False, timeout_s=None)
    assert recorded.runs == 1


def test_any_two_poisons_differ_in_each_byte() -> None:
    assert [len({poison >> shift & 0xFF for poison in POISONS}) for shift in (0, 8)] == [len(POISONS)] * 2


@pytest.mark.parametrize(("dtype", "bits"), [("f2", 9), ("f4", 22), ("f8", 51)])
def test_the_first_poison_is_a_quiet_nan_of_every_width(dtype: str, bits: int) -> None:
    size = np.dtype(dtype).itemsize
    held = np.full(4, POISONS[0], "<u2")
    assert (np.isnan(held.view(dtype)).all(), int(held.view(f"u{size}")[0]) >> bits & 1) == (True, 1)
