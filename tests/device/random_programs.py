"""Random programs over all that has a lowering, and the values and operators that they and others draw from."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    assign,
    barrier,
    binop,
    cast,
    f32,
    fma,
    gid_x,
    i32,
    if_,
    let,
    lid_x,
    load,
    loop,
    return_,
    select,
    store,
    u32,
    unop,
    var,
)
from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.ir.expressions import Expr

U32, I32, F32, U64, BOOL = DataType.U32, DataType.I32, DataType.F32, DataType.U64, DataType.Bool
WORDS = [0, 1, 2, 3, 5, 31, 32, 33, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1, 0xDEADBEEF]
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 3.1415927, 1e-38, -1e-38, 1.1754944e-38, 1e-45, -1e-40),
    *(16777216.0, 8388609.0, 2147483648.0, -2147483648.0, 4294967296.0, 4e9, 1e30, 3.4e38, -3.4e38, 1e-20),
    *(np.inf, -np.inf, np.nan, 0.1, 1e10, 7.0),
]

INTEGER = [BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR, BinOp.MIN, BinOp.MAX]
WRAPPING = [BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB]
UNSIGNED = [BinOp.DIV, BinOp.MOD, BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT, BinOp.ABS_DIFF, BinOp.MUL_HIGH]
SATURATING = [BinOp.SATURATING_ADD, BinOp.SATURATING_SUB, BinOp.SATURATING_MUL]
ORDER = [BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE]
BITS = [UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS]


class RandomPrograms:
    """Random programs: every invocation works on its own elements, so that no order matters."""

    def __init__(self, seed: int) -> None:
        self.roll = random.Random(seed)  # noqa: S311 -- programs, no secrets
        self.names: dict[DataType, list[str]] = {U32: [], I32: [], F32: []}
        self.mutable: list[tuple[str, DataType]] = []
        self.count = 0
        self.buffers = {
            U32: BufferDecl.read_write("words", 0, U32),
            I32: BufferDecl.read_write("signed", 1, I32),
            F32: BufferDecl.read_write("floats", 2, F32),
        }
        self.shared = BufferDecl.workgroup("shared", 64, U32)

    def index(self) -> Expr:
        return self.roll.choice([gid_x(), gid_x() + 0, lid_x() + 1000, u32(70)])

    def expression(self, dtype: DataType, depth: int) -> Any:  # noqa: ANN401 -- one case a kind
        roll = self.roll
        kind = roll.randrange(9 if depth else 3)
        inner = depth - 1
        match kind:
            case 0:
                literal = {
                    U32: lambda: u32(roll.choice(WORDS)),
                    I32: lambda: i32(roll.choice(WORDS[:13]) * roll.choice([1, -1])),
                }
                return literal.get(dtype, lambda: f32(float(np.float32(roll.choice(FLOATS)))))()
            case 1:
                return load(self.buffers[dtype], self.index())
            case 2:
                names = self.names[dtype]
                return var(roll.choice(names), dtype) if names else self.expression(dtype, 0)
            case 3 | 4:
                options = {U32: [*INTEGER, *WRAPPING, *UNSIGNED, *SATURATING], I32: [*INTEGER, *WRAPPING]}
                op = roll.choice(options.get(dtype, [BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.DIV]))
                right = self.expression(dtype, inner)
                if op in {BinOp.DIV, BinOp.MOD}:  # never a literal 0
                    right = load(self.buffers[F32], self.index()) if dtype == F32 else right & 7
                return binop(op, self.expression(dtype, inner), right)
            case 5:
                options = {U32: BITS, I32: BITS}
                op = roll.choice(options.get(dtype, [UnOp.NEGATE, UnOp.ABS, UnOp.FLOOR, UnOp.ROUND, UnOp.SIGN]))
                return unop(op, self.expression(dtype, inner))
            case 6:
                return select(self.condition(inner), self.expression(dtype, inner), self.expression(dtype, inner))
            case 7:
                source = roll.choice([one for one in (U32, I32, F32) if one != dtype])
                return cast(dtype, self.expression(source, inner))
        if dtype == F32:
            return fma(*(self.expression(F32, inner) for _ in range(3)))
        return cast(dtype, self.condition(inner))

    def condition(self, depth: int) -> Expr:
        dtype = self.roll.choice([U32, I32, F32])
        inner = max(depth - 1, 0)
        made = binop(self.roll.choice(ORDER), self.expression(dtype, inner), self.expression(dtype, inner))
        return made.not_() if self.roll.random() < 0.2 else made

    def body(self, depth: int, *, in_loop: bool = False) -> list[Any]:
        known = {dtype: list(names) for dtype, names in self.names.items()}
        mutable = list(self.mutable)
        nodes = [self.statement(depth, in_loop=in_loop) for _ in range(self.roll.randrange(1, 5))]
        self.names, self.mutable = known, mutable
        return nodes

    def statement(self, depth: int, *, in_loop: bool) -> Any:  # noqa: ANN401 -- any node
        roll = self.roll
        dtype = roll.choice([U32, I32, F32])
        match roll.randrange(7 if depth else 4):
            case 0 | 1:
                self.count += 1
                name = f"v{self.count}"
                made = let(name, self.expression(dtype, 3))
                self.names[dtype].append(name)
                self.mutable.append((name, dtype))
                return made
            case 2 if self.mutable:
                name, own = roll.choice(self.mutable)
                return assign(name, self.expression(own, 3))
            case 4:
                return if_(self.condition(2), self.body(depth - 1), self.body(depth - 1) if roll.random() < 0.5 else [])
            case 5 if not in_loop:
                self.count += 1
                return loop(f"k{self.count}", 0, self.expression(U32, 1) & 3, self.body(depth - 1, in_loop=True))
            case 6:
                return if_(gid_x() >= 60, [return_()])
        return store(self.buffers[dtype], gid_x(), self.expression(dtype, 3))

    def program(self) -> Program:
        start = [store(self.shared, lid_x(), gid_x() * 7), barrier(), let("other", load(self.shared, lid_x() ^ 1))]
        self.names[U32].append("other")
        stores = [store(buffer, gid_x(), self.expression(dtype, 3)) for dtype, buffer in self.buffers.items()]
        return Program.wrapped([*self.buffers.values(), self.shared], (64, 1, 1), [*start, *self.body(3), *stores])


def random_inputs(seed: int) -> list[NDArray[Any]]:
    rng = np.random.default_rng(seed)
    words = rng.choice(np.array(WORDS, np.uint32), 64)
    return [words, rng.choice(words.view(np.int32), 64), rng.choice(np.array(FLOATS, np.float32), 64)]
