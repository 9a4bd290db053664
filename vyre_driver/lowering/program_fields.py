"""A program as plain values of JSON and back: every field of it, so that its digest is the same.

The wire format has a canonical form, which runs the same and has another digest, and no place for some fields. This one is for
lines of recordings alone (recorded.py), whose version counts for it too. A reader makes terms by their own constructors, which
check every field, and no other objects.
"""

from __future__ import annotations

import base64
import enum
import inspect
import struct
from dataclasses import fields, is_dataclass
from typing import Any

from vyre_driver.errors import InvalidProgram, VyreError
from vyre_driver.ir import arithmetic, buffers, dtypes, expressions, nodes, operators, predicates, quantization
from vyre_driver.ir.expressions import BufferRef, SubgroupAdd, SubgroupReduce
from vyre_driver.ir.operators import SubgroupOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within

MOST_VALUES = 1 << 20
_IR = "vyre_driver.ir."
_SUM = "SubgroupAdd"  # what 0.2 calls a subgroup reduction that adds
_MODULES = (arithmetic, buffers, dtypes, expressions, nodes, operators, predicates, quantization)
_FOUND = {
    name: one for module in _MODULES for name, one in inspect.getmembers(module, inspect.isclass) if _IR in one.__module__
}
_ENUMS = {name: one for name, one in _FOUND.items() if issubclass(one, enum.Enum)}
_TERMS: dict[str, type[Any]] = {
    name: one
    for name, one in {**_FOUND, "Program": Program}.items()
    if is_dataclass(one) and not name.startswith("_") and one is not predicates.ShapePredicate
}
_NAMES = {one: [field.name for field in fields(one) if field.init] for one in _TERMS.values()}


def values_of(program: Program) -> object:
    """Return a program as values of JSON.

    Raises
    ------
    InvalidProgram
        If it is nested too deeply, has more than 2**20 values, or would not come back the same.
    """
    try:
        found = _Writer().value(program)
        is_same = program_of(found).digest() == program.digest()
    except (RecursionError, TypeError, ValueError) as error:
        raise _unwritable(str(error) or type(error).__name__) from error
    if not is_same:
        raise _unwritable("it would come back as another one")
    return found


def has_newer_terms(program: Program) -> bool:
    """Return whether a program has terms that vyre_driver 0.2 does not know."""
    return any(
        isinstance(term, BufferRef) or (isinstance(term, SubgroupReduce) and term.op is not SubgroupOp.ADD)
        for term in terms_within(*program.entry)
    )


def program_of(value: object) -> Program:
    """Return the program of such values.

    Raises
    ------
    ValueError
        If they are no such values.
    InvalidProgram
        If a field is not valid.
    """
    try:
        found = _read(value)
    except VyreError:
        raise
    except (RecursionError, TypeError, ValueError, LookupError, AttributeError, struct.error):
        found = None
    if not isinstance(found, Program):
        raise ValueError("its program is none")  # noqa: TRY004 -- of a line, not of an argument
    return found


class _Writer:
    """Counts what it writes: terms that are used several times are written as often."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def value(self, one: object) -> object:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        kind = type(one)
        if one is None or kind in {bool, int, str}:
            return one
        if isinstance(one, float):
            return {"float": struct.pack("<d", one).hex()}
        if isinstance(one, bytes):
            return {"bytes": base64.b64encode(one).decode("ascii")}
        if isinstance(one, tuple | list):
            return [self.value(part) for part in one]
        if isinstance(one, enum.Enum) and _ENUMS.get(kind.__name__) is kind:
            return {"enum": [kind.__name__, one.name]}
        if isinstance(one, SubgroupReduce) and one.op is SubgroupOp.ADD:
            return {_SUM: [self.value(one.value)]}
        if _TERMS.get(kind.__name__) is kind:
            return {kind.__name__: [self.value(getattr(one, name)) for name in _NAMES[kind]]}
        raise TypeError(f"it has a value of type {kind.__name__}")


def _read(value: object) -> Any:  # noqa: ANN401 -- a field
    if isinstance(value, list):
        return tuple([_read(one) for one in value])
    if not isinstance(value, dict):
        if isinstance(value, float):
            raise TypeError
        return value
    ((name, content),) = value.items()
    match name:
        case "float":
            return struct.unpack("<d", bytes.fromhex(content))[0]
        case "bytes":
            return base64.b64decode(content, validate=True)
        case "enum":
            kind, member = content
            return _ENUMS[kind][member]
        case _ if name == _SUM:
            return SubgroupAdd(*map(_read, content))
    made = _TERMS[name]
    return made(**dict(zip(_NAMES[made], [_read(one) for one in content], strict=True)))


def _unwritable(reason: str) -> InvalidProgram:
    return InvalidProgram(f"the program cannot be written down: {reason}", fix="compile it where it is needed")
