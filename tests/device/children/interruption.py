"""KeyboardInterrupt at each bytecode of ours, and of what we build on; the interruption tests run this in processes of its own.

Usage: interruption.py points | interruption.py strike < POINTS

``points`` prints as JSON, for each scene, the bytecodes of ``vyre_driver`` that it runs, and of those modules of Python that
hold things for us, in the order in which it comes to them: [scene, file, first line, function, offset]. ``strike`` takes such a
list and interrupts a scene at each, when it first comes to it; it prints what ``strike_all`` does.

A bytecode on the way from a block of ``with`` or ``finally`` to the call that ends it is not a point: no source could hold
there, for the lock that was taken would never be given back. CPython handles signals after calls, at the beginning of functions
and in loops, which those are not.
"""

from __future__ import annotations

import concurrent.futures._base
import contextlib
import dis
import functools
import sys
import threading
import weakref
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from interruption_play import Harness, ending
from interruption_scenes import INTERRUPTED

import vyre_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    Trace = Callable[[FrameType, str, Any], Any]

OURS = str(Path(vyre_driver.__file__).parent) + "/"
HOLDERS = {module.__file__: module.__name__ for module in (concurrent.futures._base, contextlib, threading, weakref)}  # noqa: SLF001


class Point(NamedTuple):
    """A bytecode, by names that are the same in every process."""

    scene: str
    file: str
    first_line: int
    function: str
    offset: int


def point_of(scene: str, code: CodeType, offset: int) -> Point:
    name = HOLDERS.get(code.co_filename) or code.co_filename.removeprefix(OURS)
    return Point(scene, name, code.co_firstlineno, code.co_name, offset)


@functools.cache
def no_points(code: CodeType) -> frozenset[int]:
    """Return the offsets at which CPython handles no signal, and no source could hold if it did."""
    instructions = list(dis.get_instructions(code))
    at = {one.offset: number for number, one in enumerate(instructions)}
    # An exception that comes while the one being handled is put away leaves that where it is.
    found = {one.offset for one in instructions if one.opname in {"PUSH_EXC_INFO", "POP_EXCEPT"}}
    for before, one in pairwise(instructions):
        # The names of a call's arguments lie in the interpreter's own hands until it is made.
        if before.opname in {"KW_NAMES", "PRECALL"}:
            found.add(one.offset)
        if (before.opname, one.opname) == ("COPY", "POP_EXCEPT"):
            found.add(before.offset)
    for start in ends_of_blocks(code, instructions, at):
        for one in instructions[at[start] :]:
            found.add(one.offset)
            if one.opname.startswith("CALL") or one.opname == "WITH_EXCEPT_START":
                break
    return frozenset(found)


def ends_of_blocks(code: CodeType, instructions: list[dis.Instruction], at: dict[int, int]) -> Iterator[int]:
    """Yield where the ways out begin of the blocks that have to be ended: behind the block, and where an exception goes."""
    if sys.version_info < (3, 11):
        yield from (one.offset for one in instructions if one.opname == "POP_BLOCK")
        yield from (one.argval for one in instructions if one.opname in {"SETUP_FINALLY", "SETUP_WITH"})
        return
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]  # noqa: SLF001
        if not is_except(instructions[at[entry.target] :]):
            yield min(offset for offset in at if offset >= entry.end)
            yield entry.target


def is_except(handler: list[dis.Instruction]) -> bool:
    """Whether a handler looks at the exception before it does anything."""
    for one in handler:
        if one.opname in {"RERAISE", "WITH_EXCEPT_START"} or one.opname.startswith("CALL"):
            return False
        if one.opname in {"CHECK_EXC_MATCH", "POP_EXCEPT"}:
            return True
    return False


def follow(at_opcode: Callable[[CodeType, int], None], wanted: Callable[[CodeType], bool]) -> None:
    """Call ``at_opcode`` before each bytecode of the code that is wanted."""

    def in_function(frame: FrameType, event: str, _: object) -> Trace:
        if event == "opcode":
            at_opcode(frame.f_code, frame.f_lasti)
        return in_function

    def at_call(frame: FrameType, _: str, __: object) -> Trace | None:
        if not wanted(frame.f_code):
            return None
        # Python 3.13 asks for a function's bytecodes where the frame has its tracer already, and else from the next time on.
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = in_function, True, False
        return in_function

    sys._getframe().f_trace_opcodes = True  # noqa: SLF001 -- Python 3.12 tells of bytecodes from the first settrace behind this
    sys.settrace(at_call)


def points_of(scene: str, act: Callable[[], None]) -> list[Point]:
    found: dict[Point, None] = {}

    def note(code: CodeType, offset: int) -> None:
        if offset not in no_points(code):
            found[point_of(scene, code, offset)] = None

    follow(note, lambda code: code.co_filename.startswith(OURS) or code.co_filename in HOLDERS)
    try:
        act()
    finally:
        sys.settrace(None)
    return list(found)


def interrupt(act: Callable[[], None], point: Point) -> tuple[bool, list[str]]:
    """Run the act and interrupt it at the point; returns whether it came there, and what is wrong with how it ended."""
    reached = False

    def strike(_: CodeType, offset: int) -> None:
        nonlocal reached
        if offset == point.offset and not reached:
            reached = True
            raise KeyboardInterrupt

    def is_there(code: CodeType) -> bool:
        return code.co_firstlineno == point.first_line and point == point_of(point.scene, code, point.offset)

    follow(strike, is_there)
    told, wrong = ending(act, (KeyboardInterrupt,))
    return reached, wrong or (["it went on as if nothing had been"] if reached and not told else [])


if __name__ == "__main__":
    Harness(INTERRUPTED, points_of, Point, interrupt, ready=lambda: None).main(sys.argv[1])
