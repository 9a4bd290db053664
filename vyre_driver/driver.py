"""One dispatch, top to bottom: module and arrays in, arrays out.

The only module that sees more than one of cache, shaders and backend. ``Driver.compile`` walks from the module to verified
SPIR-V; calling the ``Kernel`` walks from arrays to results.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.backends.kompute.device import BACKEND_ID, KomputeDevice
from vyre_driver.backends.kompute.pipeline import PipelineSource, RecordedDispatch, StageTimes
from vyre_driver.binding import BindingPlan
from vyre_driver.cache.disk import CacheLookup, DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry, Verdict
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.geometry import grid, local_size
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags, layout_digest, shader_digest
from vyre_driver.requirements import check_requirements
from vyre_driver.specialization import Specialization, pack_push_constants, specialize
from vyre_driver.spirv.opcodes import SUBGROUP_CAPABILITIES
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from vyre_driver.binding import BufferArgument
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.spirv.reflect import Reflection

_MAX_RECORDED = 8


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the time of one call went, and what the cache said.

    ``compile_ns`` is ``Driver.compile`` as a whole, ``lookup_ns`` the cache's part of it; ``pipeline_ns`` is 0 when the call
    replayed a pipeline already made. The stages are None before the first call.
    """

    key: str
    verdict: Verdict
    reason: str
    compile_ns: int
    lookup_ns: int
    pipeline_ns: int
    stages: StageTimes | None


class Driver:
    """One device, one pipeline cache, and the kernels compiled for them.

    Use it as a context manager, or call ``close``. Calls from several threads are run one after the other.
    """

    def __init__(
        self,
        device: str | int | None = None,
        cache: DiskPipelineCache | str | os.PathLike[str] | None = None,
        *,
        allow_software: bool | None = None,
    ) -> None:
        """Open a device.

        Parameters
        ----------
        device
            ``uuid:``, ``pci:``, ``name:`` or ``type:`` and a value, or an index; None takes VYRE_DEVICE, else the best device.
        cache
            A cache or its directory; None takes the settings' (VYRE_CACHE_DIR, VYRE_CACHE_DISABLE).
        allow_software
            Whether a CPU device will do; None takes VYRE_ALLOW_SOFTWARE.

        Raises
        ------
        VulkanUnavailable
            2001, DeviceNotFound 2002, SoftwareDeviceRefused 2003, BackendUnavailable 2004, UnsupportedFeature 1002,
            DispatchFailed 1005: if no such device can be opened.
        InvalidSetting
            2401 if an environment variable cannot be meant.
        """
        if allow_software is None:
            allow_software = settings.switch(settings.ALLOW_SOFTWARE)
        wanted = settings.text(settings.DEVICE) if device is None else device
        self.physical_device = select_device(enumerate_devices(), wanted, allow_software=allow_software)
        if cache is None:
            cache = DiskPipelineCache.from_settings()
        self.cache = cache if isinstance(cache, DiskPipelineCache) else DiskPipelineCache(cache)
        self._device = KomputeDevice(self.physical_device)
        self._lock = threading.RLock()

    def compile(self, module: SpirvModule, specs: Mapping[str, object] | None = None) -> Kernel:
        """Prove that the device can run the module with these specialization constants, and fetch or store its entry.

        The pipeline itself is made at the first call, when the buffers' sizes are known: kompute needs them.

        Raises
        ------
        InvalidSpecialization
            2102 if a constant is unknown or does not fit its type.
        LimitExceeded
            2104 if the workgroup or the bindings are over a limit of the device.
        UnsupportedFeature
            1002 if the module needs a feature or SPIR-V version that is not there.
        """
        began = time.perf_counter_ns()
        reflection = module.reflection
        check_requirements(reflection, self.physical_device)
        plan = BindingPlan.from_reflection(reflection)
        specialization = specialize(reflection.spec_constants, specs or {})
        workgroup = local_size(reflection, specialization, self.physical_device.limits)
        key = self._key(module, plan, specialization, workgroup)
        looked = time.perf_counter_ns()
        lookup = self.cache.get(key)
        lookup_ns = time.perf_counter_ns() - looked
        code = self._resolve(key, lookup, module)
        trace = Trace(key.hex, lookup.verdict, lookup.reason, time.perf_counter_ns() - began, lookup_ns, 0, None)
        source = PipelineSource(code, specialization.words, reflection.push_constant_bytes)
        return Kernel(self, reflection, plan, workgroup, source, trace)

    def report(self) -> dict[str, object]:
        """Return the device, the backend and the cache's counters, as plain data."""
        device = self.physical_device
        return {
            "device": device.name,
            "device_type": device.device_type.name.lower(),
            "is_software": device.is_software,
            "driver": f"{device.driver_name} {device.driver_info}".strip(),
            "api_version": device.api,
            "backend": f"{BACKEND_ID} {self._device.api.flavour}",
            "cache": self.cache.stats(),
        }

    def close(self) -> None:
        """Give the device back; its kernels raise DispatchFailed from then on. A second call does nothing."""
        with self._lock:
            self._device.close()

    def __enter__(self) -> Driver:
        """Return the driver itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the driver."""
        self.close()

    def _key(
        self, module: SpirvModule, plan: BindingPlan, specialization: Specialization, workgroup: tuple[int, int, int]
    ) -> PipelineCacheKey:
        reflection = module.reflection
        flags = PipelineFeatureFlags(0)
        if any(capability in SUBGROUP_CAPABILITIES for capability in reflection.capabilities):
            flags |= PipelineFeatureFlags.SUBGROUP_OPS
        if reflection.push_constant_bytes:
            flags |= PipelineFeatureFlags.PUSH_CONSTANTS
        return PipelineCacheKey.new(
            shader_digest(module.code),
            layout_digest(plan),
            reflection.push_constant_bytes,
            workgroup,
            flags,
            BACKEND_ID,
            backend_flavour=self._device.api.flavour,
            specialization=specialization,
            device=self.physical_device,
        )

    def _resolve(self, key: PipelineCacheKey, lookup: CacheLookup, module: SpirvModule) -> bytes:
        """Return the SPIR-V to run: the entry's, or on a miss the module's, which is then stored."""
        if lookup.entry is not None:
            return lookup.entry.spirv
        self.cache.put(key, PipelineEntry(key.manifest, module.code))
        return module.code


class Kernel:
    """A compiled module: called with arrays, it returns arrays. ``trace`` tells of the last call."""

    def __init__(  # noqa: PLR0913 -- made by Driver.compile only, with the parts of its walk
        self,
        driver: Driver,
        reflection: Reflection,
        plan: BindingPlan,
        workgroup: tuple[int, int, int],
        source: PipelineSource,
        trace: Trace,
    ) -> None:
        self._driver = driver
        self._reflection = reflection
        self.plan = plan
        self.workgroup = workgroup
        self._source = source
        self.trace = trace
        self._recorded: OrderedDict[object, RecordedDispatch] = OrderedDict()

    def __call__(
        self,
        *arrays: object,
        groups: Sequence[int] | None = None,
        push: Mapping[str, object] | None = None,
        out_counts: Mapping[str, int] | None = None,
        split: bool = False,
    ) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        """Run the kernel once; one array comes back, or a tuple when the shader writes several.

        Parameters
        ----------
        arrays
            In binding order: read-only buffers, read-write buffers (a copy comes back), and write-only ones unless
            ``out_counts`` or the shader gives their size.
        groups
            Workgroups along x, y, z; None takes one invocation for each element of the largest output.
        push
            Push constants by name, all of them.
        out_counts
            Elements of write-only buffers, by name.
        split
            Submit upload, dispatch and read-back one by one, so that ``trace`` can tell them apart.

        Raises
        ------
        InvalidInput
            2201, InvalidPushConstant 2103, LimitExceeded 2104: if something given does not fit; nothing has run then.
        DeviceOutOfMemory
            1001 if the buffers do not fit into the device's memory.
        KernelCompileFailed
            1004 if the Vulkan driver refuses the module.
        DispatchFailed
            1005 if the device fails or the driver is closed (ForkError 2005: in a forked child).
        """
        arguments = self.plan.check_arguments(arrays, out_counts or {})
        push_words = pack_push_constants(self._reflection.push_constants, self._source.push_constant_bytes, push or {})
        counts = grid(groups, arguments, self.workgroup, self._driver.physical_device.limits)
        with self._driver._lock:  # noqa: SLF001 -- a kernel is the driver's own
            recorded, pipeline_ns = self._recorded_for(arguments, counts)
            outputs, stages = recorded.run(arguments, push_words, split=split)
            self.trace = replace(self.trace, pipeline_ns=pipeline_ns, stages=stages)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _recorded_for(self, arguments: Sequence[BufferArgument], groups: tuple[int, int, int]) -> tuple[RecordedDispatch, int]:
        """Return the recorded dispatch for these sizes and this grid, and the ns its pipeline took if it was made just now."""
        shape = (groups, *(argument.byte_len for argument in arguments))
        found = self._recorded.get(shape)
        if found is not None:
            self._recorded.move_to_end(shape)
            return found, 0
        if len(self._recorded) >= _MAX_RECORDED:
            self._recorded.popitem(last=False)
        made = self._record(arguments, groups)
        self._recorded[shape] = made
        return made, made.pipeline_ns

    def _record(self, arguments: Sequence[BufferArgument], groups: tuple[int, int, int]) -> RecordedDispatch:
        """Record a dispatch; buffers kept for earlier sizes make room, the least recently used first."""
        while True:
            try:
                return RecordedDispatch(self._driver._device, self._source, arguments, groups)  # noqa: SLF001 -- as above
            except DeviceOutOfMemory:
                if not self._recorded:
                    raise
            self._recorded.popitem(last=False)
