"""Why a kernel's program is as it is: types, extents, checks that remain, what it reads and writes."""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.ir.expressions import Atomic
from vyre_driver.ir.nodes import Store
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lang.frontend.atomic_fixes import atomic_fix, updated_element
from vyre_driver.lang.frontend.translation import MAX_NODES, Variable
from vyre_driver.lang.launch.extents import index_names
from vyre_driver.lang.launch.races import axis_name
from vyre_driver.lowering.program import emitted

if TYPE_CHECKING:
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.frontend.translation import ArrayUse
    from vyre_driver.lang.frontend.updates import Update
    from vyre_driver.lang.launch.fitting import Definition
    from vyre_driver.lang.source.parameters import KernelSignature
    from vyre_driver.target.config import ProgramConfig


_FEW = 4  # invocations along an axis, which nearly all calls have


@dataclass(frozen=True, slots=True)
class RemainingCheck:
    """An access whose index is compared with the array's elements: its line, how it is written, and what is not proven."""

    line: int
    text: str
    unproven: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"line {self.line}: {self.text}: nothing proves {self.unproven}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of translating a kernel; ``str`` gives it in lines.

    ``parameters`` and ``extents`` say by name what is given and how far an index goes; ``captured`` are values from outside.
    ``reads`` and ``writes`` are lines by array. ``fixed_workgroup`` says why the results depend on the workgroup's size, None
    where they do not. ``races`` are updates of one element by many invocations, and what to write instead.
    """

    name: str
    parameters: dict[str, str]
    variables: tuple[Variable, ...]
    captured: dict[str, str]
    extents: dict[str, str]
    workgroup_size: tuple[int, int, int]
    fixed_workgroup: str | None
    reads: dict[str, tuple[int, ...]]
    writes: dict[str, tuple[int, ...]]
    races: tuple[str, ...]
    checks: tuple[RemainingCheck, ...]
    statements: int
    floats: str
    bounds: str

    def __str__(self) -> str:
        """Return all of it."""
        free = "another size gives the same" if self.fixed_workgroup is None else f"of this size: {self.fixed_workgroup}"
        lines = [f"kernel {self.name}"]
        lines += _part("takes", [f"{name}: {kind}" for name, kind in self.parameters.items()])
        lines += _part("variables", [_shown(one, self.name) for one in self.variables])
        lines += _part("captures", [f"{name} = {value}" for name, value in self.captured.items()])
        lines += _part("grid", [f"{name} goes over {how}" for name, how in self.extents.items()])
        lines += [f"    workgroups of {' x '.join(map(str, self.workgroup_size))}, {free}"]
        for word, found in (("reads", self.reads), ("writes", self.writes)):
            lines += _part(word, [f"{name} in line {', '.join(map(str, at))}" for name, at in found.items()])
        lines += _part("updates that are lost", list(self.races))
        none = "none: left to the device's robust access" if self.bounds == "robust" else "none"
        lines += _part("checks of bounds", [str(one) for one in self.checks] or [none])
        lines += [f"  {self.statements:,} of {MAX_NODES:,} statements; floats {self.floats}, bounds {self.bounds}"]
        return "\n".join(lines)


def _part(title: str, lines: list[str]) -> list[str]:
    return [f"  {title}", *(f"    {line}" for line in lines)] if lines else []


def _shown(one: Variable, kernel: str) -> str:
    where = "" if one.function == kernel else f" of {one.function}"
    return f"{one.name}{where}: {one.type}, since line {one.line}"


def explained(
    definition: Definition, translated: TranslatedKernel, config: ProgramConfig, device: KomputeDevice | None
) -> Explanation:
    """Explain a kernel; raises UnsupportedFeature where the device, or without one any, has not what it needs."""
    program, signature = translated.program, definition.signature
    checked = {id(term) for term in emitted(program, config, device).checked}
    there = {id(term) for term in terms_within(*program.entry)}
    uses = [one for one in translated.uses if id(one.term) in there]
    names = {one.name for one in signature.parameters}
    return Explanation(
        name=definition.name,
        parameters={one.name: _parameter(one.type, translated.ranks.get(one.name)) for one in signature.parameters},
        variables=tuple(one for one in translated.variables if one.function != definition.name or one.name not in names),
        captured={name: _value(value) for name, value in translated.captured.values().items() if _is_told(value)},
        extents=_extents(signature, translated, definition.over),
        workgroup_size=program.workgroup_size,
        fixed_workgroup=why_workgroup_is_fixed(program, is_checked=config.bounds == "checked"),
        reads=_lines(translated, [one for one in uses if not isinstance(one.term, Store)]),
        writes=_lines(translated, [one for one in uses if isinstance(one.term, (Store, Atomic))]),
        races=tuple(dict.fromkeys(_race(signature, one) for one in translated.updates)),
        checks=tuple(dict.fromkeys(_check(translated, one) for one in uses if id(one.term) in checked)),
        statements=program.stats().node_count,
        floats=config.float_mode,
        bounds=config.bounds,
    )


def _race(signature: KernelSignature, update: Update) -> str:
    """Say which invocations update one element, and how they do it rightly."""
    node, which = update.place.node, "invocations" if update.is_certain else "invocations that get there"
    fix = atomic_fix(node, update.array)
    line, element = getattr(node, "lineno", 0), updated_element(node, update.array)
    along = " and ".join(axis_name(signature, axis) for axis in update.axes)
    counts = f" where there are {' and '.join(map(str, update.least))}" if max(update.least) > _FEW else ""
    return f"line {line}: {element}: {which} along {along} lose what others store{counts}: {fix}"


def _parameter(kind: object, rank: int | None) -> str:
    return str(kind) if rank is None else f"{kind}, {rank} ax{'i' if rank == 1 else 'e'}s"


def _is_told(value: object) -> bool:
    return isinstance(value, (bool, int, float, tuple, types.FunctionType)) and not _is_ours(value)


def _is_ours(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith("vyre_driver.")


def _value(value: object) -> str:
    return f"the function {value.__name__}" if isinstance(value, types.FunctionType) else repr(value)


def _extents(signature: KernelSignature, translated: TranslatedKernel, over: tuple[str, ...]) -> dict[str, str]:
    """Return how far each index goes."""
    found = {}
    said = f"what the decorator says: {', '.join(over)}" if over else ""
    for name, uses in zip(index_names(signature), translated.extents[::-1], strict=True):
        lengths = [_length(array, axis, translated.ranks[array]) for array, axis in uses if array in translated.ranks]
        same = "" if len(lengths) < 2 else ", all of them alike"
        found[name] = said or (", ".join(lengths) + same if lengths else "what each call says")
    return found


def _length(array: str, axis: int, rank: int) -> str:
    return f"len({array})" if rank == 1 else f"{array}.shape[{axis}]"


def _name(translated: TranslatedKernel, use: ArrayUse) -> str:
    shared = translated.shared.get(use.array.buffer)
    return use.array.name if shared is None else shared.name


def _lines(translated: TranslatedKernel, uses: list[ArrayUse]) -> dict[str, tuple[int, ...]]:
    """Return the lines of accesses, by array."""
    found: dict[str, set[int]] = {}
    for one in uses:
        found.setdefault(_name(translated, one), set()).add(getattr(one.place.node, "lineno", 0))
    return {name: tuple(sorted(lines)) for name, lines in found.items()}


def _check(translated: TranslatedKernel, use: ArrayUse) -> RemainingCheck:
    """Return what is said of an access whose check remains."""
    node, name = use.place.node, _name(translated, use)
    index = node.slice if isinstance(node, ast.Subscript) else _given(node)
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    shape = use.array.shape
    rank = len(shape) or translated.ranks[use.array.name]
    axes = sorted(translated.open_axes.get(index, [0] if rank == 1 else []))
    if not axes:
        unproven = f"that the shape of {name} fits its buffer"
    elif len(items) != rank:  # a tuple that is a variable
        unproven = f"that {ast.unparse(index)} is in {name}"
    else:
        counts = [str(shape[axis].value) if shape else _length(name, axis, rank) for axis in range(rank)]
        unproven = " and ".join(f"{ast.unparse(items[axis])} < {counts[axis]}" for axis in axes)
    text = ast.unparse(node) if isinstance(node, ast.Subscript) else f"{name}[{ast.unparse(index)}]"
    return RemainingCheck(getattr(node, "lineno", 0), text, unproven)


def _given(node: ast.AST) -> ast.expr:
    """Return the index of an atomic, its second argument."""
    assert isinstance(node, ast.Call)  # noqa: S101 -- accesses are subscripts and atomics
    return node.args[1]
