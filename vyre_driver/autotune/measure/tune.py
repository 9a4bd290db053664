"""Tuning: which candidate of a kernel is the fastest on a device for a size, measured there and kept as a record.

Each candidate is made ready, run on fresh inputs, and its outputs compared with numpy's, on an example that is soon compared;
where nobody knows what is right, on the call itself with those of the first. Then all that are right race
(``search.py``), and the best is compared once more at the size in question: with numpy's where that is
quick, else with another candidate's.

With ``isolate`` that is done in the process of an isolated driver: a candidate that hangs or kills its process is killed or
noted, and the others go on in another one. Without it a run that does not end in time ends the tuning, once the device has not
come free for as long again: what was timed by then is compared, and the run is left to itself.
"""

from __future__ import annotations

import dataclasses
import warnings
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.trials import SEED, DeviceTrial, IsolatedBench, IsolatedTrial, Workbench, difference
from vyre_driver.autotune.search.outcomes import Abandoned, Budget, Outcome, Progress, SearchResult, Status, WrongOutputs
from vyre_driver.autotune.search.search import search
from vyre_driver.autotune.store.records import TuningMode, size_text
from vyre_driver.autotune.store.store import AutotuneWarning
from vyre_driver.binding.arguments import as_array
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import InvalidInput, TuningFailed, VyreError
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import KernelDefinition, Size
    from vyre_driver.autotune.measure.tuned import TunedKernel
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.autotune.store.record import AutotuneRecord
    from vyre_driver.vulkan.layer._layer import PipelineExecutable

# Bytes that a call moves at most, and its floating-point operations.
_SOON = 1 << 26, 4_000_000_000
_QUICK = 1 << 30, 200_000_000_000
_DEFAULT_BUDGET = Budget()
UNASKED = Budget(seconds=30)


@dataclass(frozen=True, slots=True, repr=False)
class TuningResult:
    """The outcomes of the candidates, in the order of preference, the best one, and the record that was kept.

    ``reference`` is the candidate that the others were compared with, None where numpy said what is right; ``samples`` are the
    timed runs of all, ``seconds`` those of the search. ``ties`` are as fast as the best as far as the times show: of these the
    first in the order of preference is taken, and another tuning may measure that another one is.

    ``executables`` has the Vulkan driver's statistics of the code of each candidate that was made, dispatch by dispatch, as
    ``kernel.trace`` has it; empty without VYRE_PIPELINE_STATISTICS, and where it tells nothing.
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
    executables: Mapping[Candidate, tuple[PipelineExecutable, ...]] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        """Return what was tuned, and the best with its time, as one line."""
        tried = sum(one.status is not Status.NOT_TRIED for one in self.outcomes)
        best = f"best {self.best.candidate} in {self.best.median_ns / 1e3:,.1f} us"
        of = f"{tried} of {len(self.outcomes)} candidates tried in {self.seconds:.0f} s"
        ties = f"{count(len(self.ties), 'other')} as fast" if self.ties else ""
        return one_line("TuningResult", f"of {self.kernel} {size_text(self.size)}".rstrip(), best, of, ties)


def tune(  # noqa: PLR0913 -- what a tuning takes, by keyword
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
        Whether candidates are tried in the process of an isolated driver. The kernel's definition has to be one that ``pickle``
        can send there.
    replace
        Whether the record takes the place of one that was timed more often.
    on_progress
        Called with each candidate that is checked or out.

    Raises
    ------
    TuningFailed
        If no candidate was right and timed within the budget, or as many as agree with the first give something else, where
        nothing else says what is right; no record is kept then.
    InvalidInput
        If arrays or parameters do not fit the kernel or have no elements, or it cannot be sent to a child process.
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
    with kernel.driver.events.timed(EventKind.TUNE, definition.name):
        given = _inputs(definition, size, arrays, parameters)
        _check_elements(definition, given)
        kernel.driver.tuning.will_be_made()
        checked, right = _checked_inputs(definition, given)
        with ExitStack() as stack:
            bench = small = _bench(kernel, given, budget, isolate=isolate)
            stack.callback(bench.close)
            if checked is not given:
                small = _bench(kernel, checked, budget, isolate=isolate)
                stack.callback(small.close)
            # Two right candidates are twice as far apart as each may be from what is right.
            tolerance = definition.tolerance(checked.size) * (1 if right is not None else 2)
            maker = _Maker(kernel, given, bench, small, tolerance)
            if kernel.driver.device.is_software:  # its clock is the host's, which has just compiled
                budget = dataclasses.replace(budget, warm_up=0)
            try:
                candidates = _untuned_first(kernel, given.size)
                found = search(
                    candidates, maker.make, budget=budget, agrees=maker.agrees, expected=right, on_progress=on_progress
                )
            except TuningFailed as error:
                said = f"{_described(definition, given.size)} is not tuned: {error.problem}"
                raise TuningFailed(said, fix=error.fix, kernel=definition.name, **error.context) from None
        _check_agreement(definition, given.size, found)
        return _kept(kernel, given.size, found, maker.executables, replace=replace)


def tune_unasked(kernel: TunedKernel, size: Size | None = None) -> None:
    """Tune in half a minute what only ``VYRE_AUTOTUNE`` asks for, to be called within ``warned``; raises as ``tune``.

    In mode FORCE a record that another process has saved meanwhile is replaced too.
    """
    tune(kernel, size, budget=UNASKED, replace=kernel.driver.tuning.mode is TuningMode.FORCE)


@contextmanager
def warned() -> Iterator[None]:
    """Make a warning of what goes wrong: nobody asked for it, and what the device cannot do fails in the call itself too."""
    try:
        yield
    except (VyreError, MemoryError) as error:  # the arrays of an example may not fit beside those of the call
        warnings.warn(f"tuning did not come to its end: {error}", AutotuneWarning, stacklevel=5)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What is tuned on; ``is_ours`` where nobody gave arrays."""

    size: Size
    arrays: tuple[NDArray[Any], ...]
    parameters: dict[str, Any]
    is_ours: bool

    def expected(self, definition: KernelDefinition) -> list[NDArray[Any]] | None:
        """Return what numpy makes of it as a list of outputs, None where nobody knows."""
        found: object = definition.expected(*self.arrays, **self.parameters)
        if found is None:
            return None
        return [np.asarray(one) for one in found] if isinstance(found, (tuple, list)) else [np.asarray(found)]


def _inputs(
    definition: KernelDefinition, size: Size | None, arrays: Sequence[object] | None, parameters: Mapping[str, Any] | None
) -> _Inputs:
    if arrays is None:
        if parameters is not None:
            raise InvalidInput(
                f"parameters of {definition.name} without arrays", fix="give the arrays of the call too, or a size alone"
            )
        return _example(definition, definition.sizes[-1] if size is None else size)
    if size is not None:
        raise InvalidInput(f"both the size {size} and arrays for {definition.name}", fix="give one of them", size=size)
    given, named = tuple(as_array(one) for one in arrays), dict(parameters or {})
    return _Inputs(definition.size(definition.operands(given), named), given, named, is_ours=False)


def _described(definition: KernelDefinition, size: Size) -> str:
    return f"{definition.name} of size {size}" if size else definition.name


def _check_elements(definition: KernelDefinition, given: _Inputs) -> None:
    """Check that there is something to measure; raises InvalidInput."""
    if any(not one.size for one in given.arrays):
        raise InvalidInput(
            f"{definition.name} is to be tuned on arrays without elements, which take no time",
            fix="tune it on arrays as large as those of your calls",
            kernel=definition.name,
        )


def _example(definition: KernelDefinition, size: Size) -> _Inputs:
    arrays, parameters = definition.example(size, SEED)
    return _Inputs(size, arrays, parameters, is_ours=True)


def _checked_inputs(definition: KernelDefinition, given: _Inputs) -> tuple[_Inputs, list[NDArray[Any]] | None]:
    """Return what candidates are checked on, and what is right there.

    That is an example where numpy knows it, else the call itself, where nobody does. Of the kernel's own sizes it is the
    largest that is soon compared: to read a gigabyte from a device takes longer than to time it.
    """
    if given.is_ours and _is_within(definition, given.size, *_SOON):
        return given, given.expected(definition)
    small = [one for one in definition.sizes if _is_within(definition, one, *_SOON)]
    example = _example(definition, max(small, key=definition.moved_bytes, default=definition.sizes[0]))
    right = example.expected(definition)
    return (given, None) if right is None else (example, right)


def _is_within(definition: KernelDefinition, size: Size, most_bytes: int, most_operations: int) -> bool:
    return definition.moved_bytes(size) <= most_bytes and definition.operations(size) <= most_operations


def _bench(kernel: TunedKernel, given: _Inputs, budget: Budget, *, isolate: bool) -> Workbench | IsolatedBench:
    if isolate:
        return IsolatedBench(kernel.driver, kernel.definition, given.arrays, given.parameters, budget)
    how = {"run_timeout": budget.run_timeout, "patience": budget.run_timeout}
    return Workbench(kernel.driver, kernel.definition, given.arrays, given.parameters, **how)


@dataclass(slots=True)
class _Maker:
    """Makes trials: on ``bench`` they are timed, on ``small``, which may be the same, they are checked."""

    kernel: TunedKernel
    given: _Inputs
    bench: Workbench | IsolatedBench
    small: Workbench | IsolatedBench
    tolerance: float
    """Of what is checked."""
    asked: Candidate | None = None
    """Whose outputs were taken last."""
    right: list[Candidate] = field(default_factory=list)
    """Those whose outputs agreed, in the order of preference."""
    executables: dict[Candidate, tuple[PipelineExecutable, ...]] = field(default_factory=dict)
    """The driver's statistics of each that was compiled, at the size in question where it was compiled there."""

    def make(self, candidate: Candidate) -> _CheckedTrial:
        """Make a candidate ready to be checked."""
        trial = _CheckedTrial(self, candidate)
        trial.on(self.small)
        return trial

    def agrees(self, right: Sequence[NDArray[Any]], given: Sequence[NDArray[Any]]) -> str | None:
        """Return why the outputs that were taken last are wrong, None if they are not."""
        why = self._difference(right, given, self.tolerance)
        if why is None and self.asked is not None:
            self.right.append(self.asked)
        return why

    def difference_at_size(self, candidate: Candidate, outputs: list[NDArray[Any]]) -> str | None:
        """Return why the outputs of a candidate at the size in question are wrong, None if they are not."""
        definition, given = self.kernel.definition, self.given
        tolerance = definition.tolerance(given.size)
        if given.is_ours and _is_within(definition, given.size, *_QUICK):
            right = given.expected(definition)
            if right is not None:
                return self._difference(right, outputs, tolerance)
        for other in self.right:
            found = None if other == candidate else self._outputs(other)
            if found is not None:
                return self._difference(found, outputs, 2 * tolerance)
        return None

    def _difference(self, right: Sequence[NDArray[Any]], given: Sequence[NDArray[Any]], tolerance: float) -> str | None:
        as_numbers = self.kernel.definition.numbers
        return difference([as_numbers(one) for one in right], [as_numbers(one) for one in given], tolerance)

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
    trials: dict[Workbench | IsolatedBench, DeviceTrial | IsolatedTrial] = field(default_factory=dict)
    """Where it is ready."""

    def outputs(self) -> list[NDArray[Any]]:
        """Return what it gives where it is checked; for that alone it is made ready there."""
        small = self.maker.small
        outputs = self.on(small).outputs()
        self.maker.asked = self.candidate
        if small is not self.maker.bench:
            self.trials.pop(small).close()
        return outputs

    def sample(self) -> float:
        return self.on(self.maker.bench).sample()

    def keep_busy(self, seconds: float) -> float:
        return self.on(self.maker.bench).keep_busy(seconds)

    def verify(self) -> None:
        """Check that it is right at the size in question too; raises WrongOutputs."""
        if self.maker.small is self.maker.bench:
            return
        why = self.maker.difference_at_size(self.candidate, self.on(self.maker.bench).outputs())
        if why is not None:
            raise WrongOutputs(f"at the size {size_text(self.maker.given.size)} {why}")

    def close(self) -> None:
        while self.trials:
            self.trials.popitem()[1].close()

    def on(self, bench: Workbench | IsolatedBench) -> DeviceTrial | IsolatedTrial:
        """Return the trial on a bench, made ready when it is first asked for."""
        if bench not in self.trials:
            made = self.trials[bench] = bench.make(self.candidate)
            if made.executables:
                self.maker.executables[self.candidate] = made.executables
        return self.trials[bench]


def _untuned_first(kernel: TunedKernel, size: Size) -> list[Candidate]:
    """Return the candidates, first what calls of this size run with before: it is tried in any time, and is no worse after."""
    first = kernel.definition.untuned(kernel.candidates, size)
    return sorted(kernel.candidates, key=lambda one: one != first)


def _check_agreement(definition: KernelDefinition, size: Size, found: SearchResult) -> None:
    """Check that what is right was known, or most candidates agree with the one that stood for it; raises TuningFailed 2211.

    Whose outputs are incomplete, by a grid that does not cover the elements, must not make those wrong that are right.
    """
    wrong = sum(one.status is Status.WRONG for one in found.outcomes)
    agree = sum(one.status in {Status.TIMED, Status.DROPPED} for one in found.outcomes)
    if found.reference is not None and wrong >= agree:
        raise TuningFailed(
            f"{_described(definition, size)} is not tuned: {agree} candidates give what the first one that ran gives, "
            f"{wrong} give something else, and nothing says which is right",
            fix="tune only what does not change the result, and let the grid of each candidate cover all elements",
            kernel=definition.name,
            outcomes=found.outcomes,
        )


def _kept(
    kernel: TunedKernel,
    size: Size,
    found: SearchResult,
    told: Mapping[Candidate, tuple[PipelineExecutable, ...]],
    *,
    replace: bool,
) -> TuningResult:
    text = size_text(kernel.definition.size_class(size))
    best = found.best
    record = kernel.target.record(best.candidate, best.samples, round(best.median_ns), text, found.timings)
    try:
        kernel.driver.tuning.keep(kernel.target, record, replace=replace)
    finally:
        kernel.forget()
    spent = found.samples, found.seconds
    return TuningResult(kernel.definition.name, size, found.outcomes, best, record, found.reference, *spent, found.ties, told)
