"""``vyre-driver conform``: ask a backend random programs, and compare its answers with the reference interpreter's."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from vyre_driver.cli.options import add_device, add_json, print_json
from vyre_driver.errors import InvalidCommand, UnsupportedFeature

if TYPE_CHECKING:
    import argparse

    from vyre_driver.conformance.case import RunProgram
    from vyre_driver.conformance.suite import Report

BACKENDS = ("kompute", "cpu-ref")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser("conform", help="compare a backend with the reference on random programs", allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first program's seed (default: 0)")
    parser.add_argument("--count", type=int, default=300, metavar="N", help="how many programs (default: 300)")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=BACKENDS[0],
        help="kompute, or cpu-ref: the reference in lockstep against itself one by one (default: kompute)",
    )
    parser.add_argument("--no-cases", action="store_true", help="leave the hand-written cases out")
    parser.add_argument("--subgroups", action="store_true", help="use subgroup operations too; the device's must have 32 lanes")
    parser.add_argument("--allow-software", action="store_true", help="accept a CPU device")
    add_device(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask, and print what came of it; 1 when an answer was wrong."""
    from vyre_driver.conformance import suite  # noqa: PLC0415 -- the other verbs need no programs
    from vyre_driver.conformance.options import Options  # noqa: PLC0415 -- the same

    if options.count < 0 or options.seed < 0:
        raise InvalidCommand(f"--seed {options.seed} --count {options.count} is below 0", fix="give numbers from 0 up")
    began = time.perf_counter()
    with_subgroups = Options(subgroups=options.subgroups)
    with ExitStack() as stack:
        backend = _backend(options, stack)
        report = suite.run(backend, options.seed, options.count, options=with_subgroups, by_hand=not options.no_cases)
    seconds = time.perf_counter() - began
    if report.asked and sum(report.unsupported.values()) == report.asked:
        reason = next(iter(report.unsupported))
        raise UnsupportedFeature(f"{options.backend} refused every program: {reason}", fix="choose another backend")
    if options.json:
        facts = {"backend": options.backend, "seed": options.seed, "count": options.count, "seconds": round(seconds, 3)}
        print_json({**facts, **suite.as_data(report)})
    else:
        _print(report, seconds)
    return 1 if report.failures else 0


def _print(report: Report, seconds: float) -> None:
    for failure in report.failures:
        print(failure.describe())
        print()
    print(report)
    print(f"{seconds:.1f} s")


def _backend(options: argparse.Namespace, stack: ExitStack) -> RunProgram:
    from vyre_driver.conformance import adapters  # noqa: PLC0415 -- the other verbs need no programs

    if options.backend == "cpu-ref":
        return adapters.one_by_one
    from vyre_driver.driver import Driver  # noqa: PLC0415 -- cpu-ref needs no device

    driver = stack.enter_context(Driver(options.device, allow_software=options.allow_software or None))
    return adapters.driver_backend(driver)
