"""One dispatch of a program on the reference interpreter: arrays in, arrays out.

Source: spec items 1.7 and 8 (what is brought, what comes back); sizes, counts and grids are those of every backend
(docs/binding.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.backends.reference.compiled import compile_program
from vyre_driver.backends.reference.invocations import SUBGROUP_LANES, Grid
from vyre_driver.backends.reference.memory import BufferMemory
from vyre_driver.backends.reference.order import AccessLog
from vyre_driver.backends.reference.races import RaceLog
from vyre_driver.backends.reference.schedule import LOCKSTEP_INVOCATIONS, Schedule
from vyre_driver.backends.reference.values import layout_of
from vyre_driver.binding.launch import ProgramRules
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import with_pushed_inputs
from vyre_driver.checks import U32_MAX, is_whole
from vyre_driver.errors import InvalidInput
from vyre_driver.ir.validation.upstream import check_version
from vyre_driver.ir.validation.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.reference.compiled import CompiledProgram
    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.ir.program import Program
    from vyre_driver.specialization.values import SpecMap

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
