"""Which invocations are run together, and what is done when their order matters.

Many are run in lockstep as long as that gives what running them one after the other gives. Where it may not
(:mod:`vyre_driver.backends.reference.order`), and where a fault is found, of which the first in order is meant, what they wrote
is undone and fewer are run together: down to single invocations, or to single subgroups in programs whose subgroups talk.

Source: spec item 1.7, parallelism.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from vyre_driver.backends.reference.memory import Buffer
from vyre_driver.backends.reference.order import OrderMatters
from vyre_driver.backends.reference.unit import Unit
from vyre_driver.errors import DivergentBarrier, ExecutionFault
from vyre_driver.ir.operators import MemoryOrdering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.backends.reference.script import Script
    from vyre_driver.backends.reference.statements import Steps
    from vyre_driver.backends.reference.unit import Grid

LOCKSTEP_INVOCATIONS = 1 << 16


class Schedule:
    """One dispatch of a script over the buffers of a call.

    ``order_mattered`` tells whether invocations had to be run apart, ``stores_met`` whether those of one statement stored
    different values to one element.
    """

    def __init__(self, script: Script, grid: Grid, buffers: list[Buffer | None], budget: int, lockstep: int) -> None:
        """Take the buffers outside workgroup memory, in the order of the declarations, None for those inside."""
        self.order_mattered = False
        self.stores_met = False
        self._script = script
        self._grid = grid
        self._buffers = buffers
        self._budget = budget
        self._lockstep = lockstep
        self._clock = 1
        self._atom = grid.lanes if script.has_subgroups else 1

    def run(self) -> None:
        """Run every workgroup.

        Raises
        ------
        ExecutionFault
            2010 and below, of the first invocation that has one.
        StepBudgetExceeded
            2012 if an invocation runs too long.
        """
        width, total = self._grid.group_invocations, self._grid.group_count
        step = total if self._script.has_grid_barriers else max(1, self._lockstep // width)
        with np.errstate(all="ignore"), self._with_paths():
            for first in range(0, total, step):
                self._run_groups(first, min(step, total - first))

    @contextmanager
    def _with_paths(self) -> Iterator[None]:
        try:
            yield
        except ExecutionFault as fault:
            place = fault.context.pop("place", None)
            if isinstance(place, int):
                fault.context["path"] = self._script.paths[place]
            raise

    def _run_groups(self, first: int, count: int) -> None:
        """Run whole workgroups: together if that may be, else in halves, else one invocation after the other."""
        width = self._grid.group_invocations
        apart = self._script.one_by_one or not self._lockstep
        if not apart and self._succeeds(first * width, count * width):
            return
        if count > 1 and not self._script.has_grid_barriers:
            self._run_groups(first, count // 2)
            self._run_groups(first + count // 2, count - count // 2)
        elif self._script.needs_whole_groups or apart:
            self._run_apart(first, count)
        else:
            self._run_halves(first * width, first * width, width)

    def _run_halves(self, origin: int, start: int, count: int) -> None:
        """Run half of the invocations that could not be run together, then the rest; ``origin`` begins their workgroup."""
        half = count // 2
        aligned = -(-(start - origin + half) // self._atom) * self._atom - (start - origin)
        for first, size in ((start, aligned), (start + aligned, count - aligned)):
            if size <= 0 or (size <= self._atom and self._run_atom(first, size)):
                continue
            if not self._succeeds(first, size):
                self._run_halves(origin, first, size)

    def _run_atom(self, start: int, count: int) -> bool:
        unit = self._unit(start, count, self._memory(1, logged=False))
        for _ in self._script.run(unit):
            pass
        return True

    def _succeeds(self, start: int, count: int) -> bool:
        """Run invocations in lockstep; when their order matters, or there is a fault, undo it and return False."""
        groups = -(-count // self._grid.group_invocations)
        unit = self._unit(start, count, self._memory(groups, logged=True))
        unit.watched = True
        try:
            for ordering in self._script.run(unit):
                self._pass_barrier(unit, ordering)
        except OrderMatters:
            self.order_mattered = True
        except ExecutionFault:
            if count <= self._atom and not self._script.needs_whole_groups:
                raise
        else:
            for buffer in self._buffers:
                if buffer is not None:
                    buffer.settle()
            self.stores_met |= unit.stores_met
            return True
        for buffer in self._buffers:
            if buffer is not None:
                buffer.roll_back()
        return False

    def _pass_barrier(self, unit: Unit, ordering: MemoryOrdering) -> None:
        """Begin a new phase for the workgroups that have come to a barrier, all of each."""
        if unit.active is not None:
            width = self._grid.group_invocations
            come = np.bincount(unit.group_of[unit.active], minlength=unit.groups)
            wanted = come.size if ordering is MemoryOrdering.GRID_SYNC else np.count_nonzero(come)
            if np.count_nonzero(come == width) != wanted:
                _refuse_barrier(unit, ordering)
            passed = np.flatnonzero(come)
        else:
            passed = np.arange(unit.groups)
        self._clock += 1
        unit.phase[passed] = self._clock
        if ordering is MemoryOrdering.GRID_SYNC:
            unit.since = self._clock

    def _run_apart(self, first: int, count: int) -> None:
        """Run workgroup after workgroup, in each one invocation (or subgroup) after the other up to its next barrier."""
        waiting = [self._step_group(first + place) for place in range(count)]
        while waiting:
            stopped = [group for group in waiting if next(group, None) is not None]
            if stopped and len(stopped) != len(waiting):
                raise DivergentBarrier(
                    f"a barrier of the grid was reached by {len(stopped)} of {len(waiting)} workgroups",
                    fix="move it to where no workgroup index decides",
                )
            waiting = stopped

    def _step_group(self, group: int) -> Steps:
        """Run one workgroup; stop at barriers of the grid."""
        width = self._grid.group_invocations
        shared = self._memory(1, logged=False)
        atoms = []
        for start in range(0, width, self._atom):
            unit = self._unit(group * width + start, min(self._atom, width - start), shared)
            atoms.append((unit, self._script.run(unit)))
        while atoms:
            reached = [(unit, steps, next(steps, None)) for unit, steps in atoms]
            stopped = [(unit, steps) for unit, steps, ordering in reached if ordering is not None]
            for unit, _, ordering in reached:
                if ordering is None:
                    _check_ended(unit)
                elif len(stopped) != len(reached) or unit.active is not None:
                    _refuse_barrier(unit, ordering)
            orderings = {ordering for _, _, ordering in reached if ordering is not None}
            if MemoryOrdering.GRID_SYNC in orderings:
                yield MemoryOrdering.GRID_SYNC
            atoms = stopped

    def _memory(self, groups: int, *, logged: bool) -> list[Buffer]:
        """Return the buffers of a unit, with new workgroup memory of zeros."""
        names = self._script.logged if logged else frozenset()
        return [
            buffer if buffer is not None else Buffer.zeroed(one.element, one.count, groups, logged=one.name in names)
            for one, buffer in zip(self._script.buffers, self._buffers, strict=True)
        ]

    def _unit(self, start: int, count: int, memory: list[Buffer]) -> Unit:
        self._clock += 1
        unit = Unit(self._grid, start, count, memory, self._script.variable_count, self._budget)
        unit.phase[:] = unit.since = unit.began = self._clock
        return unit


def _refuse_barrier(unit: Unit, ordering: MemoryOrdering) -> NoReturn:
    what = "the grid" if ordering is MemoryOrdering.GRID_SYNC else "its workgroup"
    fix = "let every invocation reach it, and guard the work instead"
    raise unit.fault(f"a barrier was reached by only some invocations of {what}", fix, 0, DivergentBarrier)


def _check_ended(unit: Unit) -> None:
    if unit.copies:
        unit.active = None
        tags = ", ".join(map(repr, sorted(unit.copies)))
        raise unit.fault(f"the copies {tags} were never waited for", "wait for every copy before the end", 0)
