"""A warm call is compared with the one before, and proven anew where anything of it differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver.errors import InvalidInput, InvalidPushConstant

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

PUSH = {"alpha": 2.0, "count": 8}


def ones(count: int = 8, dtype: type = np.float32) -> np.ndarray[Any, Any]:
    return np.ones(count, dtype)


def shown(found: object) -> tuple[Any, ...]:
    assert isinstance(found, np.ndarray)
    return found.dtype.name, found.shape, found.ravel().tolist()


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")  # NumPy 2.5
def test_an_array_that_changes_its_shape_in_place_comes_back_in_that(saxpy: Kernel) -> None:
    x, y = ones(), ones()
    before = shown(saxpy(x, y, push_constants=PUSH))
    y.shape = (2, 4)
    assert (before, shown(saxpy(x, y, push_constants=PUSH))) == (("float32", (8,), [3.0] * 8), ("float32", (2, 4), [3.0] * 8))


WRONG: dict[str, tuple[Callable[[Kernel], object], type[Exception]]] = {
    "type": (lambda kernel: kernel(ones(8, np.float64), ones(), push_constants=PUSH), InvalidInput),
    "byte order": (lambda kernel: kernel(ones().astype(">f4"), ones(), push_constants=PUSH), InvalidInput),
    "length": (lambda kernel: kernel(ones(8).view(np.uint8)[:30], ones(), push_constants=PUSH), InvalidInput),
    "number of arrays": (lambda kernel: kernel(ones(), push_constants=PUSH), InvalidInput),
    "workgroups": (lambda kernel: kernel(ones(), ones(), push_constants=PUSH, workgroups=(1.0,)), InvalidInput),  # type: ignore[arg-type]
    "count": (lambda kernel: kernel(ones(), ones(), push_constants=PUSH, out_shapes={"y": 8}), InvalidInput),
    "push constant": (lambda kernel: kernel(ones(), ones(), push_constants={"alpha": 2.0, "count": 8.0}), InvalidPushConstant),
    "truth value": (lambda kernel: kernel(ones(), ones(), push_constants={"alpha": True, "count": 8}), InvalidPushConstant),
    "range": (lambda kernel: kernel(ones(), ones(), push_constants={"alpha": 2.0, "count": 2**32}), InvalidPushConstant),
    "overflow": (lambda kernel: kernel(ones(), ones(), push_constants={"alpha": 1e39, "count": 8}), InvalidPushConstant),
    "name": (lambda kernel: kernel(ones(), ones(), push_constants={"alpha": 2.0, "counts": 8}), InvalidPushConstant),
    "switch": (lambda kernel: kernel(ones(), ones(), push_constants=PUSH, split="no"), InvalidInput),  # type: ignore[arg-type]
    "number of push constants": (
        lambda kernel: kernel(ones(), ones(), push_constants={**PUSH, "beta": 1}),
        InvalidPushConstant,
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_one_thing_only_is_refused_after_a_call_that_fits(saxpy: Kernel, what: str) -> None:
    misuse, error = WRONG[what]
    cold = refusal(lambda: misuse(saxpy))
    saxpy(ones(), ones(), push_constants=PUSH, workgroups=(1,))
    saxpy(ones(), ones(), push_constants=PUSH)
    assert refusal(lambda: misuse(saxpy)) == cold
    assert cold[0] is error
    assert shown(saxpy(ones(), ones(), push_constants=PUSH)) == ("float32", (8,), [3.0] * 8)


def test_calls_of_more_forms_than_are_kept_take_turns_and_stay_right(saxpy: Kernel) -> None:
    counts = [*range(8, 20), 8, 19, 8]
    found = [saxpy(ones(count), ones(count), push_constants={"alpha": count, "count": count}) for count in counts]
    assert [shown(one)[2] for one in found] == [[count + 1.0] * count for count in counts]


def test_push_constants_change_from_call_to_call(saxpy: Kernel) -> None:
    found = [saxpy(ones(), ones(), push_constants={"alpha": alpha, "count": 8}) for alpha in (2, 2.5, -0.0, np.float32(4), 2)]
    assert [shown(one)[2][0] for one in found] == [3.0, 3.5, 1.0, 5.0, 3.0]
