"""Random kernels as text: of a seed always the same one, every value of it typed, so that the translation takes it.

They are here and not in ``vyre_driver.conformance``, which is shipped: backends are held to programs, which that makes, and
only the front end is held to these texts.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
from kernel_expressions import DTYPES, KINDS, LOADED_AS, NUMBERS, ExpressionMaker, Scope, random_array
from kernel_wide_expressions import WIDE

from vyre_driver.lang import types
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.builtins import own

NAMES: dict[str, Any] = {
    **{name: getattr(types, "bool_" if name == "bool" else name) for name in (*KINDS, *WIDE)},
    **{
        name: getattr(types, name)
        for name in ("bool_", "In", "Out", "InOut", "Index", "Group", "Const", "i8", "u8", "i16", "u16", "f16", "bf16")
    },
    **{name: getattr(module, name) for module in (intrinsics, own) for name in module.__all__},
    "math": __import__("math"),
    "np": np,
}


class KernelText(NamedTuple):
    """A kernel's text, and what to call it with: arrays and numbers by name, and how far it goes."""

    text: str
    arguments: dict[str, Any]
    grid: tuple[int, ...]


class _Maker(ExpressionMaker):
    """Makes one kernel."""

    def __init__(self, seed: int) -> None:
        """Begin with this seed."""
        self.random = random.Random(seed)  # noqa: S311 -- texts are no secrets
        self.axes = self.random.choice((1, 1, 1, 2, 2, 3))
        self.is_group = self.random.random() < 0.25
        if self.is_group:
            self.axes = self.random.choice((1, 1, 2))
        self.functions: dict[str, tuple[list[str], str]] = {}
        self.arrays: dict[str, tuple[str, int, str]] = {}  # element, rank, access
        self.shared: dict[str, tuple[str, int]] = {}
        self.lines: list[str] = []
        self.names = 0
        self.budget = 40

    # Statements

    def block(self, scope: Scope, indent: str, least: int = 1, most: int = 4) -> bool:
        """Write the statements of a block; returns whether it ends with a jump."""
        for _ in range(self.random.randint(least, most)):
            self.budget -= 1
            if self.statement(scope, indent):
                return True
        return False

    def put(self, indent: str, text: str) -> None:
        self.lines.append(indent + text)

    def statement(self, scope: Scope, indent: str) -> bool:
        """Write a statement; returns whether it leaves the block."""
        compound = scope.depth < 4 and self.budget > 0
        roll = self.random.random()
        if scope.can_jump and roll < 0.12 and scope.depth > 1:
            return self.jump(scope, indent)
        if compound and roll < 0.36:
            self.if_statement(scope, indent)
        elif compound and roll < 0.52 and scope.loops < 3:
            self.loop(scope, indent)
        elif roll < 0.55 and scope.depth < 3:
            self.local(scope, indent)
        elif roll < 0.58 and scope.locals:
            self.own_store(scope, indent)
        elif roll < 0.64 and self.stores():
            self.store(scope, indent)
        elif roll < 0.70:
            self.swap(scope, indent)
        else:
            self.assignment(scope, indent)
        return False

    def jump(self, scope: Scope, indent: str) -> bool:
        """Write a jump."""
        kinds = ["break", "continue", "break", "continue"] if scope.loops and not scope.is_unrolled else []
        if scope.in_function is not None or not self.is_group:
            kinds.append("return")
        if not kinds:
            self.assignment(scope, indent)
            return False
        kind = self.random.choice(kinds)
        if kind == "return" and scope.in_function is not None:
            self.put(indent, f"return {self.result(scope)}")
        else:
            self.put(indent, kind)
        return True

    def result(self, scope: Scope) -> str:
        kind = str(scope.in_function)
        return (
            self.literal(kind) if self.chance(0.2) and kind != "bool" and "e" not in kind else self.expression(kind, scope, 2)
        )

    def if_statement(self, scope: Scope, indent: str) -> None:
        """Write an ``if``, with what both sides give a value known behind it."""
        inner = {"can_jump": scope.can_jump or scope.in_function is not None or not self.is_group, "is_uniform": False}
        if self.chance(0.3):
            self.joined(scope, indent, inner)
            return
        self.put(indent, f"if {self.expression('bool', scope, 2)}:")
        self.block(scope.inner(**inner), indent + "    ")
        while self.chance(0.25):
            self.put(indent, f"elif {self.expression('bool', scope, 2)}:")
            self.block(scope.inner(**inner), indent + "    ")
        if self.chance(0.5):
            self.put(indent, "else:")
            self.block(scope.inner(**inner), indent + "    ")

    def joined(self, scope: Scope, indent: str, inner: dict[str, bool]) -> None:
        """Write an ``if`` both sides of which give a new variable a value, or leave."""
        name, kind = self.fresh("v"), self.pick(*NUMBERS, "bool")
        is_typed = False
        for head in (f"if {self.expression('bool', scope, 2)}:", "else:"):
            self.put(indent, head)
            side = scope.inner(**inner)
            if self.block(side, indent + "    ", 1, 2):
                continue
            is_constant = kind in {"i32", "f32", "bool"} and self.chance(0.4)
            value = self.literal(kind) if is_constant else self.expression(kind, side, 2)
            is_typed = is_typed or not (is_constant and kind == "f32")
            self.put(indent + "    ", f"{name} = {value}")
        self.put(indent, f"{name} = {kind}({name})" if is_typed else "pass")
        if is_typed:
            scope.variables[name] = kind

    def loop(self, scope: Scope, indent: str) -> None:
        """Write a loop of few turns."""
        inner = scope.inner(loops=scope.loops + 1, can_jump=True, is_uniform=False, is_unrolled=False)
        if self.chance(0.35):
            counter = self.fresh("n")
            self.put(indent, f"{counter} = {self.pick('0', 'i32(0)')}")
            inner.fixed.add(counter)
            inner.variables[counter] = "i32"
            if self.chance(0.3):
                self.put(indent, "while True:")
                self.put(indent, f"    if {counter} >= {self.pick(2, 3, 5)}:")
                self.put(indent, "        break")
            else:
                extra = f" {self.pick('and', 'and')} {self.expression('bool', scope, 1)}" if self.chance(0.5) else ""
                self.put(indent, f"while {counter} < {self.pick(1, 2, 4)}{extra}:")
            self.put(indent + "    ", f"{counter} += 1")
            self.block(inner, indent + "    ")
            return
        name = self.fresh("k")
        if self.chance(0.2):
            over = self.pick("static_range(3)", "static_range(4, 0, -2)", "(1, 4, 2)", "(-3, 5)")
            self.put(indent, f"for {name} in {over}:")
            inner.is_unrolled = True
            inner.variables[f"{name}i"] = "i32"
            self.put(indent + "    ", f"{name}i = i32({name})")
            self.block(inner, indent + "    ", 1, 3)
            return
        self.put(indent, f"for {name} in {self.range(scope)}:")
        inner.variables[name] = "i32"
        self.block(inner, indent + "    ")

    def range(self, scope: Scope) -> str:
        """Return a range of few turns."""
        start = self.expression("i32", scope, 1)
        return self.pick(
            f"range({self.pick(0, 1, 3, 5)})",
            f"range({self.pick(-3, 0, 2)}, {self.pick(-1, 3, 5)})",
            f"range({self.pick(-4, 1)}, {self.pick(3, 7)}, {self.pick(2, 3)})",
            f"range({self.pick(5, 3)}, {self.pick(-3, 0, 1)}, {self.pick(-1, -2, -3)})",
            f"range(({start}) % 5)",
            f"range({start} % 3, {start} % 7)",
            f"range(({start}) % 7, ({self.expression('i32', scope, 1)}) % 3, {self.pick(-1, -2)})",
            f"range(({start}) % 4 - 3, ({self.expression('i32', scope, 1)}) % 6 - 1, {self.pick(1, 2)})",
        )

    def stores(self) -> list[str]:
        return [name for name, (_, __, access) in self.arrays.items() if access != "In"]

    def store(self, scope: Scope, indent: str) -> None:
        """Write to the own element of an array, or add to any with an atomic."""
        if scope.in_function is not None:
            return self.assignment(scope, indent)
        name = self.random.choice(self.stores())
        element, _, access = self.arrays[name]
        if access == "atomic":
            value = self.expression("u32", scope, 2)
            self.put(indent, f"{self.atomics[name]}({name}, {self.expression('i32', scope, 1)} ^ 0, {value})")
            return None
        own, element = f"{name}[{', '.join(self.places)}]", LOADED_AS.get(element, element)
        if access == "InOut " and self.chance(0.4):
            sign = self.pick("+", "-", "*") if element[0] == "f" else self.pick("+", "-", "*", "^", "//", "%", "|")
            self.put(indent, f"{own} {sign}= {self.expression(element, scope, 2)}")
        else:
            self.put(indent, f"{own} = {self.expression(element, scope, 3)}")
        return None

    def swap(self, scope: Scope, indent: str) -> None:
        """Assign several variables at once, each from what the others were."""
        kind = self.pick(*NUMBERS)
        names = [name for name, of in scope.variables.items() if of == kind and name not in scope.fixed]
        if len(names) < 2:
            return self.assignment(scope, indent)
        chosen = self.random.sample(names, self.pick(2, min(3, len(names))))
        values = chosen[1:] + chosen[:1] if self.chance(0.5) else [self.expression(kind, scope, 2) for _ in chosen]
        self.put(indent, f"{', '.join(chosen)} = {', '.join(values)}")
        return None

    def assignment(self, scope: Scope, indent: str) -> None:
        """Assign to a variable, a new one or one that there is."""
        names = [name for name in scope.variables if name not in scope.fixed]
        if not names or self.chance(0.2):
            kind = self.pick(*NUMBERS, "bool")
            name = self.fresh("v")
            form = self.pick("{0} = {1}", "{0} = {1}", "{0}: {2} = {1}")
            given = self.literal(kind) if self.chance(0.15) and kind in {"i32", "f32", *WIDE} and form[3] == ":" else None
            self.put(indent, form.format(name, given or self.expression(kind, scope), "bool_" if kind == "bool" else kind))
            scope.variables[name] = kind
            return
        name = self.random.choice(names)
        kind = scope.variables[name]
        if kind != "bool" and self.chance(0.35):
            sign = self.pick("+", "-", "*") if kind[0] == "f" else self.pick("+", "-", "*", "//", "%", "&", "|", "^")
            self.put(indent, f"{name} {sign}= {self.pick(self.literal(kind), self.expression(kind, scope, 2))}")
        elif self.chance(0.2):
            self.put(indent, f"{name} = {self.literal(kind)}")
        elif kind == "f32" and self.chance(0.1):
            self.put(indent, f"{name} = {self.expression('i32', scope, 2)}")
        else:
            self.put(indent, f"{name} = {self.expression(kind, scope)}")

    def local(self, scope: Scope, indent: str) -> None:
        """Make an array of the invocation's own."""
        name, element, rank = self.fresh("l"), self.pick(*NUMBERS, *LOADED_AS), self.pick(1, 1, 2)
        self.put(indent, f"{name} = local({element}, {self.pick('3', '4') if rank == 1 else '3, 2'})")
        scope.locals[name] = element, rank

    def own_store(self, scope: Scope, indent: str) -> None:
        """Write to an element of an array of the invocation's own."""
        name = self.random.choice(list(scope.locals))
        element = scope.locals[name][0]
        kind = LOADED_AS.get(element, element)
        sign = self.pick("=", "=", "+=", "-=", "*=")
        self.put(indent, f"{self.own_element(name, scope)} {sign} {self.expression(kind, scope, 2)}")

    # The kernel

    def function(self) -> None:
        """Write a function that the kernel calls, with several returns and perhaps a loop."""
        name = self.fresh("f")
        takes = [self.pick(*NUMBERS) for _ in range(self.random.randint(1, 3))]
        gives = self.pick(*NUMBERS, "bool")
        scope = Scope({f"p{at}": kind for at, kind in enumerate(takes)}, in_function=gives, can_jump=True)
        self.put("", f"def {name}({', '.join(scope.variables)}):")
        saved, self.budget = self.budget, 10
        self.block(scope, "    ", 1, 4)
        self.budget = saved
        self.put("    ", f"return {self.expression(gives, scope, 2)}")
        self.put("", "")
        self.functions[name] = (takes, gives)

    def made(self) -> KernelText:
        """Write the kernel."""
        indices = ["a", "b", "c"][: self.axes]
        self.places = indices
        counts = {1: (37,), 2: (5, 7), 3: (2, 3, 5)}[self.axes]
        grid: tuple[int, ...] = counts
        for _ in range(self.random.randrange(3)):
            self.function()
        leading = ", ".join(f"{name}: Index" for name in indices)
        if self.is_group:
            size = {1: (8,), 2: (4, 2)}[self.axes]
            grid = {1: (3,), 2: (2, 2)}[self.axes]
            counts = tuple(one * along for one, along in zip(size, grid, strict=True))
            leading = f"g: Group[{', '.join(map(str, size))}]"
        parameters, arguments = self.parameters(counts)
        self.put("", f"def kernel({leading}, {', '.join(parameters)}):")
        scope = Scope(dict.fromkeys(indices, "i32"))
        scope.fixed.update(indices)
        scope.variables.update(self.scalars)
        self.begin(scope)
        self.body(scope)
        for name, (element, _, access) in self.arrays.items():
            if access == "Out":
                kind = LOADED_AS.get(element, element)
                self.put("    ", f"{name}[{', '.join(indices)}] = {self.expression(kind, scope)}")
        for name in [one for one in ("o1",) if one in self.arrays]:
            mixed = " ^ ".join(f"u32({one})" for one, kind in scope.variables.items() if kind in {"i32", "u32", "i64", "u64"})
            self.put("    ", f"{name}[{', '.join(indices)}] ^= {mixed}")
        return KernelText("\n".join(self.lines) + "\n", arguments, grid)

    def begin(self, scope: Scope) -> None:
        """Write the first variables, from where a workgroup's invocations get what they are."""
        if self.is_group:
            locals_ = [f"t{name}" for name in self.places]
            self.put("    ", f"{', '.join(self.places)} = g.index")
            self.put("    ", f"{', '.join(locals_)} = g.local")
            scope.variables.update(dict.fromkeys(locals_, "i32"))
            scope.fixed.update(locals_)
        for kind in NUMBERS:
            name = self.fresh("v")
            self.put("    ", f"{name} = {self.expression(kind, scope, 2)}")
            scope.variables[name] = kind

    def body(self, scope: Scope) -> None:
        """Write what the kernel does; one of a workgroup hands numbers round between barriers."""
        if not self.is_group:
            self.block(scope, "    ", 4, 9)
            return
        size = 8
        self.put("    ", f"m = g.shared({self.pick('i32', 'u32')}, {size})")
        flat = "ta" if self.axes == 1 else "ta * 2 + tb"
        for _ in range(self.random.randint(1, 3)):
            self.block(scope, "    ", 1, 3)
            element = "i32" if "i32, 8" in "".join(line for line in self.lines if "g.shared" in line) else "u32"
            self.put("    ", f"m[{flat}] = {self.expression(element, scope)}")
            self.put("    ", "g.barrier()")
            name = self.fresh("v")
            self.put("    ", f"{name} = m[({flat} + {self.pick(1, 3, 7)}) % {self.pick(8, 8, 9)}]")
            scope.variables[name] = element
            self.put("    ", "g.barrier()")
        loop = self.fresh("k")
        if self.chance(0.5):
            self.put("    ", f"for {loop} in range({self.pick(2, 3)}):")
            self.put("        ", f"m[{flat}] += {element}({loop})")
            self.put("        ", "g.barrier()")
            self.put("        ", f"{name} ^= m[({flat} + {loop}) % 8]")
            self.put("        ", "g.barrier()")

    def parameters(self, counts: tuple[int, ...]) -> tuple[list[str], dict[str, Any]]:
        """Return the parameters of the kernel, and what they get."""
        draw = np.random.default_rng(self.random.randrange(1 << 30))
        parameters: list[str] = []
        arguments: dict[str, Any] = {}
        self.atomics: dict[str, str] = {}
        self.whole_grid: set[str] = set()
        declared = [("x1", "i32", "In"), ("x2", "u32", "In"), ("x3", "f32", "In"), ("o1", "u32", "InOut"), ("o2", "f32", "Out")]
        declared += [("x4", self.pick(*WIDE), "In"), ("x5", self.pick(*LOADED_AS), "In")]
        declared += [("o4", self.pick(*WIDE, *LOADED_AS), self.pick("Out", "InOut"))]
        declared += [("o3", self.pick("i32", "f32"), self.pick("Out", "InOut"))] if self.chance(0.6) else []
        for name, element, access in declared:
            rank = self.axes if access != "In" else self.pick(1, 2)
            is_whole = rank == self.axes and (access != "In" or self.chance(0.6))
            shape = counts if is_whole else {1: (41,), 2: (5, 6)}[rank]
            self.whole_grid |= {name} if is_whole else set()
            # Other invocations change it, so only the own element is read: never by an expression.
            self.arrays[name] = (element, rank, access if access != "InOut" else "InOut ")
            parameters.append(f"{name}: {access}[{element}, {rank}]")
            arguments[name] = random_array(draw, element, shape) if access != "Out" else np.zeros(shape, DTYPES[element])
        for name, (element, rank, access) in list(self.arrays.items()):
            self.arrays[name] = (element, rank, access.strip() if not access.endswith(" ") else "InOut ")
        if self.chance(0.4):
            self.arrays["h"] = ("u32", 1, "atomic")
            self.atomics["h"] = self.pick("atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor")
            parameters.append("h: InOut[u32]")
            arguments["h"] = random_array(draw, "u32", (6,))
        self.scalars = {"s1": "i32", "s2": "u32", "s3": "f32", "s4": self.pick(*WIDE)}
        for name, kind in self.scalars.items():
            parameters.append(f"{name}: {kind}")
            arguments[name] = random_array(draw, kind, (1,))[0]
        return parameters, arguments


def kernel_text(seed: int) -> KernelText:
    """Return the kernel of a seed."""
    return _Maker(seed).made()
