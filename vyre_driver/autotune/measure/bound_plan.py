"""A plan on resident buffers: the dispatches of a tuned kernel, recorded once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import DispatchFailed
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.process.copies import refuse_copies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.autotune.measure.definition import KernelOnDriver, Plan
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.futures import DispatchFuture


class BoundPlan:
    """A plan on resident buffers, recorded once; it holds the temporaries, and all memory as long as it lives."""

    def __init__(self, kernel: KernelOnDriver, plan: Plan, buffers: Mapping[str, Buffer]) -> None:
        """Make the temporaries and bind each step; made by ``TunedKernel.bind``."""
        self.plan = plan
        self._name = kernel.definition.name
        self._temporaries: list[Buffer] = []
        self.bound: tuple[BoundKernel, ...] = ()
        """The dispatches, in order."""
        self._batch: Batch | None = None
        try:
            self._bind(kernel, plan, dict(buffers))
        except BaseException:
            self.close()
            raise

    __reduce_ex__ = refuse_copies

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait; raises as ``BoundKernel.run``, and DispatchFailed 1005 after ``close``."""
        self._whole().run(timeout)

    def submit(self, *, block: bool | None = None) -> DispatchFuture:
        """Hand the work to the device and return at once, as ``BoundKernel.submit``; DispatchFailed 1005 after ``close``."""
        return self._whole().submit(block=block)

    def close(self) -> None:
        """Give the temporaries back once nothing runs; a second call does nothing."""
        self.bound, self._batch = (), None
        while self._temporaries:
            self._temporaries.pop().close()

    def _bind(self, kernel: KernelOnDriver, plan: Plan, named: dict[str, Buffer]) -> None:
        for name, one in plan.temporaries.items():
            named[name] = Buffer(kernel.driver.context.device, one.shape, one.dtype)
            self._temporaries.append(named[name])
        self.bound = tuple(
            kernel.compiled(step).bind(
                *step.arguments(named), workgroups=step.workgroups, push_constants=step.push_constants or None
            )
            for step in plan.steps
        )
        if len(self.bound) > 1:
            self._batch = kernel.driver.batch()
            for bound in self.bound:
                self._batch.add(bound)

    def _whole(self) -> Batch | BoundKernel:
        if not self.bound:
            raise DispatchFailed(f"the bound {self._name} is closed", fix="bind it again")
        return self._batch or self.bound[0]
