"""``vyre-driver tune run``: kernels measured on a device, with a bar on a terminal, and what came of it."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.outcomes import Budget, Status
from vyre_driver.autotune.records import size_text
from vyre_driver.cli.options import add_device, print_json
from vyre_driver.cli.progress import Progress
from vyre_driver.driver import Driver
from vyre_driver.errors import InvalidCommand, UnsupportedFeature
from vyre_driver.kernels import KERNELS
from vyre_driver.kernels.tuned import TunedKernel
from vyre_driver.tuner import tune

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from vyre_driver.autotune.outcomes import Outcome
    from vyre_driver.autotune.outcomes import Progress as Search
    from vyre_driver.kernels.definition import KernelDefinition, Size
    from vyre_driver.tuner import TuningResult

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


def run(options: argparse.Namespace) -> int:
    """Tune each kernel for each size."""
    definitions = _named(options.kernels)
    budget = Budget(seconds=options.seconds, run_timeout=options.run_timeout)
    done: list[dict[str, Any]] = []
    with Driver(options.device, autotune=options.file, allow_software=options.allow_software or None) as driver:
        for definition in definitions:
            for told in _tuned(driver, definition, options, budget):
                done.append(told)
                if not options.json:
                    _print(told)
        if options.json:
            print_json({"device": driver.physical_device.name, "file": str(driver.tuning.path), "tuned": done})
    return 0


def _named(names: list[str]) -> list[KernelDefinition]:
    unknown = [name for name in names if name not in KERNELS and name != _ALL]
    if unknown:
        raise InvalidCommand(f"there is no kernel {unknown[0]!r}", fix=f"name one of {', '.join(KERNELS)}")
    return list(KERNELS.values()) if _ALL in names else [KERNELS[name] for name in dict.fromkeys(names)]


def _tuned(
    driver: Driver, definition: KernelDefinition, options: argparse.Namespace, budget: Budget
) -> Iterator[dict[str, Any]]:
    try:
        kernel = TunedKernel(driver, definition)
    except UnsupportedFeature as error:
        if _ALL not in options.kernels:
            raise
        yield {"kernel": definition.name, "skipped": error.problem}
        return
    for size in [_size(text, definition) for text in options.size] or definition.sizes:
        at = definition.size_class(size)
        record = driver.tuning.store.get(kernel.target.key, kernel.target.identity(size_text(at)))
        if record is not None and not options.force:
            yield {"kernel": definition.name, "size": size_text(size), "skipped": "it has a record, which --force replaces"}
            continue
        yield _as_data(_raced(kernel, size, options, budget), definition)


def _size(text: str, definition: KernelDefinition) -> Size:
    numbers = len(definition.sizes[0])
    try:
        size = tuple(int(one) for one in text.split("x"))
    except ValueError:
        size = ()
    if len(size) != numbers or min(size) < 1:
        raise InvalidCommand(
            f"--size {text!r} is not {numbers} whole numbers from 1 on, as {definition.name} takes",
            fix=f"write --size {size_text(definition.sizes[0])}",
        )
    return size


def _raced(kernel: TunedKernel, size: Size, options: argparse.Namespace, budget: Budget) -> TuningResult:
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(f"{kernel.definition.name} {size_text(size)}", len(kernel.candidates)))

        def show(search: Search) -> None:
            bar.step(search.tried, search.total)

        return tune(kernel, size, budget=budget, isolate=options.isolate, replace=options.force, on_progress=show)


def _as_data(result: TuningResult, definition: KernelDefinition) -> dict[str, Any]:
    first, best = result.outcomes[0], result.best
    return {
        "kernel": result.kernel,
        "size": size_text(result.size),
        "best": dataclasses.asdict(best.candidate),
        "choice": str(best.candidate),
        "median_ns": round(best.median_ns),
        "samples": best.samples,
        "first": str(first.candidate),
        "first_median_ns": round(first.median_ns),
        "bytes_per_s": _rate(definition.moved_bytes(result.size), best),
        "operations_per_s": _rate(definition.operations(result.size), best),
        "seconds": round(result.seconds, 3),
        "timed_runs": result.samples,
        "candidates": {one.value: sum(row.status is one for row in result.outcomes) for one in Status},
        "out": [
            {"choice": str(one.candidate), "why": f"{one.status.value}: {one.detail}"}
            for one in result.outcomes
            if one.status in _OUT
        ],
    }


def _rate(amount: int, best: Outcome) -> float:
    return round(amount * 1e9 / best.median_ns, 1) if best.median_ns else 0.0


def _print(told: dict[str, Any]) -> None:
    name = f"{told['kernel']} {told.get('size', '')}".strip()
    if "skipped" in told:
        print(f"{name}: not tuned: {told['skipped']}")
        return
    gained = f", {told['first_median_ns'] / told['median_ns']:.2f} x the first" if told["first_median_ns"] else ""
    rate = f", {told['bytes_per_s'] / 1e9:.1f} GB/s"
    if told["operations_per_s"]:
        rate = f", {told['operations_per_s'] / 1e12:.2f} TFLOP/s"
    tried = sum(told["candidates"].values()) - told["candidates"][Status.NOT_TRIED.value]
    print(
        f"{name}: {told['choice']}: {told['median_ns'] / 1000:.1f} us{rate}{gained} ({tried} tried in {told['seconds']:.0f} s)"
    )
    for one in told["out"]:
        print(f"  {one['choice']} {one['why']}")
