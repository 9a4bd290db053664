"""Records in kernels: used as Python does by the three ways of running, or refused by what their class does itself."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections import namedtuple
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pytest
from refusals import refusal

from vyre_driver.errors import KernelNameError, KernelTypeError
from vyre_driver.lang import Kernel, kernel

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: float = 2.0
    sides: ClassVar[int] = 3

    def doubled(self) -> Point:
        return Point(self.x * 2, self.y)

    @property
    def third(self) -> float:
        return int(self.x) / 3

    @functools.cached_property
    def hundredfold(self) -> float:
        return self.x * 100

    @classmethod
    def at(cls, x: float) -> Point:
        return cls(x, 1.0)


@dataclasses.dataclass(frozen=True)
class Line:
    begin: Point
    end: Point

    def length(self) -> float:
        return self.end.x - self.begin.x


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Whose parameters stand in another order than its fields."""

    named: float = dataclasses.field(kw_only=True)
    first: float


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted(Generic[T]):
    value: T

    def more(self) -> Slotted[T]:
        return Slotted(self.value + 1)  # type: ignore[operator] # a number


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


@dataclasses.dataclass(frozen=True)
class Square(Shape):
    side: float

    def area(self) -> float:
        return self.side * self.side


class Pair(NamedTuple):
    a: float
    b: float = 1.0

    def next(self) -> Pair:
        return Pair(self.a + 1, b=self.b)


class Computed(Pair):
    """Whose field is hidden by a property."""

    @property
    def a(self) -> float:
        return self[0] * 2


class Renamed(Pair):
    first = Pair.b


@dataclasses.dataclass(frozen=True)
class Degrees:
    angle: float

    def __init__(self, angle: float) -> None:
        object.__setattr__(self, "angle", angle * 0.5)

    def twice(self) -> float:
        return self.angle * 2


MIXED, DEGREES, COMPUTED = Mixed(3.0, named=4.0), Degrees(8.0), Computed(3.0, 4.0)


def point(v: float) -> Point:
    return Point(v)


def two_points(v: float) -> tuple[Point, Point]:
    return Point(v), Point(v + 1, v)


def one_of_two(v: float) -> Point:
    if v > 1.0:
        return Point(v, 5.0)
    return Point(0.0, 7.0)


def line(v: float) -> Line:
    return Line(Point(v), Point(y=v, x=1.0))


def mixed(v: float) -> Mixed:
    if v > 1:
        return Mixed(v, named=10.0)
    return MIXED


def degrees() -> Degrees:
    return DEGREES


def degrees_or_more(v: float) -> tuple[Degrees, float]:
    return DEGREES, v


NAMES = {name: value for name, value in globals().items() if not name.startswith("__")}


def _kernel(expression: str, names: dict[str, Any]) -> Kernel:
    return kernel.from_source(f"def k(i: Index, x: In[f32], o: Out[f32]):\n    v = x[i]\n    o[i] = {expression}\n", names)


@pytest.mark.device
@pytest.mark.parametrize(
    "expression",
    [
        "point(v).x",
        "point(v).doubled().doubled().x",
        "Point(v).doubled().third",
        "Point(v).hundredfold + Point(v).hundredfold",
        "two_points(v)[1].y",
        "one_of_two(v).x + one_of_two(v).y",
        "line(v).end.y + line(v).length()",
        "mixed(v).named + mixed(v).first * 2",
        "Slotted(v).more().value",
        "Square(v).area()",
        "Pair(v).next().next().a + Pair(v)[1]",
        "Computed(v, 2.0).a - Computed(v, 2.0)[0] + COMPUTED.a",
        "Renamed(v, 7.0).first",
        "degrees().angle + DEGREES.twice()",
        "degrees_or_more(v)[0].angle + degrees_or_more(v)[1]",
        "Point.at(v).y + Point.sides + max(Pair(v, 2.0))",
        "x[Pair(0, 1)[0]]",
    ],
)
def test_the_three_ways_of_running_do_with_records_as_python_does(expression: str) -> None:
    made, x = _kernel(expression, NAMES), np.array([0.0, 1.5, 3.0], np.float32)
    expected = [float(np.float32(eval(expression, {**NAMES, "v": float(v), "x": x}))) for v in x]  # noqa: S307 -- of this test
    assert [how(x).tolist() for how in (made, made.interpret, made.python)] == [expected] * 3


class Counted(type):
    def __call__(cls, x: float) -> Any:  # noqa: ANN401 -- an instance
        return super().__call__(x + 1.0)


@dataclasses.dataclass(frozen=True, order=True)
class Ordered:
    a: float
    b: float = dataclasses.field(default=2.0, init=False)


@dataclasses.dataclass(frozen=True)
class Filled:
    a: float
    b: tuple[float, ...] = dataclasses.field(default_factory=tuple)


ORDERED = Ordered(1.0)


class Sub(Point):
    def __init__(self, x: float) -> None:
        super().__init__(x * 3)


class WithNew(Point):
    def __new__(cls, x: float) -> WithNew:
        del x
        return super().__new__(cls)


@dataclasses.dataclass(frozen=True)
class Metaclassed(metaclass=Counted):
    x: float


@dataclasses.dataclass(frozen=True)
class LooksItself:
    x: float

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 -- what object has
        return object.__getattribute__(self, name)


class PairLooksItself(Pair):
    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 -- what object has
        return object.__getattribute__(self, name)


@dataclasses.dataclass(frozen=True)
class Signed:
    """Whose signature is not that of its ``__init__``."""

    x: float
    y: float


Signed.__signature__ = "not looked at"  # type: ignore[attr-defined] # a trick


@dataclasses.dataclass(frozen=True)
class Initial:
    x: float
    scale: dataclasses.InitVar[float] = 2.0


class Hidden(Point):
    @property
    def x(self) -> float:  # type: ignore[override] # it hides the field
        return 5.0


class PairNew(Pair):
    _fields = ("a", "b")

    def __new__(cls, a: float, b: float = 1.0) -> PairNew:
        return tuple.__new__(cls, (a * 2, b))


class PairInit(Pair):
    def __init__(self, *_: float) -> None:
        pass


class Items(Pair):
    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 -- an index or a slice
        return 42.0

    def __iter__(self) -> Any:  # noqa: ANN401 -- an iterator
        return iter((1.0, 1.0))

    def __radd__(self, other: Any) -> Any:  # noqa: ANN401 -- a tuple
        return (0.0,)


class Missing(Pair):
    def __getattr__(self, name: str) -> float:
        return 3.0


class Partial(Pair):
    plus = functools.partialmethod(Pair.next)


Made = namedtuple("Made", "a b")  # noqa: PYI024 -- the untyped one
Made.__new__ = lambda cls, a, b: tuple.__new__(cls, (b, a))  # type: ignore[method-assign, assignment] # a trick


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("Degrees(v).angle", "a Degrees is made with __init__ of its own, which kernels do not run"),
        ("Sub(v).x", "a Sub is made with __init__ of its own, which kernels do not run"),
        ("WithNew(v).x", "a WithNew is made with __new__ of its own, which kernels do not run"),
        ("Metaclassed(v).x", "a Metaclassed is made with Counted.__call__ of its own, which kernels do not run"),
        ("Initial(v, 3.0).x", "an Initial is made with InitVar(scale) of its own, which kernels do not run"),
        ("Ordered(v).b", "Ordered.b is a field with init=False, which kernels do not make"),
        ("Filled(v).a", "Filled.b is a field with default_factory, which kernels do not make"),
        ("1.0 if ORDERED < ORDERED else 0.0", "'<' of an Ordered and an Ordered"),
        ("1.0 if Point(v) >= v else 0.0", "'>=' of a Point and f32"),
        ("ORDERED + v", "a number is wanted here, and this is an Ordered"),
        ("Point(v)", "'o' holds f32, and is given a Point"),
        ("PairInit(v).a", "a PairInit is made with __init__ of its own, which kernels do not run"),
        ("PairNew(v).a", "a PairNew is made with __new__ of its own, which kernels do not run"),
        ("Made(v, 1.0).a", "a Made is made with __new__ of its own, which kernels do not run"),
        ("LooksItself(v).x", "LooksItself has a __getattribute__ of its own, which kernels do not run"),
        ("PairLooksItself(v).a", "PairLooksItself has a __getattribute__ of its own, which kernels do not run"),
        ("pair.a", "PairLooksItself has a __getattribute__ of its own, which kernels do not run"),
        ("Hidden(v).x", "Hidden.x is a property, which Python takes instead of the field"),
        ("Items(v)[0]", "an item of an Items, which is not that of a tuple"),
        ("Items(v)[0:1][0]", "a slice of an Items, which is not that of a tuple"),
        ("Pair(*Items(v)).a", "spreading of an Items, which is not that of a tuple"),
        ("max(Items(v))", "the max of an Items, which is not that of a tuple"),
        ("((v,) + Items(v))[0]", "'+' of an Items, which is not that of a tuple"),
        ("x[point]", "an index of 'x' of a Point, which is not that of a tuple"),
        ("Missing(v).other", "'other' of a Missing comes from its __getattr__, which kernels do not run"),
        ("Partial(v).plus().a", "Partial.plus is a partialmethod, which kernels do not run"),
    ],
)
def test_what_a_class_does_itself_is_refused_by_its_name(expression: str, problem: str) -> None:
    names = {**NAMES, **globals(), "pair": PairLooksItself(1.0), "point": Point(0.0)}
    assert refusal(lambda: _kernel(expression, names).program(), (KernelTypeError, KernelNameError)).problem == problem


@pytest.mark.device
def test_a_signature_that_a_class_only_shows_binds_nothing() -> None:
    made = _kernel("Signed(y=v, x=1.0).y", {"Signed": Signed})
    assert made(np.arange(3, dtype=np.float32)).tolist() == [0.0, 1.0, 2.0]
