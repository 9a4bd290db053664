"""Drivers of two machines, as two homes, and the store that they share: what one has compiled the other takes.

Below our layer stands the witness layer, as a driver that gives blobs away; what it writes down tells compiling (no initial
data) from taking a blob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from racing import expect_to_wait
from servers import running_server
from witnessed import seen

from vyre_driver import Driver
from vyre_driver.runtime import pipelines
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import RedisServer

    from vyre_driver.runtime.kernel import Trace
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = [pytest.mark.device, pytest.mark.redis, pytest.mark.cold_mesa]

X = np.arange(100, dtype=np.float32)


@pytest.fixture(scope="session")
def one_server() -> Iterator[RedisServer]:
    with running_server() as server:
        yield server


class Machines:
    """Homes of machines on one device, the keys that they sign with, and the store that they share."""

    def __init__(self, folder: Path, server: RedisServer, device: PhysicalDevice, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self._device, self._patch = folder, server, device, patch
        self._trusted: list[str] = []
        patch.setenv("VYRE_CACHE_REMOTE", server.url)
        patch.setenv("VYRE_CACHE_TRUST_FILE", str(folder / "trusted"))
        patch.setattr(pipelines, "LEAST_COMPILE_S", 0.0)
        (folder / "trusted").touch()

    def be(self, name: str, *, signs: bool = False, is_trusted: bool = True) -> Path:
        """Go to a machine, which others trust if it signs; returns the root of its cache."""
        root = self.folder / name
        if not root.exists():
            expect_to_wait(root, self._device)
        self._patch.setenv("VYRE_CACHE_DIR", str(root))
        self._patch.delenv("VYRE_CACHE_SIGN_KEY_FILE", raising=False)
        if signs:
            from vyre_driver.remote.trust import make_key, trust_line

            key = self.folder / f"{name}.key"
            if not key.exists():
                line = trust_line(name, make_key(key))
                if is_trusted:
                    self._trusted.append(line)
                    (self.folder / "trusted").write_text("\n".join(self._trusted), "utf-8")
            self._patch.setenv("VYRE_CACHE_SIGN_KEY_FILE", str(key))
        return root

    def names(self, kind: str = "e1") -> list[str]:
        return sorted(name.decode() for name in self.server.do("KEYS", f"vyre:{kind}:*"))


@pytest.fixture
def machines(
    one_server: RedisServer, tmp_path: Path, physical_device: PhysicalDevice, monkeypatch: pytest.MonkeyPatch
) -> Machines:
    one_server.reset()
    return Machines(tmp_path, one_server, physical_device, monkeypatch)


def use() -> tuple[Trace, dict[str, int]]:
    """Use a kernel with a new driver, and send what there is to be sent; returns its trace and what the cache counted."""
    with Driver() as driver:
        trace = use_driver(driver)
        remote = driver.context.first_pipelines.remote
        if remote is not None:
            remote.worker.leave(10.0)
            remote.worker.uploads.is_hurried = False
            remote.worker.absent._since.clear()  # noqa: SLF001 -- the next use is another process's
        counts = driver.cache.stats()["counts"]
    assert isinstance(counts, dict)
    return trace, counts


def use_driver(driver: Driver) -> Trace:
    kernel = driver.compile(shipped_module("saxpy"))
    assert np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)
    return kernel.trace


def given(witness: Path) -> list[int]:
    """How many bytes of initial data each pipeline cache got, since the last call."""
    return [len(data) for data in seen(witness)] if witness.exists() else []


def remote_counts(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name.startswith("remote_")}


def test_what_one_machine_has_compiled_the_other_takes(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    trace, counts = use()
    assert (trace.reason, remote_counts(counts), given(witness)) == ("no entry", {"remote_miss": 1, "remote_put": 1}, [0])
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, trace.verdict.name) == ("no entry; taken from the store, signed by builder", "MISS")
    assert (counts, given(witness)) == ({"miss": 1, "put": 2, "remote_hit": 1}, [1032])
    trace, counts = use()
    assert (trace.verdict.name, counts, given(witness)) == ("HIT", {"hit": 1}, [1032])


def test_what_was_imported_is_never_sent_on(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    machines.be("launderer", signs=True)
    use()
    machines.server.do("DEL", name)
    assert (remote_counts(use()[1]), machines.names()) == ({}, [])
    assert given(witness) == [0, 1032, 1032]


def test_an_entry_of_a_signer_who_is_not_trusted_is_compiled_here(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    machines.server.reset()
    machines.be("stranger", signs=True, is_trusted=False)
    use()
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, remote_counts(counts)) == ("no entry", {"remote_refused_untrusted": 1})
    assert given(witness) == [0, 0, 0]


def test_an_entry_with_other_spirv_is_refused(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    root = machines.be("forger", signs=True)
    with Driver() as driver:
        remote = driver.context.first_pipelines.remote
        assert remote is not None
        (stored,) = DriverEntries(machines.folder / "builder").entries()
        key, entry = stored
        machines.server.do("DEL", name)
        remote.compiled(key, entry.spirv[:-4] + b"\0\0\1\0", entry.native)
        remote.worker.leave(10.0)
    assert (root.exists(), machines.names()) == (True, [name])
    machines.be("reader")
    trace, counts = use()
    assert (trace.reason, remote_counts(counts)) == ("no entry", {"remote_refused_foreign_code": 1})
    assert given(witness) == [0, 0]


class DriverEntries:
    """The entries of a root, with their keys."""

    def __init__(self, root: Path) -> None:
        from vyre_driver.cache import DiskPipelineCache

        self._cache = DiskPipelineCache(root)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        from vyre_driver.identity import PipelineCacheKey

        for one in self._cache.entries():
            key = PipelineCacheKey.from_manifest(one.manifest)
            yield key, self._cache.peek(key).entry
