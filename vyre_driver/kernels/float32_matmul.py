"""The product of float32 arrays: one kernel where ``b`` is a matrix, another one for batches of ``b``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.binding.arguments import as_array
from vyre_driver.kernels.matmul import MATMUL
from vyre_driver.kernels.product_kinds import product
from vyre_driver.kernels.tiles import refuse_parameters
from vyre_driver.kompute.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.bound_plan import BoundPlan
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.driver import Driver
    from vyre_driver.runtime.kernel import Kernel

_MATRIX_AXES = 2


class Float32Matmul(TunedKernel):
    """``a @ b`` of float32 arrays with any batch axes.

    Where ``b`` is one matrix, the rows of a batch of ``a`` are those of one matrix, and the kernel for two matrices takes them
    all. A batch of ``b`` needs a kernel that goes over batches, which has constants and tuning records of its own.
    """

    def __init__(self, driver: Driver) -> None:
        """Choose what the driver's device runs of it; raises as ``TunedKernel``."""
        super().__init__(driver, MATMUL)

    @cached_property
    def _batched(self) -> TunedKernel:
        """The kernel for batches of ``b``, made when the first one comes: few callers have any."""
        return TunedKernel(self.driver, product("float32"))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the dispatches that calls have needed until now."""
        return super().kernels + (self._batched.kernels if "_batched" in self.__dict__ else ())

    def bind(
        self,
        *buffers: Buffer,
        out: Buffer | Sequence[Buffer],
        candidate: Candidate | None = None,
        **parameters: Any,  # noqa: ANN401 -- refused
    ) -> BoundPlan:
        """Bind resident buffers; as ``TunedKernel.bind``."""
        if _has_batch(buffers):
            refuse_parameters(self.name, parameters)
            return self._batched.bind(*buffers, out=out, candidate=candidate)
        return super().bind(*buffers, out=out, candidate=candidate, **parameters)

    def forget(self) -> None:
        """Look the records up again at the next call."""
        super().forget()
        if "_batched" in self.__dict__:
            self._batched.forget()

    def close(self) -> None:
        """Let the buffers of calls go; a second call does nothing."""
        super().close()
        if "_batched" in self.__dict__:
            self._batched.close()

    def _called(self, arrays: tuple[object, ...], parameters: dict[str, Any], out: object) -> tuple[NDArray[Any] | Buffer, ...]:
        given = tuple(array if isinstance(array, Buffer) else as_array(array) for array in arrays)
        if _has_batch(given):
            refuse_parameters(self.name, parameters)
            return self._batched._called(given, parameters, out)  # noqa: SLF001 -- of the same class
        return super()._called(given, parameters, out)


def _has_batch(arrays: Sequence[object]) -> bool:
    """Whether ``b`` of a call is a batch of matrices; a call with another number of arrays is refused later."""
    return len(arrays) == 2 and len(getattr(arrays[1], "shape", ())) > _MATRIX_AXES
