"""Functions that kernels call: arguments are bound by the code that runs, and recursion is what calls itself again."""

# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN205, ANN206 -- functions of numbers of any type
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import InvalidInput, KernelSourceError, KernelSyntaxError, KernelTypeError
from vyre_driver.lang import Kernel, elementwise, f32, function, kernel, reduction, scan

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.arange(1, 5, dtype=np.float32)


def swapped(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def w(b, a):
        return f(a, b)

    return w


def with_default(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def w(v, k=5.0):
        return f(v, k)

    return w


def by_keyword(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def w(v, *, k=7.0):
        return f(v, k)

    return w


def passed_on(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def w(*args):
        return f(*args)

    return w


def one_more(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def w(a, b, more):
        return f(a, b) + more

    return w


def with_keywords(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def w(*args, **named):
        return f(*args, **named)

    return w


def minus(a, b):
    return a - b


def plus(v, k=1.0):
    return v + k


def other_signature(v, k=2.0):
    return v * k


other_signature.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # a trick
    [inspect.Parameter("z", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
)


class Methods:
    @staticmethod
    @swapped
    def minus(a, b):
        return a - b

    @classmethod
    @with_keywords
    def times(cls, a, b):
        return a * b


class Scaled(NamedTuple):
    value: float

    def times(self, by):
        return self.value * by

    @with_keywords
    def shifted(self, *, by):
        return self.value + by


def given_k(v, **named):
    return plus(v, **named) + len(named) if named else 7.0


def collected(f, **named):
    return plus(*(), **given(**named)) + f(**named)


def given(**named):
    return named


def stored(v, **named):
    kept = named
    total = 0.0
    for _ in range(2):
        if v > 2.0:
            total += plus(v, **kept)
    return total


def with_roots(v, **named):
    return abs(-v, **named) if not named else v


NAMES = {
    "swapped": swapped(minus),
    "twice_swapped": swapped(swapped(minus)),
    "plus": with_default(plus),
    "keyword": by_keyword(plus),
    "passed": passed_on(minus),
    "passed_twice": passed_on(passed_on(plus)),
    "usual": with_keywords(plus),
    "usual_twice": with_keywords(with_keywords(plus)),
    **{one.__name__: one for one in (plus, given_k, collected, given, stored, with_roots, Scaled)},
    "more": one_more(minus),
    "marked": function(swapped(minus)),
    "other": other_signature,
    "Methods": Methods,
}


def _kernel(expression: str, **names: object) -> Kernel:
    return kernel.from_source(f"def k(i: Index, x: In[f32], o: Out[f32]):\n    v = x[i]\n    o[i] = {expression}\n", names)


@pytest.mark.device
@pytest.mark.parametrize(
    "expression",
    [
        "swapped(v, 10.0)",
        "swapped(a=v, b=10.0)",
        "twice_swapped(v, 10.0)",
        "plus(v)",
        "plus(v, k=2.0)",
        "keyword(v) + keyword(v, k=1.0)",
        "passed(v, 3.0)",
        "passed_twice(v) + passed_twice(v, 4.0)",
        "usual(v) + usual(v, 4.0) + usual(v, k=v) + usual(k=2.0, v=v)",
        "usual_twice(v, k=3.0)",
        "given_k(v) + given_k(v, k=1.0)",
        "collected(plus, v=v, k=v)",
        "stored(v, k=2.0)",
        "with_roots(v)",
        "Methods.times(b=2.0, a=v)",
        "Scaled(v).times(by=3.0) + Scaled(v).shifted(by=1.0)",
        "more(v, 1.0, more=9.0)",
        "marked(v, 10.0)",
        "other(v) + other(v, k=5.0)",
        "Methods.minus(v, 10.0)",
    ],
)
def test_a_wrapped_function_is_called_with_the_parameters_of_its_wrapper(expression: str) -> None:
    made = _kernel(expression, **NAMES)
    expected = [eval(expression, {**NAMES, "v": float(v)}) for v in X]  # noqa: S307 -- an expression of this test
    assert [how(X).tolist() for how in (made, made.interpret, made.python)] == [expected] * 3


@pytest.mark.device
def test_elementwise_functions_reductions_and_scans_go_by_the_wrapper_too() -> None:
    @elementwise
    @swapped
    def typed(a: f32, b: f32) -> f32:
        return a - b

    found = (
        typed(X, np.float32(10)),
        elementwise(swapped(lambda a, b: a - b))(X, np.float32(10)),
        reduction(passed_on(lambda a, b: a + b), zero=0.0, map=with_default(plus))(X),
        reduction(lambda a, b: a + b, zero=0.0, finish=passed_on(lambda v: v * 2.0))(X),
        scan(passed_on(lambda a, b: a + b))(X),
        scan(swapped(lambda _, b: b))(X),
    )
    assert [np.asarray(one).tolist() for one in found] == [
        *([9.0, 8.0, 7.0, 6.0], [9.0, 8.0, 7.0, 6.0], 30.0, 20.0),
        *([1.0, 3.0, 6.0, 10.0], [1.0, 1.0, 1.0, 1.0]),
    ]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            lambda: reduction(one_more(minus), zero=0.0),
            "combine of a reduction is 'minus', which cannot be called with two numbers",
        ),
        (lambda: scan(function(one_more(minus))), "combine of a scan is 'minus', which cannot be called with two numbers"),
        (lambda: _kernel("h(v)", h=one_more(minus)).program(), "minus: missing a required argument: 'b'"),
        (lambda: _kernel("h(v, z=1.0)", h=with_keywords(plus)).program(), "plus: got an unexpected keyword argument 'z'"),
        (lambda: _kernel("given_k(v, v=1.0)", **NAMES).program(), "given_k: multiple values for argument 'v'"),
        (lambda: _kernel("h(k=v)", h=lambda **n: plus(1.0, k=2.0, **n)).program(), "plus is given the keyword 'k' twice"),
        (lambda: _kernel("h(n=v)", h=lambda **n: abs(1.0, **n)).program(), "abs takes no keywords"),
        (
            lambda: _kernel("h(n=v)", h=lambda **n: n["n"]).program(),
            "an item of the **kwargs of a function, which kernels only count and pass on",
        ),
        (
            lambda: _kernel("h(n=v)", h=lambda **n: plus(*n)).program(),
            "spreading of the **kwargs of a function, which kernels only count and pass on",
        ),
        (lambda: _kernel("given(n=v)", **NAMES).program(), "'o' holds f32, and is given the **kwargs of a function"),
        (
            lambda: _kernel("h(v, z=1.0)", h=other_signature).program(),
            "other_signature: got an unexpected keyword argument 'z'",
        ),
    ],
)
def test_what_a_wrapper_does_not_take_is_refused(made: Callable[[], object], problem: str) -> None:
    assert refusal(made, KernelTypeError).problem == problem


def scaled(by, inner):
    def f(v):
        return inner(v) * by

    return f


def logged(f):
    def w(v):
        return f(v) + 100.0

    return w


def base(v):
    return v + 1.0


@logged
def square(v):
    return v * v


@logged
def outer(v):
    return square(v) + v


def twice(f, v):
    return f(f(v))


def twice_base(v):
    return twice(base, v)


def apply(f, *args):
    return f(*args)


def first_of(functions, v):
    return functions[0](v)


class Chain:
    @classmethod
    def step(cls, f, v):
        return f(v)


@pytest.mark.device
@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("both(v)", {"both": scaled(2.0, scaled(3.0, base))}),
        ("outer(v)", {"outer": outer}),
        ("twice(twice_base, v)", {"twice": twice, "twice_base": twice_base}),
        ("apply(apply, apply, base, v)", {"apply": apply, "base": base}),
        ("first_of((h,), v)", {"first_of": first_of, "h": lambda v: first_of((base,), v)}),
        ("Chain.step(h, v)", {"Chain": Chain, "h": lambda v: Chain.step(base, v)}),
    ],
)
def test_functions_that_share_their_code_or_are_given_others_may_call_each_other(
    expression: str, names: dict[str, Any]
) -> None:
    made = _kernel(expression, **names)
    expected = [eval(expression, {**names, "v": float(v)}) for v in X]  # noqa: S307 -- an expression of this test
    assert [how(X).tolist() for how in (made, made.interpret, made.python)] == [expected] * 3


def factorial(n):
    return 1.0 if n <= 1.0 else n * factorial(n - 1.0)


@logged
def again(v):
    return again(v)


def even(n):
    return odd(n - 1.0)


def odd(n):
    return even(n - 1.0)


def with_itself(f, v):
    return f(f, v)


def growing(v, *functions):
    return growing(v, base, *functions)


class Endless:
    @classmethod
    def step(cls, f, v):
        return f(cls.step, v)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("factorial(v)", "'factorial' calls itself"),
        ("factorial(5.0)", "'factorial' calls itself"),
        ("even(v)", "'even' calls itself"),
        ("again(v)", "'w' calls itself"),
        ("with_itself(with_itself, v)", "'with_itself' calls itself"),
        ("Endless.step(Endless.step, v)", "'step' calls itself"),
        ("growing(v)", "functions call each other 64 deep"),
    ],
)
def test_recursion_is_refused_however_it_comes_about(expression: str, problem: str) -> None:
    assert refusal(lambda: _kernel(expression, **globals()).program(), KernelSyntaxError).problem == problem


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("o[i] = abs()", "abs takes 1 argument, and got 0"),
        ("o[i] = fma(v)", "fma takes 3 arguments, and got 1"),
        ("o[i] = lane(1)", "lane takes no arguments, and got 1"),
        ("o[i] = x[...]", "a number is wanted here, and this is an ellipsis"),
        ("o[i] = None", "'o' holds f32, and is given None"),
        ("o[i] = 'a'", "'o' holds f32, and is given str 'a'"),
        ("o[i] = Cached.a", "'o' holds f32, and is given a cached_property"),
        (
            "for k in static_range(2):\n        for m in static_range(5000):\n            o[i] = v + m",
            "unrolling the loop in line 4 makes 5,000 statements behind 5,001 others, and a program has 8,192 at most",
        ),
    ],
)
def test_messages_count_and_name_as_people_do(line: str, problem: str) -> None:
    class Cached:
        @functools.cached_property
        def a(self):
            return 1.0

    text = f"def k(i: Index, x: In[f32], o: Out[f32]):\n    v = x[i]\n    {line}\n"
    assert refusal(lambda: kernel.from_source(text, {"Cached": Cached}).program(), KernelSourceError).problem == problem


@pytest.mark.device
def test_a_number_that_is_too_large_is_shown_with_its_digits_beside_the_largest() -> None:
    made = kernel.from_source("def k(i: Index, o: Out[f32], a: f32):\n    o[i] = a\n")
    with pytest.raises(InvalidInput) as refused:
        made(X, 3.4028236e38)
    assert refused.value.problem == "a of k is 3.4028236e+38, and the largest f32 is 3.4028235e+38"
