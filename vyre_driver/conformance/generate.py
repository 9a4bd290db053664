"""Random valid programs with their inputs, the same for one seed and options on every machine and every version of Python.

The result of their statements does not depend on the order of invocations: an invocation stores to its own element of an
output, and loads that element only. Workgroup memory is exchanged: each invocation stores its own element, all meet at a
barrier, each loads any element, all meet again. A buffer of counters, outside of workgroup memory and in it, knows one kind of
atomic, whose results are unused. Nothing returns before the last barrier.

Source: spec items 1.5 to 1.8 (V010, R020).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.conformance import patterns
from vyre_driver.conformance.case import EXACT, Case, tolerance_of
from vyre_driver.conformance.expression_maker import BOOL, F32, I32, MOVED, U32, U64, ExpressionMaker, Known, computed_types
from vyre_driver.conformance.options import Options, RandomSource
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Var
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering, SubgroupOp
from vyre_driver.ir.program import ROOT_GENERATOR, Program
from vyre_driver.ir.terms import Traits, terms_within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

_ORDERINGS = (MemoryOrdering.SEQ_CST, MemoryOrdering.ACQ_REL)


@dataclass
class StatementMaker:
    """Makes bodies; each statement made counts against ``left``.

    Values of ``moved`` types are let, exchanged and shuffled too. What is ``pushed``, u32, decides for all alike.
    """

    rng: RandomSource
    options: Options
    expressions: ExpressionMaker
    own_index: Expr
    outputs: dict[DataType, list[BufferDecl]]
    shared: dict[DataType, BufferDecl]
    counters: list[tuple[BufferDecl, AtomicOp]]
    tally: list[tuple[BufferDecl, AtomicOp]]
    moved: Sequence[DataType]
    pushed: Sequence[BufferDecl] = ()

    def __post_init__(self) -> None:
        """Begin without statements."""
        self.left = self.options.statements
        self._names = 0
        self._types = [*computed_types(self.options), *self.moved]

    def body(self, nesting: int, *, is_uniform: bool) -> list[Node]:
        """Return the statements of a body in a scope of its own; ``is_uniform``: all of the workgroup come here."""
        expressions = self.expressions
        outside = list(expressions.variables)
        expressions.forget()
        nodes: list[Node] = []
        for _ in range(self.rng.between(1, 4)):
            if self.left > 0:
                self.left -= 1
                nodes += self._statement(nesting, is_uniform=is_uniform)
        expressions.variables = outside
        expressions.forget()
        return nodes

    def top(self) -> list[Node]:
        """Return the body of a program."""
        nodes: list[Node] = []
        while self.left > 0:
            self.left -= 1
            nodes += self._statement(0, is_uniform=True)
        if self.rng.chance(20):
            nodes.append(ir.if_(self.expressions.condition(), [ir.return_()]))
            nodes += self._stores(1)
        return [*nodes, *self._stores(3)]

    def _stores(self, count: int) -> list[Node]:
        return [node for _ in range(count) for node in self._store()]

    def _statement(self, nesting: int, *, is_uniform: bool) -> list[Node]:
        ways: list[Callable[[], list[Node]]] = [self._let, self._let, self._let, self._store, self._store]
        if any(one.is_assignable for one in self.expressions.variables):
            ways += [self._assign, self._assign]
        if self.counters:
            ways.append(self._atomic)
        if self.shared and is_uniform:
            ways += [self._exchange, self._exchange]
        if self.tally and is_uniform:
            ways += [self._counted, self._counted]
        if self.options.subgroups and is_uniform:
            ways += [self._subgroup, self._subgroup]
        if nesting < 3:
            ways += [
                lambda: self._if(nesting, is_uniform=is_uniform),
                lambda: self._if(nesting, is_uniform=is_uniform),
                lambda: self._loop(nesting, is_uniform=is_uniform),
                lambda: self._turns_until(nesting, is_uniform=is_uniform),
                lambda: self._nested(nesting, is_uniform=is_uniform),
            ]
        return self.rng.pick(ways)()

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _let(self) -> list[Node]:
        dtype, name = self.rng.pick(self._types), self._name()
        value = self.expressions.make(dtype)
        self.expressions.remember(value)
        self.expressions.variables.append(Known(name, dtype))
        return [ir.let(name, value)]

    def _assign(self) -> list[Node]:
        known = self.rng.pick([one for one in self.expressions.variables if one.is_assignable])
        value = self.expressions.make(known.dtype)
        self.expressions.forget()
        return [ir.assign(known.name, value)]

    def _store(self) -> list[Node]:
        """Store to one's own element, behind a guard or not."""
        rng, expressions = self.rng, self.expressions
        dtype = rng.pick(list(self.outputs))
        buffer = rng.pick(self.outputs[dtype])
        scattered = self.options.unordered and rng.chance(30)
        index = expressions.make(U32, 1) % rng.between(1, 80) if scattered else self.own_index
        value = expressions.inexact() if buffer.name == "quotients" else expressions.make(dtype)
        expressions.forget()
        node = ir.store(buffer, index, value)
        return [ir.if_(self.own_index < ir.buf_len(buffer), [node])] if rng.chance(40) else [node]

    def _atomic(self) -> list[Node]:
        buffer, op = self.rng.pick(self.counters)
        index = self.expressions.make(U32, 2) % 12
        value = self._operand(buffer)
        name = self._name()
        node = ir.let(name, ir.atomic(op, buffer, index, value))
        if self.options.unordered:
            self.expressions.variables.append(Known(name, U32))
            return [node]
        return [ir.if_(self.expressions.condition(), [node])] if self.rng.chance(50) else [node]

    def _operand(self, buffer: BufferDecl) -> Expr:
        """Return the value of an atomic: a word, or the bits of an f32."""
        if buffer.element != F32:
            return self.expressions.make(U32, 2)
        return bitcast(U32, self.expressions.make(F32, 2))

    def _counted(self) -> list[Node]:
        """Apply atomics to workgroup memory, some of an if, and load an element behind a barrier."""
        rng, expressions = self.rng, self.expressions
        buffer, op = rng.pick(self.tally)
        node: Node = ir.let(self._name(), ir.atomic(op, buffer, expressions.make(U32, 2) % 12, self._operand(buffer)))
        node = ir.if_(expressions.condition(), [node]) if rng.chance(50) else node
        name, place = self._name(), expressions.make(U32, 1) % 10
        expressions.variables.append(Known(name, buffer.element))
        expressions.forget()
        return [node, ir.barrier(rng.pick(_ORDERINGS)), ir.let(name, ir.load(buffer, place)), ir.barrier()]

    def _exchange(self) -> list[Node]:
        rng, expressions = self.rng, self.expressions
        dtype = rng.pick(list(self.shared))
        buffer = self.shared[dtype]
        own = ir.var("own_place", U32)
        name, value = self._name(), expressions.make(dtype)
        again = [ir.store(buffer, own, expressions.make(dtype))] if rng.chance(30) else []
        place = expressions.make(U32, 2)
        at = place % (buffer.count + 2) if rng.chance(70) else place
        expressions.variables.append(Known(name, dtype))
        expressions.forget()
        store = ir.store(buffer, own, value)
        return [store, *again, ir.barrier(rng.pick(_ORDERINGS)), ir.let(name, ir.load(buffer, at)), ir.barrier()]

    def _subgroup(self) -> list[Node]:
        """Tell other lanes something, where all of them come."""
        rng, expressions = self.rng, self.expressions
        way, dtype = rng.below(4), U32
        if way == 0:
            dtype = rng.pick((U32, I32, U64) if self.options.u64 else (U32, I32))
            op = SubgroupOp.ADD if dtype == U64 else rng.pick(tuple(SubgroupOp))
            value: Expr = ir.subgroup_reduce(op, expressions.make(dtype))
        elif way == 1:
            value = ir.subgroup_ballot(expressions.make(BOOL))
        elif way == 2:
            dtype = rng.pick(self._types)
            value = ir.subgroup_shuffle(expressions.make(dtype), expressions.make(U32, 2) % 40)
        else:
            value = ir.subgroup_local_id() + ir.subgroup_size() * 100
        name = self._name()
        expressions.variables.append(Known(name, dtype))
        return [ir.let(name, value)]

    def _if(self, nesting: int, *, is_uniform: bool) -> list[Node]:
        rng = self.rng
        alike = is_uniform and rng.chance(40)
        cond = self._alike() if alike else self.expressions.condition()
        then = self.body(nesting + 1, is_uniform=alike)
        otherwise = self.body(nesting + 1, is_uniform=alike) if rng.chance(50) else []
        return [ir.if_(cond, then, otherwise)]

    def _alike(self) -> Expr:
        """Return a condition that all of a workgroup have."""
        if self.pushed and self.rng.chance(50):
            return ir.load(self.rng.pick(self.pushed), 0) % 5 < self.rng.between(1, 4)
        return ir.wid_x() < self.rng.below(3)

    def _turns_until(self, nesting: int, *, is_uniform: bool) -> list[Node]:
        """Return a loop that ends when its condition first fails: after some turns, or when a flag is cleared in it."""
        rng, expressions = self.rng, self.expressions
        alike = is_uniform and rng.chance(50)
        left, going, turn = self._name(), self._name(), self._name()
        turns = ir.u32(rng.below(6)) if alike else expressions.make(U32, 1) % 6
        expressions.variables += [Known(left, U32, is_assignable=False), Known(turn, U32, is_assignable=False)]
        condition: Expr = ir.var(left, U32) > 0
        if not alike:
            expressions.variables.append(Known(going, BOOL))
            condition = condition.and_(ir.var(going, BOOL))
            more = expressions.make(BOOL, 1)
            if more.traits & Traits.NO_READS and not _reads(more, turn):
                condition = condition.and_(more)
        body: list[Node] = [ir.assign(left, ir.var(left, U32) - 1), *self.body(nesting + 1, is_uniform=alike)]
        if not alike and rng.chance(50):
            body.append(ir.if_(expressions.condition(), [ir.assign(going, ir.boolean(False))]))
        expressions.variables = [one for one in expressions.variables if one.name not in {left, going, turn}]
        expressions.forget()
        stop = ir.u32(rng.pick((0xFFFF_FFFF, 0xFFFF_FFFF, 1 << 20, 3)))
        loop = ir.loop(turn, rng.pick((0, 0, 1)), stop, [ir.if_(condition, body)])
        return [ir.let(left, turns), *([] if alike else [ir.let(going, ir.boolean(True))]), loop]

    def _loop(self, nesting: int, *, is_uniform: bool) -> list[Node]:
        rng, expressions = self.rng, self.expressions
        alike = rng.chance(50)
        start: Expr = ir.u32(rng.pick((0, 0, 1, 5)))
        stop: Expr = ir.u32(rng.below(7))
        if not alike:
            stop = expressions.make(U32, 1) % 6
            start = expressions.make(U32, 1) % 4 if rng.chance(30) else start
        name = self._name()
        expressions.variables.append(Known(name, U32, is_assignable=False))
        body = self.body(nesting + 1, is_uniform=is_uniform and alike)
        expressions.variables.pop()
        return [ir.loop(name, start, stop, body)]

    def _nested(self, nesting: int, *, is_uniform: bool) -> list[Node]:
        body = self.body(nesting + 1, is_uniform=is_uniform)
        return [ir.block(*body) if self.rng.chance(50) else ir.region("vyre.conformance", *body)]


def _reads(expr: Expr, name: str) -> bool:
    return any(isinstance(term, Var) and term.name == name for term in terms_within(expr))


_SIZES = ((1, 1, 1), (4, 1, 1), (8, 1, 1), (32, 1, 1), (33, 1, 1), (64, 1, 1), (4, 4, 1), (8, 3, 1), (2, 3, 4), (1, 5, 1))
_FLAT_SIZES = tuple(size for size in _SIZES if size[1:] == (1, 1))
_GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 2))
_NARROW = (DataType.U8, DataType.I8, DataType.U16, DataType.I16, DataType.F16)
_COUNTING = (AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR)
_ORDERLESS = (AtomicOp.MIN, AtomicOp.MAX)  # of f32, whose sums depend on the order
_INEXACT = "quotients"
_NAMES = {
    U32: "words",
    I32: "signed",
    F32: "floats",
    BOOL: "flags",
    U64: "wide",
    DataType.U8: "bytes",
    DataType.I8: "signed_bytes",
    DataType.U16: "shorts",
    DataType.I16: "signed_shorts",
    DataType.I64: "signed_wide",
    DataType.F16: "halves",
}

GENERATOR_VERSION = 4
"""What a seed means; whatever changes the programs of seeds must raise it. A golden digest holds this."""


class _Buffers:
    """The buffers of a program, numbered as they come, and the inputs of those that take one."""

    def __init__(self, rng: RandomSource) -> None:
        self.declared: list[BufferDecl] = []
        self.inputs: list[NDArray[Any]] = []
        self._rng = rng

    def read(self, name: str, dtype: DataType, count: int) -> BufferDecl:
        result = BufferDecl.read(name, len(self.declared), dtype)
        return self.with_input(result.with_count(count) if self._rng.chance(50) else result, count)

    def written(self, name: str, dtype: DataType, count: int) -> BufferDecl:
        """Declare an output, which begins as zeros, or a buffer that is input and output."""
        if self._rng.chance(50):
            result = BufferDecl.output(name, len(self.declared), dtype).with_count(count)
            if any(one.is_output for one in self.declared):
                result = BufferDecl.read_write(name, len(self.declared), dtype)
                return self.with_input(result.with_count(count), count)
            self.declared.append(result)
            return result
        return self.with_input(BufferDecl.read_write(name, len(self.declared), dtype), count)

    def with_input(self, made: BufferDecl, count: int) -> BufferDecl:
        self.declared.append(made)
        self.inputs.append(patterns.array(self._rng.filler(), made.element, count))
        return made


def generate(seed: int, options: Options | None = None) -> Case:
    """Return the program of a seed (any integer) with inputs and grid; it is valid, and no invocation of it faults."""
    return made_with(RandomSource(seed), Options() if options is None else options, f"seed {seed}")


def made_with(rng: RandomSource, options: Options, name: str) -> Case:
    """Return a program made by these choices; see :func:`generate`."""
    options = replace(options, subgroups=options.subgroups and rng.chance(60))
    size, grid = rng.pick(_FLAT_SIZES if options.subgroups else _SIZES), rng.pick(_GRIDS)
    total = size[0] * size[1] * size[2] * grid[0] * grid[1] * grid[2]
    own = _own_index(size, grid)
    buffers = _Buffers(rng)
    moved = _moved(rng, options)
    readable = {
        dtype: [buffers.read(f"{_NAMES[dtype]}_in", dtype, max(1, total + rng.between(-3, 3)))]
        for dtype in (*_types(rng, options), *moved)
    }
    pushed = _pushed(rng, options, buffers)
    for one in pushed:
        readable.setdefault(one.element, []).append(one)
    outputs = {
        dtype: [buffers.written(f"{_NAMES[dtype]}_out", dtype, max(1, total + rng.between(-2, 2)))]
        for dtype in (*(_types(rng, options) or [U32]), *moved)
    }
    loaded = {dtype: list(many) for dtype, many in outputs.items()}
    expressions = ExpressionMaker(rng, options, readable, loaded, own, tuple(one for one in moved if one in MOVED))
    if options.inexact and rng.chance(40):
        outputs.setdefault(F32, []).append(buffers.written(_INEXACT, F32, total))
    counters = _counters(rng, options, buffers)
    shared = _shared(rng, options, size, moved)
    tally = _tally(rng, options)
    words = [one for one in pushed if one.element == U32]
    writer = StatementMaker(rng, options, expressions, own, outputs, shared, counters, tally, moved, words)
    x, y, _ = size
    nodes = writer.top()
    if shared:
        nodes = [ir.let("own_place", ir.lid_x() + ir.lid_y() * x + ir.lid_z() * (x * y)), *nodes]
    inside = [*shared.values(), *(one for one, _ in tally)]
    program = Program.new([*buffers.declared, *inside], size, [ir.region(ROOT_GENERATOR, *nodes)])
    inexact = {_INEXACT: tolerance_of(program)}
    return Case(name, program, tuple(buffers.inputs), grid, EXACT, tolerances=inexact, subgroup_lanes=options.subgroup_lanes)


def _own_index(size: tuple[int, int, int], grid: tuple[int, int, int]) -> Expr:
    """Return the number of an invocation in the grid, another one for each."""
    width, height = size[0] * grid[0], size[1] * grid[1]
    if height * size[2] * grid[2] == 1:
        return ir.gid_x()
    return ir.gid_x() + ir.gid_y() * width + ir.gid_z() * (width * height)


def _types(rng: RandomSource, options: Options) -> list[DataType]:
    return [one for one in computed_types(options) if rng.chance(70)]


def _moved(rng: RandomSource, options: Options) -> list[DataType]:
    """Return types that values are loaded, let, compared, cast, selected and stored of, and nothing is computed of."""
    types = [*(_NARROW if options.narrow else ()), *([DataType.I64] if options.u64 else [])]
    return [] if rng.chance(50) else [one for one in types if rng.chance(30)]


def _pushed(rng: RandomSource, options: Options, buffers: _Buffers) -> list[BufferDecl]:
    """Declare up to three push buffers of a few numbers: with the counts they are fewer than what every device takes."""
    found: list[BufferDecl] = []
    types = computed_types(options)
    for dtype in (U32, rng.pick(types), rng.pick(types)) if rng.chance(50) else ():
        name = f"pushed{len(found)}_{_NAMES[dtype]}"
        made = BufferDecl.push(name, len(buffers.declared), dtype, rng.between(1, 2))
        found.append(buffers.with_input(made, made.count))
    return found


def _counters(rng: RandomSource, options: Options, buffers: _Buffers) -> list[tuple[BufferDecl, AtomicOp]]:
    if not options.atomics or rng.chance(50):
        return []
    dtype = rng.pick((U32, I32, F32))
    result = BufferDecl.read_write("counters", len(buffers.declared), dtype).with_count(rng.between(1, 9))
    return [(buffers.with_input(result, result.count), rng.pick(_ORDERLESS if dtype == F32 else _COUNTING))]


def _tally(rng: RandomSource, options: Options) -> list[tuple[BufferDecl, AtomicOp]]:
    if not (options.atomics and options.shared) or rng.chance(70):
        return []
    dtype = rng.pick((U32, I32, F32))
    return [(BufferDecl.workgroup("tally", rng.between(1, 9), dtype), rng.pick(_ORDERLESS if dtype == F32 else _COUNTING))]


def _shared(
    rng: RandomSource, options: Options, size: tuple[int, int, int], moved: Sequence[DataType]
) -> dict[DataType, BufferDecl]:
    if not options.shared or rng.chance(50):
        return {}
    x, y, z = size
    dtype = rng.pick([*computed_types(options), *moved])
    return {dtype: BufferDecl.workgroup("shared", x * y * z, dtype)}
