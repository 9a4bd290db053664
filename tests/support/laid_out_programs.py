"""Random programs that use arrays as if they had several axes, behind conditions some of which are missing or wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir import (
    BinOp,
    BufferDecl,
    DataType,
    Program,
    assign,
    binop,
    buf_len,
    if_,
    let,
    load,
    loop,
    maximum,
    minimum,
    select,
    store,
    u32,
    var,
)

if TYPE_CHECKING:
    from random import Random

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node

DATA, OUT = BufferDecl.read_write("data", 0, DataType.U32), BufferDecl.read_write("out", 1, DataType.U32)
PUSHED = ("i", "j", "k", "rows", "columns", "depth")
BUFFERS = [DATA, OUT, *(BufferDecl.push(name, 2 + at, DataType.U32) for at, name in enumerate(PUSHED))]
NOWHERE = 0xFFFF_FFFF
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 65535, 65536, 0x4000_0000, 0x7FFF_FFFF, 0x8000_0000, 0xAAAA_AAAB, NOWHERE)


class Maker:
    """Makes one program."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.made = 0

    def program(self) -> Program:
        random = self.random
        nodes: list[Node] = []
        for name in PUSHED:
            value = load(BUFFERS[2 + PUSHED.index(name)], 0)
            nodes.append(let(f"{name}_", maximum(value, u32(1)) if random.random() < 0.4 else value))
        nodes.append(let("sum", u32(0)))
        return Program.wrapped(BUFFERS, (1, 1, 1), [*nodes, *self.body(3), store(OUT, 0, self.var("sum"))])

    def var(self, name: str) -> Expr:
        return var(name, DataType.U32)

    def index(self, name: str) -> Expr:
        """An index near another one."""
        random, found = self.random, self.var(f"{name}_")
        match random.randrange(8):
            case 0:
                return found - random.choice((1, 1, 2))
            case 1:
                return found + random.choice((1, 1, 2, NOWHERE))
            case 2:
                return minimum(found, self.count() - 1)
            case 3:
                return found % self.count()
            case 4:
                return u32(random.randrange(3))
        return found

    def count(self) -> Expr:
        return self.var(f"{self.random.choice(('rows', 'columns', 'depth'))}_")

    def term(self) -> Expr:
        random = self.random
        found = self.index(random.choice(("i", "j", "k"))) if random.random() < 0.6 else self.count()
        return found + random.choice((0, 1, 1, 2)) if random.random() < 0.2 else found

    def condition(self) -> Expr:
        random = self.random
        if random.random() < 0.2:
            return binop(BinOp.EQ, binop(BinOp.MUL_HIGH, self.count(), self.count()), u32(0))
        if random.random() < 0.2:
            return binop(BinOp.LE, self.count() * self.count(), buf_len(DATA))
        op = random.choice((BinOp.LT, BinOp.LT, BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE, BinOp.EQ, BinOp.NE))
        made = binop(op, self.term(), self.term())
        return made.not_() if random.random() < 0.2 else made

    def guard(self) -> Expr:
        """What proves every access of three axes, with one part of it missing or nearly right."""
        random = self.random
        rows, columns, depth = (self.var(f"{name}_") for name in ("rows", "columns", "depth"))
        two, three = rows * columns, rows * columns * depth
        parts = [
            self.var("i_") < rows,
            self.var("j_") < columns,
            self.var("k_") < depth,
            binop(BinOp.EQ, binop(BinOp.MUL_HIGH, rows, columns), u32(0)),
            binop(BinOp.LE, two, buf_len(DATA)),
            binop(BinOp.EQ, binop(BinOp.MUL_HIGH, two, depth), u32(0)),
            binop(BinOp.LE, three, buf_len(DATA)),
        ]
        if random.random() < 0.3:
            parts.append(self.var("i_") > 0)
        wrong = random.randrange(14)
        if wrong < 3:
            parts[wrong] = self.nearly(self.var(f"{'ijk'[wrong]}_"), (rows, columns, depth)[wrong])
        elif wrong in {4, 6}:
            parts[wrong] = self.nearly((two, three)[wrong // 5], buf_len(DATA))
        elif wrong < 8 and len(parts) > wrong:
            del parts[wrong]
        random.shuffle(parts)
        found = parts[0]
        for one in parts[1:]:
            found = found.and_(one)
        return found

    def nearly(self, left: Expr, right: Expr) -> Expr:
        """A condition that is nearly ``left < right``, or more."""
        other = self.var(f"{self.random.choice(PUSHED)}_")
        forms = (
            lambda: binop(BinOp.LE, left, right),
            lambda: left + 1 < right,
            lambda: left < right + 1,
            lambda: left < right + 2,
            lambda: left - 1 < right,
            lambda: left < right - 1,
            lambda: binop(BinOp.LE, left + 1, right - 1),
            lambda: binop(BinOp.LE, left, other).and_(binop(BinOp.LE, other, right)),
            lambda: (left < other).and_(binop(BinOp.LE, other, right)),
            lambda: binop(BinOp.EQ, left, other).and_(other < right),
            lambda: (left + 2 < other).and_(other - 2 < right),
        )
        return self.random.choice(forms)()

    def place(self) -> Expr:
        random = self.random
        i, j, k = (self.index(name) if random.random() < 0.5 else self.var(f"{name}_") for name in ("i", "j", "k"))
        columns, depth = self.var("columns_"), self.var("depth_")
        match random.randrange(6):
            case 0:
                found = (i * columns + j) * depth + k
            case 1:
                found = k + depth * (j + columns * i)
            case 2:
                found = i * self.count() + j
            case 3:
                found = i * columns
            case 4:
                found = self.term()
            case _:
                found = i * columns + j
        return select(self.condition(), found, u32(NOWHERE)) if random.random() < 0.2 else found

    def body(self, depth: int) -> list[Node]:
        random = self.random
        nodes: list[Node] = []
        for _ in range(random.randrange(1, 4)):
            match random.randrange(6) if depth else 5:
                case 0 | 1:
                    otherwise = self.body(depth - 1) if random.random() < 0.3 else []
                    nodes.append(if_(self.guard(), self.body(depth - 1), otherwise))
                case 2:
                    nodes.append(if_(self.condition(), self.body(depth - 1)))
                case 3:
                    self.made += 1
                    name = random.choice(("i", "j", "k"))
                    nodes.append(if_(binop(BinOp.LT, self.count(), u32(9)), [self.loop(name, depth)]))
                case _:
                    nodes += self.access()
        return nodes

    def loop(self, name: str, depth: int) -> Node:
        """A loop whose variable stands for an index, in a body of its own."""
        stop = minimum(self.count(), u32(9))
        turn = f"turn{self.made}"
        inner = Renamed(self, name, turn)
        return loop(turn, u32(self.random.randrange(2)), stop if self.random.random() < 0.5 else u32(5), inner.body(depth - 1))

    def access(self) -> list[Node]:
        if self.random.random() < 0.5:
            return [assign("sum", self.var("sum") * 31 + load(DATA, self.place()))]
        return [store(DATA, self.place(), self.var("sum") + self.random.randrange(9))]


class Renamed(Maker):
    """Makes the body of a loop."""

    def __init__(self, outer: Maker, name: str, turn: str) -> None:
        self.__dict__.update(outer.__dict__)
        self.outer, self.name, self.turn = outer, f"{name}_", turn

    def var(self, name: str) -> Expr:
        return self.outer.var(self.turn if name == self.name else name)


SHAPES = (
    (0x8000_0000, 2, 1),
    (65536, 65536, 1),
    (0x4000_0000, 4, 2),
    (3, 0xAAAA_AAAB, 1),
    (2, 0x8000_0000, 3),
    (NOWHERE, 2, 1),
)
"""Whose products wrap to little."""


def numbers(random: Random) -> tuple[int, list[int]]:
    """What a program is run on: the elements of ``data``, and what is pushed; right, nearly, or anything."""
    kind = random.randrange(6)
    if kind == 0:
        return random.choice((1, 2, 4, 6, 12, 24, 30)), [random.choice(NUMBERS) for _ in PUSHED]
    if kind == 1:
        shape, size = random.choice(SHAPES), random.randrange(1, 9)
        places = [random.choice((0, 1, 2, 5, count - 1, count, NOWHERE)) & NOWHERE for count in shape]
        return size, [*places, *shape]
    shape = random.choice(((1, 1, 1), (2, 2, 1), (3, 2, 2), (1, 3, 2), (2, 1, 1), (3, 3, 1), (2, 3, 2)))
    size = max(1, shape[0] * shape[1] * shape[2] - random.randrange(2) * random.randrange(3))
    places = [random.choice((0, count - 1, count - 1, count, count + 1)) for count in shape]
    if kind == 2:
        places[random.randrange(3)] = random.choice((NOWHERE, NOWHERE - 1))
    return size, [*places, *shape]
