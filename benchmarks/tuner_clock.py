"""What the tuner measures when the device was idle before and when it was busy, and how often its choices agree.

Run as ``python -m benchmarks.tuner_clock --json``; it ends after about ``--limit`` seconds, whatever is left to do.

``clock``: what a run of one candidate takes after ``--idle`` seconds without work and then so many seconds of it. ``best of``:
what tunings measured of their best, from an idle and from a busy device in turn, without a warm-up (``Budget.warm_up=0``) and
with it. Two tunings agree if they chose the same candidate, or if each has told of the other's choice as a tie.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver, kernels
from vyre_driver.autotune import AutotuneStore, Budget
from vyre_driver.autotune.measure.trials import SEED, Workbench
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.store.records import size_text
from vyre_driver.errors import TuningFailed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from vyre_driver.autotune.measure.definition import Size
    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.measure.tuned import TunedKernel

CASES: dict[str, tuple[Size, Size]] = {"transpose": ((4096, 4096), (256, 256)), "matmul": ((1024, 1024, 1024), (64, 64, 64))}
WORK_S = (1.5, 0.0, 0.1, 0.2, 0.3, 0.5, 0.8)  # after the first it takes long until the clock falls
SAMPLES = 5
BUSY_S = 1.0


def workbench(kernel: TunedKernel, size: Size) -> Workbench:
    arrays, parameters = kernel.definition.example(size, SEED)
    return Workbench(kernel.driver, kernel.definition, arrays, parameters, run_timeout=30.0)


def clock_rows(kernel: TunedKernel, size: Size, idle_s: float) -> list[Row]:
    """Time the first candidate after it idled and then worked for a while, the first runs of it."""
    rows = []
    with closing(workbench(kernel, size)) as bench, closing(bench.make(kernel.candidates[0])) as trial:
        for work_s in WORK_S:
            time.sleep(idle_s)
            if work_s:
                trial.keep_busy(work_s)
            times = sorted(trial.sample() / 1000 for _ in range(SAMPLES))
            what = f"clock {kernel.definition.name} {size_text(size)} after {idle_s:g} s idle"
            rows.append(Row(what, f"{work_s:g} s work", statistics.median(times), times[0], times[-1]))
    return rows


def tunings(kernel: TunedKernel, size: Size, options: argparse.Namespace, warm_up: float) -> Iterator[tuple[str, TuningResult]]:
    """Tune again and again, from an idle and a busy device in turn."""
    budget = Budget(seconds=options.seconds, warm_up=warm_up)
    for number in range(options.tunings if warm_up else options.untouched):
        start = ("idle", "busy")[number % 2]
        if start == "idle":
            time.sleep(options.idle)
        else:
            with closing(workbench(kernel, size)) as bench, closing(bench.make(kernel.candidates[0])) as trial:
                trial.keep_busy(BUSY_S)
        try:
            yield start, tune(kernel, size, budget=budget)
        except TuningFailed as error:
            print(error, file=sys.stderr, flush=True)


def agree(one: TuningResult, other: TuningResult) -> bool:
    mine, others = one.best.candidate, other.best.candidate
    return mine == others or (mine in other.ties and others in one.ties)


def agreement(results: list[TuningResult]) -> dict[str, Any]:
    """Say how often the commonest choice was taken, and how many are as good as it."""
    counts = Counter(result.best.candidate for result in results)
    commonest, often = counts.most_common(1)[0]
    model = next(result for result in results if result.best.candidate == commonest)
    pairs = list(itertools.combinations(results, 2))
    return {
        "tunings": len(results),
        "agree": often,
        "agree up to ties": sum(agree(one, model) for one in results),
        "pairs": len(pairs),
        "pairs that agree up to ties": sum(agree(*pair) for pair in pairs),
        "choices": {str(one): count for one, count in counts.most_common()},
        "ties told": [len(result.ties) for result in results],
        "taken": [f"{result.best.candidate} in {result.best.median_ns / 1000:.1f} us" for result in results],
        "seconds": [round(result.seconds, 2) for result in results],
        "timed runs": [result.samples for result in results],
    }


def measured(
    kernel: TunedKernel, size: Size, options: argparse.Namespace, warm_up: float, until: float
) -> tuple[list[Row], dict[str, Any]]:
    """Tune as often as there is time for."""
    results: list[TuningResult] = []
    times: dict[str, list[float]] = {"idle": [], "busy": []}
    for start, result in tunings(kernel, size, options, warm_up):
        results.append(result)
        times[start].append(result.best.median_ns / 1000)
        if time.monotonic() > until:
            break
    what = f"{kernel.definition.name} {size_text(size)} with {warm_up:g} s of warm-up"
    facts = agreement(results) if results else {"tunings": 0}
    print(what, facts, file=sys.stderr, flush=True)
    rows = [
        Row(f"best of {what}", start, statistics.median(found), min(found), max(found))
        for start, found in times.items()
        if found
    ]
    return rows, {what: facts}


def main() -> None:
    """Run every case."""
    given = parser(__doc__)
    given.add_argument("--tunings", type=int, default=12, help="of each kernel (default %(default)s)")
    given.add_argument("--seconds", type=float, default=20.0, help="of one tuning at most (default %(default)g)")
    given.add_argument("--idle", type=float, default=2.5, help="seconds without work (default %(default)g)")
    given.add_argument("--untouched", type=int, default=4, help="tunings without a warm-up (default %(default)s)")
    default = Budget().warm_up
    given.add_argument("--warm-up", type=float, default=default, help="seconds of work before a race (default %(default)g)")
    given.add_argument("--limit", type=float, default=210.0, help="seconds of all, about (default %(default)g)")
    given.add_argument("--small", action="store_true", help="sizes that a CPU device manages")
    given.add_argument("--only", action="append", help="a kernel; again for more")
    options = given.parse_args()
    chosen = {name: sizes for name, sizes in CASES.items() if not options.only or name in options.only}
    began = time.monotonic()
    with Driver(options.device, autotune=AutotuneStore(), allow_software=options.small or None) as driver:
        facts: dict[str, Any] = {**driver.report(), "idle_s": options.idle, "samples": SAMPLES}
        rows: list[Row] = []
        shares = {0.0: 0.15, options.warm_up: 0.35}
        until = began
        for name, (warm_up, share) in itertools.product(chosen, shares.items()):
            kernel, size = kernels.TunedKernel(driver, kernels.KERNELS[name]), chosen[name][options.small]
            if not warm_up:
                rows += clock_rows(kernel, size, options.idle)
            until += options.limit * share * len(CASES) / len(chosen)
            more, told = measured(kernel, size, options, warm_up, until)
            rows, facts = rows + more, facts | told
    print_rows(rows, {**facts, "seconds": round(time.monotonic() - began, 1)}, as_json=options.json)


if __name__ == "__main__":
    main()
