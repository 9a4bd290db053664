"""Nodes of a fleet that start with empty caches and share a store: how often they compile, and how long first calls take."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import Client, Scheduler, SpecCluster

from benchmarks.pipeline import DRIVER_CACHE_OFF, big_shader
from benchmarks.remote import server
from vyre_driver import SpirvModule
from vyre_driver.distributed import FleetPool, tasks
from vyre_driver.remote.trust import make_key, trust_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

X = np.ones(64, np.float32)
_SENT_WITHIN_S = 5.0


@contextlib.contextmanager
def node(client: Client, device: object, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run ``vyre-driver worker`` on a device, until it is left."""
    command = [sys.executable, "-m", "vyre_driver", "worker", client.scheduler.address, "--device", str(device)]
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or not process.stdout.readline().startswith("1 process"):
                raise SystemExit("a node has not joined")
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def environment(folder: Path, url: str, name: str) -> dict[str, str]:
    """Return the settings of a node with a cache of its own."""
    own = {"VYRE_CACHE_DIR": str(folder / name), **DRIVER_CACHE_OFF}
    store = {"VYRE_CACHE_REMOTE": url, "VYRE_CACHE_TRUST_FILE": str(folder / "trust")}
    return {**own, **store, "VYRE_CACHE_SIGN_KEY_FILE": str(folder / "builder.key")}


def compilations(pool: FleetPool) -> dict[str, int]:
    """Return how many pipelines each worker's driver has made without compiled code that it was given."""
    found: dict[str, int] = {}
    for name, worker, count in re.findall(
        r'^vyre_driver_layer_(pipelines_created|blobs_given)_total\{worker="([^"]*)".*\} (\d+)', pool.metrics(), re.MULTILINE
    ):
        found[worker] = found.get(worker, 0) + (int(count) if name == "pipelines_created" else -int(count))
    return found


def cache_counts(dask_worker: Any) -> dict[str, int]:
    found: dict[str, int] = dask_worker.plugins["vyre-driver"].driver.report()["cache"]["counts"]
    return found


def first_calls(client: Client, kernel: Any, workers: Sequence[str], left: Callable[[], float]) -> dict[str, float]:
    """Call a kernel on workers at the same time, and return the seconds until each had a result."""
    began = time.perf_counter()
    given = (kernel.carried, [X, X], {"workgroups": (1,)}, 1)
    waiting = {one: client.submit(tasks.call, *given, workers=[one], pure=False) for one in workers}
    took: dict[str, float] = {}
    for one, future in waiting.items():
        future.add_done_callback(lambda _, one=one: took.setdefault(one, time.perf_counter() - began))
    results = {one: future.result(left()).tobytes() for one, future in waiting.items()}
    if len(set(results.values())) > 1:
        raise SystemExit("the nodes' results differ")
    while len(took) < len(waiting):
        time.sleep(0.001)
    return took


def measured(devices: Sequence[Any], blocks: int, url: str | None, left: Callable[[], float]) -> dict[str, Any]:
    """Return what two nodes do that call at once, and what a third does that comes when they are gone."""
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        store = held.enter_context(server(folder))[1]["loopback"] if url is None else url
        (folder / "trust").write_text(f"{trust_line('builder-1', make_key(folder / 'builder.key'))}\n", "utf-8")
        cluster = held.enter_context(SpecCluster({}, {"cls": Scheduler, "options": options}, silence_logs=40))
        client = held.enter_context(Client(cluster))
        settings = functools.partial(environment, folder, store)
        module = SpirvModule.from_glsl(big_shader(blocks))
        with node(client, devices[0], settings("a")), node(client, devices[-1], settings("b")):
            pool = FleetPool(client)
            kernel = pool.compile(module)
            together = first_calls(client, kernel, [one["worker"] for one in pool.report()], left)
            compiled = compilations(pool)
            time.sleep(min(_SENT_WITHIN_S, left()))
            counts = list(client.run(cache_counts).values())
        with node(client, devices[-1], settings("c")):
            pool = FleetPool(client)
            alone = first_calls(client, kernel, [one["worker"] for one in pool.report()], left)
            compiled |= compilations(pool)
            counts += list(client.run(cache_counts).values())
    return {
        "spirv_bytes": len(module.code),
        "first_calls_s": sorted(together.values()),
        "first_call_when_they_are_gone_s": list(alone.values()),
        "cache_counts": counts,
        "figure": sum(compiled.values()),
    }
