"""Invocations that are run in lockstep: which of them are active, their variables, where they are in the grid.

A subgroup is so many consecutive invocations of a workgroup, 32 by default, the last one perhaps fewer; what its active
invocations exchange is here too.

Source: spec items 1.6 (ids) and 1.7 (invocation order: x fastest, then y, then z; subgroups of 32; parallelism).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.backends.reference import arithmetic
from vyre_driver.backends.reference.values import spread
from vyre_driver.errors import ExecutionFault, StepBudgetExceeded
from vyre_driver.ir.operators import BinOp, SubgroupOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.reference.memory import BufferMemory
    from vyre_driver.backends.reference.values import Values

    Places = NDArray[np.int64]

SUBGROUP_LANES = 32
_BALLOT_LANES = 32
_REDUCTIONS: dict[SubgroupOp, np.ufunc] = {
    SubgroupOp.ADD: np.add,
    SubgroupOp.MUL: np.multiply,
    SubgroupOp.MIN: np.minimum,
    SubgroupOp.MAX: np.maximum,
    SubgroupOp.AND: np.bitwise_and,
    SubgroupOp.OR: np.bitwise_or,
    SubgroupOp.XOR: np.bitwise_xor,
}
_FLOAT_IDENTITIES = {SubgroupOp.ADD: 0.0, SubgroupOp.MUL: 1.0, SubgroupOp.MIN: math.inf, SubgroupOp.MAX: -math.inf}


class Grid(NamedTuple):
    """Invocations of a workgroup and workgroups of the dispatch, along x, y and z; the lanes of a subgroup."""

    workgroup: tuple[int, int, int]
    groups: tuple[int, int, int]
    lanes: int = SUBGROUP_LANES

    @property
    def group_invocations(self) -> int:
        """Invocations of one workgroup."""
        return math.prod(self.workgroup)

    @property
    def group_count(self) -> int:
        """Workgroups of the dispatch."""
        return math.prod(self.groups)


class Copy(NamedTuple):
    """An asynchronous copy that waits: bytes from one buffer to another."""

    source: BufferMemory
    destination: BufferMemory
    source_offset: int
    destination_offset: int
    size: int


class InvocationBatch:
    """``count`` invocations from number ``start`` of the grid.

    ``active`` holds the numbers within the batch of those that run the statement at hand, None for all. ``buffers`` and
    ``variables`` are in the order of the program. ``watched``: accesses are checked against the order. ``stores_met``: a
    statement stored different values to one element, and one of them stayed. ``sums_met``: those of one statement added f32 to
    one element, each sum rounded. ``since`` and ``began``
    bound the phases (:mod:`vyre_driver.backends.reference.memory`) that an access may clash with, and of what is rolled back.
    """

    def __init__(  # noqa: PLR0913 -- what decides where and how long they run
        self, grid: Grid, start: int, count: int, buffers: list[BufferMemory], variables: int, budget: int
    ) -> None:
        """Begin with all invocations active."""
        self.grid = grid
        self.start = start
        self.count = count
        self.buffers = buffers
        self.variables: list[Any] = [None] * variables
        self.active: Places | None = None
        self.watched = False
        self.stores_met = False
        self.sums_met = False
        self.since = self.began = 1
        self.place = 0
        self.memo: dict[int, Values] = {}
        self.copies: dict[str, list[Copy]] = {}
        self.ended: NDArray[np.bool_] | None = None
        self._budget = budget
        self._steps = 0  # of all
        self._steps_of: NDArray[np.int64] | None = None  # of each beyond that
        first = start // grid.group_invocations
        self.groups = (start + count - 1) // grid.group_invocations - first + 1
        self.phase = np.ones(self.groups, np.int64)

    @cached_property
    def every_lane(self) -> Places:
        """The number of each invocation within the batch."""
        return np.arange(self.count, dtype=np.int64)

    @property
    def lanes(self) -> Places:
        """The numbers of those that are active."""
        return self.every_lane if self.active is None else self.active

    @property
    def active_count(self) -> int:
        """How many are active."""
        return self.count if self.active is None else len(self.active)

    @cached_property
    def _local(self) -> Places:
        return np.asarray((self.start + self.every_lane) % self.grid.group_invocations)

    @cached_property
    def _group(self) -> Places:
        return np.asarray((self.start + self.every_lane) // self.grid.group_invocations)

    @cached_property
    def group_of(self) -> Places:
        """The number within the batch of each one's workgroup."""
        return np.asarray(self._group - self._group[0])

    @cached_property
    def subgroup_of(self) -> Places:
        """The number within the batch of each one's subgroup."""
        in_group = -(-self.grid.group_invocations // self.grid.lanes)
        number = self._group * in_group + self._local // self.grid.lanes
        return np.asarray(number - number[0])

    @cached_property
    def subgroup_lane(self) -> Places:
        """The number of each within its subgroup."""
        return self._local % self.grid.lanes

    def subgroup_slots(self) -> tuple[Places, Places, int]:
        """Return the subgroup and the lane of each active invocation, and how many subgroups there are."""
        return self.subgroup_of[self.lanes], self.subgroup_lane[self.lanes], int(self.subgroup_of[-1]) + 1

    @cached_property
    def local_ids(self) -> tuple[Values, ...]:
        """The index of each in its workgroup, along x, y and z."""
        return _split(self._local, self.grid.workgroup)

    @cached_property
    def workgroup_ids(self) -> tuple[Values, ...]:
        """The index of each one's workgroup."""
        return _split(self._group, self.grid.groups)

    @cached_property
    def invocation_ids(self) -> tuple[Values, ...]:
        """The index of each in the grid."""
        return tuple(
            group * np.uint32(size) + local
            for group, size, local in zip(self.workgroup_ids, self.grid.workgroup, self.local_ids, strict=True)
        )

    def of_active(self, values: Values) -> Values:
        """Return those of the active invocations out of values of all; one shared value is that of each."""
        return values if self.active is None or len(values) == 1 else values[self.active]

    def merged(self, before: Values, values: Values) -> Values:
        """Return variables of all in which the active ones have new values."""
        if self.active is None:
            return values
        result = np.array(np.broadcast_to(before, (self.count, *before.shape[1:])))
        result[self.active] = values
        return result

    def declared(self, values: Values) -> Values:
        """Return variables of which only the active ones are there."""
        if self.active is None or len(values) == 1:
            return values
        result = np.zeros((self.count, *values.shape[1:]), values.dtype)
        result[self.active] = values
        return result

    def end(self) -> None:
        """End the active invocations."""
        if self.ended is None:
            self.ended = np.zeros(self.count, np.bool_)
        self.ended[self.lanes] = True
        self.active = np.zeros(0, np.int64)

    def remaining(self, lanes: Places | None) -> Places | None:
        """Return those of ``lanes`` that have not ended."""
        if self.ended is None:
            return lanes
        all_of_them = self.every_lane if lanes is None else lanes
        left = all_of_them[~self.ended[all_of_them]]
        return None if len(left) == self.count else left

    def spend(self, steps: int = 1) -> None:
        """Count steps of the active invocations.

        Raises
        ------
        StepBudgetExceeded
            If one of them has taken more than it was given.
        """
        if self.active is None:
            self._steps += steps
            most = self._steps + (0 if self._steps_of is None else int(self._steps_of.max()))
        else:
            if self._steps_of is None:
                self._steps_of = np.zeros(self.count, np.int64)
            self._steps_of[self.active] += steps
            most = self._steps + int(self._steps_of[self.active].max(initial=0))
        if most > self._budget:
            raise StepBudgetExceeded(
                f"an invocation ran more than {self._budget} statements and turns of loops",
                fix="give a larger step_budget, if the program is meant to run that long",
                limit=self._budget,
                invocation=self._slowest(),
                place=self.place,
            )

    def _slowest(self) -> tuple[int, ...]:
        """Return the active invocation that has taken the most steps."""
        lanes = self.lanes
        lane = int(lanes[0] if self._steps_of is None else lanes[self._steps_of[lanes].argmax()])
        return self.invocation(lane)

    def invocation(self, lane: int) -> tuple[int, ...]:
        """Return where in the grid one of the batch is."""
        return tuple(int(axis[lane]) for axis in self.invocation_ids)

    def fault(
        self, problem: str, fix: str, position: int, cls: type[ExecutionFault] = ExecutionFault, **context: object
    ) -> ExecutionFault:
        """Return the error of the active invocation at ``position`` among the active."""
        lane = int(self.lanes[position if self.active_count > 1 else 0])
        at = self.invocation(lane)
        return cls(f"{problem}, in invocation {at}", fix=fix, invocation=at, place=self.place, **context)

    def code(self, kind: int, group: Any) -> Any:  # noqa: ANN401 -- a number or an array of them
        """Return the code of several invocations for the log of accesses."""
        return self.count + kind * (self.groups + 1) + group


def _split(numbers: Places, sizes: tuple[int, int, int]) -> tuple[Values, ...]:
    """Return numbers as x, y and z, x fastest."""
    x, y, _ = sizes
    return (
        (numbers % x).astype(np.uint32),
        (numbers // x % y).astype(np.uint32),
        (numbers // (x * y)).astype(np.uint32),
    )


def subgroup_reduced(batch: InvocationBatch, op: SubgroupOp, values: Values) -> Values:
    """Return the values of each subgroup, combined; integers wrap, f32 are combined from lane 0 up, with the identity first."""
    groups, lanes, count = batch.subgroup_slots()
    is_float = values.dtype == np.float32
    identity = _FLOAT_IDENTITIES[op] if is_float else _identity(op, values.dtype)
    table = np.full((count, batch.grid.lanes), identity, values.dtype)
    table[groups, lanes] = spread(values, len(lanes))
    if not is_float:
        return np.asarray(_REDUCTIONS[op].reduce(table, axis=1, dtype=values.dtype)[groups])
    table = arithmetic.flushed(table)
    combine = arithmetic.FLOAT_BINARY[BinOp[op.name]]
    there = np.zeros(table.shape, np.bool_)
    there[groups, lanes] = True
    total = np.full(count, identity, np.float32)
    for lane in range(batch.grid.lanes):
        total = np.where(there[:, lane], arithmetic.canonical(combine(total, table[:, lane])), total)
    return total[groups]


def _identity(op: SubgroupOp, dtype: np.dtype[Any]) -> int:
    """Return the integer that an operator leaves every other one with."""
    if op in {SubgroupOp.MIN, SubgroupOp.MAX}:
        limits = np.iinfo(dtype)
        return limits.max if op is SubgroupOp.MIN else limits.min
    if op is SubgroupOp.AND:
        return int(np.invert(np.zeros((), dtype)))
    return int(op is SubgroupOp.MUL)


def shuffled(batch: InvocationBatch, values: Values, wanted: Values) -> Values:
    """Return the value of another lane; zero where that is not there or not active."""
    groups, lanes, count = batch.subgroup_slots()
    table = np.zeros((count, batch.grid.lanes, *values.shape[1:]), values.dtype)
    table[groups, lanes] = spread(values, len(lanes))
    wanted = spread(wanted, len(lanes)).astype(np.int64)
    there = wanted < batch.grid.lanes
    found = table[groups, np.where(there, wanted, 0)]
    return np.where(there.reshape(-1, *[1] * (values.ndim - 1)), found, np.zeros(1, values.dtype))


def ballot(batch: InvocationBatch, conditions: Values) -> Values:
    """Return a bit for each active lane whose condition holds, of the first 32."""
    groups, lanes, count = batch.subgroup_slots()
    conditions = spread(conditions, len(lanes)) & (lanes < _BALLOT_LANES)
    table = np.zeros((count, batch.grid.lanes), np.uint32)
    table[groups, lanes] = conditions.astype(np.uint32) << (lanes % _BALLOT_LANES).astype(np.uint32)
    return np.asarray(np.bitwise_or.reduce(table, axis=1)[groups])
