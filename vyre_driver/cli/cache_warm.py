"""``vyre-driver cache warm``: what programs have recorded made ready on this machine, together with others that do so now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.autotune.store.records import TuningMode
from vyre_driver.cli.options import printable, progress, say, tell
from vyre_driver.display.line import count
from vyre_driver.driver import Driver
from vyre_driver.errors import FileUnusable, VyreError
from vyre_driver.lowering.recorded import MAX_FILE_BYTES, read_recording
from vyre_driver.runtime.warming import warm

if TYPE_CHECKING:
    import argparse

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.lowering.recorded import RecordedKernel
    from vyre_driver.runtime.kernel import Kernel

_SENDS_WITHIN_S = 60.0  # a command, unlike a program, may wait until others have what it compiled


def run_warm(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Make the kernels of a recording ready; status 1 when some were left out.

    Raises
    ------
    FileUnusable
        If the file cannot be read, or is too large.
    CacheUnusable
        If what is made ready would not stay.
    """
    cache.require_changeable()
    recording = read_recording(_read(options.file))
    left_out = [(f"line {number}", reason) for number, reason in recording.left_out]
    with Driver(cache=cache) as driver:
        driver.tuning.mode = TuningMode.OFF  # a recording has the constants that were used
        kernels = _compiled(driver, recording.kernels, left_out)
        with progress("warming", len(kernels)) as step:
            report = warm(driver.context, kernels, step)
        first = driver.context.first_pipelines
        remote, is_kept = first.remote, not first.gives_no_code
        if remote is not None:
            remote.worker.leave(_SENDS_WITHIN_S)
    counts = {"known": report.known, "taken": report.taken, "compiled": report.compiled}
    reasons = [{"what": what, "reason": reason} for what, reason in left_out]
    tell(
        options,
        {"kernels": len(recording.kernels), **counts, "kept": is_kept, "left_out": reasons},
        f"{count(len(kernels), 'kernel')} ready: {', '.join(f'{count} {what}' for what, count in counts.items())}",
    )
    if not options.json:
        if kernels and not is_kept:
            say("this device's driver gives no compiled code away: each process will compile anew", on_stderr=True)
        for what, reason in left_out:
            say(f"{printable(what)} left out: {printable(reason)}", on_stderr=True)
    return 1 if left_out else 0


def _compiled(driver: Driver, recorded: tuple[RecordedKernel, ...], left_out: list[tuple[str, str]]) -> list[Kernel]:
    """Return the kernels that this device takes; the others are left out with the reason."""
    kernels = []
    with progress("reading", len(recorded)) as step:
        for done, one in enumerate(recorded, 1):
            try:
                kernels.append(driver.compile(one.code, one.constants, one.config))
            except VyreError as error:
                left_out.append((one.name, str(error)))
            step(done)
    return kernels


def _read(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or error
        raise FileUnusable(
            f"cannot read {name} ({reason})", fix="name a file that VYRE_CACHE_RECORD named", path=name
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise FileUnusable(
            f"{name} has more than {MAX_FILE_BYTES} bytes, which is the most that is read",
            fix="record fewer programs in one file",
            path=name,
        )
    return data
