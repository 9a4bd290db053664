"""The candidates of a kernel on a call: which is known as the best, and how they are measured."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from blake3 import blake3

from vyre_driver.autotune.measure.definition import KernelDefinition, KernelOfCall, Operand, Plan, Step
from vyre_driver.autotune.target import TuningTarget
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.errors import InvalidInput
from vyre_driver.identity.keys import layout_digest, program_digest
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.launch.scalars import as_words
from vyre_driver.lang.types import bool_

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import Size
    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.driver import Driver
    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.fitting import Arrays, FittedCall
    from vyre_driver.lang.launch.launcher import Launcher

    Workgroup = tuple[int, int, int]


_NUMBERS = "the numbers"  # which is the name of no array


class CallAtHand(NamedTuple):
    """A call of a kernel on a driver: its constants, arrays and numbers by name, as they are checked."""

    launcher: Launcher
    driver: Driver
    choices: Choices
    constants: Mapping[str, object]
    arrays: Arrays
    numbers: Mapping[str, object]

    def prepared(self, candidate: Candidate) -> FittedCall:
        """Return the call with a candidate; raises InvalidInput if it does not fit."""
        return self.launcher.fitted(self.driver, self.choices, self.constants, self.arrays, candidate)


def _kernel_of(call: CallAtHand, target: TuningTarget, size: Size, tolerance: float = 0.0) -> KernelOfCall:
    """Return the kernel on the call's arrays and numbers, with any of its candidates; what is resident is read."""
    byte_len = sum(one.nbytes for one in call.arrays.values() if one is not None)
    return KernelOfCall(target, _read(call, target), partial(_plan, call), byte_len, size, tolerance)


def _read(call: CallAtHand, target: TuningTarget) -> dict[str, NDArray[Any]]:
    """Return what a call reads: arrays, and its numbers, which programs with too many of them take from a buffer."""
    signature = call.launcher.definition.signature
    found = {}
    for name in [one.name for one in signature.arrays if one.type.access.reads]:  # type: ignore[union-attr] # arrays
        given = call.arrays[name]
        array = given.read() if isinstance(given, Buffer) else np.asarray(given)
        found[name] = array.astype(np.uint32) if array.dtype == np.bool_ else array
    if signature.scalars:
        found[_NUMBERS] = as_words(call.prepared(target.space.preferred).scalars(signature), call.numbers)
    return found


def _plan(call: CallAtHand, candidate: Candidate) -> Plan:
    launcher, signature = call.launcher, call.launcher.definition.signature
    found = call.prepared(candidate)
    is_stored = found.specialization.stored
    push = found.fixed if is_stored else {**found.fixed, **call.numbers}
    buffers = (*(one.name for one in signature.arrays), *[_NUMBERS] * is_stored)
    step = Step(found.translated.program, buffers, found.grid, {}, push, launcher.definition.config(found.translated))
    written = [one.name for one in signature.arrays if one.type.access.writes]  # type: ignore[union-attr] # arrays
    return Plan((step,), {name: _operand(found, call.arrays, name) for name in written})


def _operand(found: FittedCall, arrays: Arrays, name: str) -> Operand:
    given, element = arrays[name], found.elements[name]
    shape = found.left_out[name] if given is None else given.shape
    return Operand(tuple(shape), np.dtype(np.uint32) if element is bool_ else element.dtype)


def best_known(call: CallAtHand) -> Candidate | None:
    """Return the candidate that the records know as the best for a call, None if they know none or all constants are given.

    Nor is one taken where the call says how many workgroups there are, for how far these go depends on their size, or where
    the kernel checks itself. A kernel that has no record is tuned first where VYRE_AUTOTUNE says so; what goes wrong with that
    is a warning.
    """
    tunable, records = call.launcher.definition.tunable, call.driver.tuning
    if tunable is None or call.launcher.definition.checks or call.choices.groups is not None or records.is_idle:
        return None
    space = tunable.space(call.constants)
    if not space.axes:
        return None
    target, size = _target(call, space)
    if not any(one is not None and 0 in one.shape for one in call.arrays.values()) and records.claim(target, _size_class(size)):
        from vyre_driver.autotune.measure import tune as measure  # late: most processes tune nothing
        from vyre_driver.autotune.measure.tuned import TunedKernel

        with measure.warned():
            tuned = TunedKernel(call.driver, _kernel_of(call, target, size))
            try:
                measure.tune_unasked(tuned, size)
            finally:
                tuned.close()
    return target.known(records, _size_class(size))


def tune_call(
    launcher: Launcher,
    choices: Choices,
    given: tuple[object, ...],
    named: dict[str, Any],
    *,
    tolerance: float,
    **how: Any,  # noqa: ANN401 -- as tune
) -> TuningResult:
    """Measure the candidates of a kernel on a call, and keep the best; ``how`` is ``budget``, ``replace`` and ``on_progress``.

    Raises
    ------
    InvalidInput
        If the call does not fit, or nothing is left to tune.
    TuningFailed
        As :func:`vyre_driver.autotune.measure.tune.tune`.
    """
    from vyre_driver.autotune.measure.tune import tune  # late: most processes tune nothing
    from vyre_driver.autotune.measure.tuned import TunedKernel

    call = _call_to_tune(launcher, choices, given, named)
    tunable = launcher.definition.tunable
    space = None if tunable is None else tunable.space(call.constants)
    if space is None or not space.axes:
        raise InvalidInput(
            f"every constant of {launcher.definition.name} that may be tuned is given",
            fix="leave some out of the call and of with_",
        )
    target, size = _target(call, space)
    kernel = _kernel_of(call, target, size, tolerance)
    tuned = TunedKernel(call.driver, kernel)
    try:
        return tune(tuned, arrays=tuple(kernel.arrays.values()), **how)
    finally:
        tuned.close()
        launcher.forget(call.driver)


def _call_to_tune(launcher: Launcher, choices: Choices, given: tuple[object, ...], named: dict[str, Any]) -> CallAtHand:
    """Return a call that may be tuned; raises as ``tune_call``."""
    definition = launcher.definition
    one, arrays, numbers = launcher.matched(choices, given, named)
    if one.options:
        raise InvalidInput(f"{definition.name} is tuned with the option {next(iter(one.options))!r}", fix="leave it out")
    if definition.tunable is None:
        raise InvalidInput(
            f"{definition.name} says nothing of what may be tuned",
            fix='decorate it with @kernel(tune=True), or tune={"BLOCK": [64, 128, 256]}',
        )
    if definition.checks:
        raise InvalidInput(f"{definition.name} has checks=True, and is slower with it", fix="tune it without")
    if choices.groups is not None:
        raise InvalidInput(
            f"{definition.name} is tuned with .groups{choices.groups}, and how far these go may depend on what is tuned",
            fix="say how far it goes with .over(...), or by over= of the decorator",
        )
    constants = {**dict(choices.constants), **one.constants}
    return CallAtHand(launcher, launcher.driver_of(choices, arrays), choices, constants, arrays, numbers)


def _size_class(size: Size) -> Size:
    return KernelDefinition.size_class(None, size)  # type: ignore[arg-type] # of any definition


def _target(call: CallAtHand, space: TuningSpace) -> tuple[TuningTarget, Size]:
    """Return what a record is for, and the size of the call.

    The code is the program of the defaults: what other values make of the function differs only where it looks at them, and
    then a record may be worth less than it was, no more.
    """
    found, launcher = call.prepared(space.preferred), call.launcher
    program = found.translated.program
    modes = f"{launcher.definition.floats} {launcher.definition.bounds}"
    code = blake3(program_digest(program) + modes.encode()).digest()
    layout = layout_digest(BindingPlan.build(program))
    return TuningTarget(launcher.definition.name, code, layout, space, call.driver.device), found.size
