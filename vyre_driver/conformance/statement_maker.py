"""Random statements whose result does not depend on the order of invocations.

An invocation stores to its own element of an output, and loads that element only. Workgroup memory is exchanged: each
invocation stores its own element, all meet at a barrier, each loads any element, all meet again. A buffer of counters, outside
of workgroup memory and in it, knows one kind of atomic, whose results are unused. Nothing returns before the last barrier.

Source: spec items 1.7 and 1.8 (V010, R020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.conformance.expression_maker import BOOL, F32, I32, U32, U64, Known, computed_types
from vyre_driver.ir import builders as ir
from vyre_driver.ir.builders import bitcast
from vyre_driver.ir.expressions import Var
from vyre_driver.ir.operators import MemoryOrdering, SubgroupOp
from vyre_driver.ir.terms import Traits, terms_within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.conformance.expression_maker import ExpressionMaker
    from vyre_driver.conformance.options import Options
    from vyre_driver.conformance.random_source import RandomSource
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.operators import AtomicOp

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
