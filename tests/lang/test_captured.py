"""What kernels take from outside: changed between calls, of every kind, and what of it is refused."""

from __future__ import annotations

import enum
import math
import types
from collections import namedtuple
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import KernelNameError, KernelSourceError, KernelTypeError
from vyre_driver.lang import In, Index, Kernel, Out, f32, function, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

UNIMPORTED = "def k(i: Index, x: In[f32], y: Out[f32]):\n    y[i] = {}\n"


class Point(NamedTuple):
    x: int
    y: float = 2.0

    def total(self) -> float:
        return self.x + self.y

    @property
    def tenfold(self) -> int:
        return self.x * 10

    @staticmethod
    def next(value: int) -> int:
        return value + 1

    @classmethod
    def at(cls, value: int) -> Point:
        return cls(value, 1.0)


@dataclass(frozen=True)
class Box:
    side: int
    sides = 4

    def area(self) -> int:
        return self.side * self.side

    def scaled(self, by: int) -> Box:
        return Box(self.side * by)

    def __add__(self, other: Box) -> Box:
        return Box(self.side + other.side)


@dataclass(frozen=True)
class Doubled:
    a: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", self.a * 2)


@dataclass(frozen=True)
class WithFactory:
    a: tuple[int, ...] = field(default_factory=tuple)


@dataclass
class Changing:
    a: int = 1


class Shifted(Point):
    def __new__(cls, x: int) -> Shifted:
        return super().__new__(cls, x + 1, 0.0)


class Settings:
    count = 3


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 5


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 -- the untyped one


def _kernel(expression: str, **names: object) -> Kernel:
    return kernel.from_source(f"def k(i: Index, x: InOut[f32]):\n    x[i] = {expression}\n", names)


def _value(made: Kernel) -> float:
    """Return what a call gives; the second one is the warm one, which looks at what was captured alone."""
    array = np.zeros(1, np.float32)
    return float(made(array)[0])


def _one(x: float) -> float:
    return x + 1


def _two(x: float) -> float:
    return x + 2


@pytest.mark.device
@pytest.mark.parametrize(
    ("expression", "before", "after", "results"),
    [
        ("N", 3, 4, (3, 4)),
        ("math.copysign(1.0, N)", 0.0, -0.0, (1, -1)),
        ("math.copysign(1.0, N[1][0])", (1, (0.0,)), (1, (-0.0,)), (1, -1)),
        ("1 if N is True else 2", True, 1, (1, 2)),
        ("1 if N == N else 2", math.nan, 1.0, (2, 1)),
        ("N", np.float32(3), np.float32(5), (3, 5)),
        ("N(1)", _one, _two, (2, 3)),
        ("N(1)", function(_one), _two, (2, 3)),
        ("N.side", Box(1), Box(2), (1, 2)),
        ("N.x + N[1]", Point(1), Point(1, 5.0), (3, 6)),
        ("1 if N is Colour.RED else 2", Colour.RED, Colour.BLUE, (1, 2)),
    ],
)
def test_a_global_that_changes_between_calls_counts(
    expression: str, before: object, after: object, results: tuple[float, float]
) -> None:
    made = _kernel(expression, N=before, math=math, Colour=Colour)
    first = [_value(made), _value(made)]
    made.function.__globals__["N"] = after
    assert [*first, _value(made), _value(made)] == [results[0]] * 2 + [results[1]] * 2
    made.function.__globals__["N"] = before
    assert _value(made) == results[0]


@pytest.mark.device
def test_attributes_of_modules_and_classes_methods_and_codes_are_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("settings")
    vars(module)["count"] = 3

    def helper(x: float, more: float = 1) -> float:
        return x + more

    made = {
        "module": _kernel("m.count", m=module),
        "class": _kernel("Settings.count", Settings=Settings),
        "method": _kernel("box.area()", box=Box(3)),
        "property": _kernel("p.tenfold", p=Point(3)),
        "default": _kernel("helper(1)", helper=helper),
        "builtin": _kernel("abs(-3)"),
    }
    assert {name: (_value(one), _value(one)) for name, one in made.items()} == {
        "module": (3, 3),
        "class": (3, 3),
        "method": (9, 9),
        "property": (30, 30),
        "default": (2, 2),
        "builtin": (3, 3),
    }
    monkeypatch.setattr(module, "count", 4)
    monkeypatch.setattr(Settings, "count", 5)
    monkeypatch.setattr(Box, "area", lambda self: self.side + 4)
    monkeypatch.setattr(Point, "tenfold", property(lambda self: self.x + 5))
    helper.__defaults__ = (7,)
    made["builtin"].function.__globals__["abs"] = _one  # a name of the module hides the builtin from now on
    assert {name: _value(one) for name, one in made.items()} == {
        "module": 4,
        "class": 5,
        "method": 7,
        "property": 8,
        "default": 8,
        "builtin": -2,
    }
    helper.__code__, helper.__defaults__ = _two.__code__, None  # as a reloader does
    assert _value(made["default"]) == 3


def _number(base: type, **methods: object) -> object:
    """Return a number, or a member of an enumeration, of a class with these methods."""
    if issubclass(base, enum.Enum):
        made = types.new_class("Own", (base,), exec_body=lambda body: body.update({**methods, "A": 1}))
        return made.A  # type: ignore[attr-defined] # its member
    return type("Own", (base,), methods)(1)


def _hundred(*_given: object) -> int:
    return 100


@pytest.mark.parametrize("base", [enum.IntEnum, enum.IntFlag, int, float])
@pytest.mark.parametrize("method", ["__add__", "__rmul__", "__int__", "__float__", "__bool__", "__lt__", "__eq__", "__neg__"])
def test_a_number_whose_class_computes_another_way_is_refused(base: type, method: str) -> None:
    more = {"__hash__": base.__hash__} if method == "__eq__" else {}
    number = _number(base, **{method: _hundred, **more})
    with pytest.raises(KernelTypeError) as refused:
        _kernel("x[i] + n", n=number).program()
    fix = "n = n.value" if issubclass(base, enum.Enum) else f"n = {base.__name__}(n)"
    assert (refused.value.problem, refused.value.fix) == (
        f"'n' is an Own, which has {method} of its own, which kernels do not run",
        f"take the plain number out of it before the kernel: {fix}",
    )


@pytest.mark.device
@pytest.mark.parametrize("base", [enum.IntEnum, enum.IntFlag, int, float])
def test_a_number_whose_class_only_shows_it_another_way_is_the_number(base: type) -> None:
    number = _number(base, __str__=_one, __repr__=_one, twice=_two)
    assert _value(_kernel("n + 2", n=number)) == 3.0


@pytest.mark.device
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("point.total() + point.tenfold + point.next(2) + point.at(5).y", 5 + 30 + 3 + 1),
        ("Point.next(1) + Point.at(7).x + Point(i, 4.0).y", 2 + 7 + 4),
        ("box.scaled(2).area() + box.sides + Box.sides", 36 + 8),
        ("len(point) + (3 if point == (3, 2.0) else 0) + Pair(1, b=2).b", 7),
        ("Level.LOW + Colour.BLUE.value", 7),
        ("nested[1][0] + nested[-1][1].side", 2 + 9),
    ],
)
def test_records_enumerations_and_tuples_are_as_in_python(expression: str, expected: float) -> None:
    names: dict[str, Any] = {"Point": Point, "Box": Box, "Pair": Pair, "Level": Level, "Colour": Colour}
    names |= {"point": Point(3), "box": Box(3), "nested": (1, (2, Box(9)))}
    assert eval(expression, {**names, "i": 0}) == expected  # noqa: S307 -- an expression of this test
    assert _value(_kernel(expression, **names)) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("box + box", "'+' of a Box, which is not that of a tuple"),
        ("box[0]", "an item of a Box, which is not that of a tuple"),
        ("len(box)", "the length of a Box, which is not that of a tuple"),
        ("1 if box == box else 0", "'==' of a Box, which is not that of a tuple"),
        ("1 if box else 0", "the truth of a Box, which is not that of a tuple"),
        ("Doubled(1).a", "a Doubled is made with __post_init__ of its own, which kernels do not run"),
        ("Shifted(1).x", "a Shifted is made with __new__ of its own, which kernels do not run"),
        ("WithFactory().a[0]", "WithFactory.a is a field with default_factory, which kernels do not make"),
        ("changing.a", "'changing' is a Changing, which may change after the kernel is compiled"),
        ("Changing(1).a", "Changing may change, and values of kernels do not"),
        ("N[0]", "'N' is a list, which may change after the kernel is compiled"),
        ("M['a']", "'M' is a dict, which may change after the kernel is compiled"),
        ("A[0]", "'A' is an array of the host, captured from outside"),
        ("settings.count", "settings.count is of an object that may change after the kernel is compiled"),
    ],
)
def test_what_would_not_be_as_in_python_is_refused(expression: str, problem: str) -> None:
    names: dict[str, Any] = {"box": Box(3), "Doubled": Doubled, "Shifted": Shifted, "WithFactory": WithFactory}
    names |= {"changing": Changing(), "Changing": Changing, "N": [1], "M": {"a": 1}, "A": np.arange(3), "settings": Settings()}
    assert refusal(lambda: _kernel(expression, **names).program(), KernelTypeError).problem == problem


def test_records_of_two_classes_are_not_merged() -> None:
    text = "def k(i: Index, x: InOut[f32]):\n    r = Box(1)\n    if x[i] > 0.0:\n        r = Doubled_(2)\n    x[i] = r.area()\n"

    @dataclass(frozen=True)
    class Other:
        side: int

        def area(self) -> int:
            return -self.side

    with pytest.raises(KernelSourceError, match="the sides of the if in line 3 make different things of it"):
        kernel.from_source(text, {"Box": Box, "Doubled_": Other}).program()


def lacks_cdiv(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] * cdiv(i, 2)  # type: ignore[name-defined]  # noqa: F821 -- what is asked


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (lambda: kernel(lacks_cdiv), "from vyre_driver.lang import cdiv"),
        (lambda: kernel.from_source(UNIMPORTED.format("math.sqrt(x[i])"), {"form": 1}), "import math"),
        (lambda: kernel.from_source(UNIMPORTED.format("np.sqrt(x[i])"), {"n": 1}), "import numpy as np"),
    ],
)
def test_a_name_that_was_not_imported_is_told_with_its_import(made: Callable[[], Kernel], line: str) -> None:
    assert refusal(lambda: made().program(), KernelNameError).fix == f"import it in the module of the function: {line}"
