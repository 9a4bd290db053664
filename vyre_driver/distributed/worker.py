"""A worker's driver: one a process, on the device that the process was given, and the kernels that were loaded on it.

With it is pinned memory for the blocks that it makes or reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import Status, WorkerPlugin, get_worker

from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.distributed.carried import CarriedKernel, may_write
from vyre_driver.distributed.entries import CompiledEntries, FleetRecords
from vyre_driver.distributed.scheduling import LOST, Versions
from vyre_driver.driver import Driver
from vyre_driver.errors import DeviceLost, DeviceOutOfMemory, DispatchFailed
from vyre_driver.kompute.elements import checked_shape
from vyre_driver.kompute.pinned import PinnedMemory, can_pin, pinned_pages
from vyre_driver.runtime.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from distributed import Worker
    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.profiling.profile import Profile
    from vyre_driver.telemetry.events import Event
    from vyre_driver.vulkan.layer._layer import PinnedPages

_MOST_FREE = 4  # a worker has two threads: each uses a block while another waits
_LEAST_BYTES = 1 << 20


class _Lent(weakref.ref[PinnedMemory]):
    """Pages that an array lies in; the memory itself holds this, whose callback puts it among the free ones at its end."""

    __slots__ = ("byte_len", "pages")

    byte_len: int
    pages: PinnedPages


class PinnedBlocks:
    """Pinned pages of one device that no array lies in: four at most, the one that was freed last is taken first.

    May be used from several threads; what collects an array, at any time, does one atomic operation.
    """

    def __init__(self, device: KomputeDevice) -> None:
        """Begin without pages."""
        self._device = device
        self._free: deque[_Lent] = deque(maxlen=_MOST_FREE)

    def empty(self, shape: int | Iterable[int], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array whose contents are not defined; it is not pinned if it is short, or nothing more can be pinned."""
        axes, kind = checked_shape(shape), np.dtype(dtype)
        byte_len = math.prod(axes) * kind.itemsize
        pages = None if kind.hasobject or kind.subdtype is not None else self._pages(byte_len)
        if pages is None:
            return np.empty(axes, kind)
        memory = PinnedMemory(self._device, pages, byte_len)
        memory.kept = lent = _Lent(memory, self._free.append)
        lent.byte_len, lent.pages = byte_len, pages
        return np.asarray(memory).view(kind).reshape(axes)

    def _pages(self, byte_len: int) -> PinnedPages | None:
        if byte_len < _LEAST_BYTES or not can_pin(self._device):
            return None
        found = self._taken(byte_len)
        if found is not None:
            return found
        try:
            with self._device.in_use:
                return pinned_pages(self._device, byte_len)
        except DeviceOutOfMemory:
            self._free.clear()
            return None

    def _taken(self, byte_len: int) -> PinnedPages | None:
        """Return free pages of just this length; those of other lengths stay."""
        for _ in range(_MOST_FREE):
            try:
                free = self._free.pop()
            except IndexError:
                return None
            if free.byte_len == byte_len:
                return free.pages
            self._free.appendleft(free)
        return None


_LOOKS_EVERY_S = 0.02


PLUGIN = "vyre-driver"

_ARRIVES_WITHIN_S = 0.1
_UNDER_WAY = frozenset({"executing", "long-running"})


@dataclass(slots=True)
class LoadedKernel:
    """A kernel on a worker's driver, and the keys of its pipelines in hex."""

    name: str
    call: Callable[..., Any]
    writes: frozenset[int | str] | None
    keys: set[str] = field(default_factory=set)


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
        self.pinned = PinnedBlocks(self.driver.context.device)
        self._is_leaving = False
        self.profiles: dict[str, Profile] = {}
        """One for each timeline that is recorded now, by a name of the client's."""
        self.turn = threading.RLock()
        """Held by whoever has the device: the other threads of a worker load or write meanwhile."""
        self._loaded: dict[str, LoadedKernel] = {}
        self._loading: dict[str, threading.RLock] = {}
        self._now = threading.local()
        self.driver.events.add_listener(self._note_key)
        self._entries = CompiledEntries(worker, self.driver, self._keys_of)
        self._records: FleetRecords | None = None
        worker.metrics["vyre calls"] = lambda _: self.done
        worker.metrics["vyre seconds"] = lambda _: round(self.seconds, 3)

    def teardown(self, worker: Worker) -> None:
        """Close the driver."""
        for counter in ("vyre calls", "vyre seconds"):
            worker.metrics.pop(counter, None)
        if hasattr(self, "driver"):  # else it could not be opened
            self.driver.close()

    def share_records(self) -> None:
        """Use what the fleet has measured, and tell it what is measured here; its scheduler has been prepared."""
        if self._records is None:
            self._records = FleetRecords(self.worker)
            self.driver.tuning.share_with(self._records)

    def loaded(self, kernel: CarriedKernel, *, is_called: bool = False) -> LoadedKernel:
        """Return a kernel, made now if it was not before, with what others of the fleet have compiled and measured of it.

        Before its first call here that of the first worker to call it is waited for, so that one alone compiles.
        """
        digest = kernel.digest
        with self._loading.setdefault(digest, threading.RLock()):
            self._entries.take(digest, is_called=is_called)
            found = self._loaded.get(digest)
            if found is None:
                keys: set[str] = set()
                with self._noting(keys):
                    call = kernel.make(self.driver)
                found = self._loaded[digest] = LoadedKernel(kernel.name, call, may_write(call), keys)
                if isinstance(call, TunedKernel) and self._records is not None:
                    self._records.exchange(call.target.key, self.driver.tuning)
            return found

    @contextlib.contextmanager
    def calling(self, kernel: CarriedKernel) -> Iterator[LoadedKernel]:
        """Return a kernel that is called within; others that want to call it for the first time wait for the end of that."""
        with self._entries.first_call(kernel.digest):
            yield self.loaded(kernel, is_called=True)

    def warm(self, kernel: CarriedKernel) -> None:
        """Load a kernel, and compile it where that takes no arrays."""
        with self.calling(kernel) as found:
            if isinstance(found.call, Kernel):
                with self._noting(found.keys):
                    self.driver.warm([found.call])

    def run(self, kernel: LoadedKernel, arrays: tuple[object, ...], options: dict[str, Any]) -> Any:  # noqa: ANN401 -- a call's
        """Call a kernel in this thread's turn, and count it."""
        with self.turn, self._noting(kernel.keys):
            began = time.perf_counter()
            try:
                found = kernel.call(*arrays, **options)
            finally:
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
            "misses": int(counts.get("miss", 0)),
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

    def _keys_of(self, digest: str) -> frozenset[str]:
        kernel = self._loaded.get(digest)
        return frozenset(() if kernel is None else tuple(kernel.keys))


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
            worker.plugins[PLUGIN].share_records()
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


def empty_pinned(shape: int | Iterable[int], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array for a block that a task makes or reads, in memory that the worker's device copies from by itself.

    Its contents are not defined. The memory is used again when nothing refers to the array any more, so that a worker that goes
    through many blocks touches new pages only for the first few. Below 1 MiB, where nothing can be pinned, and in a process
    without a driver it is as ``numpy.empty``.
    """
    try:
        blocks: PinnedBlocks = get_worker().plugins[PLUGIN].pinned
    except (ValueError, KeyError):
        return np.empty(checked_shape(shape), np.dtype(dtype))
    return blocks.empty(shape, dtype)
