"""Tuning a module or a program of somebody's own, on the arrays of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.choice import check_space, program_target
from vyre_driver.autotune.measure.adhoc import ModuleKernel, ProgramKernel, example_arrays
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.measure.unasked import UNASKED, is_forced, warned
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.errors import InvalidInput
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lowering.program import prepare_for
from vyre_driver.specialization.resolve import named_values
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vyre_driver.autotune.measure.adhoc import CallKernel, Groups
    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.driver import Driver
    from vyre_driver.ir.program import Program
    from vyre_driver.lowering.program import ProgramSource
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.target.config import DispatchConfig


def tune_call(  # noqa: PLR0913 -- what a call can be told, by keyword
    driver: Driver,
    code: SpirvModule | Program,
    arrays: Sequence[object],
    *,
    space: TuningSpace | None = None,
    specs: Mapping[str, object] | SpecMap | None = None,
    config: DispatchConfig | None = None,
    groups: Groups | Callable[[Candidate], Groups] | None = None,
    push: Mapping[str, object] | None = None,
    out_counts: Mapping[str, int] | None = None,
    tolerance: float = 0.0,
    **how: Any,  # noqa: ANN401 -- as tune
) -> TuningResult:
    """Tune a module or a program on a call, and keep the record.

    Parameters
    ----------
    arrays
        As a call's; none for a program makes some up, of the counts that it declares.
    space
        What of a module may be tuned. A program has its workgroup's size, where nothing else depends on that.
    specs, config
        As ``Driver.compile``; constants that are given are not tuned.
    groups, push, out_counts
        As a call's; of a module ``groups`` may be a function of the candidate. A program's grid is its own.
    tolerance
        How far the outputs of two candidates may be apart, relative to the largest magnitude in them.
    how
        ``budget``, ``isolate``, ``replace`` and ``on_progress``, as :func:`vyre_driver.autotune.measure.tune.tune`.

    Raises
    ------
    InvalidInput
        If what is given does not fit the code or leaves nothing to tune, or a program depends on its workgroup.
    InvalidTuningSpace
        As ``tune``.
    TuningFailed
        As ``tune``.
    """
    given = {} if specs is None else named_values(specs)
    kernel: CallKernel
    if isinstance(code, SpirvModule):
        if space is None:
            raise InvalidInput(
                f"{code.name} is to be tuned without a space", fix="say what may be tuned: space=TuningSpace(...)"
            )
        check_space(space)
        if all(axis.constant in given for axis in space.axes):
            raise InvalidInput(f"every constant that may be tuned of {code.name} is given", fix="leave some out of specs")
        arguments = BindingPlan.from_reflection(code.runnable.reflection).check_arguments(arrays, out_counts or {})
        kernel = ModuleKernel(arguments, code, space, given, groups, push or {}, tolerated=tolerance)
        return tune(TunedKernel(driver, kernel), **how)
    wrong = {"space": space, "groups": groups, "push": push}
    unfit = [name for name, value in wrong.items() if value is not None]
    if unfit:
        raise InvalidInput(f"a program is to be tuned with {', '.join(unfit)}, which it has by itself", fix="leave it out")
    prepared = _tunable(driver, code, specs, config)
    counts = dict(out_counts or {})
    if not arrays:
        arrays, made = example_arrays(prepared.plan, prepared.rules.predicates)
        counts = made | counts
    arguments = prepared.plan.check_arguments(arrays, counts)
    target = program_target(prepared, config, driver.physical_device)
    return tune(TunedKernel(driver, ProgramKernel(arguments, code, target, given, config, tolerated=tolerance)), **how)


def tune_program_unasked(
    driver: Driver,
    prepared: ProgramSource,
    program: Program,
    specs: Mapping[str, object] | SpecMap | None,
    config: DispatchConfig | None,
) -> None:
    """Tune a program that is compiled, if its workgroup is free and the mode says so; what goes wrong is a warning."""
    target = program_target(prepared, config, driver.physical_device)
    if len(target.space.candidates(driver.physical_device.limits)) == 1 or not driver.tuning.claim(target):
        return
    with warned():
        arguments = prepared.plan.check_arguments(*example_arrays(prepared.plan, prepared.rules.predicates))
        kernel = ProgramKernel(arguments, program, target, dict(specs or {}), config)
        tune(TunedKernel(driver, kernel), budget=UNASKED, replace=is_forced(driver))


def _tunable(
    driver: Driver, program: Program, specs: Mapping[str, object] | SpecMap | None, config: DispatchConfig | None
) -> ProgramSource:
    """Return a program that may be tuned; raises as ``tune_call``."""
    if config is not None and config.workgroup_override is not None:
        raise InvalidInput(
            f"the configuration sets the workgroup to {config.workgroup_override}, which is what would be tuned",
            fix="leave workgroup_override out",
        )
    prepared = prepare_for(driver.device, program, specs, config)
    why = why_workgroup_is_fixed(prepared.program)
    if why is not None:
        raise InvalidInput(f"the program has nothing that can be tuned: {why}", fix="leave its workgroup as it is declared")
    return prepared
