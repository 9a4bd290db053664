"""Tuples in kernels: what a star and a slice make of them, as a program and as Python."""

from __future__ import annotations

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

from vyre_driver.errors import KernelTypeError
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.source.parameters import Specialization, signature_of

_HEAD = "def kernel(i: Index, x: In[i32], o: Out[i32]):\n    w = (x[i], x[i] * 2, 7)\n"

_TEXTS = {
    "a star in a tuple": "    a, b, c, d = (*w, 5)\n    o[i] = a + b * c - d\n",
    "a slice of a tuple": "    a, b = w[1:]\n    o[i] = a - b\n",
    "a slice with a step from the end": "    a, b = w[::-2]\n    o[i] = a * 10 + b\n",
    "a tuple that is turned in a loop": """
    for k in static_range(4):
        w = (*w[1:], w[0] + k)
    o[i] = w[0] * 7 + w[2]
""",
    "a slice by a constant of a loop": """
    for k in static_range(3):
        w = w[:k] + (9,) + w[k + 1 :]
    o[i] = w[0] + w[2]
""",
}


@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS)
def test_a_tuple_is_the_same_as_a_program_and_as_python(text: str) -> None:
    found = run_both(
        function_of(_HEAD + text, "kernel", NAMES),
        {"x": np.array([-5, 0, 3, 40], np.int32), "o": np.zeros(4, np.int32)},
        (4,),
    )
    assert (found.differences(), found.program["o"].any()) == ([], True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("    o[i] = w[x[i] :][0]\n", "the bounds of a slice of a tuple must be constant"),
        ("    o[i] = w[::0][0]\n", "the step of a slice is 0"),
        ("    o[i] = (*x[i], 1)[0]\n", "only tuples are spread, and this is i32"),
    ],
    ids=["bounds of an array", "a step of 0", "a star of a number"],
)
def test_what_cannot_be_sliced_or_spread_is_refused(text: str, problem: str) -> None:
    function = function_of(_HEAD + text, "kernel", NAMES)
    with pytest.raises(KernelTypeError) as caught:
        translate(function, signature_of(function), Specialization())
    assert caught.value.problem == problem
