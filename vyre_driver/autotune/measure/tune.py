"""Tuning: which candidate of a kernel is the fastest on a device for a size, measured there and kept as a record.

Each candidate is made ready, run on fresh inputs, and its outputs compared with numpy's, on an example that is soon compared;
where nobody knows what is right, on the call itself with those of the first. Then all that are right race
(``search.py``), and the best is compared once more at the size in question: with numpy's where that is
quick, else with another candidate's.

With ``isolate`` that is done in a child process: a candidate that hangs or kills its process is killed or noted, and the others
go on in another one. Without it a run that does not end in time ends the tuning, once the device has not come free for as long
again: what was timed by then is compared, and the run is left to itself.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.measure.definition import Operand
from vyre_driver.autotune.measure.isolation import IsolatedBench
from vyre_driver.autotune.measure.outputs import comparison
from vyre_driver.autotune.measure.trials import SEED, Workbench, as_outputs
from vyre_driver.autotune.search.outcomes import Abandoned, Budget, Status, WrongOutputs
from vyre_driver.autotune.search.search import search
from vyre_driver.autotune.store.records import size_text
from vyre_driver.binding.arguments import as_array
from vyre_driver.errors import InvalidInput, TuningFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import KernelDefinition, Size
    from vyre_driver.autotune.measure.isolation import IsolatedTrial
    from vyre_driver.autotune.measure.trials import DeviceTrial
    from vyre_driver.autotune.measure.tuned import TunedKernel
    from vyre_driver.autotune.search.outcomes import Outcome, Progress, SearchResult
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.autotune.store.record import AutotuneRecord

_SOON_BYTES = 1 << 26
_SOON_OPERATIONS = 4_000_000_000
_QUICK_BYTES = 1 << 30
_QUICK_OPERATIONS = 200_000_000_000
_DEFAULT_BUDGET = Budget()


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What came of the candidates, in the order of preference, which is the best, and the record that was kept.

    ``reference`` is the candidate that the others were compared with, None where numpy said what is right; ``samples`` are the
    timed runs of all, ``seconds`` those of the search. ``ties`` are as fast as the best as far as can be told: of these the
    first in the order of preference is taken, and another tuning may measure that another one is.
    """

    kernel: str
    size: Size
    outcomes: tuple[Outcome, ...]
    best: Outcome
    record: AutotuneRecord
    reference: Candidate | None
    samples: int
    seconds: float
    ties: tuple[Candidate, ...] = ()


def tune(  # noqa: PLR0913 -- what tuning can be told, by keyword
    kernel: TunedKernel,
    size: Size | None = None,
    *,
    arrays: Sequence[object] | None = None,
    parameters: Mapping[str, Any] | None = None,
    budget: Budget = _DEFAULT_BUDGET,
    isolate: bool = False,
    replace: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> TuningResult:
    """Measure a kernel's candidates for a size, whether there is a record or not, and keep the best.

    Parameters
    ----------
    size
        The problem's size, None takes the largest that the kernel names; not together with ``arrays``.
    arrays, parameters
        A call's own, to tune on; None takes the kernel's example.
    isolate
        Whether candidates are tried in a child process. The kernel's definition has to be one that ``pickle`` can send there.
    replace
        Whether the record takes the place of one that was timed more often.
    on_progress
        Told of each candidate that is checked or out.

    Raises
    ------
    TuningFailed
        If no candidate was right and timed within the budget, or as many as agree with the first give something else, where
        nothing else says what is right; no record is kept then.
    InvalidInput
        If arrays or parameters do not fit the kernel, or it cannot be sent to a child process.
    DeviceOutOfMemory
        If the inputs cannot be uploaded.
    DispatchFailed
        If the inputs cannot be uploaded.
    FileUnusable
        If the record cannot be saved; it is used all the same.
    InvalidAutotuneFile
        If the record cannot be saved; it is used all the same.
    """
    definition = kernel.definition
    call = _call(definition, size, arrays, parameters)
    kernel.driver.tuning.will_be_made()
    checked, right = _checked_call(definition, call)
    with ExitStack() as stack:
        bench = small = _bench(kernel, call, budget, isolate=isolate)
        stack.enter_context(bench)
        if checked is not call:
            small = _bench(kernel, checked, budget, isolate=isolate)
            stack.enter_context(small)
        # Two right candidates are twice as far apart as each may be from what is right.
        tolerance = definition.tolerance(checked.size) * (1 if right is not None else 2)
        maker = _Maker(kernel, call, bench, small, comparison(tolerance))
        if kernel.driver.physical_device.is_software:  # its clock is the host's, which has just compiled
            budget = dataclasses.replace(budget, warm_up=0)
        try:
            found = search(
                kernel.candidates, maker.make, budget=budget, agrees=maker.agrees, expected=right, on_progress=on_progress
            )
        except TuningFailed as error:
            said = f"{definition.name} of size {call.size} is not tuned: {error.problem}"
            raise TuningFailed(said, fix=error.fix, kernel=definition.name, **error.context) from None
    _check_agreement(definition, call.size, found)
    return _kept(kernel, call.size, found, replace=replace)


@dataclass(frozen=True, slots=True)
class _Call:
    """What is tuned on; ``is_ours`` where nobody gave arrays."""

    size: Size
    arrays: tuple[NDArray[Any], ...]
    parameters: dict[str, Any]
    is_ours: bool

    def expected(self, definition: KernelDefinition) -> list[NDArray[Any]] | None:
        """Return what numpy makes of it, None where it is not to be asked."""
        is_quick = definition.moved_bytes(self.size) <= _QUICK_BYTES and definition.operations(self.size) <= _QUICK_OPERATIONS
        return as_outputs(definition.expected(*self.arrays, **self.parameters)) if self.is_ours and is_quick else None


def _call(
    definition: KernelDefinition, size: Size | None, arrays: Sequence[object] | None, parameters: Mapping[str, Any] | None
) -> _Call:
    if arrays is None:
        if parameters is not None:
            raise InvalidInput(
                f"parameters of {definition.name} without arrays", fix="give the arrays of the call too, or a size alone"
            )
        chosen = definition.sizes[-1] if size is None else size
        made, named = definition.example(chosen, SEED)
        return _Call(chosen, made, named, is_ours=True)
    if size is not None:
        raise InvalidInput(f"both the size {size} and arrays for {definition.name}", fix="give one of them", size=size)
    given, named = tuple(as_array(one) for one in arrays), dict(parameters or {})
    if len(given) != len(definition.inputs):
        raise InvalidInput(
            f"{definition.name} takes {len(definition.inputs)} arrays and got {len(given)}",
            fix=f"give {', '.join(definition.inputs) or 'none'}",
        )
    operands = {name: Operand(one.shape, one.dtype) for name, one in zip(definition.inputs, given, strict=True)}
    return _Call(definition.size(operands, named), given, named, is_ours=False)


def _checked_call(definition: KernelDefinition, call: _Call) -> tuple[_Call, list[NDArray[Any]] | None]:
    """Return the call that candidates are checked on, and what is right there.

    That is an example where numpy knows it, else the call itself, where nobody does. Of the kernel's own sizes it is the
    largest that is soon compared: to read a gigabyte from a device takes longer than to time it.
    """
    if call.is_ours and _is_soon_checked(definition, call.size):
        right = as_outputs(definition.expected(*call.arrays, **call.parameters))
        return call, right
    small = [one for one in definition.sizes if _is_soon_checked(definition, one)]
    size = max(small, key=definition.moved_bytes, default=definition.sizes[0])
    arrays, parameters = definition.example(size, SEED)
    right = as_outputs(definition.expected(*arrays, **parameters))
    return (call, None) if right is None else (_Call(size, arrays, parameters, is_ours=True), right)


def _is_soon_checked(definition: KernelDefinition, size: Size) -> bool:
    return definition.moved_bytes(size) <= _SOON_BYTES and definition.operations(size) <= _SOON_OPERATIONS


def _bench(kernel: TunedKernel, call: _Call, budget: Budget, *, isolate: bool) -> Workbench | IsolatedBench:
    if isolate:
        return IsolatedBench(kernel.driver, kernel.definition, call.arrays, call.parameters, budget)
    return Workbench(
        kernel.driver,
        kernel.definition,
        kernel.device,
        call.arrays,
        call.parameters,
        run_timeout=budget.run_timeout,
        patience=budget.run_timeout,
    )


@dataclass(slots=True)
class _Maker:
    """Makes trials: on ``bench`` they are timed, on ``small``, which may be the same, they are checked."""

    kernel: TunedKernel
    call: _Call
    bench: Workbench | IsolatedBench
    small: Workbench | IsolatedBench
    compare: Callable[[Sequence[NDArray[Any]], Sequence[NDArray[Any]]], str | None]
    asked: Candidate | None = None
    """Whose outputs were taken last."""
    right: list[Candidate] = field(default_factory=list)
    """Those whose outputs agreed, in the order of preference."""

    def make(self, candidate: Candidate) -> _CheckedTrial:
        """Make a candidate ready to be checked."""
        return _CheckedTrial(self, candidate, self.small.make(candidate))

    def agrees(self, right: Sequence[NDArray[Any]], given: Sequence[NDArray[Any]]) -> str | None:
        """Return why the outputs that were taken last are wrong, None if they are not."""
        why = self.compare(right, given)
        if why is None and self.asked is not None:
            self.right.append(self.asked)
        return why

    def difference(self, candidate: Candidate, outputs: list[NDArray[Any]]) -> str | None:
        """Return why the outputs of a candidate at the size in question are wrong, None if they are not."""
        tolerance = self.kernel.definition.tolerance(self.call.size)
        right = self.call.expected(self.kernel.definition)
        if right is not None:
            return comparison(tolerance)(right, outputs)
        for other in self.right:
            found = None if other == candidate else self._outputs(other)
            if found is not None:
                return comparison(2 * tolerance)(found, outputs)
        return None

    def _outputs(self, other: Candidate) -> list[NDArray[Any]] | None:
        """Return what another candidate gives at the size in question, None if it is of no use there."""
        try:
            with closing(self.bench.make(other)) as trial:
                return trial.outputs()
        except Abandoned:  # the device is out of order
            raise
        except Exception:  # noqa: BLE001 -- whatever another candidate does is not this one's fault
            return None


@dataclass(slots=True)
class _CheckedTrial:
    """A candidate, checked on small arrays and timed on those in question."""

    maker: _Maker
    candidate: Candidate
    checked: DeviceTrial | IsolatedTrial | None
    timed: DeviceTrial | IsolatedTrial | None = None

    def outputs(self) -> list[NDArray[Any]]:
        """Return what it gives where it is checked; for that alone it is made ready there."""
        assert self.checked is not None  # noqa: S101 -- asked once
        outputs = self.checked.outputs()
        self.maker.asked = self.candidate
        if self.maker.small is self.maker.bench:
            self.timed = self.checked
        else:
            self.checked.close()
        self.checked = None
        return outputs

    def sample(self) -> float:
        """Return the nanoseconds of a run."""
        return self._at_size().sample()

    def keep_busy(self, seconds: float) -> float:
        """Run for so many seconds."""
        return self._at_size().keep_busy(seconds)

    def verify(self) -> None:
        """Check that it is right at the size in question too; raises WrongOutputs."""
        if self.maker.small is self.maker.bench:
            return
        why = self.maker.difference(self.candidate, self._at_size().outputs())
        if why is not None:
            raise WrongOutputs(f"at the size {size_text(self.maker.call.size)} {why}")

    def close(self) -> None:
        """Close what is open."""
        for trial in (self.checked, self.timed):
            if trial is not None:
                trial.close()
        self.checked = self.timed = None

    def _at_size(self) -> DeviceTrial | IsolatedTrial:
        """Return the trial that is timed, made ready when it is first asked for."""
        if self.timed is None and self.maker.small is self.maker.bench:
            self.timed, self.checked = self.checked, None
        if self.timed is None:
            self.timed = self.maker.bench.make(self.candidate)
        return self.timed


def _check_agreement(definition: KernelDefinition, size: Size, found: SearchResult) -> None:
    """Check that what is right was known, or most candidates agree with the one that stood for it; raises TuningFailed 2211.

    Whose outputs are incomplete, by a grid that does not cover the elements, must not make those wrong that are right.
    """
    wrong = sum(one.status is Status.WRONG for one in found.outcomes)
    agree = sum(one.status in {Status.TIMED, Status.DROPPED} for one in found.outcomes)
    if found.reference is not None and wrong >= agree:
        raise TuningFailed(
            f"{definition.name} of size {size} is not tuned: {agree} candidates give what the first one that ran gives, "
            f"{wrong} give something else, and nothing says which is right",
            fix="let groups be a function of the candidate, so that the grid of each covers all elements",
            kernel=definition.name,
            outcomes=found.outcomes,
        )


def _kept(kernel: TunedKernel, size: Size, found: SearchResult, *, replace: bool) -> TuningResult:
    text = size_text(kernel.definition.size_class(size))
    best = found.best
    record = kernel.target.record(best.candidate, best.samples, round(best.median_ns), text)
    try:
        kernel.driver.tuning.keep(kernel.target, record, replace=replace)
    finally:
        kernel.forget()
    return TuningResult(
        kernel.definition.name, size, found.outcomes, best, record, found.reference, found.samples, found.seconds, found.ties
    )
