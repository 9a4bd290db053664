"""Make a program that fails smaller, as long as it fails.

What is tried: one workgroup, one invocation; without statements; a body in the place of what holds it; a part of an expression,
or a literal, in the place of the expression; without a buffer, or with fewer elements in it.
What became invalid, or depends on the order of invocations, is not a failure.

A loop keeps what limits its turns; one that only its condition limits is made one of few turns first. The reference may find
that a smaller program ends soon, and a device that is wrong about the bound run it for minutes, or be lost with it.

Source: spec items 1.5 and 1.6.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from vyre_driver.binding.plan import BindingPlan
from vyre_driver.ir import builders as ir
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Call, Load
from vyre_driver.ir.nodes import Block, If, Let, Loop, Region
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import ROOT_GENERATOR
from vyre_driver.ir.walks import BODY_FIELDS, EXPRESSION_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vyre_driver.conformance.case import Case
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

_MAX_ATTEMPTS = 2000
_MOST_TURNS = 1000
_LIMITING = frozenset({BinOp.MOD, BinOp.MIN, BinOp.BIT_AND})  # by a literal: no result is above it, whatever stands on the left
_SIMPLEST: dict[DataType, tuple[Expr, Expr]] = {
    DataType.U32: (ir.u32(0), ir.u32(1)),
    DataType.I32: (ir.i32(0), ir.i32(1)),
    DataType.F32: (ir.f32(0.0), ir.f32(1.0)),
    DataType.Bool: (ir.boolean(False), ir.boolean(True)),
    DataType.U64: (ir.u64(0), ir.u64(1)),
    DataType.I64: (ir.i64(0), ir.i64(1)),
}


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a case as small as could be found that still fails; ``fails`` is asked at most 2,000 times.

    After a success the next try is what follows it: what came before has failed already, and is tried again in the next pass.
    """
    left = _MAX_ATTEMPTS
    while True:
        before = case
        for ways in _WAYS:
            place = 0
            while left > 0:
                for smaller in islice(ways(case), place, place + left):
                    left -= 1
                    if fails(smaller):
                        case = smaller
                        break
                    place += 1
                else:
                    break
        if case is before or left <= 0:
            return case


def _of_size(case: Case) -> Iterator[Case]:
    for axis in range(3):
        if case.grid[axis] > 1:
            yield replace(case, grid=_one_along(axis, case.grid))
    program = case.program
    for axis in range(3):
        if program.workgroup_size[axis] > 1:
            yield replace(case, program=program.with_workgroup_size(_one_along(axis, program.workgroup_size)))


def _one_along(axis: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, z = (1 if place == axis else size for place, size in enumerate(sizes))
    return x, y, z


def _without_buffers(case: Case) -> Iterator[Case]:
    program = case.program
    for binding in reversed(BindingPlan.build(program).bindings):
        buffers = [one for place, one in enumerate(program.buffers) if place != binding.buffer_index]
        inputs = tuple(one for place, one in enumerate(case.inputs) if place != binding.input_index)
        yield replace(case, program=program.with_rewritten_buffers(buffers), inputs=inputs)


def _with_bodies(case: Case, *, parts: bool) -> Iterator[Case]:
    """Yield cases whose program has a smaller body: without statements, or with smaller parts of them."""
    entry = case.program.entry
    sole = entry[0] if len(entry) == 1 else None
    inside = sole.body if isinstance(sole, Region) else entry
    for body in _bodies(inside, parts=parts):
        yield replace(case, program=case.program.with_rewritten_entry([Region(ROOT_GENERATOR, None, body)]))


def _of_counts(case: Case) -> Iterator[Case]:
    """Yield cases with one element or half as many in a buffer outside workgroup memory."""
    program = case.program
    for binding in BindingPlan.build(program).descriptors:
        given = None if binding.input_index is None else case.inputs[binding.input_index]
        count = binding.element_count or (0 if given is None else len(given))
        for fewer in sorted({1, count // 2} - {0, count}):
            buffers, inputs = list(program.buffers), list(case.inputs)
            if binding.element_count:
                buffers[binding.buffer_index] = buffers[binding.buffer_index].with_count(fewer)
            if binding.input_index is not None and given is not None:
                inputs[binding.input_index] = given[:fewer]
            yield replace(case, program=program.with_rewritten_buffers(buffers), inputs=tuple(inputs))


def _bodies(nodes: Sequence[Node], *, parts: bool) -> Iterator[tuple[Node, ...]]:
    """Yield bodies that are one step smaller: without statements, those with the most left out first, or in ``parts``."""
    body = tuple(nodes)
    if not parts:
        size = (len(body) + 1) // 2
        while size > 0:
            for end in range(len(body), 0, -size):
                yield body[: max(0, end - size)] + body[end:]
            size //= 2
    for place, node in enumerate(body):
        for instead in _instead(node, parts=parts):
            yield body[:place] + instead + body[place + 1 :]


def _instead(node: Any, *, parts: bool) -> Iterator[tuple[Node, ...]]:  # noqa: ANN401 -- any node
    """Yield what may stand in the place of a node."""
    if parts and isinstance(node, Loop) and _may_turn_for_long(node):
        return
    if parts:
        yield from ((changed,) for changed in _with_smaller_parts(node))
    elif isinstance(node, If):
        yield node.then
        yield node.otherwise
    elif isinstance(node, Loop):
        yield (Block((Let(node.var, node.start), *node.body)),)
        if _may_turn_for_long(node):
            yield (replace(node, stop=ir.u32(_MOST_TURNS)),)
            return
    elif isinstance(node, Block | Region):
        yield node.body
    for field in BODY_FIELDS.get(type(node), ()):
        for smaller in _bodies(getattr(node, field), parts=parts):
            yield (replace(node, **{field: smaller}),)


def _may_turn_for_long(loop: Loop) -> bool:
    """Return whether only what is in a loop ends it: a smaller program might never end."""
    return isinstance(loop.stop, LitU32) and loop.stop.value > _MOST_TURNS


def _with_smaller_parts(term: Any) -> Iterator[Any]:  # noqa: ANN401 -- an expression or a node
    for field in EXPRESSION_FIELDS.get(type(term), ()):
        part = getattr(term, field)
        if part is not None and not isinstance(part, tuple):
            is_bound = isinstance(term, Loop) and field == "stop"
            for smaller in _bounds(part) if is_bound else _expressions(part):
                yield _changed(term, field, smaller)


def _bounds(stop: Expr) -> Iterator[Expr]:
    """Yield what may stand in the place of a loop's bound: literals, or a smaller operand under the same limit."""
    yield from _literals(stop)
    if isinstance(stop, Binary) and stop.op in _LIMITING and isinstance(stop.right, LitU32):
        yield from _with_smaller_parts(stop)


def _changed(term: Any, field: str, part: Expr) -> Any:  # noqa: ANN401 -- of the kind that it was
    if isinstance(term, Load):
        return Load(term.buffer, part, term.dtype)
    return replace(term, **{field: part})


def _literals(expr: Expr) -> Sequence[Expr]:
    simplest = () if expr.dtype is None else _SIMPLEST.get(expr.dtype, ())
    return () if expr in simplest else simplest


def _expressions(expr: Expr) -> Iterator[Expr]:
    """Yield what may stand in the place of an expression: literals, its operands of its type, itself with smaller operands."""
    yield from _literals(expr)
    if isinstance(expr, Call):
        return
    for field in EXPRESSION_FIELDS.get(type(expr), ()):
        part = getattr(expr, field)
        if part is not None and (expr.dtype is None or part.dtype is None or part.dtype == expr.dtype):
            yield part
    yield from _with_smaller_parts(expr)


_WAYS: tuple[Callable[[Case], Iterator[Case]], ...] = (
    _of_size,
    partial(_with_bodies, parts=False),
    partial(_with_bodies, parts=True),
    _without_buffers,
    _of_counts,
)
