"""A driver as modules below ``vyre_driver.driver`` know it, and its memory: resident buffers and pinned arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.binding.arguments import as_array
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.pinned import pinned_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.autotune.search.space import TuningSpace
    from vyre_driver.autotune.store.records import TuningRecords
    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.ir.program import GivesProgram, Program
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.specialization.values import SpecMap
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.target.config import DispatchConfig
    from vyre_driver.telemetry.events import Events
    from vyre_driver.vulkan.devices import PhysicalDevice

OPENED: list[Callable[[BaseDriver], object]] = []
"""Called with each driver that has just been opened: by what profiles whole programs."""


class BaseDriver:
    """An open device, what is compiled for it, and its memory; ``Driver`` is it."""

    number: int  # which of this process's drivers it is, from 1 on; the metrics' label
    device: PhysicalDevice
    cache: DiskPipelineCache
    events: Events
    strict: bool
    context: Context

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        raise NotImplementedError

    @property
    def tuning(self) -> TuningRecords:
        """The tuning records, with their place and mode."""
        raise NotImplementedError

    def compile(
        self,
        module: SpirvModule | Program | GivesProgram,
        constants: Mapping[str, object] | SpecMap | None = None,
        config: DispatchConfig | None = None,
        *,
        space: TuningSpace | None = None,
    ) -> Kernel:
        """Compile a kernel; as ``Driver.compile``."""
        raise NotImplementedError

    def batch(self, label: str | None = None) -> Batch:
        """Return an empty batch; as ``Driver.batch``."""
        raise NotImplementedError

    def buffer(self, array: object, name: str = "", *, share: str | None = None) -> Buffer:
        """Return a resident buffer that holds a copy of the array; bytes become one of uint8. ``name`` is for its repr.

        With ``share="cuda"`` CUDA sees the same memory (docs/cuda.md); UnsupportedFeature is raised where it cannot.

        Raises
        ------
        InvalidInput
            If it cannot be read as an array.
        LimitExceeded
            If it is larger than a buffer of the device may be.
        DeviceOutOfMemory
            If it does not fit into the device's memory.
        """
        given = as_array(array)
        made = self.empty(given.shape, given.dtype, name, share=share)
        made.write(given)
        return made

    def empty(
        self, shape: int | Iterable[int], dtype: DTypeLike | None = None, name: str = "", *, share: str | None = None
    ) -> Buffer:
        """Return a resident buffer whose contents are not defined; raises as ``buffer``."""
        context = self.context
        device = context.device
        device.check_usable()
        try:
            return Buffer(device, shape, dtype, name, share)
        except DeviceOutOfMemory as raised:
            error = raised.with_traceback(None)
        return context.room.make_after(error, lambda: Buffer(device, shape, dtype, name, share))

    def zeros(
        self, shape: int | Iterable[int], dtype: DTypeLike | None = None, name: str = "", *, share: str | None = None
    ) -> Buffer:
        """Return a resident buffer of zeros; raises as ``buffer``."""
        made = self.empty(shape, dtype, name, share=share)
        made.fill(0)
        return made

    def pinned(self, shape: int | Iterable[int], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return an array of zeros in pinned memory (docs/transfers.md); raises as ``buffer``, or UnsupportedFeature."""
        return pinned_array(self.context.device, shape, dtype)
