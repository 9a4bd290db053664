"""Tuning a module or a program of somebody's own, on the arrays of a call."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import KernelOfCall, Operand, Plan, Step
from vyre_driver.autotune.measure.tune import TuningResult, tune, tune_unasked, warned
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.search.outcomes import Budget, Progress
from vyre_driver.autotune.target import TuningTarget, module_target, program_target
from vyre_driver.binding.arguments import BufferArgument, refuse_resident
from vyre_driver.binding.grid import given_groups, local_size
from vyre_driver.binding.names import OPTIONS, TUNING_OPTIONS, in_binding_order, split_named
from vyre_driver.binding.outputs import checked_arguments, wanted_shapes
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.push_constants import pack_push_constants
from vyre_driver.binding.pushed import end_of
from vyre_driver.errors import InvalidInput
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lowering.program import ProgramSource, prepare_for
from vyre_driver.runtime.compiling import KEPT_OF_MODULES, name_of
from vyre_driver.specialization.resolve import named_values, specialize
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.target.config import DispatchConfig, check_supported_fields
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.ir.predicates import ShapePredicate
    from vyre_driver.ir.program import Program
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.layout import Member

Groups = tuple[int, int, int]

EXAMPLE_ELEMENTS = 1 << 20
"""Of a buffer whose count nobody has said."""
_SEARCHED = 1 << 12


@dataclass(frozen=True)
class _CallPlans:
    """The dispatch of a module or a program with a candidate.

    Of a module ``workgroups`` are those of every candidate, or what tells them of one. Of a program the workgroup is tuned, and
    its grid is its own.
    """

    code: SpirvModule | Program
    arguments: tuple[BufferArgument, ...]
    at: TuningTarget
    constants: Mapping[str, object]
    config: DispatchConfig | None = None
    workgroups: Groups | Callable[[Candidate], Groups] | None = None
    invocations: int | Sequence[int] | None = None
    push_constants: Mapping[str, object] = field(default_factory=dict)

    def __call__(self, candidate: Candidate) -> Plan:
        buffers = tuple(one.binding.name for one in self.arguments)
        written = {one.binding.name: one.result for one in self.arguments if one.binding.output_index is not None}
        outputs = {name: Operand(result.shape, result.dtype) for name, result in written.items()}
        return Plan((self._step(buffers, candidate),), outputs)

    def _step(self, buffers: tuple[str, ...], candidate: Candidate) -> Step:
        if isinstance(self.code, SpirvModule):
            constants = {**dict(candidate.constants), **self.constants}
            groups = self._workgroups(self.code, candidate, constants)
            return Step(self.code, buffers, groups, constants, self.push_constants, self.config)
        config = replace(self.config or DispatchConfig(), workgroup_override=candidate.workgroup_size)
        return Step(self.code, buffers, None, self.constants, self.push_constants, config)

    def _workgroups(self, module: SpirvModule, candidate: Candidate, constants: Mapping[str, object]) -> Groups | None:
        """Return what covers the invocations, where those are given, else the workgroups."""
        if self.invocations is not None:
            reflection = module.runnable.reflection
            size = local_size(reflection, specialize(reflection.spec_constants, constants), self.at.device.limits)
            return given_groups(size, None, self.invocations)
        return self.workgroups(candidate) if callable(self.workgroups) else self.workgroups

    def kernel(self, tolerance: float = 0.0) -> KernelOfCall:
        """Return the kernel that is tuned; ``at`` is what ``Driver.compile`` looks for with the same."""
        arrays = {one.binding.name: one.data for one in self.arguments if one.data is not None}
        return KernelOfCall(self.at, arrays, self, sum(one.byte_len for one in self.arguments), tolerated=tolerance)


def tune_call(  # noqa: PLR0913 -- what a search takes, by keyword
    driver: BaseDriver,
    code: SpirvModule | Program,
    arrays: Sequence[object],
    named: Mapping[str, object],
    *,
    seconds: float | None = None,
    budget: Budget | None = None,
    isolate: bool = False,
    replace: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    **call: Any,  # noqa: ANN401 -- as _kernel_of_call
) -> TuningResult:
    """Tune a module or a program on a call, and keep the record: ``Driver.tune``, which says what is given.

    ``named`` are its arrays and push constants by keyword.

    Raises
    ------
    InvalidInput
        If what is given does not fit the code or leaves nothing to tune, or a program depends on its workgroup.
    InvalidTuningSpace
        As ``tune``.
    TuningFailed
        As ``tune``.
    """
    budget = budget_of(seconds, budget)
    try:
        kernel = _kernel_of_call(driver, code, arrays, named, **call)
    except Exception as error:
        driver.events.failed(EventKind.TUNE, error, kernel=name_of(code))
        raise
    return tune(TunedKernel(driver, kernel), budget=budget, isolate=isolate, replace=replace, on_progress=on_progress)


def _kernel_of_call(  # noqa: PLR0913 -- what a call takes, by keyword
    driver: BaseDriver,
    code: SpirvModule | Program,
    arrays: Sequence[object],
    named: Mapping[str, object],
    *,
    space: TuningSpace | None = None,
    constants: Mapping[str, object] | SpecMap | None = None,
    config: DispatchConfig | None = None,
    workgroups: Groups | Callable[[Candidate], Groups] | None = None,
    invocations: int | Sequence[int] | None = None,
    push_constants: Mapping[str, object] | None = None,
    out_shapes: Mapping[str, int | tuple[int, ...]] | None = None,
    tolerance: float = 0.0,
) -> KernelOfCall:
    """Return the kernel that is tuned on a call; raises as ``tune_call``."""
    driver.context.device.check_usable()
    given = {} if constants is None else named_values(constants)
    if isinstance(code, SpirvModule):
        plan, reflection = BindingPlan.from_reflection(code.runnable.reflection), code.runnable.reflection
        members, end = reflection.push_constants, reflection.push_constant_bytes
        by_name, pushed = _named(plan, members, named, push_constants)  # first: `spaces=` is not a missing space
        target = _module_target(driver, code, space, given, config)
        _check_grid(code, target, given, workgroups, invocations)
    else:
        wrong = {"space": space, "workgroups": workgroups, "invocations": invocations}
        unfit = [name for name, value in wrong.items() if value is not None]
        if unfit:
            raise InvalidInput(f"a program is to be tuned with {', '.join(unfit)}, which it has by itself", fix="leave it out")
        prepared = _tunable(driver, code, constants, config)
        plan, target = prepared.plan, program_target(prepared, config, driver.device)
        members, end = prepared.push_constants, end_of(prepared.push_constants)
        by_name, pushed = _named(plan, members, named, push_constants)
        if not arrays and not by_name:
            arrays, made = example_arrays(plan, prepared.rules.predicates)
            out_shapes = {**made, **(out_shapes or {})}
    pack_push_constants(members, end, pushed, plan.subject)
    if by_name:
        arrays = in_binding_order(plan, tuple(arrays), by_name, wanted_shapes(plan, out_shapes, ()))
    arguments = _of_arrays(plan, arrays, out_shapes)
    return _CallPlans(code, arguments, target, given, config, workgroups, invocations, pushed).kernel(tolerance)


def _named(
    plan: BindingPlan, members: Sequence[Member], named: Mapping[str, object], given: Mapping[str, object] | None
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the arrays and the push constants of a call by name; raises as ``split_named``."""
    return split_named(plan, [one.name for one in members], named, given, OPTIONS | TUNING_OPTIONS)


def _of_arrays(plan: BindingPlan, arrays: Sequence[object], out_shapes: object) -> tuple[BufferArgument, ...]:
    """Prove that arrays fit, none of them a resident buffer: the tuner makes its own; raises InvalidInput."""
    arguments = checked_arguments(plan, arrays, out_shapes)
    for one in arguments:
        if one.position is not None:
            refuse_resident(one.binding, arrays[one.position])
    return arguments


def _check_grid(
    module: SpirvModule,
    target: TuningTarget,
    given: Mapping[str, object],
    workgroups: Groups | Callable[[Candidate], Groups] | None,
    invocations: int | Sequence[int] | None,
) -> None:
    """Check that the grid of each candidate is known; raises InvalidInput.

    One invocation for each element is what a call without a grid has, whatever the workgroup's size. Where something else is
    tuned, such as the elements of an invocation, that would time work that no call asks for, and its record would replace a
    better one.
    """
    if not callable(workgroups) or invocations is not None:
        given_groups((1, 1, 1), workgroups, invocations)  # type: ignore[arg-type] # a callable is refused beside invocations
    others = [one.constant for one in target.space.axes if one.workgroup is None and one.constant not in given]
    if others and workgroups is None and invocations is None:
        raise InvalidInput(
            f"{module.name} is to be tuned without a grid, and what is tuned ({', '.join(others)}) may change how many "
            "workgroups a call needs",
            fix="give workgroups as a function of the candidate (workgroups=lambda one: ...), or invocations=(x, y, z) where "
            "they are the same for all",
            constants=others,
        )


def budget_of(seconds: float | None, budget: Budget | None) -> Budget:
    """Return what a search may use: so many seconds, or a budget in detail; raises InvalidInput if both are given."""
    if seconds is not None and budget is not None:
        raise InvalidInput("both seconds and a budget are given for a tuning", fix="give budget=Budget(seconds=...)")
    return budget or (Budget() if seconds is None else Budget(seconds=seconds))


def tune_program_unasked(
    driver: BaseDriver,
    prepared: ProgramSource,
    program: Program,
    constants: Mapping[str, object] | SpecMap | None,
    config: DispatchConfig | None,
) -> None:
    """Tune a program that is compiled, if its workgroup is free and the mode says so; what goes wrong is a warning."""
    target = program_target(prepared, config, driver.device)
    if prepared.push_constants:  # nobody knows what a call will push, such as the elements that it is about
        return
    if len(target.space.candidates(driver.device.limits)) == 1 or not driver.tuning.claim(target):
        return
    with warned():
        arguments = prepared.plan.check_arguments(*example_arrays(prepared.plan, prepared.rules.predicates))
        kernel = _CallPlans(program, arguments, target, dict(constants or {}), config).kernel()
        tune_unasked(TunedKernel(driver, kernel))


def _module_target(
    driver: BaseDriver,
    module: SpirvModule,
    space: TuningSpace | None,
    given: Mapping[str, object],
    config: DispatchConfig | None,
) -> TuningTarget:
    """Return what the record of a module is for, which has something to tune; raises as ``tune_call``."""
    if space is None:
        raise InvalidInput(f"{module.name} is to be tuned without a space", fix="say what may be tuned: space=TuningSpace(...)")
    check_supported_fields(config, KEPT_OF_MODULES, "module")
    target = module_target(module, given, space, driver.device, None if config is None else config.subgroup_size)
    if all(axis.constant in given for axis in space.axes):
        raise InvalidInput(f"every constant that may be tuned of {module.name} is given", fix="leave some out of constants")
    return target


def _tunable(
    driver: BaseDriver, program: Program, constants: Mapping[str, object] | SpecMap | None, config: DispatchConfig | None
) -> ProgramSource:
    """Return a program that may be tuned; raises as ``tune_call``."""
    if config is not None and config.workgroup_override is not None:
        raise InvalidInput(
            f"the configuration sets the workgroup to {config.workgroup_override}, which is what would be tuned",
            fix="leave workgroup_override out",
        )
    prepared = prepare_for(driver.context.device, program, constants, config)
    why = why_workgroup_is_fixed(prepared.program, is_checked=prepared.target.checks)
    if why is not None:
        raise InvalidInput(f"the program has nothing that can be tuned: {why}", fix="leave its workgroup as it is declared")
    return prepared


def example_arrays(plan: BindingPlan, predicates: Sequence[ShapePredicate | None]) -> tuple[list[NDArray[Any]], dict[str, int]]:
    """Return arrays for a call that nobody has made yet, and counts of what it only writes.

    Numbers from 0 to 255, as many as the program declares, else ``EXAMPLE_ELEMENTS`` or about as many as fulfil the
    descriptor's predicate.
    """
    rng = np.random.default_rng(0)
    arrays: list[NDArray[Any]] = []
    counts = {}
    for one, predicate in zip(plan.descriptors, predicates, strict=True):
        count = one.element_count or _example_count(predicate)
        if one.role.consumes_input:
            dtype = np.dtype(np.uint8) if one.dtype is None else one.dtype
            size = one.header_bytes + count * one.stride
            arrays.append(rng.integers(0, 256, size // dtype.itemsize, np.uint8).astype(dtype))
        elif not one.element_count:
            counts[one.name] = count
    return arrays, counts


def _example_count(predicate: ShapePredicate | None) -> int:
    """Return the first count that will do, searched up a little and then down; where none does, the call will say so."""
    if predicate is None:
        return EXAMPLE_ELEMENTS
    counts = itertools.chain(range(EXAMPLE_ELEMENTS, EXAMPLE_ELEMENTS + _SEARCHED), range(EXAMPLE_ELEMENTS - 1, 0, -1))
    return next((count for count in counts if predicate.holds(count)), EXAMPLE_ELEMENTS)
