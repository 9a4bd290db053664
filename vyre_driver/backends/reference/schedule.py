"""Choose which invocations run together, and what to do when their order matters.

Many are run in lockstep as long as that gives what running them one after the other gives. Where it may not
(:mod:`vyre_driver.backends.reference.order`), and where a fault is found, of which the first in order counts, what they wrote
is undone and fewer are run together: down to single invocations, or to single subgroups in programs with subgroup operations.

Source: spec item 1.7, parallelism.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from vyre_driver.backends.reference.invocations import InvocationBatch
from vyre_driver.backends.reference.memory import BufferMemory
from vyre_driver.backends.reference.order import OrderMatters
from vyre_driver.backends.reference.races import check_no_race
from vyre_driver.errors import DivergentBarrier, ExecutionFault, StepBudgetExceeded
from vyre_driver.ir.operators import MemoryOrdering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.backends.reference.compiled import CompiledProgram
    from vyre_driver.backends.reference.invocations import Grid
    from vyre_driver.backends.reference.statements import Steps

LOCKSTEP_INVOCATIONS = 1 << 16
_MAX_LOCAL_BYTES = 64 << 20  # of all invocations that run together


class Schedule:
    """One dispatch of a compiled program over the buffers of a call.

    ``order_mattered`` tells whether invocations had to be run apart, or added f32 to one element; ``stores_met`` whether those
    of one statement stored different values to one element.
    """

    def __init__(
        self, compiled: CompiledProgram, grid: Grid, buffers: list[BufferMemory | None], budget: int, lockstep: int
    ) -> None:
        """Take the buffers outside workgroup memory, in the order of the declarations, None for those inside."""
        self.order_mattered = False
        self.stores_met = False
        self._compiled = compiled
        self._grid = grid
        self._buffers = buffers
        self._budget = budget
        self._lockstep = lockstep
        self._clock = 1
        self._atom = grid.lanes if compiled.has_subgroups else 1

    def run(self) -> None:
        """Run every workgroup.

        Raises
        ------
        ExecutionFault
            If an invocation faults: that of the first one that does.
        StepBudgetExceeded
            If an invocation runs too long.
        """
        width, total = self._grid.group_invocations, self._grid.group_count
        lockstep = min(self._lockstep, _MAX_LOCAL_BYTES // max(self._compiled.local_bytes, 1))
        step = total if self._compiled.has_grid_barriers else max(1, lockstep // width)
        with np.errstate(all="ignore"), self._with_paths():
            for first in range(0, total, step):
                self._run_groups(first, min(step, total - first))

    @contextmanager
    def _with_paths(self) -> Iterator[None]:
        try:
            yield
        except (ExecutionFault, StepBudgetExceeded) as fault:
            place = fault.context.pop("place", None)
            if isinstance(place, int):
                fault.context["path"] = self._compiled.paths[place]
            raise

    def _run_groups(self, first: int, count: int) -> None:
        """Run whole workgroups: together if that may be, else in halves, else one invocation after the other."""
        width = self._grid.group_invocations
        apart = self._compiled.is_sequential or not self._lockstep
        if not apart and self._succeeds(first * width, count * width):
            return
        if count > 1 and not self._compiled.has_grid_barriers:
            self._run_groups(first, count // 2)
            self._run_groups(first + count // 2, count - count // 2)
        elif self._compiled.needs_whole_groups or apart:
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
        batch = self._batch(start, count, self._memory(1, count, watched=False))
        for _ in self._compiled.run(batch):
            pass
        return True

    def _succeeds(self, start: int, count: int) -> bool:
        """Run invocations in lockstep; when their order matters, or there is a fault, undo it and return False."""
        groups = -(-count // self._grid.group_invocations)
        batch = self._batch(start, count, self._memory(groups, count, watched=True))
        batch.watched = True
        try:
            for ordering in self._compiled.run(batch):
                self._pass_barrier(batch, ordering)
        except OrderMatters as found:
            check_no_race(self._compiled, batch, found.race)
            self.order_mattered = True
        except ExecutionFault:
            if count <= self._atom and not self._compiled.needs_whole_groups:
                raise
        else:
            for buffer in self._buffers:
                if buffer is not None:
                    buffer.commit()
            self.stores_met |= batch.stores_met
            self.order_mattered |= batch.sums_met
            return True
        for buffer in self._buffers:
            if buffer is not None:
                buffer.roll_back()
        return False

    def _pass_barrier(self, batch: InvocationBatch, ordering: MemoryOrdering) -> None:
        """Begin a new phase for the workgroups that have come to a barrier, all of each."""
        if batch.active is not None:
            width = self._grid.group_invocations
            come = np.bincount(batch.group_of[batch.active], minlength=batch.groups)
            wanted = come.size if ordering is MemoryOrdering.GRID_SYNC else np.count_nonzero(come)
            if np.count_nonzero(come == width) != wanted:
                _refuse_barrier(batch, ordering)
            passed = np.flatnonzero(come)
        else:
            passed = np.arange(batch.groups)
        self._clock += 1
        batch.phase[passed] = self._clock
        if ordering is MemoryOrdering.GRID_SYNC:
            batch.since = self._clock

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
        shared = self._memory(1, 0, watched=False)
        atoms = []
        for start in range(0, width, self._atom):
            size = min(self._atom, width - start)
            batch = self._batch(group * width + start, size, self._with_own(shared, size))
            atoms.append((batch, self._compiled.run(batch)))
        while atoms:
            reached = [(batch, steps, next(steps, None)) for batch, steps in atoms]
            stopped = [(batch, steps) for batch, steps, ordering in reached if ordering is not None]
            for batch, _, ordering in reached:
                if ordering is None:
                    _check_ended(batch)
                elif len(stopped) != len(reached) or batch.active is not None:
                    _refuse_barrier(batch, ordering)
            orderings = {ordering for _, _, ordering in reached if ordering is not None}
            if MemoryOrdering.GRID_SYNC in orderings:
                yield MemoryOrdering.GRID_SYNC
            atoms = stopped

    def _memory(self, groups: int, invocations: int, *, watched: bool) -> list[BufferMemory]:
        """Return the buffers of a batch, with new workgroup memory of zeros, and with that of its invocations."""
        names = self._compiled.logged if watched else frozenset()
        found = [
            buffer
            if buffer is not None
            else BufferMemory.zeroed(one.element, one.count, groups, log=self._compiled.log if one.name in names else None)
            for one, buffer in zip(self._compiled.buffers, self._buffers, strict=True)
        ]
        return self._with_own(found, invocations)

    def _with_own(self, buffers: list[BufferMemory], invocations: int) -> list[BufferMemory]:
        """Return the buffers of a workgroup with new memory of zeros for each of so many of its invocations."""
        if not self._compiled.local_bytes:
            return buffers
        return [
            BufferMemory.of_invocations(one.element, one.count, invocations) if one.is_local else buffer
            for one, buffer in zip(self._compiled.buffers, buffers, strict=True)
        ]

    def _batch(self, start: int, count: int, memory: list[BufferMemory]) -> InvocationBatch:
        self._clock += 1
        batch = InvocationBatch(self._grid, start, count, memory, self._compiled.variable_count, self._budget)
        batch.phase[:] = batch.since = batch.began = self._clock
        return batch


def _refuse_barrier(batch: InvocationBatch, ordering: MemoryOrdering) -> NoReturn:
    what = "the grid" if ordering is MemoryOrdering.GRID_SYNC else "its workgroup"
    fix = "let every invocation reach it, and guard the work instead"
    raise batch.fault(f"a barrier was reached by only some invocations of {what}", fix, 0, DivergentBarrier)


def _check_ended(batch: InvocationBatch) -> None:
    if batch.copies:
        batch.active = None
        tags = ", ".join(map(repr, sorted(batch.copies)))
        raise batch.fault(f"the copies {tags} were never waited for", "wait for every copy before the end", 0)
