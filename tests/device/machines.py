"""Machines, as homes on one device, that share a store; and what a driver does on one of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from racing import expect_to_wait
from witnessed import seen

from vyre_driver import Driver
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.identity import PipelineCacheKey
from vyre_driver.remote.trust import make_key, trust_line
from vyre_driver.runtime import pipelines
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from servers import RedisServer

    from vyre_driver.runtime.trace import Trace
    from vyre_driver.telemetry.events import Event, EventKind
    from vyre_driver.vulkan import PhysicalDevice

X = np.arange(100, dtype=np.float32)


class Machines:
    """Homes of machines on one device, the keys that they sign with, and the store that they share."""

    def __init__(self, folder: Path, server: RedisServer, device: PhysicalDevice, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self._device, self._patch = folder, server, device, patch
        self._trusted: list[str] = []
        patch.setenv("VYRE_CACHE_REMOTE", server.url)
        patch.setenv("VYRE_CACHE_TRUST_FILE", str(folder / "trusted"))
        patch.setenv("VYRE_CACHE_REMOTE_TIMEOUT", "10")  # a busy machine is no failure
        patch.setattr(pipelines, "LEAST_COMPILE_S", 0.0)
        (folder / "trusted").touch()

    def be(self, name: str, *, signs: bool = False, is_trusted: bool = True) -> Path:
        """Go to a machine, which others trust if it signs; returns the root of its cache."""
        root = self.folder / name
        if not root.exists():
            expect_to_wait(root, self._device)
        self._patch.setenv("VYRE_CACHE_DIR", str(root))
        self._patch.setenv("XDG_STATE_HOME", str(self.folder / f"{name}-state"))
        self._patch.delenv("VYRE_CACHE_SIGN_KEY_FILE", raising=False)
        if signs:
            key = self.folder / f"{name}.key"
            if not key.exists():
                line = trust_line(name, make_key(key))
                if is_trusted:
                    self._trusted.append(line)
                    (self.folder / "trusted").write_text("\n".join(self._trusted), "utf-8")
            self._patch.setenv("VYRE_CACHE_SIGN_KEY_FILE", str(key))
        return root

    def records(self, name: str) -> Path:
        """Return the file of a machine's tuning records."""
        return self.folder / f"{name}-state" / "vyre" / "autotune.toml"

    def until_there(self, count: int) -> None:
        """Wait until the store has so many entries."""
        until = time.monotonic() + 20
        while len(self.names()) < count:
            assert time.monotonic() < until
            time.sleep(0.005)

    def names(self, kind: str = "e1") -> list[str]:
        return sorted(name.decode() for name in self.server.do("KEYS", f"vyre:{kind}:*"))


def use() -> tuple[Trace, dict[str, int]]:
    """Use a kernel with a new driver, and send what there is to be sent; returns its trace and what the cache counted."""
    with Driver() as driver:
        trace = use_driver(driver)
        remote = driver.context.first_pipelines.remote
        if remote is not None:
            remote.worker.leave(10.0)
            remote.worker.uploads.is_hurried = False
            remote.worker.absent._since.clear()  # noqa: SLF001 -- the next use is another process's
        return trace, counts_of(driver)


def use_driver(driver: Driver) -> Trace:
    kernel = driver.compile(shipped_module("saxpy"))
    assert np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)
    return kernel.trace


def given(witness: Path) -> list[int]:
    """How many bytes of initial data each pipeline cache got, since the last call."""
    return [len(data) for data in seen(witness)] if witness.exists() else []


def remote_counts(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name.startswith("remote_")}


def entry_of(root: Path) -> tuple[PipelineCacheKey, Any]:
    """Return the key and the entry of a root that has one."""
    cache = DiskPipelineCache(root)
    (stored,) = cache.entries()
    key = PipelineCacheKey.from_manifest(stored.manifest)
    return key, cache.peek(key).entry


def counts_of(driver: Driver) -> dict[str, int]:
    counts = driver.cache.stats()["counts"]
    assert isinstance(counts, dict)
    return counts


def events_of(driver: Driver, kind: EventKind, least: int) -> list[Event]:
    """Wait until a driver has had so many events of a kind, and return them."""
    until = time.monotonic() + 20
    while driver.events.counts()[kind] < least:
        assert time.monotonic() < until
        time.sleep(0.005)
    return [event for event in driver.events.recent() if event.kind is kind]
