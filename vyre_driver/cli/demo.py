"""``vyre-driver demo``: four real jobs, each in two fresh processes, so that the second shows what the cache saves."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vyre_driver.cli import demo_jobs
from vyre_driver.cli.options import add_device, add_json, print_json, say
from vyre_driver.driver import Driver
from vyre_driver.errors import DispatchFailed, FileUnusable
from vyre_driver.process.child import take_over_stdout
from vyre_driver.process.workers import ChildDied, answer_of, open_in_memory

JOBS = ("histogram", "saxpy", "edges", "mandelbrot")
_PROCESSES = (1, 2)
_STAGES = ("compile_ms", "pipeline_ms", "upload_ms", "dispatch_ms", "readback_ms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--files", nargs="+", default=[], metavar="PATH", help="count these (default: the standard library)")
    parser.add_argument("--npy", type=Path, metavar="FILE", help="float32 numbers for saxpy (default: 16 Mi made for it)")
    parser.add_argument("--out-dir", type=Path, default=Path(), metavar="DIR", help="where the picture goes (default: here)")
    parser.add_argument("--worker", choices=JOBS, help=argparse.SUPPRESS)
    add_device(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the jobs, or as a worker one of them; 1 if a result is wrong."""
    options.out_dir = _directory(options.out_dir)
    if options.worker:
        take_over_stdout()(_work(options))
        return 0
    with open_in_memory() as numbers:
        if options.npy is None:
            demo_jobs.make_saxpy_input(numbers)
            options.npy = Path(f"/proc/{os.getpid()}/fd/{numbers.fileno()}")
        jobs: list[dict[str, Any]] = []
        for job in JOBS:
            runs: list[dict[str, Any]] = []
            for process in _PROCESSES:
                figures = _spawn(job, options)
                if figures is None:
                    return 2
                device = figures.pop("device")
                if not (jobs or runs or options.json):
                    _show_device(device)  # at once: the other runs take seconds
                runs.append({"process": process, **figures})
            jobs.append({"job": job, "verified": all(run["verified"] for run in runs), "runs": runs})
    report = {"device": device, "verified": all(job["verified"] for job in jobs), "jobs": jobs}
    if options.json:
        print_json(report)
    else:
        _show_jobs(report)
    return 0 if report["verified"] else 1


def _directory(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileUnusable(
            f"cannot make the directory {path} ({error.strerror})", fix="give --out-dir a directory", path=str(path)
        ) from error
    return path.resolve()


def _spawn(job: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Run one job in a fresh process; None if it stopped with an error, which it has printed on stderr itself."""
    given = ["--out-dir", str(options.out_dir), "--npy", str(options.npy)]
    given += ["--device", options.device] if options.device else []
    given += ["--json"] if options.json else []  # for its errors
    given += ["--files", *options.files] if options.files else []
    try:
        figures: dict[str, Any] = answer_of("vyre_driver", "demo", "--worker", job, *given, shares_stderr=True)[0]
    except ChildDied as error:
        if error.status == 2:
            return None
        raise DispatchFailed(
            f"the {job} job's process ended with {error.how}",
            fix=f"run it alone to see why: vyre-driver demo --worker {job} --npy FILE",
            status=error.status,
        ) from None
    return figures


def _work(options: argparse.Namespace) -> dict[str, object]:
    # A demo runs anywhere and says on what; everything else wants to be asked first.
    with Driver(options.device, allow_software=True) as driver:
        if options.worker == "histogram":
            result = demo_jobs.histogram(driver, options.files)
        elif options.worker == "saxpy":
            result = demo_jobs.saxpy(driver, options.npy)
        elif options.worker == "edges":
            from vyre_driver.cli.demo_kernels import find_edges  # late: the other jobs need no kernels in Python

            result = find_edges(driver)
        else:
            result = demo_jobs.mandelbrot(driver, options.out_dir)
        trace = result.kernel.trace
        return {
            "verified": result.verified,
            "summary": result.summary,
            **result.facts,
            "cache": trace.verdict.name.lower(),
            "why": trace.reason,
            "key": trace.key,
            "dispatches": result.dispatches,
            "compile_ms": trace.compile_ns / 1e6,
            **{f"{stage}_ms": spent_ns / 1e6 for stage, spent_ns in result.spent_ns.items()},
            "device": driver.report(),
        }


def _show_device(device: dict[str, Any]) -> None:
    """Print what the jobs run on, and where their compiled code is kept."""
    say(f"device: {device['device']}, {device['driver']}, Vulkan {device['api_version']}, {device['backend']}")
    if device["is_software"]:
        say("This is a software device: no GPU with a Vulkan driver was found, so the CPU does the work.")
    say(f"cache: {device['cache']['root'] or 'in memory only'}\n")


def _show_jobs(report: dict[str, Any]) -> None:
    """Print the times of each run, and what each job worked on."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("job")
    table.add_column("run", justify="right")
    table.add_column("cache")
    for stage in _STAGES:
        table.add_column(stage.removesuffix("_ms").replace("readback", "read-back"), justify="right")
    table.add_column("result")
    for job in report["jobs"]:
        for run in job["runs"]:
            figures = [f"{run[stage]:.2f}" for stage in _STAGES]
            table.add_row(job["job"], str(run["process"]), run["cache"], *figures, "verified" if run["verified"] else "WRONG")
    console.print(table)
    say("Each run is a process of its own; times in ms.\n")
    explained: set[str] = set()  # a reason stands where it comes first: without a cache it is the same for all
    for job in report["jobs"]:
        verdicts = []
        for run in job["runs"]:
            verdicts.append(run["cache"] if run["why"] in explained else f"{run['cache']} ({run['why']})")
            explained.add(run["why"])
        say(f"{job['job']}: {job['runs'][0]['summary']}; {', then '.join(verdicts)}")
    picture = report["jobs"][-1]["runs"][-1]["picture"]
    say(f"picture: {picture or 'left out, for Pillow is not installed. Fix: pip install pillow.'}")
