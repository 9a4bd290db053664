"""Check calls against the signatures of the operations they name.

This driver has no registry of operations: a caller that has one gives the validator its signatures. Without them calls are not
checked, and what they return is of unknown type.

Source: spec item 1.8 (V016, V020, V021, V022; call depth 32); of 0.7: V053, V054.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufferRef, Call, Expr
from vyre_driver.ir.validation.rules import Rule, quoted, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vyre_driver.ir.buffers import BufferDecl

MAX_CALL_DEPTH = 32

_BUFFER = "buffer<"
_SPELLINGS = {str(one): one for one in vars(DataType).values() if isinstance(one, DataType)}


class OperationSignature(NamedTuple):
    """What an operation takes and returns, as types without parameters are spelled ("u32", "vec2<u32>").

    An argument that is a whole buffer is spelled by its elements: "buffer<u32>" takes a ``BufferRef``.
    ``call_depth`` is 1 for an operation that calls none, else 1 more than the deepest it calls.
    """

    arguments: tuple[str, ...]
    result: str
    call_depth: int = 1


class CallProblem(NamedTuple):
    """What is wrong with a call; ``argument`` is the place of the argument it is about."""

    rule: Rule
    message: str
    fix: str
    argument: int | None = None


def call_problems(
    call: Call, types: list[DataType | None], buffers: Mapping[str, BufferDecl], signature: OperationSignature | None
) -> Iterator[CallProblem]:
    """Yield what is wrong with a call whose arguments have these types, None for a reference to one of these buffers."""
    name = quoted(call.op_id)
    if signature is None:
        yield CallProblem(Rule.UNKNOWN_CALL, f"no operation {name} is known", "call an operation that was given")
        return
    if signature.call_depth > MAX_CALL_DEPTH:
        text = f"{name} calls {signature.call_depth} deep, over the limit of {MAX_CALL_DEPTH}"
        yield CallProblem(Rule.CALL_DEPTH, text, "call it from fewer operations")
    spellings = {*map(_element_spelling, signature.arguments), signature.result}
    for spelling in sorted(spellings - _SPELLINGS.keys()):
        yield CallProblem(Rule.CALL_TYPE_NAME, f"the signature of {name} names the type {quoted(spelling)}", "name a data type")
    if len(types) != len(signature.arguments):
        count = len(signature.arguments)
        text = f"{name} takes {count} argument{'s' * (count != 1)}, and got {len(types)}"
        yield CallProblem(Rule.CALL_ARITY, text, "give as many arguments as it takes")
        return
    for place, (got, spelling) in enumerate(zip(types, signature.arguments, strict=True)):
        expected = _SPELLINGS.get(_element_spelling(spelling))
        if spelling.startswith(_BUFFER):
            yield from _buffer_problems(call.args[place], place, expected, buffers)
            continue
        argument = call.args[place]
        if isinstance(argument, BufferRef):
            text = f"{name} takes {spelling} for argument {place}, and got the buffer {quoted(argument.buffer)}"
            yield CallProblem(Rule.CALL_ARGUMENT, text, "load an element of it", place)
        elif got is not None and expected is not None and got != expected:
            text = f"{name} takes {spelling} for argument {place}, and got {spelled(got)}"
            yield CallProblem(Rule.CALL_ARGUMENT, text, f"cast it to {spelling}", place)


def _element_spelling(spelling: str) -> str:
    return spelling.removeprefix(_BUFFER).removesuffix(">") if spelling.startswith(_BUFFER) else spelling


def _buffer_problems(
    argument: Expr, place: int, element: DataType | None, buffers: Mapping[str, BufferDecl]
) -> Iterator[CallProblem]:
    """Yield what is wrong with an argument that is to be a buffer; whether it is declared, the expression's rules ask."""
    if not isinstance(argument, BufferRef):
        text = f"argument {place} is a value, and the signature takes a buffer there"
        yield CallProblem(Rule.BUFFER_ARGUMENT, text, "pass a BufferRef", place)
        return
    buffer = buffers.get(argument.buffer)
    if buffer is not None and element is not None and buffer.element != element:
        text = f"buffer {quoted(buffer.name)} holds {spelled(buffer.element)}, and the signature takes a buffer of {element}"
        yield CallProblem(Rule.BUFFER_ARGUMENT_TYPE, text, "pass a buffer of such elements", place)


def result_type(signature: OperationSignature | None) -> DataType | None:
    """Return what an operation returns, None when that is not known."""
    return None if signature is None else _SPELLINGS.get(signature.result)
