"""Errors for bytes that another program wrote, and the programs among these bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from typing import NoReturn


def refuse(what: str, problem: str, offset: int = 0) -> NoReturn:
    """Raise InvalidContainer (2105): the bytes are not ``what``, for the problem at byte ``offset``."""
    raise InvalidContainer(
        f"the bytes are not {what} that can be read: byte {offset}: {problem}",
        fix=f"write {what} anew with upstream's vyre 0.7, and move it as bytes",
        offset=offset,
    )


def whole_bytes(data: object, what: str) -> bytes:
    """Return bytes, or what holds some, as bytes; raises InvalidContainer for anything else."""
    if not isinstance(data, bytes | bytearray | memoryview):
        refuse(what, f"they are of type {type(data).__name__}")
    return bytes(data)


def program_of(data: bytes, what: str, where: str, offset: int) -> Program:
    """Return the program in a wire container that stands at byte ``offset`` of ``what``; raises InvalidContainer."""
    try:
        return Program.from_wire(data)
    except InvalidContainer as error:
        inner = error.context.get("offset")
        return refuse(what, f"{where}: {error.problem}", offset + (inner if isinstance(inner, int) else 0))
    except InvalidProgram as error:
        return refuse(what, f"{where}: {error.problem}", offset)
