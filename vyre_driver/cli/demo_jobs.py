"""The jobs of the demo whose kernels are shaders: each does real work on a device and checks every number against numpy."""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from vyre_driver.cli.files import load_npy, read_bytes
from vyre_driver.cli.progress import human_count
from vyre_driver.errors import FileUnusable, InvalidInput
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.driver import Driver
    from vyre_driver.runtime.kernel import Kernel

SAXPY_ELEMENTS = 16 * 1024 * 1024
PICTURE_SIDE = 1024
PICTURE_NAME = "mandelbrot.png"

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
        raise InvalidInput(
            f"there is no byte to count in {human_count(len(paths), 'file')}", fix="name files that are not empty"
        )
    result.verified = bool(np.array_equal(counted, expected))
    size = f"{byte_count / 2**20:.1f} MiB" if byte_count >= 2**20 else human_count(byte_count, "byte")
    result.summary = f"{human_count(len(paths), 'file')}, {size}"
    result.facts = {"files": len(paths), "bytes": byte_count, "commonest_byte": int(counted.argmax())}
    return result


def standard_library() -> list[Path]:
    """Every file of the running Python's standard library, without installed packages and caches, in a fixed order."""
    root = Path(sysconfig.get_path("stdlib"))
    found: list[Path] = []
    for directory, names, files in os.walk(root):
        names[:] = sorted(set(names) - _NOT_LIBRARY)
        found.extend(Path(directory, name) for name in sorted(files))
    return [path for path in found if path.is_file()]


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


def make_saxpy_input(file: IO[bytes]) -> None:
    """Write 16 Mi reproducible float32 numbers to a file, as ``.npy``."""
    np.save(file, np.random.default_rng(0).standard_normal(SAXPY_ELEMENTS, np.float32))
    file.flush()


def saxpy(driver: Driver, path: Path) -> JobResult:
    """Return 2.5 x + y with x from the file and y the same numbers backwards; equal to numpy bit for bit.

    Raises FileUnusable if the file cannot be read or is no ``.npy`` file, InvalidInput if it does not hold a one-dimensional
    float32 array with elements.
    """
    try:
        with path.open("rb") as file:
            x = load_npy(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileUnusable(f"cannot read {path} ({reason})", fix="name a .npy file", path=str(path)) from error
    if x.dtype != np.float32 or x.ndim != 1 or not x.size:
        raise InvalidInput(
            f"{path} holds {x.dtype} of shape {x.shape}",
            fix="save a one-dimensional float32 array with elements",
            path=str(path),
        )
    y = np.ascontiguousarray(x[::-1])
    kernel = driver.compile(shipped_module("saxpy"))
    result = JobResult(verified=False, summary=f"{x.size:,} float32", kernel=kernel, facts={"elements": int(x.size)})
    got = kernel(x, y, push_constants={"alpha": _ALPHA, "count": int(x.size)}, workgroups=(_SAXPY_GROUPS,), split=True)
    result.add_trace()
    expected = np.float32(_ALPHA) * x
    expected += y
    result.verified = bool(np.array_equal(got, expected, equal_nan=True))
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
