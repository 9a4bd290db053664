"""Faults of a kernel that ran, reported at the line of its source."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.errors import DataRace, KernelAssertionError, KernelFault, StepBudgetExceeded, Trapped
from vyre_driver.lang.frontend.atomic_fixes import atomic_fix
from vyre_driver.lang.frontend.checking import FaultWord
from vyre_driver.lang.frontend.translate import place_of
from vyre_driver.lang.frontend.translation import shown_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.errors import ExecutionFault
    from vyre_driver.lang.frontend.checking import Check
    from vyre_driver.lang.frontend.draft import Place
    from vyre_driver.lang.frontend.translate import TranslatedKernel

    Invocation = tuple[int, ...]

_ROOT = "entry[0]."  # the region that every program is wrapped in; places begin inside of it
_SIGN = 0x8000_0000
_VERBS = {"reads": "reads", "stores": "stores to", "changes": "changes by an atomic"}


class Faults:
    """Tells the faults of one call: ``axes`` its indices, ``shapes`` those of its arrays."""

    def __init__(self, translated: TranslatedKernel, axes: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Look at a kernel and a call of it."""
        self._translated = translated
        self._axes = axes
        self._shapes = shapes

    def of(self, error: ExecutionFault | StepBudgetExceeded) -> KernelFault:
        """Return what the interpreter found, as an error of the source."""
        found = error.context
        invocation = self.invocation(found.get("invocation"))
        if isinstance(error, Trapped):
            return self.of_check(int(str(found["tag"])), invocation, int(str(found["address"])))
        if isinstance(error, DataRace):
            return self._of_race(error)
        problem, fix, path = f"invocation {invocation}: {error.problem}", error.fix, found.get("path")
        if isinstance(error, StepBudgetExceeded):
            problem = f"invocation {invocation} ran more than {found['limit']:,} statements"
            fix = "make sure that something ends this loop"
            path = self._loop(str(path))
        return KernelFault(problem, fix=fix, frames=self._frames(path), invocation=invocation)

    def check_none(self, words: NDArray[np.uint32]) -> None:
        """Check that a program that checks itself has found nothing, by the words that it left; raises KernelFault."""
        number, count = int(words[FaultWord.CHECK]), int(words[FaultWord.COUNT])
        if number:
            at = tuple(int(one) for one in words[FaultWord.INVOCATION :])
            raise self.of_check(number - 1, self.invocation(at), int(words[FaultWord.VALUE]), count)

    def of_check(self, number: int, invocation: Invocation, value: int, count: int | None = None) -> KernelFault:
        """Return that a check of the program failed; ``value`` is the index, ``count`` how many checks failed in all."""
        check = self._translated.checks[number]
        frames, others = shown_frames(check.place), "" if count is None or count < 2 else f"; {count:,} checks fail in all"
        if not check.array:
            said = f": {check.message}" if check.message else ""
            return KernelAssertionError(
                f"invocation {invocation}: {check.text} does not hold{said}{others}",
                fix="pass values for which it holds, or correct the assert",
                frames=frames,
                invocation=invocation,
                count=count,
            )
        index = value - 2 * _SIGN if check.is_signed and value >= _SIGN else value
        problem, fix = self._out_of_range(check, index)
        return KernelFault(
            f"invocation {invocation}: {problem}{others}",
            fix=fix,
            frames=frames,
            invocation=invocation,
            index=index,
            axis=check.axis,
            count=count,
        )

    def invocation(self, at: object) -> Invocation:
        """Return an invocation as the kernel counts its indices, slowest first."""
        return tuple(at[: self._axes][::-1]) if isinstance(at, tuple) else ()

    def _out_of_range(self, check: Check, index: int) -> tuple[str, str]:
        """Return what is wrong with an index, and what to do."""
        name, shape = check.array, check.shape or self._shapes[check.array]
        if len(shape) == 1:
            count = f"len({name})"
            problem = f"{name}[{index}] is out of range: {name} has {shape[0]} element{'s' * (shape[0] != 1)}"
        else:
            count = f"{name}.shape[{check.axis}]"
            problem = f"index {index} along axis {check.axis} of {name} is out of range: {name} has the shape {shape}"
        return problem, f"guard it: {check.text} >= 0" if index < 0 else f"guard it: {check.text} < {count}"

    def _of_race(self, error: DataRace) -> KernelFault:
        """Return that two invocations use one element."""
        found = error.context
        buffer = str(found["buffer"])
        shared = self._translated.shared.get(buffer)
        name, shape = (buffer, self._shapes.get(buffer, ())) if shared is None else shared
        element = self._element(name, shape, int(str(found["element"])))
        paths, does, both = _pair(found["paths"]), _pair(found["does"]), _pair(found["invocations"])
        later, earlier = map(self._line, paths)
        one, other = map(self._named, both)
        update = next((one for one in self._translated.updates if one.array.buffer == buffer), None)
        fix = "put g.barrier() between them" if shared else "store to another array than is read"
        fix = fix if update is None else atomic_fix(update.place.node, update.array)
        if does == ("stores", "stores"):
            fix = "let one of them store, or use an atomic" if update is None else fix
            problem = f"invocations {other} and {one} store different values to {element} in line {later}"
            if later != earlier:
                problem = f"invocations {other} and {one} store to {element} in lines {earlier} and {later}"
        else:
            first, second = (_VERBS[str(one)] for one in does)
            problem = f"invocation {one} {first} {element} in line {later}, which {other} {second} in line {earlier}"
            problem += ", with no barrier between"
        return KernelFault(
            problem,
            fix=fix,
            frames=self._frames(paths[0]),
            invocation=self.invocation(both[0]),
            other=self.invocation(both[1]),
        )

    def _named(self, at: object) -> str:
        if at is None:
            return "another one"
        found = self.invocation(at)
        return str(found[0]) if len(found) == 1 else str(found)

    @staticmethod
    def _element(name: str, shape: tuple[int, ...], flat: int) -> str:
        places = np.unravel_index(flat, shape) if flat < math.prod(shape) else (flat,)
        return f"{name}[{', '.join(str(int(one)) for one in places)}]"

    def _place(self, path: object) -> Place | None:
        return place_of(str(path).removeprefix(_ROOT), self._translated.places)

    def _loop(self, path: str) -> str:
        """Return the path of the innermost loop around a statement; its own where there is none."""
        outer = path
        while outer:
            place = self._place(outer)
            if place is not None and isinstance(place.node, (ast.While, ast.For)):
                return outer
            outer = outer.rpartition(".")[0]
        return path

    def _line(self, path: object) -> int:
        place = self._place(path)
        return 0 if place is None else getattr(place.node, "lineno", 0)

    def _frames(self, path: object) -> list[tuple[str, str, int, str, int, int]]:
        place = self._place(path)
        return [] if place is None else shown_frames(place)


def _pair(found: object) -> tuple[object, object]:
    assert isinstance(found, tuple)  # noqa: S101 -- of a DataRace, of the later access and the earlier one
    return found
