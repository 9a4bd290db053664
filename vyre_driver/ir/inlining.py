"""Replace the calls of a program by what the called operations do.

An operation is a program. Its parameters are its buffers but the output and the memory of a workgroup or an invocation, in the
order of their declaration. A BufferRef is passed as the buffer it names; any other argument as a read-only buffer of that one
element. The result is what the operation leaves in element 0 of its output, 0 where it stores nothing there.

Arguments are evaluated from left to right, and a call where it stands: what is evaluated before it in the same statement is
kept in variables. Every call gets variables and memory of its own.

Source: upstream's 0.7 expands calls of operations that have a program before it evaluates or lowers. How an operation's program
tells parameters and result is this package's choice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from vyre_driver.ir.arithmetic import Expr, LitBool, LitF32, LitI32, LitU32, Var
from vyre_driver.ir.buffers import BufferDecl, MemoryKind
from vyre_driver.ir.canonical import rewrite
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufferRef, BufLen, Call, Cast, InvocationId, Load, LocalId, WorkgroupId
from vyre_driver.ir.fields import refuse
from vyre_driver.ir.nodes import Assign, Let, Loop, Node, Region, Return, Store
from vyre_driver.ir.terms import Term, terms_within
from vyre_driver.ir.validation.call_rules import MAX_CALL_DEPTH
from vyre_driver.ir.walks import (
    BODY_FIELDS,
    BUFFER_FIELDS,
    EXPRESSION_FIELDS,
    MAX_EXPRESSION_DEPTH,
    MAX_NESTING,
    MAX_NODES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vyre_driver.ir.program import Program

_NEVER_SETTLED = 1 << 31  # a trait that no term has: every term is visited
_SIMPLE = (LitU32, LitI32, LitF32, LitBool, Var, InvocationId, WorkgroupId, LocalId, BufLen, BufferRef)  # no call changes it
_OWN_MEMORY = (MemoryKind.SHARED, MemoryKind.LOCAL)
_ZEROS: dict[DataType, Expr] = {
    DataType.U32: LitU32(0),
    DataType.I32: LitI32(0),
    DataType.F32: LitF32(0),
    DataType.Bool: LitBool(False),
    DataType.U64: Cast(DataType.U64, LitU32(0)),
    DataType.I64: Cast(DataType.I64, LitU32(0)),
    DataType.F16: Cast(DataType.F16, LitF32(0)),
    DataType.BF16: Cast(DataType.BF16, LitF32(0)),
}


def inline_calls(program: Program, operations: Mapping[str, Program]) -> Program:
    """Return a program in which every call is replaced by what its operation does.

    Parameters
    ----------
    program
        A program of at most 100,000 nodes, nested at most 64 deep, with expressions at most 128 deep.
    operations
        The operations' programs, by op id; an operation may call others, at most 32 deep.

    Returns
    -------
    Program
        One without calls. ``program`` itself where it calls nothing.

    Raises
    ------
    InvalidProgram
        If a call names an operation that is not given, passes too many or too few arguments, or a buffer of other elements; if
        an operation calls itself, returns, has no single output, writes a parameter that is passed by value, or indexes it
        other than by the literal 0; if the result passes 100,000 nodes, or a limit above is passed.
    """
    return _Inliner(operations).inlined(program, ())


class _Inliner:
    """The operations of one expansion, each without calls once it was needed."""

    def __init__(self, operations: Mapping[str, Program]) -> None:
        self._operations = operations
        self._expanded: dict[str, Program] = {}

    def inlined(self, program: Program, callers: tuple[str, ...]) -> Program:
        if not any(isinstance(term, Call) for term in terms_within(*program.entry)):
            return program
        return _Expansion(self, program, callers).program()

    def operation(self, op_id: str, callers: tuple[str, ...]) -> Program:
        """Return an operation's program without calls."""
        if op_id in callers:
            refuse(f"operation {op_id!r} calls itself", "write the repetition as a loop", op_id=op_id)
        if len(callers) >= MAX_CALL_DEPTH:
            refuse(f"operations call each other more than {MAX_CALL_DEPTH} deep", "call fewer operations from operations")
        if op_id not in self._expanded:
            program = self._operations.get(op_id)
            if program is None:
                refuse(f"no operation {op_id!r} is given", "give its program, or call an operation that is given", op_id=op_id)
            self._expanded[op_id] = self.inlined(program, (*callers, op_id))
        return self._expanded[op_id]


class _Expansion:
    """One program whose calls are being replaced."""

    def __init__(self, inliner: _Inliner, program: Program, callers: tuple[str, ...]) -> None:
        self._inliner = inliner
        self._program = program
        self._callers = callers
        self._buffers = {buffer.name: buffer for buffer in program.buffers}
        self._names = {*self._buffers, *_variables(program.entry)}
        self._numbers: dict[str, itertools.count[int]] = {}
        self._node_count = sum(node.node_count for node in program.entry)

    def program(self) -> Program:
        """Return the program without calls."""
        for what, limit, deepest in (
            ("nodes are nested", MAX_NESTING, max(node.nesting for node in self._program.entry)),
            ("expressions are", MAX_EXPRESSION_DEPTH, max(node.expression_depth for node in self._program.entry)),
        ):
            if deepest > limit:
                refuse(f"{what} {deepest} deep, over the limit of {limit}", "nest less")
        entry = self._body(self._program.entry)
        return self._program.with_rewritten_entry(entry).with_rewritten_buffers(tuple(self._buffers.values()))

    def _body(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        body: list[Node] = []
        for node in nodes:
            changes: dict[str, Any] = {}
            fields = EXPRESSION_FIELDS.get(type(node), ())
            before, values = self._operands([getattr(node, field) for field in fields])
            changes.update(zip(fields, values, strict=True))
            changes.update({field: self._body(getattr(node, field)) for field in BODY_FIELDS.get(type(node), ())})
            body += [*before, cast("Node", _changed(node, changes))]
        return tuple(body)

    def _operands(self, operands: list[Any]) -> tuple[list[Node], list[Any]]:
        """Return the nodes to run before some expressions, None or tuples of them, and what replaces these."""
        calls = [place for place, operand in enumerate(operands) if _has_call(operand)]
        before: list[Node] = []
        values = list(operands)
        for place, operand in enumerate(operands[: calls[-1] + 1] if calls else ()):
            if isinstance(operand, tuple):
                nodes, parts = self._operands(list(operand))
                before += nodes
                values[place] = tuple(parts) if place == calls[-1] else tuple(self._kept(part, before) for part in parts)
            elif operand is not None:
                nodes, value = self._value(operand)
                before += nodes
                values[place] = value if place == calls[-1] else self._kept(value, before)
        return before, values

    def _kept(self, value: Expr, before: list[Node]) -> Expr:
        """Return an expression that a call after it does not change."""
        if isinstance(value, _SIMPLE):
            return value
        name = self._new_name("kept")
        before.append(Let(name, value))
        return Var(name, value.dtype)

    def _value(self, expression: Expr) -> tuple[list[Node], Expr]:
        if not _has_call(expression):
            return [], expression
        fields = EXPRESSION_FIELDS[type(expression)]
        before, values = self._operands([getattr(expression, field) for field in fields])
        if isinstance(expression, Call):
            nodes, result = self._call(expression.op_id, values[0])
            return [*before, *nodes], result
        return before, cast("Expr", _changed(expression, dict(zip(fields, values, strict=True))))

    def _call(self, op_id: str, arguments: tuple[Expr, ...]) -> tuple[list[Node], Expr]:
        """Return the nodes of a call, and the variable that holds its result."""
        operation = self._inliner.operation(op_id, self._callers)
        output = _output_of(op_id, operation)
        parameters = [buffer for buffer in operation.buffers if buffer is not output and buffer.kind not in _OWN_MEMORY]
        if len(arguments) != len(parameters):
            text = f"operation {op_id!r} has {len(parameters)} parameters, and a call passes {len(arguments)} arguments"
            refuse(text, "pass one argument for each buffer that is not the output", op_id=op_id)
        result = self._new_name(f"{op_id}.result")
        before: list[Node] = []
        buffers: dict[str, str] = {}
        values: dict[str, Expr] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, BufferRef):
                buffers[parameter.name] = self._passed(op_id, parameter, argument)
            else:
                values[parameter.name] = self._kept(argument, before)
        for buffer in operation.buffers:
            if buffer.kind in _OWN_MEMORY:
                own = replace(buffer, name=self._new_name(f"{op_id}.{buffer.name}"))
                buffers[buffer.name] = own.name
                self._buffers[own.name] = own
        self._count(sum(node.node_count for node in operation.entry) + len(before) + 2, op_id)
        variables = {name: self._new_name(f"{op_id}.{name}") for name in sorted(_variables(operation.entry))}
        renaming = _Renaming(op_id, output, result, buffers, values, variables)
        body = tuple(cast("Node", rewrite(node, renaming.renamed, _NEVER_SETTLED)) for node in operation.entry)
        nodes = [*before, Let(result, _ZEROS[output.element]), Region(op_id, None, body)]
        return nodes, Var(result, output.element)

    def _passed(self, op_id: str, parameter: BufferDecl, argument: BufferRef) -> str:
        buffer = self._buffers.get(argument.buffer)
        if buffer is None:
            refuse(f"a call of {op_id!r} passes buffer {argument.buffer!r}, which is not declared", "declare it", op_id=op_id)
        if buffer.element != parameter.element:
            text = f"a call of {op_id!r} passes buffer {buffer.name!r} of {buffer.element} for one of {parameter.element}"
            refuse(text, f"pass a buffer of {parameter.element}", op_id=op_id)
        return buffer.name

    def _count(self, nodes: int, op_id: str) -> None:
        self._node_count += nodes
        if self._node_count > MAX_NODES:
            refuse(
                f"with the calls of {op_id!r} replaced the program has {self._node_count} nodes, over {MAX_NODES}",
                "call less, or write a loop",
                op_id=op_id,
            )

    def _new_name(self, name: str) -> str:
        numbers = self._numbers.setdefault(name, itertools.count())
        new = next(new for number in numbers if (new := f"{name}.{number}") not in self._names)
        self._names.add(new)
        return new


@dataclass(frozen=True)
class _Renaming:
    """The names and values that replace those of an operation in the program that calls it."""

    op_id: str
    output: BufferDecl
    result: str
    buffers: Mapping[str, str]
    values: Mapping[str, Expr]
    variables: Mapping[str, str]

    def renamed(self, term: Term) -> Term:
        """Return what replaces a term of the operation, whose parts are replaced already."""
        if isinstance(term, Return):
            refuse(f"operation {self.op_id!r} returns, which would end its caller", "put what follows under an if")
        if isinstance(term, Var):
            return Var(self.variables[term.name], term.dtype)
        if isinstance(term, Let | Assign):
            return type(term)(self.variables[term.name], term.value)
        if isinstance(term, Loop):
            return replace(term, var=self.variables[term.var])
        fields = BUFFER_FIELDS.get(type(term), ())
        names = [getattr(term, field) for field in fields]
        if self.output.name in names:
            return self._of_output(term)
        passed = [name for name in names if name in self.values]
        if passed:
            return self._of_value(term, passed[0])
        return _changed(term, {field: self.buffers.get(name, name) for field, name in zip(fields, names, strict=True)})

    def _of_output(self, term: Term) -> Term:
        if not isinstance(term, Store | Load) or term.index != LitU32(0):
            text = f"operation {self.op_id!r} uses its output {self.output.name!r} other than by storing or loading element 0"
            refuse(text, "store the result in element 0, by a literal", op_id=self.op_id)
        return Assign(self.result, term.value) if isinstance(term, Store) else Var(self.result, self.output.element)

    def _of_value(self, term: Term, name: str) -> Term:
        if isinstance(term, BufLen):
            return LitU32(1)
        if not isinstance(term, Load) or term.index != LitU32(0):
            text = f"a call of {self.op_id!r} passes a value for {name!r}, and the operation does more than load its element 0"
            refuse(text, "pass a BufferRef, or load element 0 by a literal", op_id=self.op_id)
        return self.values[name]


def _output_of(op_id: str, operation: Program) -> BufferDecl:
    outputs = [buffer for buffer in operation.buffers if buffer.is_output]
    if len(outputs) != 1:
        refuse(f"operation {op_id!r} has {len(outputs)} outputs", "mark one buffer as the output", op_id=op_id)
    if outputs[0].element not in _ZEROS:
        types = ", ".join(map(str, _ZEROS))
        refuse(f"the result of operation {op_id!r} is of {outputs[0].element}", f"give one of {types}", op_id=op_id)
    return outputs[0]


def _has_call(operand: object) -> bool:
    """Whether an expression, None or a tuple of expressions has a call in it."""
    parts = operand if isinstance(operand, tuple) else () if operand is None else (operand,)
    return any(isinstance(term, Call) for term in terms_within(*parts))


def _variables(entry: Iterable[Node]) -> set[str]:
    names = {term.name for term in terms_within(*entry) if isinstance(term, Let | Assign | Var)}
    return names | {term.var for term in terms_within(*entry) if isinstance(term, Loop)}


def _changed(term: Term, changes: Mapping[str, Any]) -> Term:
    """Return a term with some fields changed, itself where none is; what is known of its type stays."""
    if all(getattr(term, field) is value for field, value in changes.items()):
        return term
    if isinstance(term, Load):
        return Load(changes.get("buffer", term.buffer), changes.get("index", term.index), term.dtype)
    return cast("Term", replace(cast("Any", term), **changes))
