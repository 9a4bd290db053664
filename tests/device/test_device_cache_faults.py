"""Whatever is done to the cache under a driver: right results, a counted miss, nothing raised, nothing outside touched."""

from __future__ import annotations

import errno
import os
import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.cache import DiskPipelineCache, PipelineEntry, _read
from vyre_driver.cache.entry import DeviceIds, encode_entry
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vyre_driver.identity import PipelineCacheKey

pytestmark = [pytest.mark.device, pytest.mark.cold_mesa]

X = np.arange(100, dtype=np.float32)


class Scene:
    """A root with the entry of saxpy and of another shader, a file and a directory beside it that are nobody's business."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        self.outside.mkdir(mode=0o700)
        (self.outside / "file").write_bytes(b"outside")
        with Driver(cache=self.root) as driver:
            kernels = [driver.compile(shipped_module(name)) for name in ("saxpy", "mandelbrot")]
            self.keys: list[PipelineCacheKey] = [kernel._pipelines.key for kernel in kernels]  # noqa: SLF001 -- the entries' keys
        self.entry, self.other = (self.root / key.hex[:2] / f"{key.hex}.bin" for key in self.keys)

    def replace_entry(self, data: bytes) -> None:
        self.entry.unlink()
        self.entry.write_bytes(data)
        self.entry.chmod(0o600)

    def all_outside(self) -> dict[str, tuple[bytes, int, int]]:
        found = [(path, path.lstat()) for path in self.outside.rglob("*")]
        return {
            path.name: (path.read_bytes() if path.is_file() else b"", stat.st_mtime_ns, stat.st_mode) for path, stat in found
        }


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def use(driver: Driver) -> tuple[bool, str]:
    """Whether saxpy comes out right, and the verdict on its entry."""
    kernel = driver.compile(shipped_module("saxpy"))
    return bool(np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)), kernel.trace.verdict.name


def under_another_name(scene: Scene) -> None:
    scene.replace_entry(scene.other.read_bytes())


def of_another_device(scene: Scene) -> None:
    key = scene.keys[0]
    header = bytearray(DeviceIds.of_manifest(key.manifest).cache_header)
    header[0] ^= 1
    blob = b"\x20\0\0\0\x01\0\0\0" + bytes(header) + b"compiled elsewhere"
    scene.replace_entry(encode_entry(key.digest, PipelineEntry(key.manifest, b"words", blob)))


def linked_shard(scene: Scene) -> None:
    """Put the shard elsewhere, whole entries and all, and a link in its place."""
    shard = scene.entry.parent
    shard.rename(scene.outside / "shard")
    shard.symlink_to(scene.outside / "shard")


def linked_entry(scene: Scene) -> None:
    scene.entry.rename(scene.outside / "entry")
    scene.entry.symlink_to(scene.outside / "entry")


def a_directory(scene: Scene) -> None:
    scene.entry.unlink()
    scene.entry.mkdir()


def a_fifo(scene: Scene) -> None:
    scene.entry.unlink()
    os.mkfifo(scene.entry)


def with_a_clock_set_back(scene: Scene) -> None:
    ahead = time.time() + 10 * 365 * 86400
    os.utime(scene.entry, (ahead, ahead))


def foreign_owner(scene: Scene) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(scene.entry, 12345, 12345)


SCENES: list[tuple[Callable[[Scene], object], str, dict[str, int]]] = [
    (under_another_name, "FOREIGN_KEY", {"foreign_key": 1, "quarantined": 1}),
    (of_another_device, "FOREIGN_DEVICE", {"foreign_device": 1, "quarantined": 1}),
    (linked_shard, "UNTRUSTED", {"untrusted": 1, "put_failed": 1}),
    (linked_entry, "IO_ERROR", {"io_error": 1, "get_failed": 1}),
    (a_directory, "UNTRUSTED", {"untrusted": 1, "put_failed": 1}),
    (a_fifo, "UNTRUSTED", {"untrusted": 1}),
    (foreign_owner, "UNTRUSTED", {"untrusted": 1}),
    (lambda scene: scene.root.chmod(0o770), "MISS", {"miss": 1}),
    (lambda scene: scene.root.chmod(0o777), "MISS", {"miss": 1}),
    (with_a_clock_set_back, "HIT", {"hit": 1}),
    (lambda scene: shutil.rmtree(scene.root), "MISS", {"miss": 1}),
]
NAMES = ["wrong name", "other device", "linked shard", "linked entry", "directory", "fifo", "other owner", "group may write"]
NAMES += ["all may write", "clock set back", "root deleted"]


@pytest.mark.parametrize(("change", "verdict", "counted"), SCENES, ids=NAMES)
def test_a_root_that_was_tampered_with_costs_at_most_the_cache(
    scene: Scene, change: Callable[[Scene], object], verdict: str, counted: dict[str, int]
) -> None:
    change(scene)
    before = scene.all_outside()
    with Driver(cache=scene.root) as driver:
        found = use(driver)
        counts = driver.cache.stats()["counts"]
    assert isinstance(counts, dict)
    told = {
        what: min(number, 1) for what, number in counts.items() if what != "put"
    }  # hardware stores its blob in a second put
    assert (found, told) == ((True, verdict), counted)
    assert scene.all_outside() == before
    if scene.root.exists():
        scene.root.chmod(0o700)
    cache = DiskPipelineCache(scene.root)
    cache.check(fix=True)
    assert cache.check() == []


def test_a_root_deleted_under_a_running_driver_is_made_again(scene: Scene) -> None:
    with Driver(cache=scene.root) as driver:
        found = [use(driver)]
        shutil.rmtree(scene.root)
        found += [use(driver), use(driver)]
    assert (found, driver.cache.check()) == ([(True, "HIT"), (True, "MISS"), (True, "HIT")], [])


CODES = [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ESTALE, errno.EIO]


@pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("failing", ["read", "lstat", "write", "replace"])
def test_a_disk_that_fails_costs_at_most_the_cache(
    scene: Scene, failing: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object, **_options: object) -> None:
        raise OSError(code, os.strerror(code))

    before = scene.all_outside()
    with Driver(cache=scene.root) as driver:
        if failing in ("write", "replace"):
            scene.entry.unlink()
        with monkeypatch.context() as patch:
            if failing in ("write", "replace"):
                patch.setattr(os, failing, fail)
                patch.setattr(os, "link", fail)
            else:
                stage = 2 if failing == "read" else 0
                patch.setattr(_read, "read_entry", told_of_failure(stage, code))
            if failing == "lstat":
                patch.setattr(os, "lstat", fail)
            found, counts = use(driver), driver.cache.stats()["counts"]
        again = use(driver)
    assert isinstance(counts, dict)
    failed = {"read": "get_failed", "lstat": "root_failed", "write": "put_failed", "replace": "put_failed"}[failing]
    verdict = {"read": "IO_ERROR"}.get(failing, "MISS")
    assert (found, counts[verdict.lower()], counts[failed] >= 1) == ((True, verdict), 1, True)
    assert (again[0], driver.cache.check(), scene.all_outside()) == (True, [], before)


def told_of_failure(stage: int, code: int) -> Callable[..., object]:
    """Return a reader that fails so: at the root (0) or at the file (2)."""
    real = _read.read_entry

    def read(*given: object) -> object:
        root = real(*given[:4])[2:4] if stage else (None, 0)  # type: ignore[call-overload]
        return (stage, code, *root, None, None, None)

    return read
