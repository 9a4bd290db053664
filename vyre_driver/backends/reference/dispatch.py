"""One dispatch of a program on the reference interpreter: arrays in, arrays out.

A program is compiled once for any number of runs. Many invocations are run in lockstep as long as that gives what running them
one after the other gives. Where it may not (:mod:`vyre_driver.backends.reference.memory`), and where a fault is found, of which
the first in order counts, what they wrote is undone and fewer are run together: down to single invocations, or to single
subgroups in programs with subgroup operations.

Source: spec items 1.5 to 1.7 and 8 (what is brought, what comes back); sizes, counts and grids are those of every backend
(docs/binding.md); docs/lowering.md, ``constants``: a ``let`` of a literal is the declaration of a specialization constant with
that default.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from vyre_driver.backends.reference.invocations import SUBGROUP_LANES, Grid, InvocationBatch
from vyre_driver.backends.reference.memory import AccessLog, BufferMemory, OrderMatters, RaceLog, check_no_race
from vyre_driver.backends.reference.statements import StatementCompiler
from vyre_driver.backends.reference.values import layout_of
from vyre_driver.binding.launch import ProgramRules
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import with_pushed_inputs
from vyre_driver.checks import U32_MAX, is_whole
from vyre_driver.errors import DivergentBarrier, ExecutionFault, InvalidInput, LimitExceeded, StepBudgetExceeded
from vyre_driver.ir.arithmetic import Expr, LitBool, LitF32, LitI32, LitU32
from vyre_driver.ir.buffers import BufferDecl, MemoryKind
from vyre_driver.ir.expressions import Atomic, Load
from vyre_driver.ir.nodes import AsyncLoad, AsyncStore, Barrier, Store
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.upstream import check_version
from vyre_driver.ir.validation.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.reference.statements import Steps
    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.values import SpecMap


MAX_SHARED_BYTES = 64 << 20
_U32 = 1 << 32


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program as one generator.

    ``logged`` names the buffers whose accesses may depend on the order: those that are written. ``needs_whole_groups``: there
    is a barrier or workgroup memory. ``is_sequential``: invocations run one after the other, never in lockstep. ``paths`` names
    the statements. ``log`` is what makes their logs. ``local_bytes`` are those that each invocation has of its own.
    """

    program: Program
    buffers: tuple[BufferDecl, ...]
    run: Callable[[InvocationBatch], Steps]
    variable_count: int
    paths: tuple[str, ...]
    logged: frozenset[str]
    needs_whole_groups: bool
    has_grid_barriers: bool
    has_subgroups: bool
    is_sequential: bool
    local_bytes: int
    log: type[AccessLog]


def compile_program(
    program: Program,
    constants: Mapping[str, object] | SpecMap | None = None,
    log: type[AccessLog] = AccessLog,
    *,
    canonical_literals: bool = False,
) -> CompiledProgram:
    """Return a validated program compiled for the interpreter, with these values for the literals of the lets they name.

    ``log`` is what its accesses are held against. ``canonical_literals``: there is one NaN among them, and no subnormal.

    Raises
    ------
    UnsupportedFeature
        If it holds what the interpreter does not run, by name.
    LimitExceeded
        If its workgroup memory takes more than 64 MiB.
    InvalidSpecialization
        If a name is that of no let of a literal, or a value does not fit its type.
    """
    literals = {} if constants is None else _literals(program, constants)
    buffers = program.buffers
    shared_bytes = _shared_bytes(buffers)
    places = {one.name: (place, one) for place, one in enumerate(buffers)}
    compiler = StatementCompiler(program, places, literals, canonical_literals=canonical_literals)
    run = compiler.body(program.entry, "entry")
    terms = list(terms_within(*program.entry))
    barriers = [term for term in terms if isinstance(term, Barrier)]
    copies = [term for term in terms if isinstance(term, AsyncLoad | AsyncStore)]
    written = {term.buffer for term in terms if isinstance(term, Store | Atomic)} | {term.destination for term in copies}
    local = {one.name for one in buffers if one.is_local}
    touched = {term.buffer for term in terms if isinstance(term, Load | Store | Atomic)}
    return CompiledProgram(
        program=program,
        buffers=buffers,
        run=run,
        variable_count=compiler.variable_count,
        paths=tuple(compiler.paths),
        logged=frozenset((written & touched) - local),
        local_bytes=sum(_byte_len(one) for one in buffers if one.is_local),
        needs_whole_groups=bool(barriers or shared_bytes),
        has_grid_barriers=any(one.ordering is MemoryOrdering.GRID_SYNC for one in barriers),
        has_subgroups=compiler.has_subgroups,
        is_sequential=compiler.is_sequential,
        log=log,
    )


def _shared_bytes(buffers: tuple[BufferDecl, ...]) -> int:
    """Return the bytes of workgroup memory; refuses too many, and elements without a layout wherever they are."""
    total = 0
    for one in buffers:
        layout_of(one.element)
        if one.is_shared or one.kind is MemoryKind.SHARED:
            total += _byte_len(one)
    if total > MAX_SHARED_BYTES:
        raise LimitExceeded(
            f"the workgroup buffers have {total} bytes together, and the reference interpreter allows {MAX_SHARED_BYTES}",
            fix="use smaller workgroup buffers",
            value=total,
            limit=MAX_SHARED_BYTES,
        )
    return total


def _byte_len(buffer: BufferDecl) -> int:
    layout = layout_of(buffer.element)
    return buffer.count * layout.dtype.itemsize * math.prod(layout.shape)


def _literals(program: Program, constants: Mapping[str, object] | SpecMap) -> dict[str, Expr]:
    """Return the literals of the lets that are named."""
    from vyre_driver.lowering.emit.target import spec_constants  # late: few runs have constants
    from vyre_driver.specialization.resolve import named_values, specialize

    names = tuple(named_values(constants))
    if not names:
        return {}
    found = specialize(spec_constants(program, names), constants)
    return {one.name: _literal(one.type_name, one.bits) for one in found.constants if one.name in names}


def _literal(type_name: str, bits: int) -> Expr:
    if type_name == "i32":
        return LitI32(bits - _U32 if bits >= _U32 // 2 else bits)
    if type_name == "f32":
        return LitF32(bits)
    return LitU32(bits) if type_name == "u32" else LitBool(bool(bits))


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


DEFAULT_STEP_BUDGET = 1 << 24
_LANES = frozenset(1 << power for power in range(8))


class Interpretation(NamedTuple):
    """What a dispatch gave: arrays in the order of the outputs' bindings.

    ``order_mattered``: an invocation touched what another one wrote, with no barrier between, so that a device, which has no
    order, may give something else. Atomics of one statement do not count, though what each finds depends on the order too, but
    for sums of f32: each is rounded, so that what is left depends on it.

    ``stores_met``: a statement stored different values to one element; the last stays here, and any of them on a device. Where
    order mattered, this was not watched throughout.
    """

    outputs: tuple[NDArray[Any], ...]
    grid: tuple[int, int, int]
    order_mattered: bool
    stores_met: bool = False


def run(  # noqa: PLR0913 -- what a dispatch is made of
    program: Program,
    inputs: Sequence[object],
    *,
    constants: Mapping[str, object] | SpecMap | None = None,
    grid: Sequence[int] | None = None,
    element_counts: Mapping[str, int] | None = None,
    step_budget: int = DEFAULT_STEP_BUDGET,
) -> tuple[NDArray[Any], ...]:
    """Run a program and return its outputs; see :func:`interpret`."""
    return interpret(
        program, inputs, constants=constants, grid=grid, element_counts=element_counts, step_budget=step_budget
    ).outputs


def interpret(  # noqa: PLR0913 -- what a dispatch is made of
    program: Program,
    inputs: Sequence[object],
    *,
    constants: Mapping[str, object] | SpecMap | None = None,
    grid: Sequence[int] | None = None,
    element_counts: Mapping[str, int] | None = None,
    step_budget: int = DEFAULT_STEP_BUDGET,
    lockstep: int = LOCKSTEP_INVOCATIONS,
    subgroup_lanes: int = SUBGROUP_LANES,
    iterations: int = 1,
    races: bool = False,
    contents: Mapping[str, NDArray[Any]] | None = None,
    least_invocations: int = 0,
    upstream: str | None = None,
) -> Interpretation:
    """Run a program by the semantics that every backend is held to.

    Parameters
    ----------
    inputs
        In the order of the bindings, as ``BindingPlan.check_arguments`` takes them; none is written to.
    constants
        Values by name, in the place of the literals of the lets with these names.
    grid
        Workgroups along x, y and z; None covers the elements of the dispatch, where workgroup and program have one axis.
    element_counts
        Elements of the outputs whose count is left to run time, by name.
    step_budget
        The most statements and turns of loops that one invocation may run.
    lockstep
        About how many invocations to run at once, at least a workgroup; 0 runs each alone. The result is the same.
    subgroup_lanes
        The invocations of a subgroup, a power of two up to 128: 32 by the semantics, another number for a device that has it.
    iterations
        How often it runs, from 1 on, each time on what the last run left in the buffers.
    races
        Refuse that two invocations use one element, one of them to write it, with no barrier between. Looked for among those
        that run at once; atomics on both sides are no race, and neither are stores of what is there already.
    least_invocations
        The invocations along x that the grid has at least, where it is not given.
    upstream
        With "0.7" literals are as upstream's oracle of that version has them: a NaN is 7FC00000 hex, a subnormal is zero.

    Raises
    ------
    InvalidProgram
        If the validator refuses it, or a count does not fulfil its shape predicate.
    LimitExceeded
        If it is too large for the interpreter.
    InvalidInput
        If an array or the grid does not fit, subgroups cannot have so many lanes, it cannot run so often, or the version of
        upstream is not known.
    InvalidSpecialization
        If a name is that of no let of a literal, or its value does not fit.
    UnsupportedFeature
        If the interpreter does not run a part of it, which is named.
    ExecutionFault
        If an invocation does what has no result.
    Trapped
        If an invocation does what has no result.
    DivergentBarrier
        If an invocation does what has no result.
    DataRace
        If there is a race, and races are looked for.
    StepBudgetExceeded
        If an invocation runs too long.
    """
    validate(program)
    _check_options(iterations, subgroup_lanes, upstream)
    compiled = compile_program(program, constants, RaceLog if races else AccessLog, canonical_literals=upstream is not None)
    plan = BindingPlan.build(program)
    plan.descriptor_slots()  # refuses two descriptors of one number
    given = with_pushed_inputs(plan).check_arguments(inputs, element_counts or {})
    pushed = {one.name for one in plan.bindings if one.is_pushed}
    arguments = [one for one in given if one.binding.name not in pushed]  # what a kernel's call would bring
    rules = ProgramRules.of(program, plan)
    rules.check_counts(arguments)
    groups = _covering(rules, arguments, least_invocations) if grid is None else _given(grid)
    shape = Grid(program.workgroup_size, groups, subgroup_lanes)
    memory, order_mattered, stores_met = _memory(compiled, given, contents or {}), False, False
    for turn in range(iterations):
        memory = [None if one is None else one.without_history() for one in memory] if turn else memory
        schedule = Schedule(compiled, shape, memory, step_budget, lockstep)
        schedule.run()
        order_mattered, stores_met = order_mattered or schedule.order_mattered, stores_met or schedule.stores_met
    outputs = [
        _output(argument, memory[argument.binding.buffer_index])
        for argument in arguments
        if argument.binding.output_index is not None
    ]
    return Interpretation(tuple(outputs), shape.groups, order_mattered, stores_met)


def _check_options(iterations: int, subgroup_lanes: int, upstream: str | None) -> None:
    if not is_whole(iterations) or iterations < 1:
        raise InvalidInput(f"a program runs {iterations!r} times", fix="give a number from 1 on", value=iterations)
    if subgroup_lanes not in _LANES:
        raise InvalidInput(f"subgroups of {subgroup_lanes!r} lanes", fix="give a power of two, 1 to 128", value=subgroup_lanes)
    if upstream is not None:
        check_version(upstream)


def _covering(rules: ProgramRules, arguments: Sequence[BufferArgument], least_invocations: int) -> tuple[int, int, int]:
    """Return the grid of a call, with so many invocations along x at least."""
    x, y, z = rules.groups(arguments)
    return max(x, -(-least_invocations // rules.workgroup[0])), y, z


def _given(grid: Sequence[int]) -> tuple[int, int, int]:
    sizes = tuple(grid)
    if len(sizes) != 3 or not all(is_whole(size) and 1 <= size <= U32_MAX for size in sizes):
        raise InvalidInput(f"the grid is {sizes!r}", fix="give (x, y, z), each 1 to 2**32 - 1 workgroups", value=sizes)
    x, y, z = (int(size) for size in sizes)
    return x, y, z


def _memory(
    compiled: CompiledProgram, arguments: Sequence[BufferArgument], contents: Mapping[str, NDArray[Any]]
) -> list[BufferMemory | None]:
    """Return the buffers of the dispatch, in the order of the declarations; None for workgroup memory."""
    found: list[BufferMemory | None] = [None] * len(compiled.buffers)
    for argument in arguments:
        binding = argument.binding
        declared = compiled.buffers[binding.buffer_index]
        layout = layout_of(declared.element)
        data = np.zeros(argument.byte_len, np.uint8)
        begins = argument.data if binding.role.consumes_input else contents.get(binding.name)
        if begins is not None:
            data[:] = begins.reshape(-1).view(np.uint8)
        elements = data.view(layout.dtype).reshape(-1, *layout.shape)
        log = compiled.log if declared.name in compiled.logged else None
        found[binding.buffer_index] = BufferMemory(declared.element, elements, len(elements), shared=False, log=log)
    return found


def _output(argument: BufferArgument, buffer: BufferMemory | None) -> NDArray[Any]:
    """Return what comes back of a buffer: all in its own type and shape, or the bytes of its range."""
    raw = np.zeros(0, np.uint8) if buffer is None else buffer.raw
    start, size = argument.binding.readback_slice(argument.byte_len)
    data = raw[start : start + size]
    if size == argument.byte_len:
        return data.view(argument.dtype).reshape(argument.shape).copy()
    whole = size % argument.dtype.itemsize == 0
    return data.copy().view(argument.dtype) if whole else data.copy()
