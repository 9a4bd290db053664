"""A worker's driver: one a process, on the device that the process was given, and the kernels that were loaded on it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import Status, WorkerPlugin, get_worker
from distributed.utils import sync

from vyre_driver.cache.bundle import export_bundle, import_bundle
from vyre_driver.distributed.carried import may_write
from vyre_driver.distributed.versions import Versions
from vyre_driver.driver import Driver
from vyre_driver.errors import DeviceLost, DispatchFailed, VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Worker

    from vyre_driver.distributed.carried import CarriedKernel
    from vyre_driver.telemetry.events import Event

PLUGIN = "vyre-driver"
LOST = "vyre-device-lost"
_ENTRIES = "vyre_entries"
_BEGINS_WITHIN_S = 0.5
_PATIENCE_S = 60.0
_CONNECTS_WITHIN_S = 2.0
_LOOKS_EVERY_S = 0.02
_ARRIVES_WITHIN_S = 0.1
_UNDER_WAY = frozenset({"executing", "long-running"})


@dataclass(slots=True)
class LoadedKernel:
    """A kernel on a worker's driver, the keys of its pipelines in hex, and how many calls of it began and ended."""

    call: Callable[..., Any]
    writes: frozenset[int | str] | None
    keys: set[str] = field(default_factory=set)
    begun: int = 0
    ended: int = 0


class Home(NamedTuple):
    """The worker that compiled a kernel first: its address, and the host and directory of its cache."""

    address: str
    host: str
    cache: str


class WorkerDriver(WorkerPlugin):  # type: ignore[misc] # Dask has no types that we use
    """Opens a driver where a worker starts, and closes it at its end; tasks find it as ``worker_driver()``."""

    name = PLUGIN

    def __init__(
        self, device: str | int | None = None, *, allow_software: bool | None = None, strict: bool | None = None
    ) -> None:
        """Remember what ``Driver`` takes; the driver is opened by ``setup``, in the worker's process."""
        self._how: dict[str, Any] = {"device": device, "allow_software": allow_software, "strict": strict}
        self.driver: Driver
        self.done = self.failed = 0
        self.seconds = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: nothing that was opened."""
        return {"_how": self._how, "done": 0, "failed": 0, "seconds": 0.0}

    def setup(self, worker: Worker) -> None:
        """Open the driver; raises what ``Driver`` raises, and then the worker does not start."""
        self.worker = worker
        self.driver = Driver(**self._how)
        self._is_leaving = False
        self.turn = threading.RLock()
        """Held by whoever has the device: the other threads of a worker load or write meanwhile."""
        self._changing = threading.RLock()
        self._loaded: dict[str, LoadedKernel] = {}
        self._now = threading.local()
        self.driver.events.add_listener(self._note_key)
        worker.handlers[_ENTRIES] = self._entries
        worker.metrics["vyre calls"] = lambda _: self.done
        worker.metrics["vyre seconds"] = lambda _: round(self.seconds, 3)

    def teardown(self, worker: Worker) -> None:
        """Close the driver."""
        for counter in ("vyre calls", "vyre seconds"):
            worker.metrics.pop(counter, None)
        self.driver.close()

    def loaded(self, kernel: CarriedKernel, home: Home | None) -> LoadedKernel:
        """Return a kernel, made now if it was not before; of what ``home``, the worker that made it first, has compiled."""
        found = self._loaded.get(kernel.digest)
        if found is not None:
            return found
        with self._changing:
            found = self._loaded.get(kernel.digest)
            if found is None:
                self._take_entries(kernel.digest, home)
                keys: set[str] = set()
                with self._noting(keys):
                    call = kernel.make(self.driver)
                found = self._loaded[kernel.digest] = LoadedKernel(call, may_write(call), keys)
            return found

    def run(self, kernel: LoadedKernel, arrays: tuple[object, ...], options: dict[str, Any]) -> Any:  # noqa: ANN401 -- a call's
        """Call a kernel in this thread's turn, and count it."""
        with self.turn, self._noting(kernel.keys):
            kernel.begun += 1
            began = time.perf_counter()
            try:
                found = kernel.call(*arrays, **options)
            finally:
                kernel.ended += 1
                self.seconds += time.perf_counter() - began
            self.done += 1
            return found

    @contextlib.contextmanager
    def watched(self, losses: int) -> Iterator[None]:
        """Have a task that finds the device lost run elsewhere, ``losses`` times at most, and this worker start again."""
        try:
            yield
        except DeviceLost:
            self.failed += 1
            key = self.worker.get_current_task()
            message = {"op": LOST, "key": key, "losses": losses}
            self.worker.loop.add_callback(self.worker.batched_send, message)  # before what tells that the task failed
            self.worker.loop.add_callback(self._take_no_more)
            self.worker.loop.add_callback(self._start_again, key)
            raise
        except BaseException:
            self.failed += 1
            raise

    def _take_no_more(self) -> None:
        """Have the scheduler give this worker no task from now on: the next would find the device lost too."""
        if self.worker.status == Status.running:
            self.worker.status = Status.closing_gracefully

    async def _start_again(self, key: object) -> None:
        """Have the nanny start this process again, once the scheduler knows that the task failed.

        Otherwise it would give the task to another worker because this one goes, and not count the failure. What other tasks
        have left here is moved to other workers.
        """
        worker = self.worker
        tasks, stream = worker.state.tasks, worker.batched_stream
        while key in tasks and tasks[key].state in _UNDER_WAY:  # noqa: ASYNC110 -- Dask's state has no events
            await asyncio.sleep(_LOOKS_EVERY_S)
        while stream is not None and stream.buffer:  # noqa: ASYNC110 -- Dask's state has no events
            await asyncio.sleep(_LOOKS_EVERY_S)
        await asyncio.sleep(_ARRIVES_WITHIN_S)
        if worker.status == Status.closing_gracefully and not self._is_leaving:
            self._is_leaving = True
            why = "vyre-driver: the device was lost"
            await worker.scheduler.retire_workers(
                workers=[worker.address], close_workers=False, remove=True, stimulus_id=f"{why}-{time.time()}"
            )
            await worker.close(nanny=False, reason=why)

    def facts(self) -> dict[str, Any]:
        """Return what ``FleetPool.report`` tells of this worker, as plain data."""
        device = self.driver.device
        counts: Any = self.driver.cache.stats()["counts"]
        return {
            "worker": self.worker.address,
            "device": device.name,
            "uuid": device.device_uuid.hex(),
            "driver": device.driver,
            "lost": self.driver.context.device.is_lost,
            "done": self.done,
            "failed": self.failed,
            "waiting": len(self.worker.state.ready),
            "seconds": self.seconds,
            "kernels": len(self._loaded),
            "compiled": int(counts.get("miss", 0)),
            "memory_bytes": device.device_local_left_bytes or device.device_local_bytes,
            "buffer_bytes": device.limits.max_storage_buffer_range,
            "workgroups": device.limits.max_compute_work_group_count[0],
        }

    @contextlib.contextmanager
    def _noting(self, keys: set[str]) -> Iterator[None]:
        before = getattr(self._now, "keys", None)
        self._now.keys = keys
        try:
            yield
        finally:
            self._now.keys = before

    def _note_key(self, event: Event) -> None:
        keys = getattr(self._now, "keys", None)
        if keys is not None and event.key is not None:
            keys.add(event.key)

    @property
    def home(self) -> Home:
        """Where this is, for others that want what was compiled here."""
        return Home(self.worker.address, self.worker.address.rpartition(":")[0], str(self.driver.cache.root))

    def _take_entries(self, digest: str, home: Home | None) -> None:
        """Put what ``home`` has compiled into the cache; without an answer it is compiled here."""
        if home is None or home[1:] == self.home[1:] or self.driver.cache.root is None:
            return  # with one cache directory the entry is there
        with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError, VyreError):  # two classes before Python 3.11
            data = sync(self.worker.loop, self._ask, home.address, digest, callback_timeout=_PATIENCE_S)
            if data:
                key = self.driver.cache.hmac_key
                import_bundle(self.driver.cache, io.BytesIO(data), trust=key is None)

    async def _ask(self, address: str, digest: str) -> bytes | None:
        connections = self.worker.rpc
        comm = await asyncio.wait_for(connections.connect(address), _CONNECTS_WITHIN_S)  # Dask's own tries for 30 s
        connections.reuse(address, comm)
        found: bytes | None = await connections(address).vyre_entries(digest=digest)
        return found

    async def _entries(self, digest: str) -> bytes | None:
        """Answer another worker with a bundle of a kernel's entries; the end of its first call here is waited for."""
        kernel = self._loaded.get(digest)
        if kernel is None:
            return None
        began = time.monotonic()
        while not kernel.ended and time.monotonic() - began < (_PATIENCE_S - 1 if kernel.begun else _BEGINS_WITHIN_S):  # noqa: ASYNC110 -- Dask's state has no events
            await asyncio.sleep(_LOOKS_EVERY_S)
        return await asyncio.to_thread(self._bundle, set(kernel.keys))

    def _bundle(self, keys: set[str]) -> bytes:
        target = io.BytesIO()
        export_bundle(self.driver.cache, target, keys)
        return target.getvalue()


class JoinFleet(WorkerPlugin):  # type: ignore[misc] # Dask has no types that we use
    """What a client has every worker do: compare versions, and open a driver if nothing has said on which device."""

    name = "vyre-driver-join"

    def __init__(self, versions: Versions | None = None) -> None:
        """Take the client's versions."""
        self._versions = Versions.own() if versions is None else versions

    async def setup(self, worker: Worker) -> None:
        """Join; a worker that does not fit raises InstallationUnusable, and goes."""
        try:
            self._versions.check_same(f"worker {worker.address}")
            if PLUGIN not in worker.plugins:
                await worker.plugin_add(WorkerDriver(), catch_errors=False)
        except BaseException:
            worker.loop.call_later(1.0, worker.close, nanny=True, reason="it cannot join the fleet")
            raise


def worker_driver() -> WorkerDriver:
    """Return what this worker's driver is held by; for tasks.

    Raises
    ------
    DispatchFailed
        If this is no task of a worker, or the worker has no driver.
    """
    try:
        found: WorkerDriver = get_worker().plugins[PLUGIN]
    except (ValueError, KeyError) as error:
        raise DispatchFailed(
            "there is no driver here: this is no task on a worker of a fleet",
            fix="make a FleetPool of the client before, or start workers with --preload vyre_driver.distributed",
        ) from error
    return found
