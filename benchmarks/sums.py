"""Sums and scans: the included kernels beside `reduction` and `scan` of the language, on buffers that stay on the device.

Run as ``python -m benchmarks.sums --json``. A call takes a buffer and gives a buffer, of which four bytes are read, so that a
figure is the time until the result is there. The arrays are float32 from 0 to 1, and every result is compared with float64's
before anything is timed.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver import Driver, kernels, lang

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from benchmarks.timing import Row

_COUNTS = (2**10, 2**16, 2**20, 2**24)
_LANG = {
    "reduce_sum": lang.reduction(operator.add, zero=0.0),
    "reduce_max": lang.reduction(max, zero=0.0),
    "inclusive_scan": lang.scan(operator.add),
}
_EXPECTED: dict[str, Callable[[Any], Any]] = {
    "reduce_sum": lambda x: x.sum(dtype=np.float64),
    "reduce_max": lambda x: x.max(),
    "inclusive_scan": lambda x: np.cumsum(x, dtype=np.float64),
}


def case(driver: Driver, name: str, count: int, given: argparse.Namespace) -> tuple[list[Row], dict[str, float]]:
    """Return the figures of one kernel and size, and how far each result is from float64's, relative to it."""
    x = np.random.default_rng(1).random(count, np.float32)
    buffer, want = driver.buffer(x), _EXPECTED[name](x)
    calls = {"kernels": getattr(kernels, name)(driver), "lang": _LANG[name].on(driver)}
    what, errors, measures = f"{name} of {count}", {}, {}
    for contender, call in calls.items():
        errors[f"error of {what}, {contender}"] = float(np.max(np.abs(call(buffer).read() / want - 1)))

        def run(call: Callable[..., Any] = call) -> None:
            call(buffer).reshape(-1)[-1:].read()

        repeats = max(3, min(given.repeats, 2**24 // count))
        measures[contender] = lambda run=run, repeats=repeats: time_call(run, repeats)
    return interleave(what, measures, given.rounds), errors


def main() -> None:
    """Measure, and print the figures."""
    options = parser(__doc__)
    options.add_argument("--large", action="store_true", help="arrays of 1 GiB too")
    given = options.parse_args()
    counts = (*_COUNTS, 2**28) if given.large else _COUNTS
    rows: list[Row] = []
    with Driver(given.device) as driver:
        facts = {**driver.report(), "repeats": given.repeats, "rounds": given.rounds}
        for name in _LANG:
            for count in counts:
                more, errors = case(driver, name, count, given)
                rows, facts = rows + more, facts | errors
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
