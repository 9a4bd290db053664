"""Kernels and work over the workers of a fleet, in the shape of ``DriverPool``, and the trace of what they did."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import numpy as np

from vyre_driver.checks import is_whole
from vyre_driver.display.line import aligned, count, one_line, table
from vyre_driver.distributed import tasks
from vyre_driver.distributed.carried import CarriedKernel, carry
from vyre_driver.distributed.futures import FleetFuture, of_fleet
from vyre_driver.distributed.scheduling import NO_WORKERS_S, Versions, prepare_scheduler
from vyre_driver.distributed.windowed import FleetProgress, Hedging, WindowedCalls
from vyre_driver.distributed.worker import PLUGIN, JoinFleet
from vyre_driver.errors import DispatchFailed, FileUnusable, InvalidInput, WorkerLost
from vyre_driver.profiling.trace_events import Document, Event, in_order, joined, write_document
from vyre_driver.telemetry.prometheus import merged

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from distributed import Client, Worker

    from vyre_driver.specialization.values import SpecMap

_SHOWN = ("worker", "device", "done", "failed", "waiting", "seconds", "kernels", "misses")


class FleetReport(list[dict[str, Any]]):
    """Facts of each worker, as plain data; shown as a table."""

    def __str__(self) -> str:
        """Return the table as lines of text."""
        return "\n".join(aligned([_SHOWN, *(_cells(one) for one in self)], left=range(len(_SHOWN))))

    def _repr_html_(self) -> str:
        return table([_cells(one) for one in self], head=_SHOWN, caption=f"Fleet of {len(self)} workers")


def _cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{facts[name]:.2f}" if name == "seconds" else str(facts[name]) for name in _SHOWN)


_TASK_ROWS = 1 << 26  # the rows of a profile are below


@contextmanager
def recorded(client: Client, path: str | os.PathLike[str]) -> Iterator[None]:
    """Record what all workers do in the block, and write it to a file.

    Raises
    ------
    WorkerLost
        If no worker is left at the end.
    FileUnusable
        If the file cannot be written.
    """
    began = time.time()
    client.get_task_stream(start=began, stop=began)  # from now on the scheduler keeps it
    name = uuid.uuid4().hex
    try:
        client.run(_start, name)
        yield
    finally:
        profiles = client.run(_stop, name, on_error="ignore")
    document = trace_of(client.get_task_stream(start=began), {one: found for one, found in profiles.items() if found})
    try:
        write_document(Path(path), document)
    except OSError as error:
        raise FileUnusable(
            f"the timeline cannot be written to {path}: {error.strerror}", fix="name another file", path=str(path)
        ) from error


def trace_of(stream: Iterable[Mapping[str, Any]], profiles: Mapping[str, Document]) -> Document:
    """Return the profiles of workers, which are named by their addresses, as one document with the tasks of Dask's stream."""
    if not profiles:
        raise WorkerLost("no worker that was there when the timeline began is left", fix="look into the logs of the workers")
    tasks = list(stream)
    numbers = {worker: number for number, worker in enumerate(sorted({*profiles, *(one["worker"] for one in tasks)}))}
    whole = joined([_numbered(one, worker, numbers[worker]) for worker, one in sorted(profiles.items())])
    zero_us = whole["otherData"]["started_unix_ns"] / 1e3
    events = list(whole["traceEvents"])
    rows: dict[tuple[int, object], int] = {}
    for task in tasks:
        pid = numbers[task["worker"]]
        row = rows.setdefault((pid, task["thread"]), _TASK_ROWS + len(rows))
        events += [_task(task, part, pid, row, zero_us) for part in task["startstops"]]
    events += [_named("thread_name", pid, row, "tasks") for (pid, _), row in rows.items()]
    events += [_named("process_name", number, 0, worker) for worker, number in numbers.items() if worker not in profiles]
    return {**whole, "traceEvents": in_order(events)}


def _numbered(document: Document, worker: str, number: int) -> Document:
    """Return a profile with the worker's name and number for those of its process: two machines may have the same number."""
    events = [{**one, "pid": number} for one in document["traceEvents"] if one["name"] != "process_name"]
    about = document["otherData"]
    drivers = [{**one, "pid": number} for one in about["drivers"]]
    return {
        "traceEvents": [_named("process_name", number, 0, worker), *events],
        "otherData": {**about, "drivers": drivers},
    }


def _named(what: str, pid: int, row: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": pid, "tid": row, "ts": 0.0, "args": {"name": name}}


def _task(task: Mapping[str, Any], part: Mapping[str, Any], pid: int, row: int, zero_us: float) -> Event:
    """Return a part of a task, its computation or a transfer for it, which may have begun a little before the profiles."""
    name = _name_of(task["key"]) if part["action"] == "compute" else part["action"]
    event = {"name": name, "cat": part["action"], "ph": "X", "pid": pid, "tid": row, "args": {"key": str(task["key"])}}
    begins = part["start"] * 1e6 - zero_us
    return {**event, "ts": max(0.0, begins), "dur": max(0.0, part["stop"] * 1e6 - zero_us - max(0.0, begins))}


def _name_of(key: object) -> str:
    """Return a task's name without what makes its key unique."""
    from dask.utils import key_split

    return str(key_split(key))


def _start(name: str, dask_worker: Worker) -> None:
    plugin = dask_worker.plugins[PLUGIN]
    profile = plugin.driver.profile()
    profile.start()
    plugin.profiles[name] = profile


def _stop(name: str, dask_worker: Worker) -> Document | None:
    profile = dask_worker.plugins[PLUGIN].profiles.pop(name, None)
    if profile is None:  # the process was started within the block
        return None
    profile.stop()
    found: Document = profile.trace
    return found


_LARGE_BYTES = 1 << 20
_AHEAD = 4


class FleetPool:
    """The workers of a Dask client, each with a driver on a device of its own. May be used from several threads.

    Work that is given to it must do no harm when it is run twice: a worker that is lost has its work done by others.
    """

    def __init__(
        self, client: Client, *, losses: int = 2, no_workers_s: float = NO_WORKERS_S, same_device: bool = False
    ) -> None:
        """Have every worker of the client open a driver, those that join later too.

        Parameters
        ----------
        client
            Dask's ``Client``, with any cluster; that of a ``LocalFleet`` has a worker for each device.
        losses
            How many devices or processes may be lost under one task until it fails. Of processes that holds for all that the
            scheduler does: Dask keeps one number.
        no_workers_s
            Seconds that work waits where there is no worker, before it fails with WorkerLost.
        same_device
            Whether to refuse a fleet of different devices or Vulkan drivers, whose results agree within tolerances only.

        Raises
        ------
        InvalidInput
            If ``losses`` is no whole number of 1 or more, or the devices differ and must not.
        InstallationUnusable
            If the scheduler or a worker has another version of this package.
        WorkerLost
            If there is no worker in that time.
        VyreError
            What ``Driver`` raises on a worker.
        """
        if not is_whole(losses) or losses < 1:
            raise InvalidInput(f"losses is {losses!r}, and a task loses 1 device or more", fix="give a whole number from 1 on")
        self.client = client
        self.losses = int(losses)
        self._no_workers_s = no_workers_s
        versions = Versions.own()
        client.run_on_scheduler(prepare_scheduler, versions, self.losses, no_workers_s)
        self._scheduler_id = _scheduler_id(client)
        client.register_plugin(JoinFleet(versions))
        self._wait_for_workers()
        if same_device:
            self._check_same_device()

    def __repr__(self) -> str:
        """Return its scheduler and how many workers it has as one line."""
        workers = self._workers()
        return one_line("FleetPool", f"at {self.client.scheduler.address}", count(len(workers), "worker"))

    def compile(self, kernel: object, constants: Mapping[str, object] | SpecMap | None = None) -> FleetKernel:
        """Return a kernel for all workers; it is compiled on one now, and others take what that one has compiled.

        Parameters
        ----------
        kernel
            A ``SpirvModule``, a ``Program``, a kernel or function of ``vyre_driver.lang``, or what makes a kernel on a driver:
            a function of ``vyre_driver.kernels``, also as ``functools.partial`` with its options.
        constants
            As ``Driver.compile``.

        Raises
        ------
        InvalidInput
            If the kernel cannot travel.
        VyreError
            If it cannot be compiled, as ``Driver.compile``.
        WorkerLost
            If there is no worker.
        """
        carried = carry(kernel, constants)
        self._wait_for_workers()
        facts = self._submit(tasks.prove, carried).result()
        return FleetKernel(carried, facts, self)

    def submit(self, work: Callable[..., Any], *arguments: object) -> FleetFuture:
        """Have ``work(driver, *arguments)`` called on a worker; a future among the arguments is given as its result.

        A ``Buffer`` that it returns stays on the device until it is fetched.
        """
        return self._submit(tasks.run_work, work, arguments, self.losses)

    def map(  # noqa: PLR0913 -- by keyword
        self,
        kernel: FleetKernel | Callable[..., Any],
        calls: Iterable[Sequence[object]],
        *,
        window: int | None = None,
        window_bytes: int | None = None,
        hedge: bool = False,
        keep: bool = False,
        on_progress: Callable[[FleetProgress], object] | None = None,
        **options: Any,  # noqa: ANN401 -- the kernel's
    ) -> Iterator[Any]:
        """Yield the result of a call for each sequence of arrays, in their order; ``calls`` is read as results are taken.

        Parameters
        ----------
        kernel, calls, options
            What ``kernel(*arrays, **options)`` takes, for each of the calls; or a function, for ``work(driver, *arguments)``
            as in ``submit``.
        window
            How many calls are begun at most whose result was not yielded. None is two for each thread of a worker, as many as
            there are now; results that wait for an earlier one do not count, up to four times as many in all, or 256 MiB of
            arrays.
        window_bytes
            Bytes of the numpy arrays of calls that are under way at most; one call is begun in all cases.
        hedge
            Whether a call that takes 3 times as long as half of the others is begun once more elsewhere; the first result
            counts. The calls may run twice.
        keep
            Yield futures whose results stay on the workers' devices.
        on_progress
            Called with a ``FleetProgress`` after each result.

        Raises
        ------
        InvalidInput
            If a window is no whole number of 1 or more, or a call is no sequence.
        VyreError
            If a call raises it, in its place.
        """
        for name, given in (("window", window), ("window_bytes", window_bytes)):
            if given is not None and (not is_whole(given) or given < 1):
                raise InvalidInput(f"{name} is {given!r}", fix="give a whole number from 1 on, or leave it out")

        def begin(arrays: list[tuple[object, ...]], avoid: FleetFuture | None) -> list[FleetFuture]:
            if isinstance(kernel, FleetKernel):
                return self._call(kernel, arrays, options, keep=keep, avoid=avoid)
            work = functools.partial(kernel, **options) if options else kernel
            return self._submit_each(tasks.run_work, [(work, one, self.losses) for one in arrays], **self._away_from(avoid))

        ahead = _AHEAD if window is None else 1
        room = self._window if window is None else lambda: window
        under_way = WindowedCalls(
            begin, room, self.client.gather, window_bytes, ahead, Hedging() if hedge else None, keep, on_progress
        )
        return under_way.results(calls)

    def warm(self, kernels: Iterable[FleetKernel]) -> None:
        """Load kernels on every worker that there is now, before their first calls, and compile those of modules and programs.

        One worker compiles, and the others take what it has.
        """
        for kernel in kernels:
            waiting = [
                self._submit(tasks.warm, kernel.carried, workers=[one], allow_other_workers=True) for one in self._workers()
            ]
            for one in waiting:
                one.result()

    def report(self) -> FleetReport:
        """Return of each worker its device, its calls, their seconds and its kernels, as plain data that prints as a table."""
        found = self.client.run(_facts, on_error="ignore")
        return FleetReport(found[worker] for worker in sorted(found))

    def metrics(self) -> str:
        """Return the metrics of all workers' drivers as ``Driver.metrics`` does, each with the label ``worker``."""
        return merged("worker", sorted(self.client.run(_metrics, on_error="ignore").items()))

    def timeline(self, path: str | os.PathLike[str]) -> AbstractContextManager[None]:
        """Record within ``with pool.timeline("trace.json"):`` the tasks of all workers, and what their drivers' profiles see.

        The trace is as those of ``Driver.profile`` (docs/profiling.md), by the workers' clocks. At its end WorkerLost is raised
        if none of the workers is left, and FileUnusable if the file cannot be written.
        """
        return recorded(self.client, path)

    def _call(
        self,
        kernel: FleetKernel,
        calls: Sequence[Sequence[object]],
        options: dict[str, Any],
        *,
        keep: bool,
        avoid: FleetFuture | None = None,
    ) -> list[FleetFuture]:
        """Begin calls of a kernel, in one message."""
        keys = [f"{kernel.name}-{uuid.uuid4()}" for _ in calls]  # what Dask's dashboard and WorkerLost name it by
        given = [(kernel.carried, list(arrays), options, self.losses) for arrays in calls]
        how = {"keep": keep, "key": keys, **self._away_from(avoid)}
        values = itertools.chain(options.values(), *calls)
        if sum(one.nbytes for one in values if isinstance(one, np.ndarray)) < _LARGE_BYTES:
            return self._submit_each(tasks.call, given, **how)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": 1 << 60}):  # docs/distributed.md has it
            return self._submit_each(tasks.call, given, **how)

    def _away_from(self, avoid: FleetFuture | None) -> dict[str, Any]:
        if avoid is None:
            return {}
        busy = {worker for worker, keys in self.client.processing().items() if avoid.key in keys}
        return {"workers": sorted(set(self._workers()) - busy) or None, "allow_other_workers": True}

    def _submit(self, task: Callable[..., Any], *arguments: object, **options: Any) -> FleetFuture:  # noqa: ANN401 -- Dask's
        return self._submit_each(task, [arguments], **options)[0]

    def _submit_each(
        self,
        task: Callable[..., Any],
        arguments: Sequence[Sequence[object]],
        **options: Any,  # noqa: ANN401 -- Dask's
    ) -> list[FleetFuture]:
        if self.client.status != "running":
            raise DispatchFailed(
                f"the client of the fleet is {self.client.status}", fix="make a new Client, and a new FleetPool"
            )
        if _scheduler_id(self.client) != self._scheduler_id:
            raise DispatchFailed(
                f"the scheduler at {self.client.scheduler.address} was started again, and knows nothing of this pool",
                fix="make a new FleetPool of the client, and compile kernels anew",
            )
        futures = self.client.map(task, *zip(*arguments, strict=True), pure=False, **options)
        return [of_fleet(one, self.client) for one in futures]

    def _workers(self) -> list[str]:
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def _window(self) -> int:
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return int(max(2, 2 * sum(one["nthreads"] for one in workers)))

    def _wait_for_workers(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=self._no_workers_s)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise WorkerLost(
                f"the fleet at {self.client.scheduler.address} had no worker for {self._no_workers_s:g} s",
                fix="start workers (vyre-driver worker ADDRESS), and look into their logs if they have gone",
            ) from error

    def _check_same_device(self) -> None:
        kinds = {(one["device"], one["driver"]) for one in self.report()}
        if len(kinds) > 1:
            named = ", ".join(f"{device!r} ({driver})" for device, driver in sorted(kinds))
            raise InvalidInput(
                f"the fleet has {len(kinds)} kinds of devices: {named}",
                fix="start workers on one kind of device, or leave same_device out where results may differ within tolerances",
            )


class FleetKernel:
    """A kernel on every worker of a fleet; made by ``FleetPool.compile``. Pickled, it is called with ``local`` in tasks."""

    def __init__(self, carried: CarriedKernel, facts: Mapping[str, Any], pool: FleetPool | None = None) -> None:
        """Hold a kernel that was proven on one worker."""
        self.carried = carried
        self.facts = dict(facts)
        self._pool = pool

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without its pool."""
        return FleetKernel, (self.carried, self.facts)

    def __dask_tokenize__(self) -> str:
        """Return what names it in Dask's graphs, in every process alike."""
        return self.carried.digest

    @property
    def digest(self) -> str:
        """What names it in every process: 32 hex digits."""
        return self.carried.digest

    @property
    def name(self) -> str:
        """The module's, the function's or the definition's name."""
        return self.carried.name

    @property
    def home(self) -> str:
        """The address of the worker that proved it."""
        return str(self.facts["home"])

    @property
    def signature(self) -> str:
        """What a call takes, as a line."""
        return str(self.facts["signature"])

    @property
    def workgroup_size(self) -> tuple[int, ...]:
        """Invocations of a workgroup along x, y, z; empty where a call chooses."""
        return tuple(self.facts["workgroup_size"])

    def __repr__(self) -> str:
        """Return its signature and digest on one line."""
        return one_line("FleetKernel", self.signature, self.digest)

    def __call__(self, *arrays: object, keep: bool = False, **options: Any) -> FleetFuture:  # noqa: ANN401 -- the kernel's
        """Call it on a worker; takes what the kernel on a driver takes, and futures of arrays, which stay on the workers.

        Arrays that are given for what the kernel writes are not changed: the result has what it wrote. With ``keep`` that stays
        on the device: as an argument of another call there it is not copied, and ``result()`` fetches it as a numpy array.

        Raises
        ------
        DispatchFailed
            If it was unpickled, and has no pool, or the client is closed.
        """
        return self._own_pool()._call(self, [arrays], options, keep=keep)[0]  # noqa: SLF001 -- one module

    def map(self, calls: Iterable[Sequence[object]], **options: Any) -> Iterator[Any]:  # noqa: ANN401 -- as FleetPool.map
        """As ``FleetPool.map``."""
        return self._own_pool().map(self, calls, **options)

    def _own_pool(self) -> FleetPool:
        if self._pool is None:
            raise DispatchFailed(f"kernel {self.name!r} has no pool here", fix="call kernel.local(...) in a task of a worker")
        return self._pool

    def local(self, *arrays: object, **options: Any) -> Any:  # noqa: ANN401 -- a call's
        """Call it on the worker whose task calls this, and return the result; for functions given to ``submit`` or to Dask.

        Raises
        ------
        DispatchFailed
            If this is no task of a worker of the fleet.
        """
        return tasks.call(self.carried, arrays, options, 1)


def _scheduler_id(client: Client) -> object:
    return client._scheduler_identity.get("id")  # noqa: SLF001 -- what Dask has asked when it connected


def _facts(dask_worker: Worker) -> dict[str, Any]:
    found: dict[str, Any] = dask_worker.plugins[PLUGIN].facts()
    return found


def _metrics(dask_worker: Worker) -> str:
    return str(dask_worker.plugins[PLUGIN].driver.metrics())
