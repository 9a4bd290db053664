"""Annotations of functions that kernels call, of variables and of fields: numbers are converted as by a store, or refused."""

# ruff: noqa: ANN001, ANN201, ANN202, UP006, UP035, UP037, UP045 -- what is not annotated is what is asked
# mypy: disable-error-code="no-untyped-def, type-arg"
# ruff: noqa: ANN401 -- classes that are made here
from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Optional, Tuple, TypeVar

import numpy as np
import pytest

import vyre_driver.lang as language  # noqa: TC001 -- annotations are looked up in it
from vyre_driver.errors import KernelTypeError
from vyre_driver.lang import Kernel, bool_, f16, f32, f64, i32, i64, kernel, types, u8, u32

if TYPE_CHECKING:
    from somewhere import Missing

T = TypeVar("T")
X = np.array([-7.0, 2.5, 40.0], np.float32)
N = np.array([-7, 2, 40], np.int32)


def half(v: f32) -> f32:
    return v / 2


def as_float(v: f32) -> f32:
    return v


def to_float(v) -> f32:
    return v


def twice(v: i32) -> i32:
    return v * 2


def word(v: u32) -> u32:
    return v + 1


def wide(v: i64) -> i64:
    return v * 3_000_000_000


def double(v: f64) -> f64:
    return v * 0.1


def flag(v: bool_) -> bool_:
    return not v


def floats(*values: f32, **more: f32):
    return values[0] * 16_777_217 + as_given(**more)


def as_given(more=0):
    return more * 16_777_217


def whole_numbers(*values: i32):
    return values[0]


def pair(a: f32, b: i32) -> tuple[f32, i32]:
    return a, b


def of_module(v: language.f32) -> language.f32:
    return v


def maybe(v: f32 | None = None, n: Optional[i32] = None) -> Optional[f32]:
    return v / 4 if n is None else v / n


def noted(v: Annotated[f32, "metres"]) -> Final[f32]:
    return v / 4


def items(*values: i32) -> tuple[f32, ...]:
    return values


def pair_of_typing(a: Tuple["f32", f16], b: u8) -> "Tuple[f32, Optional['i32']]":
    return a[0] / b, b


def plain(a: int, b: float, c: T, *args: Missing) -> str:
    return a + b + c + args[0]


def raised(v: f32, n: f32) -> f32:
    return v**n


def shifted(v: i64, by: i64) -> i64:
    return v << by


def rounded(f):
    @functools.wraps(f)
    def w(v):
        return f(int(v))

    return w


wrapped = rounded(twice)


def made(kind):
    def h(v: kind) -> kind:
        return v

    return h


def _eager(of, kind):
    """Return a function whose annotations are no text."""
    of.__annotations__ = dict.fromkeys(of.__annotations__, kind)
    return of


NAMES = {**globals(), "eager_i32": _eager(made(i32), i32), "eager_f32": _eager(made(f32), f32)}


def _kernel(expression: str, of: str = "f32", to: str = "f32") -> Kernel:
    text = f"def k(i: Index, x: In[{of}], o: Out[{to}]):\n    v = x[i]\n    o[i] = {expression}\n"
    return kernel.from_source(text, NAMES, "k")


@pytest.mark.device
@pytest.mark.parametrize(
    ("expression", "of", "to", "expected"),
    [
        ("as_float(v) / 4", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("to_float(v) / 4", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("eager_f32(v) / 4", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("of_module(v) / 4", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("as_float(v > 0) + 0.5", "i32", "f32", [0.5, 1.5, 1.5]),
        ("floats(v)", "i32", "f32", [-7.0 * 2**24, 2.0 * 2**24, 40.0 * 2**24]),
        ("floats(i - i, more=v)", "i32", "f32", [-7.0 * 2**24, 2.0 * 2**24, 40.0 * 2**24]),
        ("word(i)", "i32", "u32", [1, 2, 3]),
        ("wide(v)", "i32", "i64", [-21_000_000_000, 6_000_000_000, 120_000_000_000]),
        ("double(v)", "i32", "f64", [-7 * 0.1, 2 * 0.1, 40 * 0.1]),
        ("pair(v, i)[0] / 4 + pair(v, i)[1]", "i32", "f32", [-1.75, 1.5, 12.0]),
        ("maybe(v)", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("maybe(v, 2 << i)", "i32", "f32", [-3.5, 0.5, 5.0]),
        ("maybe(v) if (v, v) is not None and x is not None else maybe(None)", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("maybe(v, 8)", "i32", "f32", [-0.875, 0.25, 5.0]),
        ("noted(v)", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("items(i, v)[1] / 4", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("pair_of_typing((v, v), 4)[0]", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("plain(v, 1, 2, 3)", "f32", "f32", [-1.0, 8.5, 46.0]),
        ("raised(v, 2)", "f32", "f32", [49.0, 6.25, 1600.0]),
        ("i32(shifted(i, 2))", "f32", "i32", [0, 4, 8]),
        ("wrapped(v)", "f32", "i32", [-14, 4, 80]),
    ],
)
def test_numbers_are_what_annotations_say_where_that_holds_them(
    expression: str, of: str, to: str, expected: list[float]
) -> None:
    run, x = _kernel(expression, of, to), X if of == "f32" else N
    if to == "f64":  # which the device may lack
        assert [run.interpret(x).tolist(), run.python(x).tolist()] == [expected] * 2
    else:
        assert [how(x).tolist() for how in (run, run.interpret, run.python)] == [expected] * 3


@pytest.mark.parametrize(
    ("expression", "of", "problem", "fix"),
    [
        ("twice(v)", "f32", "'twice' takes v: i32, and is given f32", "convert: i32(...), or leave the annotation out"),
        ("eager_i32(v)", "f32", "'h' takes v: i32, and is given f32", "convert: i32(...), or leave the annotation out"),
        (
            *("whole_numbers(2, v)", "f32", "'whole_numbers' takes values: i32, and is given f32"),
            "convert: i32(...), or leave the annotation out",
        ),
        ("twice(2.5)", "f32", "'twice' takes v: i32, and is given 2.5", "convert: i32(...), or leave the annotation out"),
        ("twice(v)", "u32", "'twice' takes v: i32, and is given u32", "convert: i32(...), or leave the annotation out"),
        ("word(v)", "i64", "'word' takes v: u32, and is given i64", "convert: u32(...), or leave the annotation out"),
        ("flag(v)", "i32", "'flag' takes v: bool, and is given i32", "convert: bool(...), or leave the annotation out"),
        (
            "cut(v)",
            "f32",
            "'cut' is annotated to return i32, and returns f32",
            "convert: i32(...), or leave the annotation out",
        ),
        ("parts(v)[0]", "f32", "'parts' is annotated to return tuple[i32, f32], and returns f32", "convert: i32(...)"),
        ("maybe(1.0, v)", "f32", "'maybe' takes n: i32, and is given f32", "convert: i32(...), or leave the annotation out"),
        ("items(v)[0]", "f32", "'items' takes values: i32, and is given f32", "convert: i32(...), or leave the annotation out"),
        ("pair_of_typing((v, v), v)[0]", "f32", "'pair_of_typing' takes b: u8, and is given f32", "convert: u8(...)"),
        (
            *("pair_of_typing(v, 1)[0]", "f32", "'pair_of_typing' takes a: tuple[f32, f16], and is given f32"),
            "change the annotation, or leave it out",
        ),
        (
            *("three(v)[2]", "f32", "'three' is annotated to return tuple[f32, f32], and returns a tuple of 3"),
            "change the annotation, or leave it out",
        ),
        ("noted((v, v))", "f32", "'noted' takes v: f32, and is given a tuple of 2", "change the annotation, or leave it out"),
        ("word(-1)", "f32", "-1 does not fit u32, which goes from 0 to 4294967295", "use a number in that range"),
    ],
)
def test_what_an_annotation_does_not_hold_is_refused(expression: str, of: str, problem: str, fix: str) -> None:
    def cut(v: f32) -> i32:
        return v

    def parts(v: f32) -> tuple[i32, f32]:
        return v, v

    def three(v: f32) -> tuple[f32, f32]:
        return v, v, v

    text = f"def k(i: Index, x: In[{of}], o: Out[f32]):\n    v = x[i]\n    o[i] = f32({expression})\n"
    with pytest.raises(KernelTypeError) as refused:
        kernel.from_source(text, {**NAMES, "cut": cut, "parts": parts, "three": three}, "k").program()
    assert (refused.value.problem, refused.value.fix[: len(fix)]) == (problem, fix)


@pytest.mark.parametrize(
    ("said", "bare", "expression"),
    [
        ("def h(v: f32, n: i32) -> f32:\n", "def h(v, n):\n", "h(v, 3) + h(2, i)"),
        ("def h(v: 'f32', n: 'Missing') -> 'f32':\n", "def h(v, n):\n", "h(v, 2)"),
        ("def h(v: float, n: int) -> float:\n", "def h(v, n):\n", "h(v, i)"),
    ],
)
def test_an_annotation_that_agrees_changes_no_program(said: str, bare: str, expression: str) -> None:
    body = f"    return v * n + v**2\n\ndef k(i: Index, x: In[f32], o: Out[f32]):\n    v = x[i]\n    o[i] = {expression}\n"
    kernels = [kernel.from_source(head + body, name="k") for head in (said, bare)]
    assert kernels[0].program() == kernels[1].program()


@pytest.mark.device
def test_another_type_under_the_name_of_an_annotation_makes_another_program() -> None:
    names: dict[str, Any] = {"Real": types.f32}
    text = "from __future__ import annotations\ndef h(v: Real):\n    return v\n\ndef k(i: Index, x: In[i32], o: Out[f32]):\n"
    run = kernel.from_source(text + "    o[i] = f32(h(x[i] + 1) / h(2))\n", names, "k")
    first = run(N).tolist()
    run.function.__globals__["Real"] = types.i32
    with_whole = run.program()
    run.function.__globals__["Real"] = types.f32
    assert (first, run(N).tolist(), run.program() == with_whole) == ([-3.0, 1.5, 20.5], first, False)


VALUES = np.array([-7.0, 2.5, 40.0], np.float32)
TYPES = {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "i64": np.int64}


@dataclass(frozen=True)
class Point:
    n: i32 = 1
    w: f32 = 2

    def next(self) -> Point:
        return Point(self.n + 1, self.n)


class Pair(NamedTuple):
    n: i32
    w: Optional[f32] = None


@dataclass(frozen=True)
class Wider(Point):
    limit: tuple[i64, bool_] = (0, False)


@dataclass(frozen=True)
class Free:
    n: int
    w: Missing  # type: ignore[name-defined]


def _eager_record(kind: Any) -> Any:
    """Return a class whose annotations are no text."""

    class Made:
        pass

    Made.__annotations__ = {"n": kind}
    return dataclass(frozen=True)(Made)


RECORDS: dict[str, Any] = {
    **{one.__name__: one for one in (Point, Pair, Wider, Free)},
    "Made": _eager_record(u32),
    "whole": Point(2.5),  # type: ignore[arg-type]
    "large": Pair(2**31),
    "numpys": Point(3, np.int32(4)),  # type: ignore[arg-type]
    "right": Wider(3, 4, (5, True)),  # type: ignore[arg-type]
}
RANGE = "2147483648 does not fit i32, which goes from -2147483648 to 2147483647"


def _kernel_of_lines(lines: str, of: str, to: str = "f32") -> Kernel:
    body = "".join(f"    {line}\n" for line in lines.split("; "))
    return kernel.from_source(f"def k(i: Index, x: In[{of}], o: Out[{to}]):\n    v = x[i]\n{body}", RECORDS, "k")


@pytest.mark.device
@pytest.mark.parametrize(
    ("lines", "of", "to", "expected"),
    [
        ("w: f32 = v; o[i] = w * 16777217", "i32", "f32", [-7.0 * 2**24, 2.0 * 2**24, 40.0 * 2**24]),
        ("w: i32 = x[i] > 0; o[i] = w + 1", "f32", "i32", [1, 2, 2]),
        ("w: u32 = i; o[i] = w - 1", "f32", "u32", [2**32 - 1, 0, 1]),
        ("w: i32 = v % 5; o[i] = w - 5", "u32", "i32", [-1, -3, -5]),
        ("w: f32 = 7; o[i] = w // 2", "f32", "f32", [3.0, 3.0, 3.0]),
        ("w: i64 = v; o[i] = w * 3_000_000_000", "i32", "i64", [-21_000_000_000, 6_000_000_000, 120_000_000_000]),
        ("w: bool_ = v > 0; o[i] = 1 if w else 2", "f32", "f32", [2.0, 1.0, 1.0]),
        ("o[i]: f32 = v", "i32", "f32", [-7.0, 2.0, 40.0]),
        ("o[i] = Point(i, v).w / 4", "i32", "f32", [-1.75, 0.5, 10.0]),
        ("o[i] = Point(w=v, n=v > 0).n + Point(v).n / 8 + Point().w", "i32", "f32", [1.125, 3.25, 8.0]),
        ("p = Point(v); o[i] = p.next().w / 4 + p.next().n", "i32", "f32", [-7.75, 3.5, 51.0]),
        ("a, b = Pair(i, v); o[i] = b * 16777217", "i32", "f32", [-7.0 * 2**24, 2.0 * 2**24, 40.0 * 2**24]),
        ("o[i] = Wider(1, 2, (v, i > 0)).limit[0] * 3_000_000_000", "i32", "i64", [-21 * 10**9, 6 * 10**9, 120 * 10**9]),
        ("o[i] = Made(i).n - 1", "f32", "u32", [2**32 - 1, 0, 1]),
        ("o[i] = Free(v, v).n + Free(v, v).w", "f32", "f32", [-14.0, 5.0, 80.0]),
        ("o[i] = right.n + right.w + right.limit[0] + v", "f32", "f32", [5.0, 14.5, 52.0]),
    ],
)
def test_variables_and_fields_are_what_annotations_say(lines: str, of: str, to: str, expected: list[float]) -> None:
    run, x = _kernel_of_lines(lines, of, to), VALUES.astype(np.int32).astype(TYPES[of]) if of != "f32" else VALUES
    assert [how(x).tolist() for how in (run, run.interpret, run.python)] == [expected] * 3


@pytest.mark.parametrize(
    ("lines", "of", "problem", "fix"),
    [
        ("w: i32 = v", "f32", "w is annotated i32, and is given f32", "i32(...)"),
        ("w: i32 = 2.5", "f32", "w is annotated i32, and is given 2.5", "i32(...)"),
        ("w: i32 = v", "u32", "w is annotated i32, and is given u32", "i32(...)"),
        ("w: u32 = i - 1", "f32", "w is annotated u32, and is given i32", "u32(...)"),
        ("w: f32 = v", "i64", "w is annotated f32, and is given i64", "f32(...)"),
        ("w: bool_ = v", "i32", "w is annotated bool, and is given i32", "bool(...)"),
        ("o[i]: i32 = v", "f32", "o[i] is annotated i32, and is given f32", "i32(...)"),
        ("w: i32 = 2**31", "f32", RANGE, "use a number in that range"),
        ("w: f32 = x", "f32", "a number is wanted here, and this is the array 'x'", "use an element of it: x[...]"),
        ("p = Point(v)", "f32", "Point.n is annotated i32, and is given f32", "i32(...)"),
        ("p = Point(n=2.5)", "f32", "Point.n is annotated i32, and is given 2.5", "i32(...)"),
        ("p = Wider(n=v)", "f32", "Wider.n is annotated i32, and is given f32", "i32(...)"),
        (
            *("p = Wider(limit=(v, 1))", "f32", "Wider.limit is annotated tuple[i64, bool], and is given f32"),
            "i64(...)",
        ),
        ("p = Pair(v)", "f32", "Pair.n is annotated i32, and is given f32", "i32(...)"),
        ("p = Made(v)", "f32", "Made.n is annotated u32, and is given f32", "u32(...)"),
        ("w = whole.n", "f32", "Point.n is annotated i32, and is given 2.5", "i32(...)"),
        ("w = large[0]", "f32", RANGE, "use a number in that range"),
        (
            *("w = numpys.w", "f32", "numpys.w is annotated f32, and is i32"),
            "give the record a number of that type, or leave the annotation out",
        ),
    ],
)  # fmt: skip
def test_what_a_variable_or_field_does_not_hold_is_refused(lines: str, of: str, problem: str, fix: str) -> None:
    with pytest.raises(KernelTypeError) as refused:
        _kernel_of_lines(lines, of).program()
    whole_fix = f"convert: {fix}, or leave the annotation out" if "(...)" in fix else fix
    assert (refused.value.problem, refused.value.fix) == (problem, whole_fix)
