"""Structured blocks for emitted code: a branch, loops that count, loops that do not, a loop until something succeeds.

Source: SPIR-V 1.6, 2.11 (structured control flow).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.spirv.instructions import LOOP_CONTROL_NONE, Ins

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
