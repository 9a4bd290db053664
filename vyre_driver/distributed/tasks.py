"""What runs on the workers: the functions of which a fleet's tasks are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.distributed.worker import LoadedKernel, WorkerDriver, worker_driver
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.kernel import Kernel as PythonKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from vyre_driver.distributed.carried import CarriedKernel

    Link = tuple[CarriedKernel, dict[str, Any]]


class KeptArray:
    """An array on a worker's device, which Dask keeps as the result of a task.

    Pickled, as when it is fetched, moved or spilled, it becomes the numpy array.
    """

    def __init__(self, buffer: Buffer) -> None:
        """Hold a buffer; it is closed when nothing holds this any more."""
        self.buffer = buffer
        self.shape: tuple[int, ...] = buffer.shape
        self.dtype: np.dtype[Any] = buffer.dtype
        self.nbytes = int(buffer.dtype.itemsize * np.prod(buffer.shape, dtype=np.int64))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: ANN401, FBT001 -- numpy's protocol
        """Return it read back."""
        found = self.buffer.read()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __sizeof__(self) -> int:
        """Return the bytes of the array: what Dask counts, and spills."""
        return self.nbytes

    def __reduce__(self) -> Any:  # noqa: ANN401 -- pickle's
        """Become the array that was read back."""
        return np.asarray, (self.buffer.read(),)

    def __repr__(self) -> str:
        """Return its type and shape."""
        return f"<KeptArray {self.dtype} {self.shape} on the device>"


def kept(result: object) -> object:
    """Return a call's result with its buffers as what Dask may keep."""
    if isinstance(result, tuple):
        parts = tuple(kept(one) for one in result)
        return result if all(a is b for a, b in zip(parts, result, strict=True)) else parts  # a named tuple stays one
    return KeptArray(result) if isinstance(result, Buffer) else result


def prove(kernel: CarriedKernel) -> dict[str, Any]:
    """Compile a kernel; returns where that was, and what the kernel says of itself."""
    here = worker_driver()
    made = here.loaded(kernel).call
    return {
        "home": here.worker.address,
        "signature": str(getattr(made, "signature", kernel.name)),
        "workgroup_size": tuple(getattr(made, "workgroup_size", ())),
    }


def warm(kernel: CarriedKernel) -> None:
    """Load a kernel on this worker, and compile it where that takes no arrays."""
    worker_driver().warm(kernel)


def call(kernel: CarriedKernel, arrays: Sequence[object], options: dict[str, Any], losses: int, *, keep: bool = False) -> Any:  # noqa: ANN401 -- an array, or a tuple of them
    """Call a kernel on this worker's device."""
    return call_chain(((kernel, options),), arrays, losses, keep=keep)


def call_chain(links: Sequence[Link], arrays: Sequence[object], losses: int, *, keep: bool = False) -> Any:  # noqa: ANN401 -- an array, or a tuple of them
    """Call one kernel after the other, each on what the one before returned; in between all stays on the device."""
    here = worker_driver()
    with here.watched(losses):
        given = tuple(arrays)
        for at, (carried, options) in enumerate(links):
            is_last = at == len(links) - 1
            resident = keep or not is_last or any(isinstance(one, Buffer) for one in given)
            with here.calling(carried) as kernel:
                prepared, named = _prepared(here, kernel, given, options, resident=resident, is_ours=at > 0)
                result = here.run(kernel, prepared, named)
            given = result if isinstance(result, tuple) else (result,)
        return kept(result) if keep else _read(result)


def run_work(work: Callable[..., Any], arguments: tuple[Any, ...], losses: int) -> Any:  # noqa: ANN401 -- the work's
    """Call ``work`` with this worker's driver."""
    here = worker_driver()
    with here.watched(losses):
        found = work(here.driver, *arguments)
        here.done += 1
        return kept(found)


def _prepared(  # noqa: PLR0913 -- of one call
    here: WorkerDriver,
    kernel: LoadedKernel,
    arrays: Sequence[object],
    options: dict[str, Any],
    *,
    resident: bool,
    is_ours: bool,
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """Return arrays and options as the kernel may have them: what it would write to is copied, for Dask keeps the arrays."""
    writes = kernel.writes

    def one(at: int | str, value: object) -> object:
        may_be_written = not is_ours and (writes is None or at in writes)
        if isinstance(value, KeptArray):
            value = value.buffer if value.buffer.device is here.driver.context.device else value.buffer.read()
            if isinstance(value, Buffer) and may_be_written:
                copy = here.driver.empty(value.shape, value.dtype)
                value.copy_to(copy)
                value = copy
        if isinstance(value, np.ndarray) and value.ndim:
            if resident:
                return here.driver.buffer(value)
            return value.copy() if may_be_written and isinstance(kernel.call, PythonKernel) else value
        return value

    return tuple(one(at, value) for at, value in enumerate(arrays)), {name: one(name, value) for name, value in options.items()}


def _read(result: object) -> object:
    if isinstance(result, tuple):
        return tuple(_read(one) for one in result)
    return result.read() if isinstance(result, Buffer) else result
