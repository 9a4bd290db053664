"""Ask a backend many questions, and say which it answered as the reference does.

    from vyre_driver.conformance.suite import run
    report = run(my_backend, seed=1, count=300)
    assert not report.failures, report

Everything but floats is equal bit for bit, f64 but for the sign of zeros and the bits of NaNs. f32 are within the tolerance of
the case; NaN is NaN, whatever its bits; the sign of a zero does not count.

A program that fails is made smaller as long as it fails. What is tried: one workgroup, one invocation; without statements; a
body in the place of what holds it; a part of an expression, or a literal, in the place of the expression; without a buffer, or
with fewer elements in it. What became invalid, or depends on the order of invocations, is not a failure. A loop keeps what
limits its turns; one that only its condition limits is made one of few turns first. The reference may find that a smaller
program ends soon, and a device that is wrong about the bound run it for minutes, or be lost with it.

Source: spec items 1.5, 1.6 and 8; one of upstream's harnesses counts -0 and +0 one step apart, the other none: none here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.backends.reference import DEFAULT_STEP_BUDGET, interpret
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.errors import (
    DeviceLost,
    DispatchFailed,
    InvalidInput,
    InvalidProgram,
    LimitExceeded,
    UnsupportedFeature,
    VyreError,
)
from vyre_driver.ir import builders as ir
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Call, Load
from vyre_driver.ir.nodes import Block, If, Let, Loop, Region
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import ROOT_GENERATOR
from vyre_driver.ir.walks import BODY_FIELDS, EXPRESSION_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.reference import Interpretation
    from vyre_driver.conformance.case import Case, RunProgram, Tolerance
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program

    _Shrunk = tuple[Case, str, Case | None]  # why it fails, and with which smaller one the device was lost

_MAGNITUDE = np.uint32(0x7FFF_FFFF)
_INFINITY = np.uint32(0x7F80_0000)


def difference(case: Case, expected: Sequence[NDArray[Any]], received: Sequence[NDArray[Any]]) -> str | None:
    """Return in words where two lists of outputs in the order of their bindings differ first, None when they agree."""
    bindings = [one for one in BindingPlan.build(case.program).bindings if one.output_index is not None]
    if len(received) != len(expected):
        return f"outputs[0] is {len(received)} arrays, and should be {len(expected)} arrays"
    for binding, wanted, got in zip(bindings, expected, received, strict=True):
        if np.asarray(got).nbytes != wanted.nbytes:
            return f"{binding.name}[0] is {np.asarray(got).nbytes} bytes, and should be {wanted.nbytes} bytes"
        is_float = binding.data_type == DataType.F32 and wanted.nbytes % 4 == 0
        width = 8 if binding.data_type == DataType.F64 else 4 if is_float or wanted.nbytes % 4 == 0 else 1
        one, other = _words(wanted, width), _words(got, width)
        tolerance = case.tolerances.get(binding.name, case.tolerance)
        wrong = float_differences(one, other, tolerance) if is_float else one != other
        if width == 8:
            wrong &= _are_numbers_that_differ(one.view(np.float64), other.view(np.float64))
        if wrong.any():
            place = int(np.argmax(wrong))
            element = place * width // max(1, binding.stride)
            should, found = (_spelled(words[place], is_float=is_float) for words in (one, other))
            others = f" ({wrong.sum()} elements differ)" if wrong.sum() > 1 else ""
            return f"{binding.name}[{element}] is {found}, and should be {should}{others}"
    return None


def _are_numbers_that_differ(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((one != other) & ~(np.isnan(one) & np.isnan(other)))


def _words(array: NDArray[Any], width: int) -> NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).view(f"<u{width}")


def _spelled(word: Any, *, is_float: bool) -> str:  # noqa: ANN401 -- a numpy scalar
    text = f"{int(word):#010x}"
    return f"{np.asarray(word).view(np.float32)[()]!s} ({text})" if is_float else f"{int(word)} ({text})"


def float_differences(expected: NDArray[np.uint32], received: NDArray[np.uint32], tolerance: Tolerance) -> NDArray[np.bool_]:
    """Return where f32, given by their bits, are too far apart."""
    nans = [one & _MAGNITUDE > _INFINITY for one in (expected, received)]
    near = np.abs(ordered(expected) - ordered(received)) <= tolerance.ulps
    if tolerance.absolute:
        with np.errstate(all="ignore"):
            wide = [one.view(np.float32).astype(np.float64) for one in (expected, received)]
            near |= np.abs(wide[0] - wide[1]) <= tolerance.absolute
    return ~np.where(nans[0] | nans[1], nans[0] & nans[1], near)


def ordered(bits: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return f32 as integers in their order, neighbours one apart and both zeros 0."""
    magnitude = (bits & _MAGNITUDE).astype(np.int64)
    return np.where(bits > _MAGNITUDE, -magnitude, magnitude)


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
    for name in BODY_FIELDS.get(type(node), ()):
        for smaller in _bodies(getattr(node, name), parts=parts):
            yield (replace(node, **{name: smaller}),)


def _may_turn_for_long(loop: Loop) -> bool:
    """Return whether only what is in a loop ends it: a smaller program might never end."""
    return isinstance(loop.stop, LitU32) and loop.stop.value > _MOST_TURNS


def _with_smaller_parts(term: Any) -> Iterator[Any]:  # noqa: ANN401 -- an expression or a node
    for name in EXPRESSION_FIELDS.get(type(term), ()):
        part = getattr(term, name)
        if part is not None and not isinstance(part, tuple):
            is_bound = isinstance(term, Loop) and name == "stop"
            for smaller in _bounds(part) if is_bound else _expressions(part):
                yield _changed(term, name, smaller)


def _bounds(stop: Expr) -> Iterator[Expr]:
    """Yield what may stand in the place of a loop's bound: literals, or a smaller operand under the same limit."""
    yield from _literals(stop)
    if isinstance(stop, Binary) and stop.op in _LIMITING and isinstance(stop.right, LitU32):
        yield from _with_smaller_parts(stop)


def _changed(term: Any, name: str, part: Expr) -> Any:  # noqa: ANN401 -- of the kind that it was
    if isinstance(term, Load):
        return Load(term.buffer, part, term.dtype)
    return replace(term, **{name: part})


def _literals(expr: Expr) -> Sequence[Expr]:
    simplest = () if expr.dtype is None else _SIMPLEST.get(expr.dtype, ())
    return () if expr in simplest else simplest


def _expressions(expr: Expr) -> Iterator[Expr]:
    """Yield what may stand in the place of an expression: literals, its operands of its type, itself with smaller operands."""
    yield from _literals(expr)
    if isinstance(expr, Call):
        return
    for name in EXPRESSION_FIELDS.get(type(expr), ()):
        part = getattr(expr, name)
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


_REASON_CHARACTERS = 120
_SHRINKING_STEP_BUDGET = 1 << 14  # a loop that lost its bound while shrinking would run for minutes


class Failure(NamedTuple):
    """A case that a backend answered otherwise, and why: beside its name grid and program as far as they were shrunk.

    ``text`` is what people read: the program with its inputs, and its code where the backend gives that. ``smallest`` is the
    shrunk case, and ``lost_with`` the smaller one that the device was lost with meanwhile, which ended that; None, both, of a
    failure in another process.
    """

    case: str
    why: str
    grid: Sequence[int]
    program: str
    text: str
    smallest: Case | None = None
    lost_with: Case | None = None

    def as_data(self) -> dict[str, Any]:
        """Return what can be told as plain data."""
        return dict(zip(self._fields[:5], self, strict=False))


def _failure(backend: RunProgram, case: Case, why: str, shrunk: _Shrunk) -> Failure:
    smallest, smallest_why, lost_with = shrunk
    lines = [f"{case.name}: {why}", f"shrunk, with a grid of {smallest.grid} workgroups: {smallest_why}", *_shown(smallest)]
    lines += filter(None, [_assembly(backend, smallest)])
    if lost_with is not None:
        lines.append(f"the device was lost with this smaller one, in a grid of {lost_with.grid} workgroups:")
        lines += _shown(lost_with)
    return Failure(case.name, why, smallest.grid, str(smallest.program), "\n".join(lines), smallest, lost_with)


def _shown(case: Case) -> list[str]:
    return [str(case.program), *(f"  input {place}: {array!r}" for place, array in enumerate(case.inputs))]


class Answer(NamedTuple):
    """The result of one case: agreed, unless it was refused for a reason or failed.

    ``is_last`` says that the device was lost with it: the backend has no answer to another case.
    """

    name: str
    refusal: str | None = None
    failure: Failure | None = None
    is_last: bool = False


class _Deviation(NamedTuple):
    """How a backend departed from the reference: other numbers, an error (its name and code), or a refusal."""

    text: str
    error: str = ""
    is_refusal: bool = False
    is_loss: bool = False


class _Lost(Exception):
    """Raised while a case is shrunk: the device was lost with a smaller one."""

    def __init__(self, case: Case) -> None:
        """Keep that case."""
        super().__init__(case.name)
        self.case = case


@dataclass(slots=True)
class Report:
    """How many cases were asked, how many agreed, which were refused for what reason, and the failures."""

    asked: int = 0
    agreed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, answer: Answer) -> None:
        """Count one more case."""
        self.asked += 1
        if answer.failure is not None:
            self.failures.append(answer.failure)
        elif answer.refusal is not None:
            self.unsupported[answer.refusal] += 1
        else:
            self.agreed += 1

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        failed = [failure.as_data() for failure in self.failures]
        counts = {"asked": self.asked, "agreed": self.agreed}
        return {**counts, "unsupported": dict(self.unsupported.most_common()), "failed": failed}

    def __str__(self) -> str:
        """Return a table of a few lines."""
        lines = [f"asked {self.asked}, agreed {self.agreed}, failed {len(self.failures)}"]
        lines += [f"unsupported {count}: {reason}" for reason, count in self.unsupported.most_common()]
        lines += [f"failed {failure.case}: {failure.why}" for failure in self.failures]
        return "\n".join(lines)


def random_cases(seed: int, count: int, options: Options | None = None) -> Iterator[Case]:
    """Yield the cases of ``count`` seeds from ``seed`` on."""
    for one in range(seed, seed + count):
        yield generate(one, options)


def run(  # noqa: PLR0913 -- which backend, and which questions
    backend: RunProgram,
    seed: int = 0,
    count: int = 300,
    *,
    options: Options | None = None,
    max_failures: int = 10,
    by_hand: bool = True,
) -> Report:
    """Ask the hand-written cases, then random ones from ``seed`` on; stop after ``max_failures``, or a lost device."""
    options = Options() if options is None else options
    cases = hand_written(options) if by_hand else iter(())
    return ask(backend, chain(cases, random_cases(seed, count, options)), max_failures=max_failures)


def ask(backend: RunProgram, cases: Iterable[Case], *, max_failures: int = 10, shrink: bool = True) -> Report:
    """Ask a backend these cases; stop after ``max_failures``, or when its device was lost."""
    report = Report()
    for case in cases:
        found = answer(backend, case, shrink=shrink)
        report.add(found)
        if found.is_last or len(report.failures) >= max_failures:
            break
    return report


def answer(backend: RunProgram, case: Case, *, shrink: bool = True) -> Answer:
    """Return what a backend says to one case; one that the device is lost with is not shrunk."""
    found = _judged(backend, case, _reference(case).outputs)
    if found is None:
        return Answer(case.name)
    if found.is_refusal:
        return Answer(case.name, refusal=found.text[:_REASON_CHARACTERS])
    smallest = _smallest(backend, case, found) if shrink and not found.is_loss else (case, found.text, None)
    failure = _failure(backend, case, found.text, smallest)
    return Answer(case.name, failure=failure, is_last=found.is_loss or failure.lost_with is not None)


def _assembly(backend: RunProgram, case: Case) -> str:
    """Return the code of a program as text, where the backend has a method ``assembly`` that gives it."""
    assembly: Callable[[Program], str] | None = getattr(backend, "assembly", None)
    try:
        return "" if assembly is None else assembly(case.program)
    except VyreError as error:  # perhaps the very failure
        return f"no code: {type(error).__name__} {error.code}: {error}"


def _reference(case: Case, step_budget: int = DEFAULT_STEP_BUDGET) -> Interpretation:
    return interpret(
        case.program,
        case.inputs,
        grid=case.grid,
        element_counts=case.element_counts,
        step_budget=step_budget,
        subgroup_lanes=case.subgroup_lanes,
    )


def _judged(backend: RunProgram, case: Case, expected: Sequence[NDArray[Any]]) -> _Deviation | None:
    """Return how a backend's answer is not the expected one."""
    try:
        received = backend(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)
    except VyreError as error:
        if (
            isinstance(error, UnsupportedFeature | LimitExceeded) or type(error) is InvalidProgram
        ):  # for want of a device's feature
            return _Deviation(error.problem, is_refusal=True)
        name = f"{type(error).__name__} {error.code}"
        return _Deviation(f"{name}: {error}", error=name, is_loss=isinstance(error, DeviceLost))
    found = difference(case, expected, received)
    return None if found is None else _Deviation(found)


def _smallest(backend: RunProgram, case: Case, first: _Deviation) -> _Shrunk:
    """Return what is left of a failing case after shrinking, and why it fails: by the same error, or by a wrong number too.

    The last is the case that the device was lost with on the way, after which nothing more is tried.
    """
    smallest, why, lost_with = case, first.text, None

    def fails(smaller: Case) -> bool:
        nonlocal smallest, why
        try:
            known = _reference(smaller, _SHRINKING_STEP_BUDGET)
            found = None if known.order_mattered or known.stores_met else _judged(backend, smaller, known.outputs)
        except (InvalidProgram, InvalidInput, DispatchFailed, UnsupportedFeature):
            return False  # no such program, or one without a result
        if found is not None and found.is_loss:
            raise _Lost(smaller)
        if found is None or (found.error, found.is_refusal) != (first.error, False):
            return False
        smallest, why = smaller, found.text
        return True

    try:
        shrunk(case, fails)
    except _Lost as loss:
        lost_with = loss.case
    return replace(smallest, name=f"{case.name}, shrunk"), why, lost_with
