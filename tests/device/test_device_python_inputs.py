"""What kernels in Python, elementwise functions, reductions and scans take as arrays, and what the fixes of the rest give."""

from __future__ import annotations

import array
import mmap
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from refusals import refusal

from vyre_driver.errors import InvalidInput
from vyre_driver.lang import In, Index, InOut, Out, bool_, elementwise, f32, fuse, i32, kernel, reduction, scan

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

X = np.arange(3, dtype=np.float32)
RAW = X.tobytes()


@kernel
def doubled(i: Index, x: In[f32], out: Out[f32]) -> None:
    out[i] = x[i] * 2.0


@kernel
def doubled_in_place(i: Index, x: InOut[f32]) -> None:
    x[i] = x[i] * 2.0


@kernel
def flagged(i: Index, x: In[bool_], out: Out[i32]) -> None:
    out[i] = 5 if x[i] else 6


@elementwise
def half(x: f32) -> f32:
    return x * 0.5


def mapping() -> mmap.mmap:
    made = mmap.mmap(-1, len(RAW))
    made.write(RAW)
    return made


GIVEN = {
    "bytes": lambda: RAW,
    "a bytearray": lambda: bytearray(RAW),
    "a memory view of bytes": lambda: memoryview(RAW),
    "a cast memory view": lambda: memoryview(X).cast("B"),
    "a memory view of floats": lambda: memoryview(X),
    "a mapping of memory": mapping,
    "an array of bytes": lambda: array.array("B", RAW),
    "an array of floats": lambda: array.array("f", X),
}


@pytest.mark.parametrize("what", GIVEN)
def test_bytes_are_the_elements_of_their_parameter(layered: Driver, what: str) -> None:
    given = GIVEN[what]()
    assert doubled.on(layered)(given).tolist() == [0.0, 2.0, 4.0]
    assert (doubled.interpret(given).tolist(), doubled.python(given).tolist()) == ([0.0, 2.0, 4.0], [0.0, 2.0, 4.0])
    assert half.on(layered)(given).tolist() == [0.0, 0.5, 1.0]


def test_bytes_without_a_type_are_uint8(layered: Driver) -> None:
    assert fuse(lambda x: x + 1).on(layered)(b"\1\2").tolist() == [2, 3]
    assert reduction(lambda a, b: a + b, zero=0).on(layered)(b"\1\2") == 3


def test_bytes_of_bools_are_true_where_they_are_not_0(layered: Driver) -> None:
    assert flagged.on(layered)(b"\0\1\7").tolist() == [6, 5, 5]


def test_a_bytearray_is_written_in_place(layered: Driver) -> None:
    target = bytearray(RAW)
    assert doubled_in_place.on(layered)(target) is target
    assert np.frombuffer(target, np.float32).tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: doubled(RAW[:-1]),
            "x of doubled has 11 bytes, and an element of f32 takes 4. Fix: pass whole elements.",
        ),
        (
            lambda: doubled_in_place(RAW),
            "x of doubled_in_place is read-only, and cannot be written in place. Fix: pass bytearray(x), or a numpy array.",
        ),
        (
            lambda: doubled(np.frombuffer(RAW, np.uint8)),
            "x of doubled is uint8, and In[f32] wants float32. Fix: convert: numpy.asarray(x, numpy.float32).",
        ),
        (lambda: doubled({"a": 1}), "x of doubled is a mapping. Fix: pass an array of numbers."),
    ],
)
def test_what_is_no_array_of_elements_is_refused(call: Any, message: str) -> None:  # noqa: ANN401 -- a call
    assert str(refusal(call, InvalidInput)) == message


RECORDS = np.array([(b"a", 1.5, 2.5)] * 3, [("name", "S3"), ("p", "f8"), ("q", "f4")])
WRONG: dict[str, object] = {
    "complex": X + 1j * X,
    "complex in steps": (X + 1j * X)[::2],
    "a list of complex": [1 + 2j, 3j],
    "complex64": (X + 1j * X).astype(np.complex64),
    "records": RECORDS,
    "numbers as text": np.array(["1.5", "2"]),
    "objects": np.array([1.0, 2.0], object),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "float64": np.arange(3.0),
    "long": [1 << 40],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", WRONG)
def test_the_fix_for_an_array_of_another_type_works(layered: Driver, what: str) -> None:
    given = WRONG[what]
    with pytest.raises(InvalidInput) as raised:
        doubled.on(layered)(given)
    advice = str(raised.value).partition("Fix: ")[2].rstrip(".")
    calls = re.findall(r"numpy\.as\w*array\((?:[^()]|\([^()]*\))*\)(?:\.view\([^()]*\))?", advice)
    assert calls != []
    for call in calls:
        assert doubled.on(layered)(eval(call, {"numpy": np, "x": given})).dtype == np.float32  # noqa: S307 -- our own words


@pytest.mark.parametrize("given", [{1.0}, "abc", np.array(["a"]), iter([1]), np.zeros(3, "V4"), [None, object()]])
def test_what_holds_no_numbers_is_not_to_be_converted(layered: Driver, given: object) -> None:
    with pytest.raises(InvalidInput, match=r"Fix: pass an array of numbers, of numpy\.float32\.$"):
        doubled.on(layered)(given)


def test_bfloat16_goes_through_functions_without_types(layered: Driver) -> None:
    x = np.arange(6).astype(imported("ml_dtypes").bfloat16)
    for given in (x, layered.buffer(x)):
        found = [
            fuse(lambda v: v * 2.0).on(layered)(given),
            scan(lambda a, b: a + b).on(layered)(given),
            reduction(lambda a, b: a + b, zero=0.0).on(layered)(given),
            reduction(np.maximum, zero=0.0).on(layered)(given.reshape(2, 3), axis=0),
        ]
        read = [one if isinstance(one, (np.ndarray, np.generic)) else one.read() for one in found]
        assert [(str(one.dtype), one.tolist()) for one in read] == [
            ("float32", [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
            ("float32", [0.0, 1.0, 3.0, 6.0, 10.0, 15.0]),
            ("float32", 15.0),
            ("float32", [3.0, 4.0, 5.0]),
        ]
