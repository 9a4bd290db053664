"""Annotations of variables and of fields of records: a number is converted as by a store, or refused."""

# ruff: noqa: ANN401 -- classes that are made here

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
import pytest

from vyre_driver.errors import KernelTypeError
from vyre_driver.lang import Kernel, bool_, f32, i32, i64, kernel, u32

X = np.array([-7.0, 2.5, 40.0], np.float32)
TYPES = {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "i64": np.int64}


@dataclass(frozen=True)
class Point:
    n: i32 = 1
    w: f32 = 2

    def next(self) -> Point:
        return Point(self.n + 1, self.n)


class Pair(NamedTuple):
    n: i32
    w: Optional[f32] = None  # noqa: UP045 -- the old spelling


@dataclass(frozen=True)
class Wider(Point):
    limit: tuple[i64, bool_] = (0, False)


@dataclass(frozen=True)
class Free:
    n: int
    w: Missing  # type: ignore[name-defined]  # noqa: F821 -- which nothing defines


def _eager(kind: Any) -> Any:
    """Return a class whose annotations are no text."""

    class Made:
        pass

    Made.__annotations__ = {"n": kind}
    return dataclass(frozen=True)(Made)


NAMES: dict[str, Any] = {
    **{one.__name__: one for one in (Point, Pair, Wider, Free)},
    "Made": _eager(u32),
    "whole": Point(2.5),  # type: ignore[arg-type]
    "large": Pair(2**31),
    "numpys": Point(3, np.int32(4)),  # type: ignore[arg-type]
    "right": Wider(3, 4, (5, True)),  # type: ignore[arg-type]
}
RANGE = "2147483648 does not fit i32, which goes from -2147483648 to 2147483647"


def _kernel(lines: str, of: str, to: str = "f32") -> Kernel:
    body = "".join(f"    {line}\n" for line in lines.split("; "))
    return kernel.from_source(f"def k(i: Index, x: In[{of}], o: Out[{to}]):\n    v = x[i]\n{body}", NAMES, "k")


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
def test_numbers_are_what_annotations_say_where_that_holds_them(lines: str, of: str, to: str, expected: list[float]) -> None:
    run, x = _kernel(lines, of, to), X.astype(np.int32).astype(TYPES[of]) if of != "f32" else X
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
def test_what_an_annotation_does_not_hold_is_refused(lines: str, of: str, problem: str, fix: str) -> None:
    with pytest.raises(KernelTypeError) as refused:
        _kernel(lines, of).program()
    whole_fix = f"convert: {fix}, or leave the annotation out" if "(...)" in fix else fix
    assert (refused.value.problem, refused.value.fix) == (problem, whole_fix)
