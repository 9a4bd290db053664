"""Statements as generators over a batch, which stop at every barrier.

Source: spec items 1.5 and 1.7.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.reference.expressions import ExpressionCompiler, Variable, refuse, truth_of
from vyre_driver.backends.reference.invocations import Copy
from vyre_driver.backends.reference.values import cast, spread
from vyre_driver.errors import Trapped
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Atomic, Var
from vyre_driver.ir.loop_ends import ending_if, is_uncounted
from vyre_driver.ir.terms import Traits, terms_within
from vyre_driver.ir.walks import OPERANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from vyre_driver.backends.reference.expressions import Evaluate
    from vyre_driver.backends.reference.invocations import InvocationBatch, Places
    from vyre_driver.backends.reference.values import Values
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.operators import MemoryOrdering
    from vyre_driver.ir.program import Program

    Steps = Generator[MemoryOrdering, None, None]
    Statement = Callable[[InvocationBatch], Steps | None]


class StatementCompiler:
    """Makes the statements of one program ready."""

    def __init__(
        self,
        program: Program,
        buffers: Mapping[str, tuple[int, BufferDecl]],
        specialized: Mapping[str, Expr],
        *,
        canonical_literals: bool = False,
    ) -> None:
        """Look at the whole program for what is read; lets of names that are ``specialized`` have these values."""
        self._specialized = specialized
        self._expressions = ExpressionCompiler(buffers, canonical_literals=canonical_literals)
        self._buffers = buffers
        self._pushed = {name for name, (_, one) in buffers.items() if one.is_pushed}
        self.variable_count = 0
        self.paths: list[str] = []
        self.read = {term.name for term in terms_within(*program.entry) if isinstance(term, Var)}
        self.is_sequential = any(one.element == DataType.Bytes for _, one in buffers.values())

    @property
    def has_subgroups(self) -> bool:
        """Whether invocations of a subgroup tell each other something."""
        return self._expressions.has_subgroups

    def body(self, nodes: Sequence[Node], path: str) -> Callable[[InvocationBatch], Steps]:
        """Make a body ready; what it declares is out of scope after it."""
        outside = dict(self._expressions.scope)
        statements = [self._statement(node, f"{path}[{place}]") for place, node in enumerate(nodes)]
        self._expressions.scope = outside

        def run(batch: InvocationBatch) -> Steps:
            for statement in statements:
                steps = statement(batch)
                if steps is not None:
                    yield from steps
                if batch.ended is not None and not batch.active_count:
                    return

        return run

    def _statement(self, node: Node, path: str) -> Statement:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            refuse(f"{node.kind!r}" if isinstance(node, nd.OpaqueNode) else f"{type(node).__name__} at {path}")
        place = len(self.paths)
        self.paths.append(path)
        inner = handler(self, node, path)
        cost = _cost(node)

        def run(batch: InvocationBatch) -> Steps | None:
            batch.place = place
            batch.memo.clear()
            batch.spend(cost)
            return inner(batch)

        return run

    def _new_slot(self) -> int:
        self.variable_count += 1
        return self.variable_count - 1

    def _evaluated(self, *roots: Any) -> tuple[Callable[[InvocationBatch], list[Values]], list[DataType]]:  # noqa: ANN401 -- expressions
        """Return what evaluates the expressions of a statement, from left to right, and their types."""
        values = self._expressions.joint(*roots)
        runs = [value.run for value in values]
        return lambda batch: [run(batch) for run in runs], [value.dtype for value in values]

    def let(self, node: nd.Let, _path: str) -> Statement:
        """Declare a variable."""
        evaluate, dtype = self._assigned(node)
        slot = self._new_slot()
        self._expressions.scope[node.name] = Variable(slot, dtype)

        def run(batch: InvocationBatch) -> None:
            batch.variables[slot] = batch.declared(evaluate(batch))

        return run

    def assign(self, node: nd.Assign, _path: str) -> Statement:
        """Change a variable."""
        evaluate, _ = self._assigned(node)
        slot = self._expressions.scope[node.name].slot

        def run(batch: InvocationBatch) -> None:
            batch.variables[slot] = batch.merged(batch.variables[slot], evaluate(batch))

        return run

    def _assigned(self, node: nd.Let | nd.Assign) -> tuple[Evaluate, DataType]:
        """Return what evaluates a variable's value; an atomic's may be left out when the variable is never read."""
        if isinstance(node.value, Atomic) and node.name not in self.read:
            self._expressions.joint(*OPERANDS[Atomic](node.value))
            return self._expressions.atomic_run(node.value, is_used=False), DataType.U32
        given = self._specialized.get(node.name) if isinstance(node, nd.Let) else None
        evaluate, (dtype,) = self._evaluated(node.value if given is None else given)
        return lambda batch: evaluate(batch)[0], dtype

    def store(self, node: nd.Store, _path: str) -> Statement:
        """Write an element."""
        place, declared = self._buffers[node.buffer]
        evaluate, (_, dtype) = self._evaluated(node.index, node.value)
        if DataType.Bytes in {declared.element, dtype}:
            return _store_bytes(place, declared, evaluate)

        def run(batch: InvocationBatch) -> None:
            index, values = evaluate(batch)
            batch.buffers[place].store(batch, index, cast(values, dtype, declared.element))

        return run

    def if_(self, node: nd.If, path: str) -> Statement:
        """Run one body for those whose condition holds, and the other for the rest."""
        (cond,) = self._expressions.joint(node.cond)
        is_true = truth_of(cond)
        then, otherwise = self.body(node.then, f"{path}.then"), self.body(node.otherwise, f"{path}.otherwise")

        def run(batch: InvocationBatch) -> Steps:
            before = batch.active
            chosen = spread(is_true(batch), batch.active_count)
            lanes = batch.lanes
            for body, taken in ((then, chosen), (otherwise, ~chosen)):
                if taken.any():
                    batch.active = before if taken.all() else lanes[taken]
                    yield from body(batch)
            batch.active = batch.remaining(before)

        return run

    def loop(self, node: nd.Loop, path: str) -> Statement:
        """Run a body as often as the bounds say, which are evaluated once; or until a condition fails that ends the loop."""
        evaluate, _ = self._evaluated(node.start, node.stop)
        slot, outside = self._new_slot(), dict(self._expressions.scope)
        self._expressions.scope[node.var] = Variable(slot, DataType.U32)
        ending = ending_if(node, self._pushed)
        has_last_turn = ending is None or not is_uncounted(node)
        body = self.body(node.body, f"{path}.body") if ending is None else self._turn(ending, f"{path}.body[0]")
        self._expressions.scope = outside

        def run(batch: InvocationBatch) -> Steps:
            before = batch.active
            start, stop = evaluate(batch)
            if len(start) == len(stop) == 1:
                turns = range(int(start[0]), int(stop[0])) if has_last_turn else repeat(0)
                yield from _turns(batch, slot, turns, body)
            else:
                yield from _own_turns(batch, slot, start, stop, body)
            batch.active = batch.remaining(before)

        return run

    def _turn(self, node: nd.If, path: str) -> Callable[[InvocationBatch], Steps]:
        """Make a turn of a loop ready, which only those go on after whose condition held."""
        place, cost = len(self.paths), _cost(node)
        self.paths.append(path)
        (cond,) = self._expressions.joint(node.cond)
        holds = truth_of(cond)
        then = self.body(node.then, f"{path}.then")

        def run(batch: InvocationBatch) -> Steps:
            batch.place = place
            batch.memo.clear()
            batch.spend(cost)
            stays = spread(holds(batch), batch.active_count)
            if not stays.all():
                batch.active = batch.lanes[stays]
            before = batch.active
            if batch.active_count:
                yield from then(batch)
            batch.active = batch.remaining(before)

        return run

    def nested(self, node: nd.Block | nd.Region, path: str) -> Statement:
        """Run a body in a scope of its own."""
        return self.body(node.body, f"{path}.body")

    def return_(self, _node: nd.Return, _path: str) -> Statement:
        """End the active invocations."""
        return lambda batch: batch.end()

    def barrier(self, node: nd.Barrier, _path: str) -> Statement:
        """Stop for the others."""
        ordering = node.ordering

        def run(batch: InvocationBatch) -> Steps:
            place = batch.place
            yield ordering
            batch.place = place

        return run

    def trap(self, node: nd.Trap, _path: str) -> Statement:
        """Raise what the program asks for."""
        evaluate, _ = self._evaluated(node.address)
        tag = node.tag

        def run(batch: InvocationBatch) -> None:
            address = int(evaluate(batch)[0][0])
            fix = "look for the trap's tag in the program: it stops here"
            raise batch.fault(
                f"the program trapped with {tag!r} at address {address}", fix, 0, Trapped, address=address, tag=tag
            )

        return run

    def copy(self, node: nd.AsyncLoad | nd.AsyncStore, _path: str) -> Statement:
        """Queue a copy; the offset is that of the side away from the invocations."""
        self.is_sequential = True
        evaluate, _ = self._evaluated(node.offset, node.size)
        source, destination = self._buffers[node.source][0], self._buffers[node.destination][0]
        loads, tag = isinstance(node, nd.AsyncLoad), node.tag

        def run(batch: InvocationBatch) -> None:
            offset, size = (int(one[0]) for one in evaluate(batch))
            ends = (offset, 0) if loads else (0, offset)
            waiting = Copy(batch.buffers[source], batch.buffers[destination], *ends, size)
            batch.copies.setdefault(tag, []).append(waiting)

        return run

    def wait(self, node: nd.AsyncWait, _path: str) -> Statement:
        """Do the copies of a tag, in the order in which they were queued."""
        self.is_sequential = True
        tag = node.tag

        def run(batch: InvocationBatch) -> None:
            for one in batch.copies.pop(tag, ()):
                found = one.source.raw[one.source_offset : one.source_offset + one.size].tobytes()
                one.destination.store_bytes(one.destination_offset, found)

        return run


_HANDLERS: dict[type[Node], Callable[[StatementCompiler, Any, str], Statement]] = {
    nd.Let: StatementCompiler.let,
    nd.Assign: StatementCompiler.assign,
    nd.Store: StatementCompiler.store,
    nd.If: StatementCompiler.if_,
    nd.Loop: StatementCompiler.loop,
    nd.Block: StatementCompiler.nested,
    nd.Region: StatementCompiler.nested,
    nd.Return: StatementCompiler.return_,
    nd.Barrier: StatementCompiler.barrier,
    nd.Trap: StatementCompiler.trap,
    nd.AsyncLoad: StatementCompiler.copy,
    nd.AsyncStore: StatementCompiler.copy,
    nd.AsyncWait: StatementCompiler.wait,
}
INTERPRETED_NODES = frozenset(node.op_id for node in _HANDLERS)
"""The nodes that are interpreted, by upstream's names."""


def _cost(node: Node) -> int:
    """Return the steps of a statement: one, or one for each part where atomics keep parts from being evaluated only once."""
    roots = OPERANDS[type(node)](node) if type(node) in OPERANDS else ()
    return 1 if all(root.traits & Traits.NO_WRITES for root in roots) else sum(root.term_count for root in roots)


def _turns(batch: InvocationBatch, slot: int, turns: Iterable[int], body: Callable[[InvocationBatch], Steps]) -> Steps:
    """Run turns that all active invocations take alike, as long as they go on."""
    for turn in turns:
        if not batch.active_count:
            return
        batch.spend()
        batch.variables[slot] = np.array([turn], np.uint32)
        yield from body(batch)


def _own_turns(
    batch: InvocationBatch, slot: int, start: Values, stop: Values, body: Callable[[InvocationBatch], Steps]
) -> Steps:
    """Run turns that each active invocation counts for itself, as long as it goes on."""
    lanes: Places = batch.lanes
    turn = spread(start, len(lanes)).astype(np.int64)
    last = spread(stop, len(lanes)).astype(np.int64)
    while True:
        stays = turn < last
        if not stays.all():
            lanes, turn, last = lanes[stays], turn[stays], last[stays]
        if not len(lanes):
            return
        batch.active = None if len(lanes) == batch.count else lanes
        batch.spend()
        batch.variables[slot] = batch.declared(turn.astype(np.uint32))
        yield from body(batch)
        if batch.active_count < len(lanes):
            kept = np.searchsorted(lanes, batch.lanes)  # both in order
            lanes, turn, last = lanes[kept], turn[kept], last[kept]
        turn = turn + 1


def _store_bytes(place: int, declared: BufferDecl, evaluate: Callable[[InvocationBatch], list[Values]]) -> Statement:
    """Return what stores bytes, or a word into bytes; a word takes the first bytes, and zeros for those that are missing."""
    width = 0 if declared.element == DataType.Bytes else 4

    def run(batch: InvocationBatch) -> None:
        index, values = evaluate(batch)
        at, value = int(index[0]), values[0]
        data = value if isinstance(value, bytes) else int(value).to_bytes(4, "little")
        buffer = batch.buffers[place]
        if not width:
            buffer.store_bytes(at, data)
        elif at < buffer.count:
            buffer.store_bytes(at * width, data[:width].ljust(width, b"\0"))

    return run
