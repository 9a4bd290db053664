"""What the validator of programs refuses, reported at the place in the source that it comes from."""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING

from vyre_driver.errors import KernelSyntaxError, KernelTypeError, LimitExceeded
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.validation.rules import Rule
from vyre_driver.ir.validation.validate import examine
from vyre_driver.lang.frontend.translation import MAX_NODES, shown_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.errors import KernelSourceError
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.validation.rules import Problem
    from vyre_driver.lang.frontend.draft import Place
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.vulkan.devices import DeviceLimits

_IDS = {"local", "index", "id"}


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
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _IDS):
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
