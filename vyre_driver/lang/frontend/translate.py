"""From a Python function to a program: the stage that the others of this folder are parts of.

What the validator of programs refuses is reported at the place in the source that it comes from.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.errors import KernelSyntaxError, KernelTypeError, LimitExceeded
from vyre_driver.ir.arithmetic import Binary, LitU32, Var
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import InvocationId
from vyre_driver.ir.nodes import Let
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.rules import Rule
from vyre_driver.ir.validation.validate import examine
from vyre_driver.lang.frontend.branches import Rooms
from vyre_driver.lang.frontend.calls import inline, source_of
from vyre_driver.lang.frontend.checking import FAULT_WORDS
from vyre_driver.lang.frontend.conversions import typed
from vyre_driver.lang.frontend.draft import Branch, Exit, Frame, Plain, Repeat, finished
from vyre_driver.lang.frontend.memory import layout_tests
from vyre_driver.lang.frontend.statements import bind, evaluate, run
from vyre_driver.lang.frontend.translation import (
    MAX_EXTENT,
    MAX_NODES,
    CountApart,
    Language,
    Translation,
    pushed_type,
    shown_frames,
)
from vyre_driver.lang.frontend.updates import updates_of
from vyre_driver.lang.frontend.values import Array, Constant, GroupValue, Number
from vyre_driver.lang.source.scan import assigned_names, ranks_within
from vyre_driver.lang.types import COMPUTED, Access, ScalarType, i32

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping

    from vyre_driver.errors import KernelSourceError
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.validation.rules import Problem
    from vyre_driver.lang.frontend.checking import Check
    from vyre_driver.lang.frontend.draft import Body, Place
    from vyre_driver.lang.frontend.translation import ArrayUse, Shared, Typings, Variable
    from vyre_driver.lang.frontend.updates import Update
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.source.captured import Captured
    from vyre_driver.lang.source.parameters import KernelSignature, Parameter, Specialization
    from vyre_driver.vulkan.devices import DeviceLimits

WORKGROUPS = {1: (64, 1, 1), 2: (16, 16, 1), 3: (8, 8, 4)}
"""The workgroup of a kernel that goes over indices, by how many it has."""
_LANGUAGE = Language(evaluate, run, bind, inline)
_IDS_OF_GROUPS = {"local", "index", "id"}


@dataclass(frozen=True, slots=True)
class TranslatedKernel:
    """A program that was made of a Python function, and what a call has to know.

    ``ranks`` are the axes of each array, ``elements`` the types in them. ``extents`` has for each axis of the grid, x first,
    what decides how far it goes: (array, axis), or nothing; of a workgroup what its index is used on. ``last_places`` has the
    largest index that is known of an axis, by (array, axis). ``scalars`` are the
    names of the numbers that each call gives, in the order of the program's buffers; ``places`` says for a path in the program
    where in the source it comes from. ``shared`` tells what the kernel calls memory of its workgroups,
    by buffer; ``checks`` are those that the program makes itself, by the numbers that it tells them by; ``faults`` is
    the buffer that it keeps what they found in, behind all others, empty where there is none.

    For explanations: ``uses`` are its loads, stores and atomics, some of which may be left out of the program in the end;
    ``open_axes`` has the axes along which an index is compared with its array's elements; ``variables`` are in no order.
    ``updates`` are stores by which invocations lose what others store, if a call has several of them.
    """

    program: Program
    ranks: dict[str, int]
    elements: dict[str, ScalarType]
    extents: tuple[tuple[tuple[str, int], ...], ...]
    last_places: dict[tuple[str, int], int]
    scalars: tuple[str, ...]
    places: dict[str, Place]
    captured: Captured
    typings: Typings
    shared: dict[str, Shared]
    checks: tuple[Check, ...]
    faults: str
    uses: tuple[ArrayUse, ...]
    open_axes: dict[ast.expr, set[int]]
    variables: tuple[Variable, ...]
    updates: tuple[Update, ...] = ()


def translate(function: types.FunctionType, signature: KernelSignature, specialization: Specialization) -> TranslatedKernel:
    """Translate a kernel.

    Raises
    ------
    KernelSyntaxError
        If it is written with what is not part of the language, or its source is not at hand.
    KernelTypeError
        If types do not fit.
    KernelNameError
        If a name has no value.
    """
    counted = specialization.counted
    while True:
        try:
            return _translated(function, signature, specialization, counted)
        except CountApart as found:
            counted |= {found.array}


def _translated(
    function: types.FunctionType,
    signature: KernelSignature,
    specialization: Specialization,
    counted: frozenset[str],
) -> TranslatedKernel:
    t = Translation(specialization, counted, _LANGUAGE)
    try:
        return _filled(t, function, signature, specialization)
    except RecursionError:
        frames = shown_frames(t.draft.place) if t.draft.place is not None else []
        raise KernelSyntaxError(
            f"{function.__name__!r} is nested too deep to be translated",
            fix="compute parts of long expressions in variables of their own, and nest fewer ifs and elifs",
            frames=frames,
        ) from None  # whose frames are all of the translation


def _filled(
    t: Translation, function: types.FunctionType, signature: KernelSignature, specialization: Specialization
) -> TranslatedKernel:
    """Return what a function is translated to, by a translation that has nothing in it yet."""
    source = source_of(function)
    t.captured.function(function)
    arrays = {one.name: specialization.element(one.type) for one in signature.arrays}  # type: ignore[arg-type] # of arrays
    t.ranks.update({one.name: one.type.rank for one in signature.arrays if one.type.rank})  # type: ignore[union-attr] # the same
    for name, rank in ranks_within(source.body, frozenset(arrays)).items():
        t.ranks.setdefault(name, rank)
    t.name_axes(dict(signature.axes))
    for name in (*arrays, *(one.name for one in signature.scalars)):
        t.draft.fresh(name)
    names: dict[str, Value] = {one.name: _array(one, arrays) for one in signature.arrays}
    frame = Frame(function, source, None, names, assigned_names(source), Exit("inside", Rooms(t.draft).take), is_kernel=True)
    t.frames.append(frame)
    sizes = _leading(t, signature, specialization)
    for one in signature.scalars:
        scalar = _number(t, one)
        bounds = scalar.bounds if scalar.is_whole else (0, 0)
        names[one.name] = t.stored.add(one.name, scalar) if specialization.stored else t.scalar(one.name, scalar, bounds)
        frame.types[one.name] = (scalar, source.first_line)
    names.update({name: Constant(value) for name, value in specialization.constants})
    with t.draft.side() as body:
        frame.returned = Exit("inside", Rooms(t.draft).take)
        t.run(source.body)
    updates = updates_of(t, body, sizes)
    return replace(_assembled(t, signature, arrays, sizes, body), updates=updates)


def _array(parameter: Parameter, elements: dict[str, ScalarType]) -> Array:
    return Array(parameter.name, parameter.name, elements[parameter.name], (), parameter.type.access)  # type: ignore[union-attr] # an array


def _number(t: Translation, parameter: Parameter) -> ScalarType:
    """Return the type of a parameter that is a number."""
    assert isinstance(parameter.type, (ScalarType, TypeVar))  # noqa: S101 -- a number
    scalar = t.specialization.number(parameter.type)
    if scalar not in COMPUTED:
        arguments = t.frame.source.arguments
        node = next(one for one in (*arguments.posonlyargs, *arguments.args) if one.arg == parameter.name)
        raise t.mistyped(
            node, f"parameter {parameter.name!r} is {scalar} here, which is a type of arrays", "use i32, u32, f32 or bool_"
        )
    return scalar


def _leading(t: Translation, signature: KernelSignature, specialization: Specialization) -> tuple[int, int, int]:
    """Give the leading parameters their values; returns the workgroup's size along x, y, z."""
    names = t.frame.names
    if signature.group is None:
        axes = len(signature.indexes)
        for at, name in enumerate(signature.indexes):
            axis = axes - 1 - at
            t.extents[axis] = []
            at_hand: Expr = Var(t.draft.fresh(name)) if specialization.strides else InvocationId(axis)
            t.indexes[name] = at_hand
            names[name] = Number(i32, at_hand, 0, MAX_EXTENT - 1)
        return specialization.workgroup or WORKGROUPS[axes]
    name, group = signature.group
    constants = dict(specialization.constants)
    sizes = tuple(int(constants[size]) if isinstance(size, str) else size for size in group.sizes)
    for named, size in zip(group.sizes, sizes, strict=True):
        if size < 1:
            raise KernelTypeError(f"{named} is {size}, and the size of {name!r}", fix=f"give {named} 1 or more")
    names[name] = GroupValue(name, sizes)
    t.covered.update({axis: [] for axis in range(len(sizes))})
    x, y, z = (*reversed(sizes), 1, 1)[:3]
    return x, y, z


def _assembled(
    t: Translation, signature: KernelSignature, arrays: dict[str, ScalarType], sizes: tuple[int, int, int], body: Body
) -> TranslatedKernel:
    """Return the program: buffers, numbers that are given, and the body under its guard."""
    tests = [*_within_extents(t, signature), *layout_tests(t)]
    if tests:
        body = [Branch(functools.reduce(functools.partial(Binary, BinOp.AND), tests), body, [], None)]
        if t.specialization.strides:
            body = _strided(t, signature, body)
    places: dict[str, Place] = {}
    t.leave_frame()
    nodes = finished([*t.prologue, *body], "body", places)
    buffers = [_declared(place, one, arrays[one.name]) for place, one in enumerate(signature.arrays)]
    scalars = tuple(t.scalars)
    for place, name in enumerate(scalars, len(buffers)):
        buffers.append(BufferDecl.push(name, place, pushed_type(t.scalars[name].type, t.scalars[name].low)))
    buffers += t.stored.buffers(len(buffers))
    if t.faults:
        buffers.append(
            BufferDecl(t.faults, len(buffers), BufferAccess.READ_WRITE, MemoryKind.GLOBAL, DataType.U32, FAULT_WORDS)
        )
    program = Program.wrapped([*buffers, *t.draft.buffers], sizes, nodes)
    if not t.is_plain:  # which tells at run time who misses a barrier
        check_valid(program, places)
    return TranslatedKernel(
        program=program,
        ranks={name: t.ranks.get(name, 1) for name in arrays},
        elements=arrays,
        extents=tuple(tuple(uses) for _, uses in sorted((t.extents or t.covered).items())),
        last_places=t.last_places,
        scalars=scalars,
        places=places,
        captured=t.captured,
        typings=t.typings,
        shared=t.shared,
        checks=tuple(t.checks),
        faults=t.faults,
        uses=tuple(t.uses),
        open_axes=t.open_axes,
        variables=tuple(dict.fromkeys(t.variables)),
    )


def _within_extents(t: Translation, signature: KernelSignature) -> list[Expr]:
    """Return the conditions that an invocation is inside of what the kernel goes over."""
    tests: list[Expr] = []
    for at, name in enumerate(signature.indexes):
        axis = len(signature.indexes) - 1 - at
        for extent in _extents(t, axis, name):
            test: Expr = Binary(BinOp.LT, t.indexes[name], extent)
            if test not in tests:
                tests.append(test)
    _trust_guarded(t, tests)
    return tests


def _trust_guarded(t: Translation, tests: list[Expr]) -> None:
    """Take numbers as they are given that are at least 1 where an index is below them: everything stands under such tests."""
    guarded = {one.right for one in tests if isinstance(one, Binary) and one.op is BinOp.LT}
    for statement in t.prologue:
        match statement:
            case Plain(Let(name, Binary(op=BinOp.MAX, left=given))) if Var(name, DataType.U32) in guarded:
                statement.node = Let(name, given)


def _strided(t: Translation, signature: KernelSignature, body: Body) -> Body:
    """Return what goes on with the next index that no other invocation has, along each axis, until it is over the extent."""
    for name, index in reversed(t.indexes.items()):
        axis = len(signature.indexes) - 1 - signature.indexes.index(name)
        turn = t.draft.fresh(f"{name}_turn")
        stride, turns = (t.scalar(f"{name}.{what}", i32, (0, MAX_EXTENT)).expr for what in ("stride", "turns"))
        place = Binary(BinOp.ADD, InvocationId(axis), Binary(BinOp.MUL, Var(turn), stride))
        assert isinstance(index, Var)  # noqa: S101 -- it was made one
        body = [Repeat(turn, LitU32(0), turns, [Plain(Let(index.name, place), None), *body], None)]
    return body


def _extents(t: Translation, axis: int, name: str) -> list[Expr]:
    """Return what an axis of the grid has to stay below: the lengths of arrays, or a number that each call gives.

    Calls check that these lengths are one; where the device keeps accesses inside anyhow, that of the first array does.
    """
    uses = t.extents[axis]
    if not uses or t.specialization.is_over:
        return [t.scalar(f"{name}.extent", i32, (0, MAX_EXTENT)).expr]
    found: list[Expr] = []
    for array, along in uses[:1] if t.specialization.robust else uses:
        value = t.frame.names[array]
        assert isinstance(value, Array)  # noqa: S101 -- a parameter that is an array
        if not found or t.ranks[array] > 1 or array not in t.counted:
            found.append(typed(t, t.axis(value, along), t.frame.source.node).expr)
    return found


def _declared(place: int, parameter: Parameter, element: ScalarType) -> BufferDecl:
    access = parameter.type.access  # type: ignore[union-attr] # an array
    if access is Access.OUT:
        return BufferDecl(parameter.name, place, BufferAccess.WRITE_ONLY, MemoryKind.GLOBAL, element.element)
    make = BufferDecl.read if access is Access.IN else BufferDecl.read_write
    return make(parameter.name, place, element.element)


def check_valid(program: Program, places: Mapping[str, Place]) -> None:
    """Check that a program has at most MAX_NODES statements, and breaks no rule of the validator's.

    Raises KernelTypeError or KernelSyntaxError at its place.
    """
    count = sum(node.node_count for node in program.entry)
    if count > MAX_NODES:
        text = f"there are {count} statements in the program, over the limit of {MAX_NODES}"
        raise KernelSyntaxError(text, fix="split it into several kernels, or use loops", frames=[])
    found = examine(program)
    if found.problems:
        raise _refusal(found.problems[0], places)


def check_shared(translated: TranslatedKernel, limit: int) -> None:
    """Check that a device has as much workgroup memory as a kernel shares; raises LimitExceeded, which names it."""
    held = [one for one in translated.program.buffers if one.access is BufferAccess.WORKGROUP and not one.is_local]
    total = sum(one.count * max(one.element.min_bytes, 4 if one.element == DataType.Bool else 1) for one in held)
    if total > limit:
        names = [repr(translated.shared[one.name].name) if one.name in translated.shared else "memory" for one in held]
        all_of_them = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        raise LimitExceeded(
            f"{all_of_them} share{'s' * (len(names) == 1)} {total:,} bytes, and the device allows {limit:,}",
            fix="use smaller tiles",
            value=total,
            limit=limit,
        )


def check_workgroup(kernel: str, size: tuple[int, int, int], limits: DeviceLimits) -> None:
    """Check that a device has workgroups as large as a kernel's, along x, y and z and in all; raises LimitExceeded."""
    shown = "x".join(map(str, [one for one in size[::-1] if one > 1] or [1]))  # slowest first, as Group has them
    both = [("", math.prod(size), limits.max_compute_work_group_invocations)]
    for axis, value, limit in zip("xyz", size, limits.max_compute_work_group_size, strict=True):
        both.append((f" along {axis}", value, limit))
    for along, value, limit in both:
        if value > limit:
            raise LimitExceeded(
                f"{kernel} has workgroups of {shown}, which are {value:,} invocations{along}, and the device allows {limit:,}",
                fix="use a smaller Group",
                value=value,
                limit=limit,
            )


def _refusal(problem: Problem, places: Mapping[str, Place]) -> KernelSourceError:
    place = place_of(problem.path, places)
    frames = [] if place is None else shown_frames(place)
    if problem.rule == Rule.DIVERGENT_BARRIER.code:
        text, fix = _divergent(problem.path, places)
        return KernelSyntaxError(text, fix=fix, frames=frames, refused=problem)
    if problem.rule == Rule.HAZARD.code and place is not None:
        text = _mixed(problem, place, places)
        return KernelTypeError(text, fix="use atomic_load, or g.barrier() between", frames=frames, refused=problem)
    if problem.rule == Rule.NESTING.code:
        deepest = max(places, key=lambda path: path.count("."), default=None)
        frames = [] if deepest is None else shown_frames(places[deepest])
        text = f"{problem.message.replace('nodes', 'ifs and loops', 1)}"
        fix = "nest them less: each elif is one level more, up to 48, and so is what follows an if that returns or breaks"
        return KernelSyntaxError(text, fix=fix, frames=frames, refused=problem)
    return KernelTypeError(f"{problem.rule}: {problem.message}", fix=problem.fix, frames=frames, refused=problem)


def place_of(path: str, places: Mapping[str, Place]) -> Place | None:
    """Return the place of the innermost statement on a path."""
    while path:
        found = places.get(path)
        if found is not None:
            return found
        path = path.rpartition(".")[0]
    return None


def _divergent(path: str, places: Mapping[str, Place]) -> tuple[str, str]:
    """Return what keeps invocations from a barrier, and what to do."""
    outer = path.rpartition(".")[0]
    while outer:
        place = place_of(outer, places)
        node = None if place is None else place.node
        if isinstance(node, ast.For):
            array = next((one for one in ast.walk(node.iter) if isinstance(one, ast.Subscript)), None)
            if array is not None:
                bound = f"the bound of the loop in line {node.lineno} comes from {ast.unparse(array.value)!r}"
                return f"{bound}, which may differ between invocations", "pass it as a scalar or Const"
        if isinstance(node, (ast.If, ast.While)):
            word = "if" if isinstance(node, ast.If) else "while"
            why = f"the {word} in line {node.lineno} depends on {_cause(node.test)}"
            barrier = place_of(path, places)
            is_inside = barrier is None or any(one is barrier.node for one in ast.walk(node))
            if not is_inside and isinstance(node, ast.If) and _leaves(node):
                return (
                    f"not every invocation reaches this barrier: {why}, and leaves before it",
                    "guard the work before and behind the barrier instead",
                )
            return f"not every invocation reaches this barrier: {why}", f"move it out of the {word}, and guard the work instead"
        outer = outer.rpartition(".")[0]
    return "not every invocation reaches this barrier: some may have returned before", "return behind the last barrier"


def _leaves(node: ast.If) -> bool:
    """Whether an if returns, or ends a turn of a loop that it stands in."""
    return any(isinstance(one, (ast.Return, ast.Break, ast.Continue)) for one in ast.walk(node))


def _cause(test: ast.expr) -> str:
    """Return what of a condition differs between invocations."""
    for node in ast.walk(test):
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _IDS_OF_GROUPS):
            return ast.unparse(node)
    return ast.unparse(test)


def _mixed(problem: Problem, place: Place, places: Mapping[str, Place]) -> str:
    """Say where an array is read or written plainly, and where it is changed by atomics."""
    named = re.search(r"buffer '([^']*)'", problem.message)
    other = re.search(r"here and at ([^,]+),", problem.message)
    there = place if other is None else place_of(other[1], places) or place
    name = named[1] if named else "an array"
    nodes = [place.node, there.node]
    plain = next((one for one in nodes if not _is_atomic(one)), nodes[0])
    changed = next((one for one in nodes if _is_atomic(one)), nodes[-1])
    how = "written" if _is_stored(plain, name) else "read"
    lines = getattr(plain, "lineno", 0), getattr(changed, "lineno", 0)
    return f"{name!r} is {how} in line {lines[0]} and changed by atomics in line {lines[1]}, with no barrier between"


def _is_atomic(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Call) and ast.unparse(one.func).rpartition(".")[2].startswith("atomic_") for one in ast.walk(node)
    )


def _is_stored(node: ast.AST, name: str) -> bool:
    stores = (one for one in ast.walk(node) if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store))
    return any(isinstance(one.value, ast.Name) and one.value.id == name for one in stores)
