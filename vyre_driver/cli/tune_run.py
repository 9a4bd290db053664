"""``vyre-driver tune run``: tune kernels on a device, with a progress bar on a terminal, and report the results."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.search.outcomes import Budget, Status
from vyre_driver.autotune.store.records import TuningRecords, size_text
from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.checks import U32_MAX
from vyre_driver.cli.options import add_device, human_count, human_measure, print_json, printable, progress, say
from vyre_driver.driver import Driver
from vyre_driver.errors import (
    DeviceOutOfMemory,
    InvalidCommand,
    InvalidTuningSpace,
    LimitExceeded,
    TuningFailed,
    UnsupportedFeature,
)
from vyre_driver.kernels import KERNELS
from vyre_driver.runtime.trace import statistics_by_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vyre_driver.autotune.measure.definition import KernelDefinition, Size
    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.outcomes import Outcome

_ALL = "all"
_OUT = (Status.FAILED, Status.HUNG, Status.WRONG)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    default = Budget()
    parser.add_argument("kernels", nargs="+", metavar="KERNEL", help=f"{', '.join(KERNELS)}, or {_ALL}")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="N[xN...]",
        help="a problem size; again for more (default: the kernel's own)",
    )
    parser.add_argument(
        "--seconds", type=float, default=default.seconds, metavar="S", help="for each size at most (default: %(default)g)"
    )
    parser.add_argument(
        "--run-timeout", type=float, default=default.run_timeout, metavar="S", help="for one run at most (default: %(default)g)"
    )
    parser.add_argument("--isolate", action="store_true", help="try candidates in a child process, which may die or hang")
    parser.add_argument("--force", action="store_true", help="measure again what has a record, and replace it")
    parser.add_argument("--allow-software", action="store_true", help="accept a CPU device")
    add_device(parser)


def records_file(options: argparse.Namespace) -> Path:
    """Return the file of records to write to; raises InvalidCommand if there is none."""
    path = TuningRecords.from_settings(options.file).path
    if path is None:
        raise InvalidCommand("there is no home to keep tuning records in", fix="name a file with --file")
    return path


def run(options: argparse.Namespace) -> int:
    """Tune each kernel for each size; status 1 where one has no right candidate or does not fit into memory."""
    wanted = [(one, [_size(text, one) for text in options.size] or one.sizes) for one in _named(options.kernels)]
    budget = Budget(seconds=options.seconds, run_timeout=options.run_timeout)
    path = records_file(options)
    AutotuneStore.check_savable(path)
    done: list[dict[str, Any]] = []
    with Driver(options.device, autotune=path, allow_software=options.allow_software or None) as driver:
        for definition, sizes in wanted:
            for result in _tuned(driver, definition, sizes, options, budget):
                done.append(result)
                if not options.json:
                    _print(result)
        if options.json:
            print_json({"device": driver.device.name, "file": str(path), "tuned": done})
    return 1 if any("failed" in result for result in done) else 0


def _named(names: list[str]) -> list[KernelDefinition]:
    unknown = [name for name in names if name not in KERNELS and name != _ALL]
    if unknown:
        raise InvalidCommand(f"there is no kernel {unknown[0]!r}", fix=f"name one of {', '.join(KERNELS)}, or {_ALL}")
    return list(KERNELS.values()) if _ALL in names else [KERNELS[name] for name in dict.fromkeys(names)]


def _tuned(
    driver: Driver, definition: KernelDefinition, sizes: Sequence[Size], options: argparse.Namespace, budget: Budget
) -> Iterator[dict[str, Any]]:
    try:
        kernel = TunedKernel(driver, definition)
    except (UnsupportedFeature, InvalidTuningSpace) as error:
        if _ALL not in options.kernels:
            raise
        yield {"kernel": definition.name, "skipped": error.problem}
        return
    for size in sizes:
        result: dict[str, Any] = {"kernel": definition.name, "size": size_text(size)}
        at = definition.size_class(size)
        if driver.tuning.has(kernel.target, at) and not options.force:
            yield {**result, "skipped": f"sizes about {size_text(at)} have a record, which --force replaces"}
            continue
        try:
            yield _as_data(_raced(kernel, size, options, budget), kernel)
        except (TuningFailed, DeviceOutOfMemory, LimitExceeded) as error:
            yield {**result, "failed": str(error)}
        except MemoryError as error:
            yield {**result, "failed": f"the host has no memory for its arrays: {error}"}


def _size(text: str, definition: KernelDefinition) -> Size:
    numbers = len(definition.sizes[0])
    try:
        size = tuple(int(one) for one in text.split("x"))
    except ValueError:
        size = ()
    if len(size) != numbers or not all(1 <= one <= U32_MAX for one in size):
        raise InvalidCommand(
            f"--size {text!r} is not {human_count(numbers, 'integer')} from 1 to {U32_MAX}, as {definition.name} takes",
            fix=f"write --size {size_text(definition.sizes[0])}",
        )
    return size


def _raced(kernel: TunedKernel, size: Size, options: argparse.Namespace, budget: Budget) -> TuningResult:
    definition = kernel.definition
    kernel.driver.context.device.check_available(definition.moved_bytes(size))  # before the host makes arrays that never fit
    with progress(f"{definition.name} {size_text(size)}", len(kernel.candidates)) as step:
        return tune(
            kernel,
            size,
            budget=budget,
            isolate=options.isolate,
            replace=options.force,
            on_progress=lambda search: step(search.tried, search.total),
        )


def _as_data(result: TuningResult, kernel: TunedKernel) -> dict[str, Any]:
    first, best = result.outcomes[0], result.best
    return {
        "kernel": result.kernel,
        "size": size_text(result.size),
        "workgroup_size": list(best.candidate.workgroup_size),
        "constants": dict(best.candidate.constants),
        "choice": str(best.candidate),
        "median_ns": round(best.median_ns),
        "samples": best.samples,
        "first": str(first.candidate),
        "first_median_ns": round(first.median_ns),
        "bytes_per_s": _rate(kernel.definition.moved_bytes(result.size), best),
        "operations_per_s": _rate(kernel.definition.operations(result.size), best),
        "seconds": round(result.seconds, 3),
        "timed_runs": result.samples,
        "ties": [str(one) for one in result.ties],
        "candidates": {one.value: sum(row.status is one for row in result.outcomes) for one in Status},
        "statistics": {
            str(one): {name: _plain(value) for name, value in statistics_by_name(told).items()}
            for one, told in result.executables.items()
        },
        "out": [
            {"choice": str(one.candidate), "why": f"{one.status.value}: {one.detail}"}
            for one in result.outcomes
            if one.status in _OUT
        ],
    }


def _plain(value: bool | float | None) -> bool | float | None:  # noqa: FBT001 -- a value of any kind
    """Return what JSON can hold: it has no infinities and no NaN."""
    return value if value is None or math.isfinite(value) else None


def _rate(amount: int, best: Outcome) -> float:
    return round(amount * 1e9 / best.median_ns, 1) if best.median_ns else 0.0


def _print(result: dict[str, Any]) -> None:
    name = f"{result['kernel']} {result.get('size', '')}".strip()
    for what in ("skipped", "failed"):
        if what in result:
            say(f"{name}: {what}: {printable(result[what])}")
            return
    facts = [human_measure(result["median_ns"] / 1e9, "s")]
    if result["operations_per_s"]:
        facts.append(human_measure(result["operations_per_s"], "FLOP/s"))
    else:
        facts.append(human_measure(result["bytes_per_s"], "B/s"))
    if result["choice"] == result["first"]:
        facts.append("as it is untuned")
    elif result["first_median_ns"] and result["median_ns"]:
        facts.append(f"{result['first_median_ns'] / result['median_ns']:.2f} times as fast as untuned")
    if result["ties"]:
        facts.append(f"{human_count(len(result['ties']), 'other')} as fast")
    total = sum(result["candidates"].values())
    tried = total - result["candidates"][Status.NOT_TRIED.value]
    say(f"{name}: {result['choice']}: {', '.join(facts)} ({tried} of {total} tried in {result['seconds']:.0f} s)")
    told = result["statistics"].get(result["choice"], {})
    if told:
        say(f"  {printable(', '.join(f'{name} {value}' for name, value in told.items()))}")
    for one in result["out"]:
        say(f"  {one['choice']} {printable(one['why'])}")
    sys.stdout.flush()  # the next one takes a while
