"""Structured blocks for emitted code: a branch, loops that count or do not, and notice of loops that a device's driver ends.

llvmpipe counts the turns of all loops of eight invocations together, and leaves every loop once the count passes a limit
(docs/lowering.md, "Drivers"). Its compiler does not know that, so that what is tested behind a loop is hidden from it.

Source: SPIR-V 1.6, 2.11 (structured control flow); docs/decisions/0057-a-loop-that-the-driver-cuts-is-an-error.md.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.builder import instruction
from vyre_driver.spirv.opcodes import (
    FUNCTION_CONTROL_NONE,
    LOOP_CONTROL_NONE,
    SELECTION_CONTROL_NONE,
    Decoration,
    Ins,
    Op,
    Scope,
    Semantics,
    StorageClass,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.lowering.emit.code import Code


@contextmanager
def when(code: Code, condition: int) -> Iterator[None]:
    """Put what is emitted inside into a branch that is taken where the condition holds."""
    merge = code.begin_branch(condition)
    with code.scope():
        code.assume(condition, holds=True)
        yield
    code.end_block(merge)


@contextmanager
def counting(  # noqa: PLR0913 -- a loop
    code: Code,
    start: int,
    stop: int,
    step: int | None = None,
    control: int = LOOP_CONTROL_NONE,
    *,
    ends_early: bool = False,
) -> Iterator[tuple[int, int]]:
    """Repeat what is emitted inside with a u32 from ``start`` while below ``stop``; gives its id, and the block after the loop.

    With the default step of 1 it cannot pass the greatest u32; for another the caller proves that. ``control`` is a hint.
    A loop that ``ends_early`` is left in other ways too: its caller notes whether the driver has cut it.
    """
    loop = code.new_loop()
    code.begin_loop(loop, start, control)
    with code.scope():
        code.enter_loop(loop, code.op(Ins.ULessThan, code.bool, loop.counter, stop))
        code.narrow(loop.counter, code.range_of(start)[0], U32_MAX)
        code.orders.know_below(loop.counter, stop)
        yield loop.counter, loop.merge
    code.end_loop(loop, code.const(1) if step is None else step)
    if code.loop_cuts is not None and not ends_early:
        code.loop_cuts.note_counter(loop.counter, stop)


@contextmanager
def repeating(code: Code) -> Iterator[int]:
    """Repeat what is emitted inside until it leaves; gives the block after the loop."""
    header, body, follow, merge = (code.module.new_id() for _ in range(4))
    code.branch(header)
    code.label(header)
    code.effect(Ins.LoopMerge, merge, follow, LOOP_CONTROL_NONE)
    code.branch(body)
    code.label(body)
    with code.scope():
        yield merge
    code.branch(follow)
    code.label(follow)
    code.branch(header)
    code.label(merge)


def leave_unless(code: Code, condition: int, merge: int) -> None:
    """Leave the loop that ends at ``merge`` unless a condition holds, which is known in the rest of the turn.

    The device's compiler is not to take it for false behind the loop where that may have been cut.
    """
    stay = code.module.new_id()
    tested = condition if code.loop_cuts is None else code.loop_cuts.hidden_condition(condition)
    code.effect(Ins.BranchConditional, tested, stay, merge)
    code.label(stay)
    code.assume(condition, holds=True)


@contextmanager
def retrying(code: Code, first: int) -> Iterator[tuple[int, Callable[[int, int], None]]]:
    """Repeat what is emitted inside, with a u32 that is ``first`` at first.

    Gives its id, and a function that ends the turn: given whether to leave, and the u32 of the next iteration.
    """
    header, body, follow, merge, held = (code.module.new_id() for _ in range(5))
    cuts = code.loop_cuts
    run, never = (0, 0) if cuts is None else cuts.begin_run()
    before = code.block
    code.branch(header)
    code.label(header)
    phi = len(code.words) + 5
    code.words += [7 << 16 | Ins.Phi, code.u32, held, first, before, 0, follow]
    code.effect(Ins.LoopMerge, merge, follow, LOOP_CONTROL_NONE)
    if cuts is None:
        code.branch(body)
    else:
        code.effect(Ins.BranchConditional, never, merge, body)
        code.terminated = True
    code.label(body)
    last = body

    def leave(condition: int, following: int) -> None:
        nonlocal last
        code.words[phi] = following
        last = code.block
        code.effect(Ins.BranchConditional, condition, merge, follow)
        code.terminated = True

    with code.scope():
        yield held, leave
    code.label(follow)
    code.branch(header)
    code.label(merge)
    if cuts is not None:
        cuts.note_run(run, code.result(Ins.Phi, code.u32, code.const(0), header, run, last))


class LoopCuts:
    """The tests behind the loops of one program, and the word in which the host finds what they saw.

    The word is the only one of a buffer behind those of the program. Each invocation keeps what it saw in a variable of its
    own, which costs an instruction a loop, and writes it to the buffer at its end, wherever it returned: the program is a
    function of its own, and ``main`` calls it.
    """

    def __init__(self, code: Code, binding: int) -> None:
        """Declare the buffer with this binding number, and the variable."""
        self._code = code
        module = code.module
        array = module.array_type(Op.TypeRuntimeArray, code.u32, stride=4)
        struct = module.name(module.struct_type(array), "LoopCuts")
        module.decorate(struct, Decoration.BLOCK)
        module.member_decorate(struct, 0, Decoration.OFFSET, 0)
        pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, struct)
        self._buffer = module.name(module.bound_variable(pointer, binding), "loop_cuts")
        private, nothing = module.type(Op.TypePointer, StorageClass.PRIVATE, code.bool), code.const_bool(value=False)
        self._seen = module.name(module.global_variable(private, StorageClass.PRIVATE, nothing), "has_cut_a_loop")
        self._runs = 0  # the variable that counts the loops without a counter of their own

    def false(self) -> int:
        """Return a condition that the compiler does not know to be false: that the buffer has no words, and it has one."""
        code = self._code
        length = code.early("words of loop cuts", Ins.ArrayLength, code.u32, self._buffer, 0)
        return code.early("no words of loop cuts", Ins.IEqual, code.bool, length, code.const(0))

    def hidden_condition(self, condition: int) -> int:
        """Return a bool of which the compiler knows nothing."""
        code = self._code
        return code.result(Ins.LogicalNotEqual, code.bool, condition, self.false())

    def hidden(self, word: int) -> int:
        """Return a u32 of which the compiler knows nothing."""
        code = self._code
        zero = code.early("zero of loop cuts", Ins.Select, code.u32, self.false(), code.const(U32_MAX), code.const(0))
        return code.result(Ins.BitwiseXor, code.u32, word, zero)

    def hidden_value(self, form: Form, value: int) -> int:
        """Return a value of any form, but four words, of which the compiler knows nothing."""
        if form is Form.BOOL:
            return self.hidden_condition(value)
        return value if form is Form.UVEC4 else self._code.hide_form(form, value, self.hidden)

    def note_counter(self, index: int, stop: int) -> None:
        """Behind a loop that ends only when its counter reaches ``stop``: note that it is below."""
        self.note(self.is_below(index, stop))

    def is_below(self, index: int, stop: int) -> int:
        """Return whether the counter of a loop that has ended is below its stop."""
        code = self._code
        return code.result(Ins.ULessThan, code.bool, self.hidden(index), stop)

    def note(self, is_cut: int) -> None:
        """Note that the loop was cut where this holds."""
        code = self._code
        before = code.result(Ins.Load, code.bool, self._seen)
        code.effect(Ins.Store, self._seen, code.result(Ins.LogicalOr, code.bool, before, is_cut))

    def begin_run(self) -> tuple[int, int]:
        """Before a loop that notes its end itself: return a number that no earlier run of a loop had, and a false condition.

        The loop has to leave by the second as well, so that what it brings along is not known to be the first.
        """
        code = self._code
        if not self._runs:
            self._runs = code.variable(code.u32, code.const(0))
        before = code.result(Ins.Load, code.u32, self._runs)
        run = code.result(Ins.IAdd, code.u32, before, code.const(1))
        code.effect(Ins.Store, self._runs, run)
        return run, self.false()

    def note_run(self, run: int, ended: int) -> None:
        """Behind such a loop: note that it has not brought along the number of its run."""
        code = self._code
        self.note(code.result(Ins.INotEqual, code.bool, self.hidden(ended), run))

    def main(self, main: int, program: int) -> list[int]:
        """Return the entry point: it calls the program's function, and writes down a loop that was cut."""
        code, module = self._code, self._code.module
        first, told, end = (module.new_id() for _ in range(3))
        nothing, is_cut, place = (module.new_id() for _ in range(3))
        pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, code.u32)
        zero, scope, relaxed = code.const(0), code.const(Scope.DEVICE), code.const(Semantics.RELAXED)
        return [
            *instruction(Ins.Function, code.void, main, FUNCTION_CONTROL_NONE, module.type(Op.TypeFunction, code.void)),
            *instruction(Ins.Label, first),
            *instruction(Ins.FunctionCall, code.void, nothing, program),
            *instruction(Ins.Load, code.bool, is_cut, self._seen),
            *instruction(Ins.SelectionMerge, end, SELECTION_CONTROL_NONE),
            *instruction(Ins.BranchConditional, is_cut, told, end),
            *instruction(Ins.Label, told),
            *instruction(Ins.AccessChain, pointer, place, self._buffer, zero, zero),
            *instruction(Ins.AtomicUMax, code.u32, module.new_id(), place, scope, relaxed, code.const(1)),
            *instruction(Ins.Branch, end),
            *instruction(Ins.Label, end),
            *instruction(Ins.Return),
            *instruction(Ins.FunctionEnd),
        ]
