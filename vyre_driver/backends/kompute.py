"""kompute as a backend: a ``Driver`` behind the interface that all backends have.

It takes SPIR-V modules and programs. Every field of a ``DispatchConfig`` holds or is refused: a workgroup size of programs, and
where specialization constants decide it, iterations by running on buffers that stay on the device, a time-out over all of them.
"""

from __future__ import annotations

import operator
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from vyre_driver.backends.base import Backend, BackendFacts, BackendRequest, LoadedArtifact, TimedDispatch, core_supported_ops
from vyre_driver.binding.arguments import BufferArgument, as_array
from vyre_driver.checks import is_whole, items_of
from vyre_driver.driver import Driver
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.kompute._kp import load_kompute
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.device import BACKEND_ID
from vyre_driver.kompute.elements import checked_dtype
from vyre_driver.specialization.resolve import named_values
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.target.config import DispatchConfig, ProgramConfig, check_config, check_output_bytes, output_byte_len
from vyre_driver.target.profile import DeviceProfile
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.layer.enable import wanted_features
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.ir.program import Program
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.specialization.values import SpecMap

_NS_PER_S = 1_000_000_000
_MAX_KERNELS = 64  # of one artifact, each with what its configuration decides
# Of the default set some nodes do not become SPIR-V, for want of something that kompute or SPIR-V has not.
LOWERED_OPS = core_supported_ops() - {"vyre.node.indirect_dispatch", "vyre.node.async_load", "vyre.node.async_wait"}


class KomputeBackend(Backend):
    """A Vulkan device through kompute. ``driver`` is what does the work, and may be used beside."""

    id = BACKEND_ID

    def __init__(self, driver: Driver) -> None:
        """Take over a driver; ``close`` closes it."""
        self.driver = driver
        self.version = driver.context.device.api.flavour
        self._profile = DeviceProfile.from_physical_device(driver.device, driver.context.device.features, backend=BACKEND_ID)

    @classmethod
    def open(cls, request: BackendRequest) -> KomputeBackend:
        """Return the backend on the device that is asked for; raises as ``Driver``."""
        return cls(Driver(request.device, allow_software=request.allow_software))

    @property
    def profile(self) -> DeviceProfile:
        """What the device can do with the features that are switched on."""
        return self._profile

    @property
    def supported_ops(self) -> frozenset[str]:
        """What is lowered to SPIR-V."""
        return LOWERED_OPS

    @property
    def program_profile(self) -> DeviceProfile:
        """What programs may ask for: what the device has, and 64 bits and halves whatever it has (docs/lowering.md)."""
        return self._profile.of_lowered_programs()

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """``maxComputeWorkGroupCount``."""
        return self.driver.device.limits.max_compute_work_group_count

    @property
    def supports_subgroup_sizes(self) -> bool:
        """True: what the device does not offer is refused where a kernel is compiled."""
        return True

    @property
    def supports_resident_buffers(self) -> bool:
        """``Driver.buffer`` and ``Driver.empty``."""
        return True

    @property
    def supports_async_compute(self) -> bool:
        """Whether its queue family computes and does not draw."""
        family = self.driver.device.compute_family
        return family is not None and family.compute_only

    @property
    def device_lost(self) -> bool:
        """Whether the device was lost, as far as the layer has seen."""
        return self.driver.context.device.is_lost

    def load(
        self,
        artifact: object,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,
        config: DispatchConfig | None = None,
    ) -> KomputeArtifact:
        """Compile a module or a program; raises as ``Driver.compile``, and for fields of a config that it cannot honour."""
        if not (isinstance(artifact, SpirvModule) or _is_program(artifact)):
            self.refuse(
                f"way to run something of type {type(artifact).__name__}",
                "give a Program, or a SpirvModule (SpirvModule.from_file, from_bytes or from_glsl)",
            )
        return KomputeArtifact(self, artifact, {} if constants is None else named_values(constants), config)

    def dispatch(
        self,
        artifact: object,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,
        push_constants: Mapping[str, object] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Compile, or fetch from the cache, and run; ``load`` first what is run again."""
        return self.load(artifact, constants=constants, config=config).dispatch(inputs, push_constants=push_constants)

    def allocate_resident(self, byte_len: int, dtype: DTypeLike = np.uint8) -> Buffer:
        """Return ``Driver.empty`` of so many bytes."""
        kind = checked_dtype(dtype)
        if not is_whole(byte_len) or byte_len < 1 or byte_len % kind.itemsize:
            raise InvalidInput(
                f"{byte_len!r} bytes are not a whole number of {kind}, one or more",
                fix=f"ask for a multiple of {kind.itemsize}",
            )
        return self.driver.empty(operator.index(byte_len) // kind.itemsize, kind)

    def upload_resident(self, buffer: Buffer, data: object) -> None:
        """Copy the bytes of an array into it; raises as ``Buffer.write``."""
        given = as_array(data, "a resident buffer")
        if given.dtype.hasobject:
            raise InvalidInput(f"a resident buffer got {type(data).__name__}, not numbers", fix="give an array of numbers")
        self._own(buffer).write(np.ascontiguousarray(given).reshape(-1).view(np.uint8).data)

    def download_resident(self, buffer: Buffer, start: int = 0, end: int | None = None) -> bytes:
        """Return some of its bytes; raises as ``Buffer.read``, and InvalidInput for bytes that it has not."""
        size = self._own(buffer).nbytes
        until = size if end is None else end
        if not (is_whole(start) and is_whole(until) and 0 <= start <= until <= size):
            raise InvalidInput(
                f"bytes {start!r} to {end!r} of a resident buffer of {size} bytes", fix=f"give 0 <= start <= end <= {size}"
            )
        return buffer.read().reshape(-1).view(np.uint8)[start:until].tobytes()

    def free_resident(self, buffer: Buffer) -> None:
        """Close it."""
        self._own(buffer).close()

    def _own(self, buffer: object) -> Buffer:
        """Return the buffer, if it is one of this backend's; raises InvalidInput."""
        if not isinstance(buffer, Buffer) or buffer.device is not self.driver.context.device:
            is_buffer = isinstance(buffer, Buffer)
            got = "a resident buffer of another backend" if is_buffer else f"something of type {type(buffer).__name__}"
            raise InvalidInput(
                f"{got} where one of this backend's buffers goes", fix="give what its allocate_resident returned"
            )
        return buffer

    def dispatch_resident(
        self,
        loaded: LoadedArtifact,
        buffers: Sequence[Buffer],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> TimedDispatch:
        """Run what ``load`` gave on ``Buffer`` objects, one for each binding."""
        if not isinstance(loaded, KomputeArtifact) or loaded.backend is not self:
            raise InvalidInput("what is dispatched was not loaded by this backend", fix="pass what its load returned")
        named = items_of(buffers)
        if named is None:
            raise InvalidInput(f"buffers are of type {type(buffers).__name__}", fix="pass a list of resident buffers")
        began = time.perf_counter_ns()
        chosen = loaded.config if config is None else config
        kernel = loaded.kernel_for(chosen)
        times = _run_bound(kernel, named, chosen, push_constants)
        return TimedDispatch((), time.perf_counter_ns() - began, *times)

    def metrics(self) -> dict[str, int | float]:
        """Return the layer's counters."""
        return dict(self.driver.context.device.counters())

    def close(self) -> None:
        """Close the driver."""
        self.driver.close()


class KomputeArtifact(LoadedArtifact):
    """A compiled artifact; what a dispatch overrides that decides the code is compiled when it is first asked for."""

    backend: KomputeBackend

    def __init__(
        self,
        backend: KomputeBackend,
        artifact: SpirvModule | Program,
        constants: dict[str, object],
        config: DispatchConfig | None,
    ) -> None:
        """Compile it; made by ``KomputeBackend.load``."""
        super().__init__(backend, "", config)
        self._artifact = artifact
        self._specs = constants
        self._kernels: dict[DispatchConfig, Kernel] = {}
        self.id = self.kernel_for(self.config).trace.key

    def kernel_for(self, config: DispatchConfig) -> Kernel:
        """Return the kernel that honours this config; raises for fields that it cannot honour."""
        check_config(self.backend, config)
        artifact, size = self._artifact, config.workgroup_override
        is_module = isinstance(artifact, SpirvModule)
        decides = DispatchConfig(
            workgroup_override=size,
            ulp_budget=None if is_module else config.ulp_budget,
            subgroup_size=config.subgroup_size,
        )
        if isinstance(config, ProgramConfig):
            if is_module:
                self.backend.refuse("way to lower a module, whose code is finished", "give a DispatchConfig")
            decides = ProgramConfig(**asdict(decides), floats=config.floats, bounds=config.bounds)
        if decides not in self._kernels:
            result = (
                self._of_module(artifact, decides) if isinstance(artifact, SpirvModule) else self._of_program(artifact, decides)
            )
            if len(self._kernels) >= _MAX_KERNELS:
                del self._kernels[next(iter(self._kernels))]
            self._kernels[decides] = result
        return self._kernels[decides]

    def _of_module(self, module: SpirvModule, config: DispatchConfig) -> Kernel:
        size, kept = config.workgroup_override, replace(config, workgroup_override=None)
        kernel = self.backend.driver.compile(module, self._specs | _size_constants(module, size), kept)
        if size is not None and kernel.workgroup_size != size:
            fixed = "x".join(map(str, kernel.workgroup_size))
            self.backend.refuse(
                f"way to keep workgroup_override {size}: the module's workgroups are {fixed}, which no constant decides",
                "leave workgroup_override out, or give the module a local_size_x_id (and y, z)",
            )
        return kernel

    def _of_program(self, program: Program, config: DispatchConfig) -> Kernel:
        """Compile a program; without a ``config`` that changes its code the key is the driver's own."""
        from vyre_driver.backends.validate import validate_program  # late: most users need no programs

        validate_program(self.backend, program, config, self.backend.program_profile)
        return self.backend.driver.compile(program, self._specs, None if config == DispatchConfig() else config)

    def dispatch(
        self,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Run it, in one submission where it runs once."""
        chosen = self.config if config is None else config
        kernel = self.kernel_for(chosen)
        if (chosen.fixpoint_iterations or 1) > 1 and not self.backend.driver.strict:
            return self.dispatch_timed(inputs, chosen, push_constants=push_constants).outputs
        inputs, push_constants = _split(kernel, inputs, push_constants)
        check_output_bytes(chosen, output_byte_len(kernel.plan.check_arguments(inputs, {})))
        return _run_calls(kernel, inputs, chosen, push_constants)

    def dispatch_timed(
        self,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> TimedDispatch:
        """Run it on resident buffers, so that submission, waiting and device time are measured apart; not for strict calls."""
        began = time.perf_counter_ns()
        chosen = self.config if config is None else config
        kernel = self.kernel_for(chosen)
        inputs, push_constants = _split(kernel, inputs, push_constants)
        arguments = kernel.plan.check_arguments(inputs, {})
        check_output_bytes(chosen, output_byte_len(arguments))
        if self.backend.driver.strict:
            outputs = _run_calls(kernel, inputs, chosen, push_constants)
            return TimedDispatch(outputs, time.perf_counter_ns() - began)
        buffers = [self.backend.driver.buffer(_contents(one)) for one in arguments]
        times = _run_bound(kernel, buffers, chosen, push_constants)
        written = [one for one, argument in zip(buffers, arguments, strict=True) if argument.binding.role.produces_output]
        outputs = tuple(kernel.source.rules.trimmed([one.read() for one in written]))
        return TimedDispatch(outputs, time.perf_counter_ns() - began, *times)


def probe(request: BackendRequest) -> BackendFacts:
    """Return the facts of the device that would be opened; looks at the loader's devices and opens none.

    Raises
    ------
    VyreError
        What ``Driver`` raises where there is no kompute, or no such device.
    """
    load_kompute()  # without which no device can be opened
    device = select_device(enumerate_devices(), request.device, allow_software=request.allow_software)
    profile = DeviceProfile.from_physical_device(device, wanted_features(device), backend=BACKEND_ID)
    return BackendFacts(profile, device.name, device.is_software)


def _is_program(artifact: object) -> TypeGuard[Program]:
    from vyre_driver.ir.program import Program  # late: most users need no programs

    return isinstance(artifact, Program)


def _size_constants(module: SpirvModule, size: tuple[int, int, int] | None) -> dict[str, object]:
    """Return the specialization constants that make the workgroups of a module this size."""
    if size is None:
        return {}
    reflection = module.runnable.reflection
    names = {one.spec_id: one.name for one in reflection.spec_constants}
    axes = zip(reflection.local_size, size, strict=True)
    return {names[axis.spec_id]: wanted for axis, wanted in axes if axis.spec_id is not None and axis.formula is None}


def _split(
    kernel: Kernel, inputs: Sequence[object], push_constants: Mapping[str, object] | None
) -> tuple[Sequence[object], Mapping[str, object] | None]:
    """Return the arrays and the push constants of a dispatch; what a program pushes is among its inputs."""
    if kernel.plan.subject != "program":
        return inputs, push_constants
    from vyre_driver.binding.pushed import check_unnamed, split_inputs  # late: most users need no programs

    check_unnamed(kernel.plan, push_constants)
    return split_inputs(kernel.plan, inputs)


def _contents(argument: BufferArgument) -> NDArray[Any]:
    return np.zeros(argument.shape, argument.dtype) if argument.data is None else argument.data


def _run_calls(
    kernel: Kernel, inputs: Sequence[object], config: DispatchConfig, push_constants: Mapping[str, object] | None
) -> tuple[NDArray[Any], ...]:
    """Call the kernel ``fixpoint_iterations`` times, each time on what the last one made of its read-write buffers."""
    given = list(inputs)
    deadline = Deadline(config.timeout, "the device")
    outputs: tuple[NDArray[Any], ...] = ()
    for _ in range(config.fixpoint_iterations or 1):
        arguments = kernel.plan.check_arguments(given, {})
        _check_whole(arguments, config)
        left_ns = deadline.left_ns()
        timeout = None if left_ns is None else left_ns / _NS_PER_S
        returned = kernel(
            *given, workgroups=config.grid_override, push_constants=push_constants, timeout=timeout, label=config.label
        )
        outputs = returned if isinstance(returned, tuple) else (returned,)
        written = [one for one in arguments if one.binding.role.produces_output]
        for argument, output in zip(written, outputs, strict=True):
            if argument.position is not None:
                given[argument.position] = output
    return outputs


def _check_whole(arguments: Sequence[BufferArgument], config: DispatchConfig) -> None:
    """Check that one call gives back all that the next one needs."""
    cut = next((one.binding.name for one in arguments if one.binding.output_byte_range is not None), None)
    if cut is not None and (config.fixpoint_iterations or 1) > 1:
        raise UnsupportedFeature(
            f"a strict driver does not keep fixpoint_iterations {config.fixpoint_iterations}: of {cut!r} only an output range "
            "comes back",
            fix="leave the range out, or use a driver that is not strict",
            feature="fixpoint_iterations",
            backend=BACKEND_ID,
        )


def _run_bound(
    kernel: Kernel, buffers: Sequence[Any], config: DispatchConfig, push_constants: Mapping[str, object] | None
) -> tuple[int, int, int | None]:
    bound = kernel.bind(*buffers, workgroups=config.grid_override, push_constants=push_constants, label=config.label)
    times = bound.run_timed(config.fixpoint_iterations or 1, config.timeout)
    return times.enqueue_ns, times.wait_ns, times.device_ns
