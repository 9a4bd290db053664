"""What a kernel that is a program takes: which buffers are arrays, which are numbers, and what each is called in Python."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.buffers import BufferAccess, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufLen, Cast, Load
from vyre_driver.ir.nodes import Assign, Let
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.builtins import own
from vyre_driver.lang.types import SCALARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.terms import Term

_FORMS = {BufferAccess.READ_ONLY: "In", BufferAccess.UNIFORM: "In", BufferAccess.WRITE_ONLY: "Out"}
_ELEMENTS = {one.element: "bool_" if one.name == "bool" else one.name for one in SCALARS.values()}
_GIVEN = re.compile(r"(?P<owner>\w+)\.(?P<what>shape|groups|extent)(\[(?P<axis>\d)\])?")
_USED = frozenset(
    {*intrinsics.__all__, *own.__all__, *SCALARS, "bool_", "In", "Out", "InOut", "Index", "Group", "kernel", "math", "np"}
)
_USED_OF_PYTHON = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "pow", "range"})


class Given(NamedTuple):
    """A number that a call of the language gives without being asked: ``owner.shape[axis]`` and its like."""

    owner: str
    what: str
    axis: int


def given(buffer: BufferDecl) -> Given | None:
    """Return what a pushed buffer stands for where the front end named it, else None."""
    found = _GIVEN.fullmatch(buffer.name) if buffer.kind is MemoryKind.PUSH else None
    return (
        None
        if found is None or buffer.element != DataType.U32
        else Given(found["owner"], found["what"], int(found["axis"] or 0))
    )


def is_reserved(word: str) -> bool:
    """Whether no name may be so in Python: a keyword, or a constant that cannot be assigned to."""
    return keyword.iskeyword(word) or word == "__debug__"


class Names:
    """The names of a kernel in Python, none of them twice, and none that the language needs."""

    def __init__(self) -> None:
        """Begin with what the language needs."""
        self._taken = {*_USED, *_USED_OF_PYTHON}

    def named(self, like: str) -> str:
        """Return a name as like to one of the program as can be."""
        word = re.sub(r"\W", "_", like)
        base = word if word.isidentifier() and not is_reserved(word) else f"_{word}"
        found, count = base, 0
        while found in self._taken:
            count += 1
            found = f"{base}_{count}"
        self._taken.add(found)
        return found


def is_number(buffer: BufferDecl, terms: Iterable[Term]) -> bool:
    """Whether a buffer is a parameter that is a number: a pushed one of which only the first element is loaded."""
    if buffer.kind is not MemoryKind.PUSH or buffer.count != 1 or buffer.element not in _ELEMENTS:
        return False
    uses = [one for one in terms if isinstance(one, (Load, BufLen)) and one.buffer == buffer.name]
    return all(isinstance(one, Load) and one.index == LitU32(0) for one in uses)


def annotation(buffer: BufferDecl, axes: int) -> str:
    """Return the annotation of an array.

    Raises
    ------
    UnsupportedFeature
        If the language has no such elements.
    """
    rank = f", {axes}" if axes > 1 else ""
    return f"{_FORMS.get(buffer.access, 'InOut')}[{element(buffer)}{rank}]"


def element(buffer: BufferDecl) -> str:
    """Return the language's name of a buffer's elements.

    Raises
    ------
    UnsupportedFeature
        If it has none.
    """
    if buffer.element not in _ELEMENTS:
        raise UnsupportedFeature(
            f"buffer {buffer.name!r} holds {buffer.element}, of which kernels written as Python have no arrays",
            fix="look at the program itself: print(program)",
            buffer=buffer.name,
        )
    return _ELEMENTS[buffer.element]


def loaded_numbers(body: Sequence[Node], numbers: Mapping[str, BufferDecl], terms: Iterable[Term]) -> dict[str, str]:
    """Return the variables that stand in front for pushed numbers, with the buffer of each, as the front end declares them.

    An i32 that a caller gives is held as the u32 of its bits, a length that each call gives is one of 1 at least, and none of
    them ever gets another value. ``terms`` are all parts of the program.
    """
    found: dict[str, str] = {}
    assigned = {one.name for one in terms if isinstance(one, Assign)}
    for node in body:
        match node:
            case Let(name, Cast(DataType.U32, Load(buffer))) if buffer in numbers and numbers[buffer].element == DataType.I32:
                pass
            case Let(name, Load(buffer)) if buffer in numbers and numbers[buffer].element != DataType.I32:
                pass
            case Let(name, Binary(BinOp.MAX, Load(buffer), LitU32(1))) if buffer in numbers and given(numbers[buffer]):
                pass
            case _:
                break
        if name in assigned:
            break
        found[name] = buffer
    return found
