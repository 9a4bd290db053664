"""A pool of several devices of a host, for independent work.

Each device has a driver, a queue and a thread of its own. Work goes to the shortest queue; what a device has begun stays with
it. When a device is lost, its driver is set aside, and what waited for it goes to the others, together with what was running on
it, which is run again: so work given to a pool must be such that running it twice does no harm. Work that has lost two devices
is not given a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from vyre_driver import settings
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.display.line import count, one_line
from vyre_driver.driver import Driver
from vyre_driver.errors import DispatchFailed
from vyre_driver.process.copies import refuse_copies
from vyre_driver.process.threads import start_all
from vyre_driver.runtime.describe import DescribedByKernel
from vyre_driver.runtime.lanes import Job, Lane, Lanes
from vyre_driver.telemetry.prometheus import labels_of, merged, metrics_of
from vyre_driver.vulkan.selection import every_device

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from numpy.typing import NDArray

    from vyre_driver.profiling.profile import Profile
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.telemetry.events import AnyListener

_Result = TypeVar("_Result")


class DriverPool:
    """Drivers on several devices, one queue each. May be used from several threads; a context manager, or ``close`` it.

    One that is dropped does the work that it was given, and ends.
    """

    def __init__(
        self,
        devices: Sequence[str | int] | None = None,
        cache: DiskPipelineCache | str | os.PathLike[str] | None = None,
        *,
        allow_software: bool | None = None,
        strict: bool | None = None,
        isolated: bool = False,
    ) -> None:
        """Open the devices.

        Parameters
        ----------
        devices
            Each as for ``Driver``; one that is named twice is opened twice. None takes every GPU there is, whatever VYRE_DEVICE
            says; without any, the CPU device that was allowed.
        cache, allow_software, strict
            As for ``Driver``. All drivers share one cache.
        isolated
            Whether each device is open in a process of its own (docs/isolated.md). A crash of that process fails the work that
            it had, with DriverCrashed, and a lost device is opened anew: none is set aside.

        Raises
        ------
        VyreError
            What ``Driver`` raises, for the first device that cannot be opened; those opened before are closed again.
        """
        allowed = settings.switch(settings.ALLOW_SOFTWARE) if allow_software is None else allow_software
        named = every_device(allow_software=allowed) if devices is None else devices
        shared = cache if isinstance(cache, DiskPipelineCache) else None
        self._lanes = Lanes()
        try:
            for number, device in enumerate(named):
                where = cache if shared is None else shared
                driver = Driver(device, where, allow_software=allowed, strict=strict, isolated=isolated)
                shared = driver.cache
                self._lanes.lanes.append(Lane(driver, number, self, self._lanes.serve, is_isolated=isolated))
        except BaseException:
            for lane in self._lanes.lanes:
                lane.driver.close()
            raise
        if not self._lanes.lanes:
            raise DispatchFailed("the pool has no devices", fix="name one device or more")
        start_all(lane.thread for lane in self._lanes.lanes)

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return its devices and what waits for them as one line."""
        lanes = list(self._lanes.lanes)
        names = ", ".join(repr(one.driver.device.name) for one in lanes)
        lost, jobs = sum(one.lost is not None for one in lanes), sum(one.load[0] for one in lanes)
        state = "closed" if self._lanes.closing else ""
        return one_line("DriverPool", f"on {names}", f"{lost} lost" if lost else "", f"{count(jobs, 'job')} under way", state)

    @property
    def drivers(self) -> tuple[Driver, ...]:
        """The drivers that are in use, in the order of the devices; those that were lost are not among them."""
        with self._lanes.changing:
            return tuple(lane.driver for lane in self._lanes.lanes if lane.lost is None)

    def submit(self, work: Callable[[Driver], _Result]) -> Future[_Result]:
        """Have ``work(driver)`` called on the thread of the device that has least to do.

        It must not wait for other work of the pool, and must do no harm when it is called again after a device was lost.

        Raises
        ------
        DeviceLost
            If every device was lost.
        DispatchFailed
            If the pool is closed.
        """
        job = Job(work)
        with self._lanes.changing:
            self._check_open()
            self._lanes.enqueue(job)
        return job.future

    def compile(self, module: SpirvModule, constants: Mapping[str, object] | SpecMap | None = None) -> PooledKernel:
        """Return a kernel for all devices; it is compiled for the first one now, and for each other when it first gets a call.

        Raises
        ------
        VyreError
            If the module or program cannot be compiled, as for ``Driver.compile``.
        DeviceLost
            If every device was lost.
        """
        with self._lanes.changing:
            first = self._lanes.shortest().driver
        return PooledKernel(self, module, constants, {first: first.compile(module, constants)})

    def report(self) -> list[dict[str, object]]:
        """Return of each device its name and uuid, whether it was lost, and how many jobs it has done and waits with."""
        with self._lanes.changing:
            return [
                {
                    "device": lane.driver.device.name,
                    "uuid": lane.driver.device.device_uuid.hex(),
                    "lost": lane.lost is not None,
                    "done": lane.done,
                    "waiting": len(lane.waiting),
                }
                for lane in self._lanes.lanes
            ]

    def metrics(self) -> str:
        """Return the metrics of all drivers as ``Driver.metrics`` does, those lost too, and the jobs of each device."""
        with self._lanes.changing:
            lanes = [(one, len(one.waiting), int(one.running is not None)) for one in self._lanes.lanes]
        is_isolated = lanes[0][0].is_isolated
        text = metrics_of([] if is_isolated else [lane.driver for lane, *_ in lanes])
        for number, (lane, waiting, running) in enumerate(lanes):
            text.labels = {"process": str(number)} if is_isolated else labels_of(lane.driver)
            text.counter("pool_jobs_done", "Jobs of a pool that a device has done, those that raised too.", lane.done)
            text.counter("pool_jobs_failed", "Jobs of a pool that raised.", lane.failed)
            text.counter("pool_jobs_cancelled", "Jobs of a pool that were cancelled while they waited.", lane.cancelled)
            text.gauge("pool_jobs_waiting", "Jobs of a pool that wait for a device.", waiting)
            text.gauge("pool_jobs_running", "Whether a device works on a job of a pool.", running)
        numbered = ((str(number), lane.driver.metrics()) for number, (lane, *_) in enumerate(lanes))
        return (merged("process", numbered) if is_isolated else "") + str(text)

    def profile(self, *, events: int | None = None, device_clock: bool = True) -> Profile:
        """Return a profile of all drivers that are in use now, as ``Driver.profile``."""
        from vyre_driver.profiling.profile import Profile  # late: most profile nothing

        return Profile(self.drivers, events, device_clock=device_clock)

    def add_listener(self, listener: AnyListener) -> None:
        """Send every event of all devices from now on to a listener; it is called on their threads."""
        for lane in self._lanes.lanes:
            lane.driver.events.add_listener(listener)

    def remove_listener(self, listener: AnyListener) -> None:
        """Remove a listener; one that was never added is ignored."""
        for lane in self._lanes.lanes:
            lane.driver.events.remove_listener(listener)

    def close(self) -> None:
        """Return when all work that was given has ended and every device is closed; a second call does nothing."""
        self._lanes.end()
        for lane in self._lanes.lanes:
            lane.thread.join()
        for lane in self._lanes.lanes:
            lane.driver.close()

    def __enter__(self) -> DriverPool:
        """Return the pool itself; raises DispatchFailed once it is closed."""
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def _check_open(self) -> None:
        if self._lanes.closing:
            raise DispatchFailed("the pool is closed", fix="make a new one")


class PooledKernel(DescribedByKernel):
    """A kernel on every device of a pool; made by ``DriverPool.compile``. It has the attributes of a ``Kernel``."""

    def __init__(
        self,
        pool: DriverPool,
        module: SpirvModule,
        constants: Mapping[str, object] | SpecMap | None,
        kernels: dict[Driver, Kernel],
    ) -> None:
        """Remember what there is; each device's thread adds its own."""
        self._pool = pool
        self._module = module
        self._specs = constants
        self._kernels = kernels
        (self._described_by,) = kernels.values()

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return its signature, its workgroup and for how many devices it is compiled, on one line."""
        size = "x".join(map(str, self.workgroup_size))
        where = f"compiled for {count(len(self._kernels), 'device')}"
        return one_line("PooledKernel", self.signature, f"workgroups of {size}", where)

    def __call__(self, *arrays: object, **options: Any) -> Future[NDArray[Any] | tuple[NDArray[Any], ...]]:  # noqa: ANN401 -- Kernel's
        """Call the kernel on the device that has least to do; takes what ``Kernel.__call__`` takes.

        The arrays, also those of ``out``, must stay as they are until the future is done. The call's result or error is
        the future's.
        """
        return self._pool.submit(lambda driver: self._kernel(driver)(*arrays, **options))

    def map(self, calls: Iterable[Sequence[object]], **options: Any) -> list[NDArray[Any] | tuple[NDArray[Any], ...]]:  # noqa: ANN401 -- Kernel's
        """Call it once for each sequence of arrays; returns the results in that order, or raises the first failure of them."""
        return [future.result() for future in [self(*arrays, **options) for arrays in calls]]

    def _kernel(self, driver: Driver) -> Kernel:
        found = self._kernels.get(driver)
        if found is None:
            found = self._kernels[driver] = driver.compile(self._module, self._specs)
        return found
