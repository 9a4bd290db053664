"""``vyre-driver conform``: ask a backend random programs, and compare its answers with the reference interpreter's."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from vyre_driver.cli.options import add_device, add_json, tell
from vyre_driver.errors import InvalidCommand, UnsupportedFeature

if TYPE_CHECKING:
    from vyre_driver.conformance.suite import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first program's seed (default: 0)")
    parser.add_argument("--count", type=int, default=300, metavar="N", help="how many programs (default: 300)")
    parser.add_argument(
        "--backend",
        metavar="ID",
        default="kompute",
        help="any registered one; cpu-ref is the reference in lockstep against itself one by one (default: %(default)s)",
    )
    parser.add_argument("--no-cases", action="store_true", help="leave the hand-written cases out")
    parser.add_argument("--constants", action="store_true", help="programs of constants, which compilers turn into others")
    parser.add_argument(
        "--subgroups",
        action=argparse.BooleanOptionalAction,
        help="subgroup operations, of as many lanes as the device has (default: where it has them)",
    )
    parser.add_argument("--max-failures", type=int, default=10, metavar="N", help="stop after so many (default: 10)")
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="run the programs in N child processes, whose death is a failure with a seed (default: in this process)",
    )
    parser.add_argument("--allow-software", action="store_true", help="accept a CPU device")
    add_device(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the tests and print the result; return 1 if an answer was wrong."""
    _check(options)
    began = time.perf_counter()
    report = _asked(options)
    seconds = time.perf_counter() - began
    if report.asked and report.unsupported.total() == report.asked:
        reason = next(iter(report.unsupported))
        raise UnsupportedFeature(f"{options.backend} refused every program: {reason}", fix="choose another backend")
    facts = {"backend": options.backend, "seed": options.seed, "count": options.count, "seconds": round(seconds, 3)}
    texts = [f"{failure.text}\n" for failure in report.failures]
    tell(options, {**facts, **report.as_data()}, *texts, report, f"{seconds:.1f} s")
    return 1 if report.failures else 0


def _check(options: argparse.Namespace) -> None:
    if options.jobs is not None and options.jobs < 1:
        raise InvalidCommand(f"--jobs {options.jobs} is below 1", fix="give a number from 1 up")
    if min(options.seed, options.count) < 0:
        raise InvalidCommand(f"--seed {options.seed} --count {options.count} is below 0", fix="give numbers from 0 up")
    if options.max_failures < 1:
        raise InvalidCommand(f"--max-failures {options.max_failures} is below 1", fix="give a number from 1 up")


def _asked(options: argparse.Namespace) -> Report:
    # late: the other verbs need no programs
    from vyre_driver.backends.reference.invocations import SUBGROUP_LANES
    from vyre_driver.conformance import jobs, suite

    which = {"device": options.device, "allow_software": options.allow_software or None}
    job = jobs.Job(options.backend, options.seed, options.count, constants=options.constants, **which)
    with ExitStack() as stack:
        backend = job.open(stack)  # also where children ask, so that a missing device is reported once
        lanes = getattr(backend, "subgroup_lanes", SUBGROUP_LANES)
        if lanes if options.subgroups is None else options.subgroups:
            job = replace(job, subgroup_lanes=lanes or SUBGROUP_LANES)
        todo = [job]
        if not options.no_cases:
            every = replace(job, first=0, count=2**32, by_hand=True)
            todo.insert(0, replace(every, count=sum(1 for _ in every.cases())))
        if options.jobs is None:
            return suite.ask(backend, (case for one in todo for case in one.cases()), max_failures=options.max_failures)
    parts = (part for one in todo for part in jobs.batches(one))
    return jobs.run_batches(parts, workers=options.jobs, max_failures=options.max_failures)
