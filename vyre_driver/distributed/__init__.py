"""Kernels and work over many devices and machines, on dask.distributed (docs/distributed.md); the extra ``distributed``.

``dask worker ... --preload vyre_driver.distributed`` has a worker open a driver before it takes its first task.
"""

from __future__ import annotations

from vyre_driver.errors import BackendUnavailable
from vyre_driver.process.imports import check_required

check_required()

try:
    import distributed as _distributed
except ImportError as error:
    raise BackendUnavailable(
        f"dask.distributed cannot be imported: {error}",
        fix="run pip install 'vyre-driver[distributed]'",
    ) from error

from vyre_driver.distributed.blocks import from_npy, from_parquet, map_blocks, plan_chunks, reduce_blocks, store_regions
from vyre_driver.distributed.futures import FleetFuture
from vyre_driver.distributed.joining import LocalFleet
from vyre_driver.distributed.pool import FleetKernel, FleetPool
from vyre_driver.distributed.windowed import FleetProgress, progress
from vyre_driver.distributed.worker import WorkerDriver, empty_pinned

__all__ = [
    "FleetFuture",
    "FleetKernel",
    "FleetPool",
    "FleetProgress",
    "LocalFleet",
    "empty_pinned",
    "from_npy",
    "from_parquet",
    "map_blocks",
    "plan_chunks",
    "progress",
    "reduce_blocks",
    "store_regions",
]


async def dask_setup(worker: _distributed.Worker) -> None:
    """Have a worker that was started with ``--preload`` open its driver, as VYRE_DEVICE says; raises what ``Driver`` raises."""
    if isinstance(worker, _distributed.Worker):
        await worker.plugin_add(WorkerDriver(), catch_errors=False)
