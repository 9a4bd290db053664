"""Emit statements as structured control flow, and refuse what cannot be lowered.

Source: spec items 1.5 and 1.7; SPIR-V 1.6, 2.11 (structured control flow).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import LitU32
from vyre_driver.ir.loop_ends import ending_if, is_uncounted
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Region, Return, Store
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.program import ROOT_GENERATORS
from vyre_driver.ir.walks import BODY_FIELDS
from vyre_driver.lowering.emit.blocks import counting, leave_unless, repeating
from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.hiding import hide_f32
from vyre_driver.lowering.emit.kinds import F32, U32
from vyre_driver.spirv.instructions import LOOP_CONTROL_NONE, LOOP_CONTROL_UNROLL, Ins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program
    from vyre_driver.lowering.emit.expressions import Expressions

_MOST_TURNS, _MOST_COPIES = 16, 64  # of what is to be unrolled
_NEEDS = {
    "IndirectDispatch": "a dispatch whose grid the device reads, which kompute does not record",
    "AsyncLoad": "copies that run beside the invocations",
    "AsyncStore": "copies that run beside the invocations",
    "AsyncWait": "copies that run beside the invocations",
    "Trap": "a trap that the host learns of, which SPIR-V does not have",
    "Resume": "a trap that the host learns of, which SPIR-V does not have",
    "AllReduce": "several devices that work together",
    "AllGather": "several devices that work together",
    "ReduceScatter": "several devices that work together",
    "Broadcast": "several devices that work together",
    "OpaqueNode": "an extension that lowers it",
}


class Statements:
    """Emits the nodes of a program; ``path`` says where it is."""

    def __init__(self, code: Code, expressions: Expressions, constants: Mapping[str, Value]) -> None:
        """Emit into ``code``; ``constants`` are the specialized values of lets by name."""
        self._code = code
        self._memory = expressions.memory
        self._variables = expressions.variables
        self._expressions = expressions
        self._constants = constants
        self._frames: list[tuple[str, int]] = []
        self._lines: dict[str, tuple[str, int, int]] = {}
        self._program: Program | None = None
        self.node: Node | None = None
        self._handlers: dict[type[Node], Callable[[Any], None]] = {
            Let: self._let,
            Assign: self._assign,
            Store: self._store,
            If: self._if,
            Loop: self._loop,
            Return: lambda _: code.leave(),
            Block: lambda node: self._body("body", node.body),
            Region: lambda node: self._body("body", node.body),
            Barrier: self._barrier,
        }

    def program(self, program: Program) -> None:
        """Emit the whole program."""
        self._lines = dict(self._code.target.lines or ())
        self._program = program
        self._body("entry", program.entry)

    def path(self, program: Program) -> str:
        """Return the path of the statement at hand, as the validator writes it."""
        frames = self._frames
        sole = program.entry[0] if len(program.entry) == 1 else None
        if isinstance(sole, Region) and sole.generator in ROOT_GENERATORS and len(frames) > 1:
            frames = frames[1:]
        return ".".join(f"{field}[{place}]" for field, place in frames)

    def _body(self, field: str, nodes: tuple[Node, ...]) -> None:
        with self._variables.scope():
            for place, node in enumerate(nodes):
                if self._code.terminated:
                    break
                self._frames.append((field, place))
                self.node = node
                self._expressions.forget()
                if self._lines:
                    self._tell_line()
                self._emit(node)
                self._frames.pop()

    def _tell_line(self) -> None:
        """Say where in a source the statement at hand comes from, where that is known."""
        assert self._program is not None  # noqa: S101 -- there are lines
        found = self._lines.get(self.path(self._program))
        if found is not None:
            self._code.at_line(*found)

    def _emit(self, node: Node) -> None:
        handler = self._handlers.get(type(node))
        if handler is None:
            name = type(node).__name__
            cannot(None, f"{name} has no lowering", _NEEDS.get(name, "an extension that lowers it"))
        handler(node)

    def _let(self, node: Let) -> None:
        given = self._constants.get(node.name)
        self._variables.declare(node.name, self._expressions.value(node.value) if given is None else self._hidden(given))

    def _hidden(self, given: Value) -> Value:
        """Return a constant that is specialized; of an f32 the driver's compiler is to know nothing.

        NVIDIA's (580.159.04 on an H200) rounds only the last of sums of constants, which the emitter computes itself elsewhere.
        """
        return Value(hide_f32(self._code, given.id), F32) if given.kind is F32 else given

    def _assign(self, node: Assign) -> None:
        self._variables.assign(node.name, self._expressions.value(node.value))

    def _store(self, node: Store) -> None:
        index = self._expressions.place(node.index)
        self._memory.store(node, node.buffer, index, self._expressions.value(node.value))

    def _if(self, node: If) -> None:
        code = self._code
        condition = self._expressions.condition(node.cond)
        yes, no, merge = code.module.new_id(), code.module.new_id(), code.module.new_id()
        code.split(condition, yes, no if node.otherwise else merge, merge)
        ends = [self._branch(yes, condition, "then", node.then, merge, holds=True)]
        if node.otherwise:
            ends.append(self._branch(no, condition, "otherwise", node.otherwise, merge, holds=False))
        code.label(merge)
        if len(ends) == 2 and all(ends):  # nothing comes here
            code.effect(Ins.Unreachable)
            code.terminated = True
        elif any(ends):
            code.assume(condition, holds=not ends[0])

    def _branch(  # noqa: PLR0913 -- an edge of the control flow
        self, block: int, condition: int, field: str, nodes: tuple[Node, ...], merge: int, *, holds: bool
    ) -> bool:
        """Emit one side of an if; returns whether it left the invocation."""
        code = self._code
        code.label(block)
        with code.scope():
            code.assume(condition, holds=holds)
            self._body(field, nodes)
        left = code.terminated
        code.branch(merge)
        return left

    def _loop(self, node: Loop) -> None:
        code, ending = self._code, ending_if(node, self._code.uses.pushed)
        with self._variables.scope():
            if ending is not None and is_uncounted(node):
                self._forget()
                with repeating(code) as merge:
                    self._turn(node, ending, merge)
                if code.loop_cuts is not None:
                    code.loop_cuts.note(self._still_holds(ending))
            else:
                start, stop = self._expressions.value(node.start), self._expressions.value(node.stop)
                self._forget()
                control = LOOP_CONTROL_UNROLL if 0 < _copies([node]) <= _MOST_COPIES else LOOP_CONTROL_NONE
                ends_early = ending is not None
                with counting(code, start.id, stop.id, control=control, ends_early=ends_early) as (index, merge):
                    self._variables.declare(node.var, Value(index, U32))
                    self._turn(node, ending, merge)
                if code.loop_cuts is not None and ending is not None:
                    is_below = code.loop_cuts.is_below(index, stop.id)
                    code.loop_cuts.note(code.result(Ins.LogicalAnd, code.bool, is_below, self._still_holds(ending)))
        self._forget()

    def _still_holds(self, ending: If) -> int:
        """Return whether the condition of a loop that has ended holds, evaluated anew where the compiler takes it for false."""
        self._forget()
        self._expressions.forget()
        with self._code.scope(), self._variables.hidden():
            holds = self._expressions.condition(ending.cond)
        self._expressions.forget()
        return holds

    def _turn(self, node: Loop, ending: If | None, merge: int) -> None:
        """Emit a turn of a loop, which ends where the condition of ``ending`` fails."""
        self._code.loops += 1
        if ending is None:
            self._body("body", node.body)
        else:
            self._frames.append(("body", 0))
            self.node = ending
            self._expressions.forget()
            leave_unless(self._code, self._expressions.condition(ending.cond), merge)
            self._body("then", ending.then)
            self._frames.pop()
        self._code.loops -= 1

    def _forget(self) -> None:
        self._variables.forget()
        self._memory.buffers.changed()

    def _barrier(self, node: Barrier) -> None:
        if node.ordering is MemoryOrdering.GRID_SYNC:
            cannot(None, "a barrier of the whole grid", "a dispatch whose workgroups are all resident at once")
        self._memory.barrier()


def _copies(nodes: Sequence[Node]) -> int:
    """Return how often a statement would stand in the code with all loops of these unrolled; 0 where one has many turns."""
    most = 1
    for node in nodes:
        inside = [_copies(getattr(node, field)) for field in BODY_FIELDS.get(type(node), ())]
        if isinstance(node, Loop):
            start, stop = node.start, node.stop
            turns = stop.value - start.value if isinstance(start, LitU32) and isinstance(stop, LitU32) else 0
            inside = [turns * inside[0] if 0 < turns <= _MOST_TURNS else 0]
        most = max([most, *inside]) if all(inside) else 0
        if not most:
            break
    return most
