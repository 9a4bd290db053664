"""Make a program that fails smaller, as long as it fails.

What is tried: fewer workgroups; without a statement; a body in the place of what holds it; a part of an expression, or a
literal, in the place of the expression. What became invalid, or depends on the order of invocations, is no failure.

Source: spec items 1.5 and 1.6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vyre_driver.ir import builders as ir
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Call, Load
from vyre_driver.ir.program import ROOT_GENERATOR, Program
from vyre_driver.ir.statements import Block, If, Let, Loop, Region
from vyre_driver.ir.walks import BODY_FIELDS, EXPRESSION_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vyre_driver.conformance.case import Case
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.statements import Node

MAX_ATTEMPTS = 2000
_ZEROS: dict[DataType, Expr] = {
    DataType.U32: ir.u32(0),
    DataType.I32: ir.i32(0),
    DataType.F32: ir.f32(0.0),
    DataType.Bool: ir.boolean(False),
    DataType.U64: ir.u64(0),
}
_ONES: dict[DataType, Expr] = {
    DataType.U32: ir.u32(1),
    DataType.I32: ir.i32(1),
    DataType.F32: ir.f32(1.0),
    DataType.Bool: ir.boolean(True),
    DataType.U64: ir.u64(1),
}


def shrunk(case: Case, fails: Callable[[Case], bool], *, attempts: int = MAX_ATTEMPTS) -> Case:
    """Return a case as small as could be found that still fails; ``fails`` is asked at most ``attempts`` times."""
    left = attempts
    found = True
    while found and left > 0:
        found = False
        for smaller in _smaller(case):
            if left <= 0:
                break
            left -= 1
            if fails(smaller):
                case, found = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for axis in range(3):
        if case.grid[axis] > 1:
            x, y, z = (1 if place == axis else size for place, size in enumerate(case.grid))
            yield replace(case, grid=(x, y, z))
    for entry in _bodies(case.program.entry):
        if entry:
            whole = entry if all(isinstance(node, Region) for node in entry) else (Region(ROOT_GENERATOR, None, entry),)
            program = case.program
            yield replace(case, program=Program.new(program.buffers, program.workgroup_size, whole))


def _bodies(nodes: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    """Yield bodies that are one step smaller, those with the most left out first."""
    body = tuple(nodes)
    half = len(body) // 2
    if half > 1:
        yield body[half:]
        yield body[:half]
    for place in reversed(range(len(body))):
        yield body[:place] + body[place + 1 :]
    for place, node in enumerate(body):
        for instead in _instead(node):
            yield body[:place] + instead + body[place + 1 :]


def _instead(node: Any) -> Iterator[tuple[Node, ...]]:  # noqa: ANN401 -- any node
    """Yield what may stand in the place of a node."""
    if isinstance(node, If):
        yield node.then
        yield node.otherwise
    elif isinstance(node, Loop):
        yield (Block((Let(node.var, node.start), *node.body)),)
    elif isinstance(node, Block | Region):
        yield node.body
    for field in BODY_FIELDS.get(type(node), ()):
        for smaller in _bodies(getattr(node, field)):
            yield (replace(node, **{field: smaller}),)
    for changed in _with_smaller_parts(node):
        yield (changed,)


def _with_smaller_parts(term: Any) -> Iterator[Any]:  # noqa: ANN401 -- an expression or a node
    for field in EXPRESSION_FIELDS.get(type(term), ()):
        part = getattr(term, field)
        if part is not None and not isinstance(part, tuple):
            for smaller in _expressions(part):
                yield _changed(term, field, smaller)


def _changed(term: Any, field: str, part: Expr) -> Any:  # noqa: ANN401 -- of the kind that it was
    if isinstance(term, Load):
        return Load(term.buffer, part, term.dtype)
    return replace(term, **{field: part})


def _expressions(expr: Expr) -> Iterator[Expr]:
    """Yield what may stand in the place of an expression: literals, its operands of its type, itself with smaller operands."""
    for literals in (_ZEROS, _ONES):
        if expr.dtype in literals and expr != _ZEROS[expr.dtype] and expr != _ONES[expr.dtype]:
            yield literals[expr.dtype]
    if isinstance(expr, Call):
        return
    for field in EXPRESSION_FIELDS.get(type(expr), ()):
        part = getattr(expr, field)
        if part is not None and (expr.dtype is None or part.dtype is None or part.dtype == expr.dtype):
            yield part
    yield from _with_smaller_parts(expr)
