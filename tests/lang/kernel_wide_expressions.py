"""Random expressions of 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_expressions import Scope

WIDE = ("i64", "u64", "f64")
_LITERALS = {
    "i64": ("0", "1", "(-1)", "3", "7", "(-9)", "1099511627776", "4294967295", "9223372036854775807", "(-9223372036854775808)"),
    "u64": ("0", "1", "2", "5", "31", "4294967296", "18446744073709551615", "9223372036854775808"),
    "f64": ("0.0", "1.0", "0.1", "-2.5", "3", "1e300", "1e-3", "0.5"),
}


class WideMaker:
    """Makes expressions of i64, u64 and f64."""

    if TYPE_CHECKING:

        def pick(self, *items: Any) -> Any: ...  # noqa: ANN401 -- whatever they are

        def chance(self, part: float) -> bool: ...

        def expression(self, kind: str, scope: Scope, depth: int = 3) -> str: ...

        def literal(self, kind: str) -> str: ...

    def wide_literal(self, kind: str) -> str:
        """Return a constant that fits a type."""
        return str(self.pick(*_LITERALS[kind]))

    def wide_float(self, _: str, scope: Scope, depth: int) -> str:
        """Return an f64."""
        one, other = self.expression("f64", scope, depth), self.expression("f64", scope, depth)
        match self.pick(*range(9)):
            case 0:
                return f"{self.pick('abs', 'math.sqrt', 'np.floor', 'np.ceil', 'np.trunc')}({one})"
            case 1:
                return f"(-{one})"
            case 2:
                return f"f64({self.expression(self.pick('i32', 'u32', 'i64', 'u64', 'f32', 'bool'), scope, depth)})"
            case 3:
                return (
                    f"({one} {self.pick('+', '-', '*', '/')} {self.expression(self.pick('i32', 'u32', 'f32'), scope, depth)})"
                )
            case 4:
                return f"({self.expression('i64', scope, depth)} / {self.expression(self.pick('i64', 'i32'), scope, depth)})"
            case 5:
                return f"({one} {self.pick('+', '-', '*', '/')} {self.literal('f64')})"
            case 6:
                return f"({one} {self.pick('** 2 +', '** -1 *', '** 0.5 -')} {other})"
        return f"({one} {self.pick('+', '-', '*', '/')} {other})"

    def wide_whole(self, kind: str, scope: Scope, depth: int) -> str:  # noqa: C901 -- one line for each form
        """Return an i64 or a u64."""
        one, other = self.expression(kind, scope, depth), self.expression(kind, scope, depth)
        sign = self.pick("+", "-", "*", "//", "%", "&", "|", "^", "+", "-")
        narrow = self.expression(self.pick("i32", "u32") if kind == "i64" else "u32", scope, depth)
        match self.pick(*range(14)):
            case 0:
                return f"({one} {self.pick('<<', '>>')} {self.pick(0, 1, 33, 63)})"
            case 1:
                count = self.expression(self.pick("i32", "u32", "i64"), scope, depth)
                return f"({one} {self.pick('<<', '>>')} {count})"
            case 2:
                return f"(~{one})"
            case 3:
                return f"(-{one})"
            case 4 | 5:
                return f"({one} {sign} {self.literal(kind)})"
            case 6:
                return f"({self.literal(kind)} {sign} {one})"
            case 7:
                source = self.pick("i32", "u32", "f32", "f64", "bool", "u64" if kind == "i64" else "i64")
                return f"{kind}({self.expression(source, scope, depth)})"
            case 8:
                return f"{self.pick('cdiv', 'trunc_div', 'trunc_rem')}({one}, {other})"
            case 9:
                return f"{self.pick('rotl', 'rotr')}({one}, {narrow})" if kind == "u64" else f"abs({one})"
            case 10:
                return f"({one} ** {self.pick(0, 1, 2, 3)})"
            case 11:
                return f"({narrow} {sign} {one})"
            case 12:
                return f"bitcast({kind}, {self.expression(self.pick('f64', 'u64', 'i64'), scope, depth)})"
        return f"({one} {sign} {other})"
