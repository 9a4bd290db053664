"""Kernels whose types are those of the arrays of each call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import InvalidInput, KernelNameError, KernelTypeError
from vyre_driver.lang import Const, Group, In, Index, Kernel, Out, atomic_add, f32, i32, kernel, u8, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver import Driver

pytestmark = pytest.mark.device

T = TypeVar("T", f32, i32, u32)
Any_ = TypeVar("Any_")
Other = TypeVar("Other", f32, i32)


def double(v):  # noqa: ANN001, ANN201 -- of any type
    return v * T(2)


@kernel
def scaled(i: Index, x: In[T], y: Out[T], a: T) -> None:
    half = T(3)
    if T is f32:
        half = T(0.5)
    y[i] = a * x[i] + half


@kernel
def doubled(i: Index, x: In[T], y: Out[T]) -> None:
    y[i] = double(x[i])


@kernel
def filled(i: Index, y: Out[T], a: T) -> None:
    y[i] = a


@kernel
def turned(g: Group[SIZE], x: In[Any_], y: Out[Any_], *, SIZE: Const[int] = 32) -> None:  # noqa: F821, N803 -- a constant
    kept = g.shared(Any_, SIZE)
    kept[g.local] = x[g.index]
    g.barrier()
    y[g.index] = kept[SIZE - 1 - g.local]


@kernel
def two_types(i: Index, x: In[T], y: Out[Other]) -> None:
    y[i] = Other(x[i])


DTYPES = [np.float32, np.int32, np.uint32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_say_what_a_type_variable_is_in_parameters_numbers_and_casts(opened: Driver, dtype: type) -> None:
    x = np.arange(100, dtype=dtype)
    found = scaled.on(opened)(x, 2)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, 2 * x + dtype(0.5 if dtype is np.float32 else 3))


def test_a_negative_number_is_taken_where_the_type_has_it(opened: Driver) -> None:
    on = scaled.on(opened)
    assert on(np.array([1, -4], np.int32), -2).tolist() == [1, 11]
    with pytest.raises(InvalidInput) as refused:
        on(np.array([1, 4], np.uint32), -2)
    assert str(refused.value) == "a of scaled is -2, and a u32 holds 0 to 4294967295. Fix: give a number in that range."


def test_functions_that_are_inlined_see_the_type_too(opened: Driver) -> None:
    for dtype in DTYPES:
        np.testing.assert_array_equal(doubled.on(opened)(np.arange(9, dtype=dtype)), 2 * np.arange(9, dtype=dtype))


@pytest.mark.parametrize("dtype", [*DTYPES, np.uint8, np.int16])
def test_a_variable_without_names_takes_every_type_in_shared_memory_too(opened: Driver, dtype: type) -> None:
    x = np.arange(64).astype(dtype)
    np.testing.assert_array_equal(turned.on(opened)(x), x.reshape(2, 32)[:, ::-1].reshape(-1))


def test_two_variables_are_told_apart_and_one_is_chosen(opened: Driver) -> None:
    x = np.arange(5, dtype=np.uint32)
    assert two_types.on(opened).with_(Other=f32)(x).dtype == np.float32
    assert two_types.on(opened).with_(Other=i32)(x).dtype == np.int32


def test_buffers_stay_on_the_device(opened: Driver) -> None:
    x = opened.buffer(np.arange(5, dtype=np.int32))
    assert scaled(x, 2).read().tolist() == [3, 5, 7, 9, 11]
    y = opened.empty((5,), np.int32)
    bound = scaled.bind(x, y, 3)
    bound.run()
    assert y.read().tolist() == [3, 6, 9, 12, 15]


def test_each_type_has_a_program_of_its_own_that_is_made_once(opened: Driver) -> None:
    assert doubled.program(T=f32).fingerprint() != doubled.program(T=i32).fingerprint()
    first = doubled.translated(T=u32)
    doubled.on(opened)(np.arange(3, dtype=np.uint32))
    assert doubled.translated(T=u32) is first


def test_what_no_array_says_is_said_beforehand(opened: Driver) -> None:
    on = filled.on(opened).over(3)
    assert str(refusal(lambda: on(2), InvalidInput)) == "nothing says what T of filled is. Fix: say it: filled.with_(T=f32)."
    assert on.with_(T=u32)(2).dtype == np.uint32
    assert on.with_(T=f32)(2).dtype == np.float32
    assert "T=f32" in repr(on.with_(T=f32))


def test_forward_annotations_and_calls_of_the_same_form_again(opened: Driver) -> None:
    assert all(isinstance(one, Kernel) for one in (scaled, doubled))  # this module's annotations are texts
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    on = scaled.on(opened)
    for a in (1, 2, 3):
        assert on(x, y, a) is y
        np.testing.assert_array_equal(y, a * x + 3)


REFUSED: dict[str, tuple[Callable[[Driver], Any], type[Exception], str]] = {
    "a type that is not among those of the variable": (
        lambda driver: doubled.on(driver)(np.zeros(3)),
        InvalidInput,
        "x of doubled is float64, and T is one of f32, i32, u32. Fix: convert: numpy.asarray(x, numpy.float32).",
    ),
    "two arrays of one variable": (
        lambda driver: doubled.on(driver)(np.zeros(3, np.float32), np.zeros(3, np.int32)),
        InvalidInput,
        "x of doubled is float32 and y is int32, and both are T. Fix: convert: numpy.asarray(y, numpy.float32).",
    ),
    "an array of another type than was chosen": (
        lambda driver: doubled.on(driver).with_(T=i32)(np.zeros(3, np.float32)),
        InvalidInput,
        "x of doubled is float32, and In[i32] wants int32. Fix: convert: numpy.asarray(x, numpy.int32).",
    ),
    "a float for whole numbers": (
        lambda driver: scaled.on(driver)(np.zeros(3, np.int32), 2.5),
        InvalidInput,
        "a of scaled is the float 2.5, and takes an i32. Fix: give int(...).",
    ),
    "a choice that the variable does not allow": (
        lambda driver: doubled.on(driver).with_(T=u8),
        InvalidInput,
        "T of doubled is to be u8, and is one of f32, i32, u32. Fix: give T=f32.",
    ),
    "a choice of a variable that is none": (
        lambda driver: doubled.on(driver).with_(U=f32),
        InvalidInput,
        "doubled has no type variable 'U'. Fix: name 'T'.",
    ),
    "a program without its type": (
        lambda _: doubled.program(),
        InvalidInput,
        "doubled was not given its type 'T'. Fix: give T=f32 or another.",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_does_not_fit_is_refused(opened: Driver, which: str) -> None:
    call, kind, message = REFUSED[which]
    assert str(refusal(lambda: call(opened), kind)) == message


def _of_source(text: str, **names: object) -> Kernel:
    return kernel.from_source(text, {"TypeVar": TypeVar, **names})


SOURCES = {
    "a variable of types that are none": (
        "V = TypeVar('V', int, f32)\ndef k(i: Index, x: In[V], y: Out[V]):\n    y[i] = x[i]\n",
        KernelTypeError,
        "the type variable 'V' of 'x' may be int",
        'Fix: name the types that it may be: TypeVar("V", f32, i32)',
    ),
    "a variable with a bound": (
        "V = TypeVar('V', bound=float)\ndef k(i: Index, x: In[V], y: Out[V]):\n    y[i] = x[i]\n",
        KernelTypeError,
        "the type variable 'V' of 'x' is bound to float",
        'Fix: name the types that it may be: TypeVar("V", f32, i32)',
    ),
    "a variable of no parameter": (
        "V = TypeVar('V', f32, i32)\ndef k(i: Index, x: In[f32], y: Out[f32]):\n    y[i] = V(x[i])\n",
        KernelNameError,
        "the type variable 'V' is in no parameter of the kernel",
        "Fix: annotate one: x: In[V]",
    ),
    "a number of a type of memory": (
        "V = TypeVar('V')\ndef k(i: Index, x: In[V], y: Out[V], a: V):\n    y[i] = x[i]\n",
        KernelTypeError,
        "parameter 'a' is u8 here, which is a type of arrays",
        "Fix: use i32, u32, f32 or bool_",
    ),
}


@pytest.mark.parametrize("which", SOURCES)
def test_what_cannot_be_written_is_refused_at_its_place(opened: Driver, which: str) -> None:
    text, kind, problem, fix = SOURCES[which]
    x = np.zeros(3, np.uint8 if "memory" in which else np.float32)
    with pytest.raises(kind) as refused:
        _of_source(text).on(opened)(x, *([2] if "memory" in which else []))
    lines = str(refused.value).splitlines()
    assert (lines[0], lines[-1]) == (problem, fix)
    assert len(lines) == 5
    assert ", in k" in lines[1]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has this syntax")
def test_variables_of_the_function_itself(opened: Driver) -> None:
    made = _of_source("def k[V: (f32, i32)](i: Index, x: In[V], y: Out[V], a: V):\n    y[i] = V(x[i]) * a\n")
    assert made.on(opened)(np.arange(3, dtype=np.int32), 3).tolist() == [0, 3, 6]
    assert made.on(opened)(np.arange(3, dtype=np.float32), 1.5).tolist() == [0, 1.5, 3]
    with pytest.raises(InvalidInput, match="and V is one of f32, i32"):
        made.on(opened)(np.arange(3, dtype=np.uint32), 3)


def test_atomics_of_a_variable(opened: Driver) -> None:
    made = _of_source(
        "V = TypeVar('V', i32, u32)\ndef k(i: Index, x: In[V], total: InOut[V]):\n    atomic_add(total, 0, x[i])\n",
        atomic_add=atomic_add,
    )
    assert made.on(opened).over(9)(np.arange(9, dtype=np.int32), np.zeros(1, np.int32)).tolist() == [36]
