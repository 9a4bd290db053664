"""``vyre-driver demo``: four real jobs, in two fresh processes, of which the second shows what the cache saves.

Each job does real work on a device and checks every number against numpy.
"""

from __future__ import annotations

import argparse
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.cli.files import read_bytes
from vyre_driver.cli.options import add_device, add_json, print_json, say
from vyre_driver.display.line import aligned, count
from vyre_driver.driver import Driver
from vyre_driver.errors import DispatchFailed, FileUnusable, InvalidInput
from vyre_driver.process.child import take_over_stdout
from vyre_driver.process.workers import ChildDied, Worker
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.runtime.kernel import Kernel

SAXPY_ELEMENTS = 16 * 1024 * 1024
PICTURE_SIDE = 1024
PICTURE_NAME = "mandelbrot.png"
RINGS_SIDE = 2048

_ALPHA = 2.5
_MAX_ITERATIONS = 300
_STRIPE = 64  # rows whose numbers fit the processor's cache
_CENTRE = (-0.743643, 0.131825)
_VIEW_HEIGHT = 0.0035
_HISTOGRAM_GROUPS = 1024
_SAXPY_GROUPS = 16384
_CHUNK_BYTES = 64 * 1024 * 1024
_NOT_LIBRARY = frozenset({"site-packages", "dist-packages", "__pycache__"})


@dataclass(slots=True)
class JobResult:
    """What a job found: whether it equals numpy's answer, what it worked on, and ns by stage of all its dispatches."""

    verified: bool
    summary: str
    kernel: Kernel
    dispatches: int = 0
    spent_ns: Counter[str] = field(default_factory=Counter)
    facts: dict[str, object] = field(default_factory=dict)

    def add_trace(self) -> None:
        """Add the kernel's last call to the sums."""
        stages = self.kernel.trace.stages
        if stages is None:
            raise AssertionError("add_trace comes after a call")
        self.dispatches += 1
        self.spent_ns.update(
            pipeline=self.kernel.trace.pipeline_ns,
            upload=stages.upload_ns,
            dispatch=stages.dispatch_ns,
            readback=stages.readback_ns,
        )


def histogram(driver: Driver, files: Sequence[str]) -> JobResult:
    """Count every byte value of the files (none: of the running Python's standard library).

    Raises FileUnusable if a file cannot be read, InvalidInput if the files hold no byte at all.
    """
    paths = [Path(file) for file in files] or standard_library()
    kernel = driver.compile(shipped_module("byte_histogram"))
    result = JobResult(verified=True, summary="", kernel=kernel)
    counted = np.zeros(256, np.uint64)
    expected = np.zeros(256, np.uint64)
    byte_count = 0
    for chunk in _chunks(paths, min(_CHUNK_BYTES, driver.device.limits.max_storage_buffer_range)):
        padded = np.zeros(-(-len(chunk) // 4) * 4, np.uint8)
        padded[: len(chunk)] = chunk
        counts = kernel(
            padded.view(np.uint32),
            np.zeros(256, np.uint32),
            push_constants={"byte_count": len(chunk)},
            workgroups=(_HISTOGRAM_GROUPS,),
            split=True,
        )
        result.add_trace()
        counted += np.asarray(counts)
        expected += np.bincount(chunk, minlength=256).astype(np.uint64)
        byte_count += len(chunk)
    if not byte_count:
        raise InvalidInput(f"there is no byte to count in {count(len(paths), 'file')}", fix="name files that are not empty")
    result.verified = bool(np.array_equal(counted, expected))
    size = f"{byte_count / 2**20:.1f} MiB" if byte_count >= 2**20 else count(byte_count, "byte")
    result.summary = f"{count(len(paths), 'file')}, {size}"
    result.facts = {"files": len(paths), "bytes": byte_count, "commonest_byte": int(counted.argmax())}
    return result


def standard_library() -> list[Path]:
    """Every file of the running Python's standard library, without installed packages and caches, in a fixed order."""
    root = Path(sysconfig.get_path("stdlib"))
    every = (path for path in root.rglob("*") if _NOT_LIBRARY.isdisjoint(path.relative_to(root).parts))
    return sorted(path for path in every if path.is_file())


def _chunks(paths: Sequence[Path], chunk_bytes: int) -> Iterator[NDArray[Any]]:
    """Yield the files' bytes one after the other, in pieces of at most ``chunk_bytes``."""
    pending = bytearray()
    for path in paths:
        pending += read_bytes(path)
        while len(pending) >= chunk_bytes:
            yield np.frombuffer(bytes(pending[:chunk_bytes]), np.uint8)
            del pending[:chunk_bytes]
    if pending:
        yield np.frombuffer(bytes(pending), np.uint8)


def saxpy(driver: Driver) -> JobResult:
    """Return 2.5 x + y of 16 Mi reproducible float32 numbers x and the same backwards as y; equal to numpy bit for bit."""
    x = np.random.default_rng(0).standard_normal(SAXPY_ELEMENTS, np.float32)
    y = np.ascontiguousarray(x[::-1])
    kernel = driver.compile(shipped_module("saxpy"))
    result = JobResult(verified=False, summary=f"{x.size:,} float32", kernel=kernel, facts={"elements": int(x.size)})
    got = kernel(x, y, push_constants={"alpha": _ALPHA, "count": int(x.size)}, workgroups=(_SAXPY_GROUPS,), split=True)
    result.add_trace()
    result.verified = bool(np.array_equal(got, np.float32(_ALPHA) * x + y))
    return result


def mandelbrot(driver: Driver, out_dir: Path) -> JobResult:
    """Draw a 1024x1024 piece of the Mandelbrot set into ``out_dir``; its escape counts equal numpy's.

    Raises FileUnusable if the picture cannot be written.
    """
    side = PICTURE_SIDE
    step = np.float32(_VIEW_HEIGHT / side)
    left, top = np.float32(_CENTRE[0] - _VIEW_HEIGHT / 2), np.float32(_CENTRE[1] + _VIEW_HEIGHT / 2)
    kernel = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": _MAX_ITERATIONS})
    result = JobResult(verified=False, summary=f"{side}x{side} pixels", kernel=kernel)
    push = {"left": left, "top": top, "step": step, "width": side, "height": side}
    got = np.asarray(
        kernel(push_constants=push, workgroups=(side // 16, side // 8), out_shapes={"escape": side * side}, split=True)
    ).reshape(side, side)
    result.add_trace()
    expected = escape_counts(left, top, step, side)
    # The orbits are equal bit for bit; the device's log2 may differ in its last bits.
    result.verified = bool(np.array_equal(got == 0, expected == 0) and np.allclose(got, expected, rtol=0, atol=1e-2))
    picture = out_dir / PICTURE_NAME
    saved = _save_picture(got, picture)
    result.facts = {"picture": str(picture) if saved else None, "inside": int((got == 0).sum())}
    return result


def escape_counts(left: np.float32, top: np.float32, step: np.float32, side: int) -> NDArray[Any]:
    """Compute in numpy what shaders/mandelbrot.comp computes: float32, every product and sum rounded by itself."""
    along = np.arange(side, dtype=np.float32) * step
    stripes = [along[first : first + _STRIPE, None] for first in range(0, side, _STRIPE)]
    counts = [_escape_counts_of(*np.broadcast_arrays(left + along[None, :], top - down)) for down in stripes]
    joined: NDArray[Any] = np.concatenate(counts)
    return joined.reshape(side, side)


def _escape_counts_of(real: NDArray[Any], imaginary: NDArray[Any]) -> NDArray[Any]:
    cr, ci = real.reshape(-1), imaginary.reshape(-1)
    zr, zi = np.zeros_like(cr), np.zeros_like(ci)
    escape = np.zeros_like(cr)
    alive = np.arange(cr.size)
    for n in range(_MAX_ITERATIONS):
        zr2, zi2 = zr * zr, zi * zi
        norm = zr2 + zi2
        out = norm > 256
        escape[alive[out]] = n + 1 - np.log2(np.float32(0.5) * np.log2(norm[out]))
        cross = zr * zi
        zr, zi = (zr2 - zi2) + cr, (cross + cross) + ci
        if out.any():
            alive, cr, ci, zr, zi = (one[~out] for one in (alive, cr, ci, zr, zi))
    return escape


def _save_picture(escape: NDArray[Any], path: Path) -> bool:
    """Return False without Pillow, which no computation needs."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        if error.name != "PIL":
            raise
        return False
    # Three cosine waves over the logarithm of the count: dark blue far out, gold and white near the set, black inside.
    phase = np.log1p(escape)[..., None] * 2.6 + np.array([3.4, 3.9, 4.6])
    colours = 0.5 - 0.5 * np.cos(phase)
    colours[escape == 0] = 0
    try:
        Image.fromarray((colours * 255).astype(np.uint8), "RGB").save(path)
    except OSError as error:
        raise FileUnusable(
            f"cannot write {path} ({error.strerror})", fix="give --out-dir a writable directory", path=str(path)
        ) from error
    return True


def find_edges(driver: Driver) -> JobResult:
    """Find the edges of rings on a picture of 2048 x 2048 pixels; equal to numpy but for the last bits of a square root."""
    from vyre_driver.cli.demo_kernels import edges  # late: the other jobs need no kernels in Python

    along = np.linspace(-1, 1, RINGS_SIDE, dtype=np.float32)
    picture = np.sin(np.float32(40) * (along[:, None] ** 2 + along[None, :] ** 2))
    result = JobResult(
        verified=False, summary=f"{RINGS_SIDE}x{RINGS_SIDE} pixels, a kernel in Python", kernel=edges.compiled_for(driver)
    )
    got = edges.on(driver)(picture)
    result.add_trace()
    result.verified = bool(np.allclose(got, expected_edges(picture), rtol=1e-5, atol=1e-5))
    return result


def expected_edges(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what numpy finds."""
    wide = np.pad(picture, 1)
    columns = wide[:-2] + np.float32(2) * wide[1:-1] + wide[2:]
    rows = wide[:, :-2] + np.float32(2) * wide[:, 1:-1] + wide[:, 2:]
    found: NDArray[np.float32] = np.hypot(columns[:, 2:] - columns[:, :-2], rows[2:] - rows[:-2])
    return found


JOBS: dict[str, Callable[[Driver, argparse.Namespace], JobResult]] = {
    "histogram": lambda driver, options: histogram(driver, options.files),
    "saxpy": lambda driver, _: saxpy(driver),
    "edges": lambda driver, _: find_edges(driver),
    "mandelbrot": lambda driver, options: mandelbrot(driver, options.out_dir),
}
_PROCESSES = (1, 2)
_STAGES = ("compile_ms", "pipeline_ms", "upload_ms", "dispatch_ms", "readback_ms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--files", nargs="+", default=[], metavar="PATH", help="count these (default: the standard library)")
    parser.add_argument("--out-dir", type=Path, default=Path(), metavar="DIR", help="where the picture goes (default: here)")
    parser.add_argument("--worker", nargs="+", choices=list(JOBS), help=argparse.SUPPRESS)
    add_device(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the jobs in two processes, or as one of these those that are named; 1 if a result is wrong."""
    options.out_dir = _directory(options.out_dir)
    if options.worker:
        _work(options, take_over_stdout())
        return 0
    runs: dict[str, list[dict[str, Any]]] = {job: [] for job in JOBS}
    device: dict[str, Any] = {}
    try:
        for process in _PROCESSES:
            for job, figures in _spawned(options):
                found = figures.pop("device")
                if not (device or options.json):
                    _show_device(found)  # at once: the other runs take seconds
                device = device or found
                runs[job].append({"process": process, **figures})
    except ChildDied as error:
        if error.status == 2:  # it has printed its error on standard error itself
            return 2
        job = min(runs, key=lambda name: len(runs[name]))
        raise DispatchFailed(
            f"the process ended with {error.how} in the {job} job",
            fix=f"run it alone to see why: vyre-driver demo --worker {job}",
            status=error.status,
        ) from None
    jobs = [{"job": job, "verified": all(run["verified"] for run in each), "runs": each} for job, each in runs.items()]
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


def _spawned(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the jobs in a fresh process, and yield the figures of each as soon as they are there; raises ChildDied."""
    given = ["--out-dir", str(options.out_dir)]
    given += ["--device", options.device] if options.device else []
    given += ["--json"] if options.json else []  # for its errors
    given += ["--files", *options.files] if options.files else []
    with Worker("vyre_driver", "demo", "--worker", *JOBS, *given, shares_stderr=True) as child:
        for job in JOBS:
            yield job, child.answer()


def _work(options: argparse.Namespace, answer: Callable[[object], None]) -> None:
    # A demo runs anywhere and says on what; everything else wants to be asked first.
    with Driver(options.device, allow_software=True) as driver:
        for job in options.worker:
            result = JOBS[job](driver, options)
            trace = result.kernel.trace
            figures = {"verified": result.verified, "summary": result.summary, **result.facts}
            figures |= {"cache": trace.verdict.name.lower(), "why": trace.reason, "key": trace.key}
            figures |= {"dispatches": result.dispatches, "compile_ms": trace.compile_ns / 1e6}
            figures |= {f"{stage}_ms": spent_ns / 1e6 for stage, spent_ns in result.spent_ns.items()}
            answer({**figures, "device": driver.report()})


def _show_device(device: dict[str, Any]) -> None:
    """Print what the jobs run on, and where their compiled code is kept."""
    say(f"device: {device['device']}, {device['driver']}, Vulkan {device['api_version']}, {device['backend']}")
    if device["is_software"]:
        say("This is a software device: no GPU with a Vulkan driver was found, so the CPU does the work.")
    say(f"cache: {device['cache']['root'] or 'in memory only'}\n")


def _show_jobs(report: dict[str, Any]) -> None:
    """Print the times of each run, and what each job worked on."""
    rows = [("job", "run", "cache", *(one.removesuffix("_ms").replace("readback", "read-back") for one in _STAGES), "result")]
    for job in report["jobs"]:
        for run in job["runs"]:
            figures = [f"{run[stage]:.2f}" for stage in _STAGES]
            rows.append((job["job"], str(run["process"]), run["cache"], *figures, "verified" if run["verified"] else "WRONG"))
    say("\n".join(aligned(rows, {0, 2, len(rows[0]) - 1})))
    say("Each run is in a process of its own; times in ms.\n")
    explained: set[str] = set()  # a reason stands where it comes first: without a cache it is the same for all
    for job in report["jobs"]:
        verdicts = []
        for run in job["runs"]:
            verdicts.append(run["cache"] if run["why"] in explained else f"{run['cache']} ({run['why']})")
            explained.add(run["why"])
        say(f"{job['job']}: {job['runs'][0]['summary']}; {', then '.join(verdicts)}")
    picture = report["jobs"][-1]["runs"][-1]["picture"]
    say(f"picture: {picture or 'left out, for Pillow is not installed. Fix: pip install pillow.'}")
