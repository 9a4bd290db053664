"""Functions called for each element of arrays, against numpy."""

from __future__ import annotations

import inspect
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest
from refusals import refusal

from vyre_driver import Driver
from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang import Const, In, Index, Out, bool_, elementwise, f32, fuse, i32, kernel, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

pytestmark = pytest.mark.device

T = TypeVar("T", f32, i32, u32)


@elementwise
def blend(x: f32, y: f32, part: f32) -> f32:
    return x + (y - x) * part


@elementwise
def mixed(x: T, y: T, *, K: Const[int] = 2) -> tuple[T, T]:  # noqa: N803 -- a constant
    return x + y * T(K), x - y


@elementwise
def length(x: f32, y: f32) -> f32:
    return sqrt(x * x + y * y)


@elementwise
def is_over(x: i32, limit: i32) -> bool_:
    return x > limit


def blended(x: Any, y: Any, part: Any) -> NDArray[Any]:  # noqa: ANN401 -- what broadcasts
    x, y, part = (np.asarray(one, np.float32) for one in (x, y, part))
    return np.asarray(x + (y - x) * part)


def some(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(len(shape)).random(shape, np.float32)


def whole(*shape: int) -> NDArray[np.int32]:
    return np.random.default_rng(len(shape)).integers(-(2**31), 2**31, shape, np.int32)


SHAPES = [
    [(7,), (7,), (7,)],
    [(4, 5), (5,), ()],
    [(4, 1), (1, 5), (4, 5)],
    [(3, 1, 5), (4, 1), (2, 1, 1, 1)],
    [(1,), (1, 1), (6, 1)],
    [(2, 3, 4), (3, 1), (2, 1, 4)],
    [(0, 5), (1, 5), (5,)],
    [(3, 0), (1,), ()],
    [(), (), ()],
    [(2, 1, 2, 1, 2), (1, 3, 1, 3, 1), (2, 3, 2, 3, 2)],
    [(300, 1), (1, 200), (1, 1)],
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_arrays_are_broadcast_as_numpy_does(opened: Driver, shapes: list[tuple[int, ...]]) -> None:
    given = [some(*shape) for shape in shapes]
    expected = blended(*given)
    found = blend.on(opened)(*given)
    assert (found.shape, found.dtype) == (expected.shape, np.float32)
    np.testing.assert_array_equal(found, expected)
    resident = blend(*(opened.buffer(one) for one in given))
    assert isinstance(resident, Buffer) or not any(shapes)  # buffers of no axes are elements too
    np.testing.assert_array_equal(np.asarray(resident), expected)


def test_views_with_gaps_and_repeated_elements_are_taken_as_they_are(opened: Driver) -> None:
    x, y = some(6, 8), some(8)
    on = blend.on(opened)
    for one, other in (
        (x.T, y[:6]),
        (x[::2, 1::3], y[1:4]),
        (x[::-1], y),
        (np.broadcast_to(y, (6, 8)), np.broadcast_to(y, (6, 8))),
    ):
        np.testing.assert_array_equal(on(one, other, 0.25), blended(one, other, 0.25))


def test_a_matrix_is_an_array_of_two_axes(opened: Driver) -> None:
    found = elementwise(lambda x, y: x * y).on(opened)(np.array([[1.0, 2.0]], np.float32).view(np.matrix), 3)
    assert type(found) is np.ndarray
    assert found.tolist() == [[3.0, 6.0]]


def test_what_is_repeated_is_not_copied(opened: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    column = np.broadcast_to(some(3, 1), (3, 100_000))
    sent: list[int] = []
    call = Driver.compile

    def compiled(*given: Any, **named: Any) -> Any:  # noqa: ANN401 -- the driver's
        made = call(*given, **named)
        run = made.__call__

        def called(_: object, *arrays: Any, **how: Any) -> Any:  # noqa: ANN401 -- the same
            sent.extend(one.size for one in arrays)
            return run(*arrays, **how)

        monkeypatch.setattr(type(made), "__call__", called)
        return made

    monkeypatch.setattr(Driver, "compile", compiled)
    assert blend.on(opened)(column, some(100_000), 1.0).shape == (3, 100_000)
    assert sent == [3, 100_000]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32])
def test_a_type_variable_has_the_type_of_the_arrays_and_python_numbers_follow(opened: Driver, dtype: type) -> None:
    x = whole(9).view(np.uint32).astype(dtype) if dtype is not np.float32 else some(9)
    total, difference = mixed.on(opened)(x, 3)
    assert (total.dtype, difference.dtype) == (dtype, dtype)
    np.testing.assert_array_equal(total, x + dtype(6))
    np.testing.assert_array_equal(difference, x - dtype(3))


def test_constants_are_part_of_the_program_and_whole_numbers_wrap(opened: Driver) -> None:
    x, y = whole(50), whole(50)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(mixed.on(opened)(x, y, K=7)[0], x + y * np.int32(7))
    assert mixed.program(T=i32, K=3).fingerprint() != mixed.program(T=i32).fingerprint()


def test_numbers_alone_give_an_array_of_no_axes(opened: Driver) -> None:
    assert float(length.on(opened)(3, 4)) == 5
    assert length.on(opened)(np.float32(3), np.array(4.0)).shape == ()
    assert [one.dtype for one in mixed.on(opened)(1, 2)] == [np.int32] * 2
    assert [one.dtype for one in mixed.on(opened)(1, 2.5)] == [np.float32] * 2


def test_a_square_root_is_within_one_place_of_numpys(opened: Driver) -> None:
    x, y = some(1000), some(1000)[::-1].copy()
    np.testing.assert_array_max_ulp(length.on(opened)(x, y), np.sqrt(x * x + y * y), 1)


def test_bools_come_out_as_bools(opened: Driver) -> None:
    x = whole(20)
    found = is_over.on(opened)(x, 0)
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, x > 0)


def test_out_is_written_in_place_and_returned(opened: Driver) -> None:
    x, y, out = some(3, 4), some(4), np.zeros((3, 4), np.float32)
    on = blend.on(opened)
    for part in (0.25, 0.5):
        assert on(x, y, part, out=out) is out
        np.testing.assert_array_equal(out, blended(x, y, part))
    larger = np.zeros((2, 3, 4), np.float32)
    np.testing.assert_array_equal(on(x, y, 0.5, out=(larger,)), np.broadcast_to(blended(x, y, 0.5), (2, 3, 4)))
    first, second = mixed.on(opened)(x, y, out=(out, None))
    assert first is out
    np.testing.assert_array_equal(second, x - y)
    assert on(x, y, 0.5, out=x) is x


def test_a_buffer_may_be_worked_on_in_place(opened: Driver) -> None:
    x, y = some(3, 4), some(4)
    here, there = opened.buffer(x), opened.buffer(y)
    assert blend(here, there, 0.5, out=here) is here
    np.testing.assert_array_equal(here.read(), blended(x, y, 0.5))
    for out, message in (
        (there, "out of blend has the shape (4,), and the result (3, 4). Fix: pass an array of the shape (3, 4)."),
        (here, "out of blend shares memory with y, and is not all of it. Fix: pass another buffer, or y itself."),
    ):
        assert str(refusal(lambda out=out: blend(here, here[0], 0.5, out=out), InvalidInput)) == message


def test_where_keeps_what_out_holds_and_gives_zeros_without_it(opened: Driver) -> None:
    x, y = some(4, 5), some(5)
    on = blend.on(opened)
    for test in (x > 0.5, np.array([True, False, True, False, False]), (x > 0.5)[:, :1]):
        np.testing.assert_array_equal(on(x, y, 0.5, where=test), np.where(test, blended(x, y, 0.5), 0))
        out = np.full((4, 5), 9, np.float32)
        assert on(x, y, 0.5, where=test, out=out) is out
        np.testing.assert_array_equal(out, np.where(test, blended(x, y, 0.5), 9))
    assert not on(x, y, 0.5, where=False).any()
    first, second = mixed.on(opened)(whole(5), 1, where=np.arange(5) > 2, out=(np.full(5, 7, np.int32), None))
    assert first[:3].tolist() == [7, 7, 7]
    assert second[:3].tolist() == [0, 0, 0]
    here = opened.buffer(np.ones(5, np.float32))
    words = opened.buffer(np.array([0, 1, 0, 1, 1], np.uint32))
    blend(opened.buffer(y), 0.0, 1.0, where=words, out=here)
    assert here.read().tolist() == [1, 0, 1, 0, 0]


def test_a_lambda_takes_the_types_of_its_arrays_and_gives_what_it_computes(opened: Driver) -> None:
    weight = 3
    fused = fuse(lambda a, b: (a * weight + b, a > b))
    on = fused.on(opened)
    x = whole(30)
    with np.errstate(over="ignore"):
        total, greater = on(x, 5)
        np.testing.assert_array_equal(total, x * np.int32(3) + np.int32(5))
    np.testing.assert_array_equal(greater, x > 5)
    assert on(some(3), whole(3))[0].dtype == np.float32
    assert on(np.arange(3, dtype=np.uint32), 5)[0].tolist() == [5, 8, 11]
    weight = 0.5
    np.testing.assert_array_equal(on(np.arange(3, dtype=np.int32), 1)[0], np.array([1, 1.5, 2], np.float32))


def test_the_inner_one_of_two_lambdas_is_meant(opened: Driver) -> None:
    made = (lambda: elementwise(lambda a: a + 1))()  # noqa: PLC3002 -- what is tested
    assert made.on(opened)(np.arange(3, dtype=np.int32)).tolist() == [1, 2, 3]


def test_kernels_and_others_may_call_one(opened: Driver) -> None:
    @elementwise
    def longer(x: f32, y: f32) -> f32:
        return length(x, y) + 1.0

    @kernel
    def lengths(i: Index, x: In[f32], out: Out[f32]) -> None:
        out[i] = longer(x[i], 4.0)

    assert lengths.on(opened)(np.full(2, 3, np.float32)).tolist() == [6, 6]


def test_calls_of_one_form_make_one_program(opened: Driver) -> None:
    once = elementwise(blend.function).on(opened)
    once(some(4, 5), some(5), 0.5)
    made = len(once._kernels)  # noqa: SLF001 -- what it has made
    once(some(40, 50), some(50), 0.25)
    once(some(3, 2, 7), some(7), 0.25)
    assert len(once._kernels) == made == 1  # noqa: SLF001 -- the same


def test_it_shows_what_it_takes() -> None:
    assert repr(blend) == ("<vyre_driver.lang.Elementwise blend(x: f32, y: f32, part: f32, *, out=None, where=True)>")
    assert list(inspect.signature(mixed).parameters) == ["x", "y", "out", "where", "K"]
    assert blend.program().buffers[0].name == "x"
    assert blend.__name__ == "blend"


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "shapes": (
        lambda: blend(some(4, 5), some(4), 1),
        (
            "x of blend has the shape (4, 5) and y has (4,), which do not broadcast: 5 is not 4. "
            "Fix: pass arrays whose axes, from the last on, have one length or the length 1."
        ),
    ),
    "float64": (
        lambda: blend(np.zeros(3), some(3), 1),
        "x of blend is float64, and In[f32] wants float32. Fix: convert: numpy.asarray(x, numpy.float32).",
    ),
    "float64 for a variable": (
        lambda: mixed(np.zeros(3), 1),
        "x of mixed is float64, and T is one of f32, i32, u32. Fix: convert: numpy.asarray(x, numpy.float32).",
    ),
    "complex numbers for a lambda": (
        lambda: elementwise(lambda a: a + 1)(np.zeros(3, np.complex64)),
        (
            "a of fused is complex64, which kernels do not compute with. Fix: pass numpy.ascontiguousarray(a, numpy.complex64)"
            ".view(numpy.float32), where the parts alternate, or "
            "one part: numpy.asarray(numpy.real(a), numpy.float32)."
        ),
    ),
    "a float for whole numbers": (
        lambda: mixed(whole(3), 1.5),
        "y of mixed is the float 1.5, and takes an i32. Fix: give int(...).",
    ),
    "None": (lambda: blend(None, 1, 1), "x of blend is None. Fix: give an array or a number."),
    "too few": (
        lambda: blend(some(3), 1),
        "blend takes 3 argument(s) by position, and got 2. Fix: give x, y, part; an array to write to is given as out=.",
    ),
    "an unknown name": (
        lambda: blend(some(3), 1, parts=1),
        "blend has no parameter 'parts'. Fix: name 'x', 'y', 'part', 'out', 'where'.",
    ),
    "one out for two": (
        lambda: mixed(some(3), 1, out=some(3)),
        "mixed has 2 output(s), and out= is given 1. Fix: give a tuple with an array or None for each.",
    ),
    "an out with gaps": (
        lambda: blend(some(3), 1, 1, out=some(6)[::2]),
        "out of blend is not C-contiguous, and is written in place. Fix: pass a C-contiguous array.",
    ),
    "an out of another type": (
        lambda: blend(some(3), 1, 1, out=np.zeros(3)),
        "out of blend is float64, and Out[f32] wants float32. Fix: pass an array of numpy.float32, which is written in place.",
    ),
    "a condition of numbers": (
        lambda: blend(some(3), 1, 1, where=np.arange(3)),
        "where of blend is int64, and In[bool] wants bool. Fix: convert: numpy.asarray(where, bool).",
    ),
}


@pytest.mark.parametrize("which", CALLS)
def test_a_call_that_does_not_fit_is_refused(which: str, opened: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.lang.launch.default_driver.DEFAULT.get", lambda: opened)
    call, message = CALLS[which]
    assert str(refusal(call, InvalidInput)) == message


def no_result(x: f32):  # noqa: ANN201 -- the mistake
    return x


def of_int(x: int) -> f32:
    return x


def half(x: f32, y) -> f32:  # noqa: ANN001 -- the mistake
    return x + y


def with_default(x: f32, y: f32 = 1.0) -> f32:
    return x + y


def any_number(*x: f32) -> f32:
    return x[0]


def with_out(x: f32, out: f32) -> f32:
    return x + out


def of_nothing(x: f32) -> T:
    return x


def keyword(x: f32, *, k: f32) -> f32:
    return x + k


DECORATED: list[tuple[Any, str]] = [
    (no_result, "'no_result' returns nothing that is annotated. Fix: annotate what it returns: -> f32, or -> tuple[f32, f32]."),
    (of_int, "parameter 'x' of 'of_int' is annotated <class 'int'>. Fix: use f32, i32, u32, bool_ or a TypeVar of them."),
    (half, "parameter 'y' of 'half' has no type. Fix: use f32, i32, u32, bool_ or a TypeVar of them."),
    (
        with_default,
        "parameter 'y' of 'with_default' has a default. Fix: make it a Const that is keyword only, or leave the default out.",
    ),
    (any_number, "'any_number' takes *args or **kwargs, and is called with elements. Fix: name each of its parameters."),
    (with_out, "parameter 'out' of 'with_out' has the name of what every call may give. Fix: rename it."),
    (of_nothing, "'of_nothing' returns the type variable 'T', which none of its parameters has. Fix: annotate one: x: T."),
    (keyword, "the keyword 'k' of 'keyword' is annotated f32. Fix: use Const[int], Const[float] or Const[bool]."),
    (
        len,
        (
            "an elementwise function is made of a Python function, and this is of type builtin_function_or_method. "
            "Fix: write one that calls it, as lambda x: sqrt(x)."
        ),
    ),
]


@pytest.mark.parametrize(("function", "message"), DECORATED, ids=[one.__name__ for one, _ in DECORATED])
def test_what_cannot_be_called_with_elements_is_refused(function: Any, message: str) -> None:  # noqa: ANN401 -- the mistakes
    assert str(refusal(lambda: elementwise(function), KernelTypeError)) == message


def test_what_a_function_may_not_do_is_shown_at_its_line(opened: Driver) -> None:
    @elementwise
    def wrong(x: i32) -> i32:
        return x + 0.5

    with pytest.raises(KernelTypeError) as refused:
        wrong.on(opened)(whole(3))
    assert str(refused.value).splitlines()[0] == "'wrong' is annotated to return i32, and returns f32"


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (np.uint32(4_000_000_000), 2, np.uint32(4_000_000_002)),
        (2, np.array(4_000_000_000, np.uint32), np.uint32(4_000_000_002)),
        (np.int32(2), np.float32(0.5), np.float32(2.5)),
        (np.float64(1.0), 2, np.float32(3.0)),
        (np.uint8(200), np.uint8(100), np.int32(300)),
    ],
)
def test_numbers_of_numpy_alone_keep_their_type(opened: Driver, x: Any, y: Any, expected: np.generic) -> None:  # noqa: ANN401 -- numbers
    found = elementwise(lambda a, b: a + b).on(opened)(x, y)
    assert (found.dtype, found) == (expected.dtype, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int16])
def test_a_number_beside_small_elements_is_what_these_are_loaded_as(opened: Driver, dtype: type) -> None:
    x = np.array([1, 2, 200 if dtype is not np.float16 else 2.5], dtype)
    found = elementwise(lambda a, b: a + b).on(opened)(x, 300)
    wanted = x.astype(np.float32 if dtype is np.float16 else np.int32) + 300
    assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
