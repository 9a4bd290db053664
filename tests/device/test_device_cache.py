"""The cache behind a driver: hits and counted misses, and right results whatever lies on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import InvalidSpecialization
from vyre_driver.specialization import SpecMap, SpecValue
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.runtime.trace import Trace

pytestmark = pytest.mark.device


def use_driver(cache: Path | None = None) -> tuple[bool, Trace, dict[str, Any]]:
    """Whether a new driver computes saxpy right, its trace, and its cache's counters.

    Where a driver shows what it compiled (lavapipe does not), a miss is stored once more with it: one more put.
    """
    x = np.arange(100, dtype=np.float32)
    with Driver(cache=cache) as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        right = np.array_equal(kernel(x, x, push_constants={"alpha": 2, "count": 100}), 3 * x)
        stats = driver.cache.stats()
    if "put" in stats["counts"] and kernel.trace.pipeline is not None and kernel.trace.pipeline.blob is not None:
        stats["counts"]["put"] -= 1
    return bool(right), kernel.trace, stats


def entry_of(trace: Trace, root: Path) -> Path:
    return root / trace.key[:2] / f"{trace.key}.bin"


def test_the_second_driver_has_a_hit() -> None:
    first, second = use_driver(), use_driver()
    assert [(right, trace.verdict.name, stats["counts"]) for right, trace, stats in (first, second)] == [
        (True, "MISS", {"miss": 1, "put": 1}),
        (True, "HIT", {"hit": 1}),
    ]


def test_an_entry_is_one_file_below_the_root_that_was_given(tmp_path: Path) -> None:
    root = tmp_path / "given"
    _, trace, _ = use_driver(root)
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    entries = [str(path) for path in files if path.suffix != ".pace"]  # of the device, not of an entry
    assert entries == sorted(["CACHEDIR.TAG", "kernels.names", f"{trace.key[:2]}/{trace.key}.bin"])


def test_typed_values_have_the_entry_of_the_plain_ones_and_must_be_of_the_declared_type() -> None:
    with Driver() as driver:
        module = shipped_module("mandelbrot")
        plain = driver.compile(module, {"MAX_ITERATIONS": 7}).trace.key
        typed = SpecMap({"MAX_ITERATIONS": SpecValue.u32(7)})
        assert [driver.compile(module, specs).trace.key for specs in (typed, dict(typed))] == [plain, plain]
        assert driver.compile(module, SpecMap()).trace.key == driver.compile(module).trace.key
        with pytest.raises(InvalidSpecialization, match=r"'MAX_ITERATIONS' is a u32, and SpecValue\.i32\(7\) is an i32"):
            driver.compile(module, SpecMap({"MAX_ITERATIONS": SpecValue.i32(7)}))


def test_another_specialization_has_an_entry_of_its_own() -> None:
    with Driver() as driver:
        keys = {driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": n}).trace.key for n in (1, 2, 1)}
        assert (len(keys), driver.cache.stats()["counts"]) == (2, {"hit": 1, "miss": 2, "put": 2})


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("change", "verdict", "is_moved"),
    [
        (lambda _: None, "MISS", False),
        (flipped, "CORRUPT", True),
        (lambda data: data[:-1], "TRUNCATED", True),
        (lambda data: data[:8] + b"\xff" + data[9:], "OUTDATED", False),
    ],
    ids=["deleted", "one bit flipped", "cut off", "of another format"],
)
def test_an_entry_that_is_gone_damaged_or_outdated_is_a_counted_miss_and_is_stored_anew(
    tmp_path: Path,
    change: Callable[[bytes], bytes | None],
    verdict: str,
    is_moved: bool,  # noqa: FBT001 -- a column
) -> None:
    root = tmp_path / "cache"
    _, trace, _ = use_driver(root)
    entry = entry_of(trace, root)
    changed = change(entry.read_bytes())
    entry.unlink()
    if changed is not None:
        entry.write_bytes(changed)
        entry.chmod(0o600)
    right, after, stats = use_driver(root)
    counts = {verdict.lower(): 1, "put": 1} | ({"quarantined": 1} if is_moved else {})
    assert (right, after.verdict.name, stats["counts"], use_driver(root)[1].verdict.name) == (True, verdict, counts, "HIT")
    assert not is_moved or (root / "quarantine" / entry.name).read_bytes() == changed


def make_file(path: Path) -> Path:
    path.write_bytes(b"mine")
    return path


def make_open_directory(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (make_file, "it is not a directory"),
        (lambda path: make_file(path) / "below", "Not a directory"),
        (make_open_directory, "others may write to it (mode 777)"),
        (lambda _: Path("/proc/vyre"), "No such file or directory"),
    ],
    ids=["a file", "below a file", "writable for all", "where nothing can be made"],
)
def test_an_unusable_directory_costs_the_cache_and_not_the_result(
    tmp_path: Path, make: Callable[[Path], Path], refused: str
) -> None:
    root = make(tmp_path / "place")
    right, trace, stats = use_driver(root)
    assert (right, trace.verdict.name, stats["root"], stats["refused"]) == (True, "MISS", str(root), refused)


def test_within_one_driver_a_cache_in_memory_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    with Driver() as driver:
        verdicts = [driver.compile(shipped_module("saxpy")).trace.verdict.name for _ in range(2)]
    assert (verdicts, driver.cache.root) == (["MISS", "HIT"], None)
