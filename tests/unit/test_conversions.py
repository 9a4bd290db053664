"""The advice for an array of another type: it keeps the numbers, or says that it keeps the bits."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
from literals import F32, U32, buffer, reflection, refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput, with_article
from vyre_driver.spirv.layout import Element

FLOATS = Element(4, F32, 1)
PARTS = "pass real and imaginary parts one after the other with .view(numpy.float32)"
AS_F32 = "convert it with .astype(numpy.float32)"
AS_U32 = "convert it with .astype(numpy.uint32)"
KEEPS = ", which keeps the numbers, or with .view(numpy.{}), which keeps the bits"
ASKED: list[tuple[Any, Element, str]] = [
    (np.ones(4, ">f4"), FLOATS, AS_F32),
    (np.ones(4, np.float64), FLOATS, AS_F32),
    (np.ones(4, np.int64), Element(4, U32, 1), AS_U32),
    (np.ones(4, np.int16), Element(4, U32, 1), AS_U32),
    (np.ones(4, bool), Element(4, U32, 1), AS_U32),
    (np.ones(4, np.uint32), FLOATS, AS_F32 + KEEPS.format("float32")),
    (np.ones(4, np.int32), Element(4, U32, 1), AS_U32 + KEEPS.format("uint32")),
    (np.ones(4, ">i4"), Element(4, U32, 1), AS_U32),
    (np.ones(4, "M8[s]"), Element(8, None, 8), ""),
    (
        np.ones(4, np.complex64),
        Element(8, F32, 2),
        PARTS,
    ),
    ([1.0, 2.0], FLOATS, "pass numpy.asarray(..., numpy.float32)"),
    (1.5, FLOATS, "pass numpy.asarray(..., numpy.float32)"),
    (range(4), FLOATS, "pass numpy.asarray(..., numpy.float32)"),
    (array.array("d", [1, 2]), FLOATS, "pass numpy.asarray(..., numpy.float32)"),
    ("abc", FLOATS, "pass an array of numbers"),
    (["a"], Element(4, None, 4), "pass an array of numbers"),
    ([None], FLOATS, "pass an array of numbers"),
]


def plan_of(element: Element) -> BindingPlan:
    return BindingPlan.from_reflection(reflection(buffer("x", 0, "rw", element=element)))


@pytest.mark.parametrize(("given", "element", "fix"), ASKED, ids=[str(number) for number in range(len(ASKED))])
def test_the_fix_is_right_for_what_was_given(given: Any, element: Element, fix: str) -> None:  # noqa: ANN401 -- what a caller gives
    plan = plan_of(element)
    if not fix:
        assert len(plan.check_arguments([given], {})) == 1
        return
    with pytest.raises(InvalidInput) as refused:
        plan.check_arguments([given], {})
    assert refused.value.fix == fix


def test_what_the_fix_says_is_taken_and_keeps_the_numbers() -> None:
    plan = plan_of(FLOATS)
    for given in (np.arange(4, dtype=">f4"), np.arange(4, dtype=np.int64), [0.0, 1.0, 2.0, 3.0]):
        made = given.astype(np.float32) if isinstance(given, np.ndarray) else np.asarray(given, np.float32)
        (argument,) = plan.check_arguments([made], {})
        assert argument.data is not None
        assert argument.data.tolist() == [0, 1, 2, 3]


class Resident:
    """What a resident buffer is known by, and what is asked of it."""

    shape, dtype, nbytes, lifetime = (4,), np.dtype(np.float32), 16, None

    def overlaps(self, _: object) -> bool:
        return False


def test_a_resident_buffer_is_taken_by_a_kernels_call_alone_and_never_for_zeros() -> None:
    plan, given = plan_of(FLOATS), Resident()
    message = (
        "input_output 'x' got a resident buffer, which a kernel's call and bind alone take. "
        "Fix: pass buffer.read(), or call a kernel that the buffer's driver has compiled."
    )
    for call in (lambda: plan.check_arguments([given], {}), lambda: plan.pack("x", given)):
        assert refusal(call) == (InvalidInput, 2201, message)
    (argument,) = plan.check_arguments([given], {}, of_kernel=True)
    assert (argument.position, argument.data, argument.byte_len) == (0, None, 16)


def test_words_stand_behind_the_article_that_is_heard() -> None:
    words = ("i32", "f32", "u32", "bool", "int", "float", "object", "str", "uint8", "S", "V")
    assert [with_article(word).split()[0] for word in words] == ["an", "an", "a", "a", "an", "a", "an", "a", "a", "an", "a"]
