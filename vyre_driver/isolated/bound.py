"""Kernels of a child bound to its buffers, and batches of them: each run is one message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.isolated.device import not_here
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.runtime.batch import Batch
from vyre_driver.runtime.bound import BoundKernel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from vyre_driver.isolated.process import Handle
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.runtime.observed import Observed


class IsolatedBound(BoundKernel):
    """A kernel bound to buffers in a child; it goes with the child."""

    __slots__ = ("_buffers", "_handle", "_kernel")

    def __init__(self, handle: Handle, kernel: Kernel, buffers: Sequence[object], observed: Observed) -> None:
        """Be what the child has bound; made by ``IsolatedKernel.bind``."""
        self._handle, self._kernel, self._buffers = handle, kernel, tuple(buffers)
        self._observed = observed

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._kernel.name

    @property
    def handle(self) -> Handle:
        """By which the child knows it."""
        return self._handle

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait; raises as ``Child.ask``."""
        began = time.perf_counter_ns()
        try:
            if timeout is not None:
                Deadline(timeout, self._kernel.name)
            child = self._handle.child
            child.ask(f"the kernel {self._kernel.name!r}", "run", self._handle.number, timeout, timeout=timeout)
        except Exception as error:
            self._observed.failed(error, time.perf_counter_ns() - began)
            raise
        self._observed.dispatches.ran(began)

    def set(self, /, **push_constants: object) -> None:
        """Replace push constants, all or some of them, in what is run from now on; raises as ``BoundKernel.set``."""
        try:
            self._handle.child.ask(f"the kernel {self._kernel.name!r}", "set", self._handle.number, push_constants)
        except Exception as error:
            self._observed.failed(error)
            raise

    def submit(self, *, block: bool | None = None) -> NoReturn:  # noqa: ARG002 -- the base's
        """Refuse: nobody here would see the work end."""
        raise _not_submitted()

    @property
    def _dispatch(self) -> NoReturn:  # type: ignore[override]
        raise UnsupportedFeature(
            "a kernel in Python is not bound on an isolated driver", fix="bind what driver.compile(kernel) returns"
        )

    @property
    def pipeline(self) -> BoundPipeline:
        """Refused: it is in the child."""
        raise not_here("pipeline")

    def __repr__(self) -> str:
        """Return which kernel it is of, on one line."""
        return one_line("BoundKernel", f"of {self._kernel.name!r}", "isolated")


class IsolatedBatch(Batch):
    """Bound kernels of one child, run as one submission and asked for by one message."""

    def __init__(self, driver: BaseDriver, label: str | None) -> None:
        """Start empty; made by ``IsolatedDriver.batch``."""
        super().__init__(driver.events, label)
        self._driver = driver
        self._isolated: list[IsolatedBound] = []
        self._bound = self._isolated  # type: ignore[assignment] # what the base counts

    def add(self, bound: BoundKernel) -> None:
        """Append a bound kernel; raises InvalidInput if it is none of the driver's process."""
        if not isinstance(bound, IsolatedBound):
            raise InvalidInput(
                f"a batch of an isolated driver takes its bound kernels and got something of type {type(bound).__name__}",
                fix="add what kernel.bind(...) returns, of a kernel of the same driver",
            )
        if self._isolated and bound.handle.child is not self._isolated[0].handle.child:
            raise InvalidInput("the batch holds kernels of several processes", fix="make a batch for each driver")
        self._isolated.append(bound)
        self._observed = None

    def run(self, timeout: float | None = None) -> None:
        """Submit all and wait; raises as ``Child.ask``, and InvalidInput for an empty one."""
        observed, began = self._watched(), time.perf_counter_ns()
        try:
            self._run(timeout)
        except Exception as error:
            observed.failed(error, time.perf_counter_ns() - began)
            raise
        observed.dispatches.ran(began)

    def _run(self, timeout: float | None) -> None:
        if not self._isolated:
            raise InvalidInput("the batch is empty", fix="add a bound kernel to it")
        if timeout is not None:
            Deadline(timeout, self._driver.device.name)
        numbers = tuple([one.handle.number for one in self._isolated])
        child = self._isolated[0].handle.child
        child.ask(f"a batch of {len(numbers)}", "batch", numbers, timeout, timeout=timeout)

    def submit(self, *, block: bool | None = None) -> NoReturn:  # noqa: ARG002 -- the base's
        """Refuse: nobody here would see the work end."""
        raise _not_submitted()


def _not_submitted() -> UnsupportedFeature:
    return UnsupportedFeature(
        "an isolated driver works in another process, and has no futures of submitted work in this one",
        fix="call run(), on a thread of yours where the caller is not to wait",
    )
