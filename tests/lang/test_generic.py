"""Type variables in kernels: as plain Python, and in Python's own syntax for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest

from vyre_driver.lang import kernel
from vyre_driver.lang.interpret.as_python import run_as_python
from vyre_driver.lang.source.parameters import Specialization
from vyre_driver.lang.types import f32, i32, u32

if TYPE_CHECKING:
    from vyre_driver.lang.types import ScalarType

TEXT = "def k(i: Index, x: In[T], y: Out[T], a: T):\n    y[i] = x[i] * a + T(7.5) // 2\n"
NAMES = {"T": TypeVar("T", f32, i32, u32)}


@pytest.mark.parametrize(("scalar", "expected"), [(f32, [3.0, 6.0]), (i32, [3, 6]), (u32, [3, 6])], ids=str)
def test_plain_python_computes_with_the_type_of_the_arrays(scalar: ScalarType, expected: list[float]) -> None:
    made = kernel.from_source(TEXT, NAMES)
    x, y = np.arange(2).astype(scalar.dtype), np.zeros(2, scalar.dtype)
    specialization = Specialization(types=(("T", scalar),))
    run_as_python(made.function, made.definition.signature, specialization, {"x": x, "y": y, "a": 3}, (2,))
    assert y.tolist() == expected


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has this syntax")
@pytest.mark.parametrize("head", ["", "from __future__ import annotations\n"])
def test_variables_of_the_function_itself_are_those_of_typing(head: str) -> None:
    other = kernel.from_source(TEXT, NAMES)
    made = kernel.from_source(head + TEXT.replace("def k(", "def k[T: (f32, i32)]("))
    for scalar in (f32, i32):
        assert made.program(T=scalar).fingerprint() == other.program(T=scalar).fingerprint()
