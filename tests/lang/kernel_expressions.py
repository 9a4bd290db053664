"""Random expressions of kernels, and random arrays for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from kernel_wide_expressions import WIDE, WideMaker

from vyre_driver.lang import types

if TYPE_CHECKING:
    import random

    from numpy.typing import NDArray

KINDS = ("i32", "u32", "f32", "bool")
NUMBERS = ("i32", "u32", "f32", "i32", "u32", "f32", *WIDE)
LOADED_AS = {"f16": "f32", "bf16": "f32", "i8": "i32", "u16": "i32"}
DTYPES = {name: getattr(types, name).dtype for name in ("i32", "u32", "f32", *WIDE, *LOADED_AS)}
_EDGES = (0, 1, -1, 2, 7, 31, 32, 255, -128, 0x7FFF_FFFF, -0x8000_0000)


@dataclass
class Scope:
    """The variables that have a value here, by their types; ``fixed`` are never assigned to."""

    variables: dict[str, str]
    fixed: set[str] = field(default_factory=set)
    loops: int = 0
    depth: int = 0
    is_uniform: bool = True
    in_function: str | None = None
    can_jump: bool = False
    is_unrolled: bool = False
    locals: dict[str, tuple[str, int]] = field(default_factory=dict)  # element and rank of arrays of the invocation's own

    def inner(self, **changes: bool | int) -> Scope:
        """Return the scope of a block inside."""
        values = {name: getattr(self, name) for name in ("loops", "is_uniform", "in_function", "can_jump", "is_unrolled")}
        found = Scope(dict(self.variables), set(self.fixed), depth=self.depth + 1, **{**values, **changes})
        found.locals = dict(self.locals)
        return found


class ExpressionMaker(WideMaker):
    """Makes expressions of a type, which read the variables and arrays that there are."""

    random: random.Random
    names: int
    places: list[str]
    functions: dict[str, tuple[list[str], str]]
    arrays: dict[str, tuple[str, int, str]]  # element, rank, access
    whole_grid: set[str]  # arrays that the grid goes over

    def fresh(self, prefix: str) -> str:
        """Return a name that is not used yet."""
        self.names += 1
        return f"{prefix}{self.names}"

    def pick(self, *items: Any) -> Any:  # noqa: ANN401 -- whatever they are
        """Return one of several."""
        return self.random.choice(items)

    def chance(self, part: float) -> bool:
        """Return whether something that happens in this part of all cases does."""
        return self.random.random() < part

    def literal(self, kind: str) -> str:
        """Return a constant that fits a type."""
        if kind == "bool":
            return self.pick("True", "False")
        if kind in WIDE:
            return self.wide_literal(kind)
        if kind == "f32":
            return self.pick("0.0", "1.0", "0.5", "2.5", "-1.25", "3", "1e-3", "100.0", "0.1", "-0.3")
        if kind == "u32":
            return self.pick("0", "1", "2", "3", "5", "8", "31", "255", "4294967295", "2147483648")
        value = self.pick(*_EDGES, *range(-4, 10))
        return f"{value}" if value >= 0 else f"({value})"

    def expression(self, kind: str, scope: Scope, depth: int = 3) -> str:
        """Return an expression of a type, which reads what has a value."""
        if depth <= 0 or self.chance(0.2):
            return self.leaf(kind, scope)
        makers = {"bool": self.condition, "f32": self.float_expression, "i32": self.whole, "u32": self.whole}
        makers |= {"i64": self.wide_whole, "u64": self.wide_whole, "f64": self.wide_float}
        if self.chance(0.12):
            return self.common(kind, scope, depth - 1)
        return makers[kind](kind, scope, depth - 1)

    def leaf(self, kind: str, scope: Scope) -> str:
        """Return a variable, a number that is loaded, or a cast of a constant."""
        known = [name for name, of in scope.variables.items() if of == kind]
        if known and self.chance(0.7):
            return self.random.choice(known)
        loaded = [
            name
            for name, (element, _, access) in self.arrays.items()
            if LOADED_AS.get(element, element) == kind and access in {"In", "InOut"}
        ]
        own = [name for name, (element, _) in scope.locals.items() if LOADED_AS.get(element, element) == kind]
        if own and self.chance(0.3):
            return self.own_element(self.random.choice(own), scope)
        if loaded and self.chance(0.5):
            return self.element(self.random.choice(loaded), scope)
        return f"{kind}({self.literal(kind)})"

    def element(self, array: str, scope: Scope) -> str:
        """Return a subscript of an array, which may be out of range."""
        rank = self.arrays[array][1]
        if array in self.whole_grid and scope.in_function is None and self.chance(0.6):
            return f"{array}[{', '.join(self.places)}]"
        # A bare index would make the kernel go over this array.
        return f"{array}[{', '.join(self.expression('i32', scope, 1) + ' ^ 0' for _ in range(rank))}]"

    def own_element(self, array: str, scope: Scope) -> str:
        """Return a subscript of an array of the invocation's own, which may be out of range."""
        rank = scope.locals[array][1]
        known = [name for name, of in scope.variables.items() if of in {"i32", "i64", "u32"}] or ["1"]
        places = [self.pick("0", "1", "2", self.pick(*known) + self.pick("", " % 4", " & 1")) for _ in range(rank)]
        return f"{array}[{', '.join(places)}]"

    def common(self, kind: str, scope: Scope, depth: int) -> str:
        """Return what is made of any type: a choice, an extreme, a call."""
        one, other = self.expression(kind, scope, depth), self.expression(kind, scope, depth)
        test = self.expression("bool", scope, depth)
        callees = [name for name, (_, gives) in self.functions.items() if gives == kind]
        if callees and self.chance(0.5) and scope.in_function is None:
            return self.call(self.random.choice(callees), scope, depth)
        if kind != "bool" and self.chance(0.4):
            return f"{self.pick('min', 'max', 'np.minimum', 'np.maximum', 'np.fmin', 'np.fmax')}({one}, {other})"
        if self.chance(0.2):
            return f"{self.pick('select', 'np.where')}({test}, {one}, {other})"
        if kind != "bool" and self.chance(0.4):
            one = self.literal(kind)
        return f"({one} if {test} else {other})"

    def call(self, name: str, scope: Scope, depth: int) -> str:
        takes, _ = self.functions[name]
        return f"{name}({', '.join(self.expression(one, scope, depth) for one in takes)})"

    def condition(self, _: str, scope: Scope, depth: int) -> str:
        """Return a condition."""
        kind = self.pick("i32", "i32", "u32", "f32", "i32", "u32", *WIDE)
        one, other, third = (self.expression(kind, scope, depth) for _ in range(3))
        sign, further = self.pick("<", "<=", ">", ">=", "==", "!="), self.pick("<", "<=", ">", ">=")
        match self.random.randrange(8):
            case 0:
                return f"({one} {sign} {other} {further} {third})"
            case 1:
                return f"(not {self.expression('bool', scope, depth)})"
            case 2 | 3:
                parts = [self.expression("bool", scope, depth) for _ in range(2)]
                return f"({parts[0]} {self.pick('and', 'or')} {parts[1]})"
            case 4:
                parts = [self.expression("bool", scope, depth) for _ in range(2)]
                return f"({parts[0]} {self.pick('&', '|', '^')} {parts[1]})"
            case 5:
                return f"({one} {sign} {self.literal(kind)})"
            case 6:
                return f"({one} {self.pick('in', 'not in')} ({other}, {self.literal(kind)}, {third}))"
        return f"({one} {sign} {other})"

    def float_expression(self, _: str, scope: Scope, depth: int) -> str:  # noqa: C901 -- one line for each form
        """Return an f32."""
        one, other = self.expression("f32", scope, depth), self.expression("f32", scope, depth)
        whole = self.expression(self.pick("i32", "u32"), scope, depth)
        if self.chance(0.08):
            source = self.pick("f64", "i64", "u64", "f16", "bf16")
            name = source if source not in WIDE else "f32"
            return f"{name}({self.expression(source if source in WIDE else 'f32', scope, depth)})"
        match self.random.randrange(12):
            case 0:
                return f"abs({one})"
            case 1:
                return f"math.sqrt({one})"
            case 2:
                return f"(-{one})"
            case 3:
                return f"({one} {self.pick('+', '-', '*')} {whole})"
            case 4:
                return f"({whole} / {self.expression(self.pick('i32', 'u32'), scope, depth)})"
            case 5:
                return f"f32({whole})"
            case 6:
                return f"({one} {self.pick('+', '-', '*', '/')} {self.literal('f32')})"
            case 7:
                return f"({self.literal('f32')} {self.pick('+', '-', '*', '/')} {one})"
            case 8:
                return f"({one} {self.pick('//', '%', '** 2 +', '** 3 -', '** -1 *')} {other})"
            case 9:
                return f"{self.pick('np.floor', 'np.ceil', 'np.trunc')}({one})"
        return f"({one} {self.pick('+', '-', '*', '/')} {other})"

    def whole(self, kind: str, scope: Scope, depth: int) -> str:  # noqa: C901 -- one line for each form
        """Return an i32 or a u32."""
        one, other = self.expression(kind, scope, depth), self.expression(kind, scope, depth)
        sign = self.pick("+", "-", "*", "//", "%", "&", "|", "^", "+", "-")
        match self.random.randrange(14):
            case 0:
                return f"({one} {self.pick('<<', '>>')} {self.pick(0, 1, 4, 31)})"
            case 1:
                return f"({one} {self.pick('<<', '>>')} {self.expression(self.pick('i32', 'u32'), scope, depth)})"
            case 2:
                return f"(~{one})"
            case 3:
                return f"(-{one})"
            case 4 | 5:
                return f"({one} {sign} {self.literal(kind)})"
            case 6:
                return f"({self.literal(kind)} {sign} {one})"
            case 7:
                source = self.pick("i32", "u32", "f32", "bool", *WIDE)
                cast = f"bitcast({kind}, " if source == "f32" and self.chance(0.5) else f"{kind}("
                return f"{cast}{self.expression(source, scope, depth)})"
            case 8:
                return f"{self.pick('cdiv', 'trunc_div', 'trunc_rem')}({one}, {other})"
            case 9:
                return self.special(kind, scope, depth)
            case 10:
                return f"({one} ** {self.pick(0, 1, 2, 3, 5)})"
        return f"({one} {sign} {other})"

    def special(self, kind: str, scope: Scope, depth: int) -> str:
        """Return a function that gives a whole number."""
        inner = self.expression(kind, scope, depth)
        if kind == "u32":
            return f"{self.pick('rotl', 'rotr')}({inner}, {self.expression('i32', scope, depth)})"
        if self.chance(0.3):
            return f"{self.pick('math.floor', 'math.ceil', 'int')}({self.expression('f32', scope, depth)})"
        if self.chance(0.15):
            return f"{self.pick('popcount', 'clz', 'ctz')}({self.expression(self.pick('i64', 'u64'), scope, depth)})"
        if self.chance(0.3):
            more = self.pick("", f" * {inner}", " - 3", f" + {self.literal('bool')}")
            return f"({self.expression('bool', scope, depth)} + {self.expression('bool', scope, depth)}{more})"
        return f"{self.pick('abs', 'popcount', 'clz', 'ctz')}({inner})"


def random_array(draw: np.random.Generator, element: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return numbers of a type, of which many are small and some are at its edges."""
    dtype = DTYPES[element]
    if LOADED_AS.get(element, element)[0] == "f":
        found = draw.choice(np.array([0, -0.0, 1, -1, 0.5, 3.25, -7.5, 1e4, 1e-4, 16384], np.float32), shape)
        return np.where(draw.random(shape) < 0.5, found, draw.normal(0, 10, shape)).astype(dtype)
    wide = np.iinfo(DTYPES[element])
    small = draw.integers(-9 if element[0] == "i" else 0, 20, shape).astype(dtype)
    edges = draw.choice(np.array([wide.min, wide.max, wide.max - 1, wide.min + 1], dtype), shape)
    any_of = draw.integers(wide.min, wide.max, shape, dtype, endpoint=True)
    which = draw.random(shape)
    return np.where(which < 0.6, small, np.where(which < 0.8, edges, any_of))
