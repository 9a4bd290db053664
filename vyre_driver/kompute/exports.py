"""Memory of a device that other libraries look at without a copy, through DLPack.

Closing the driver must not take away what somebody still looks at: what was exported holds kompute's Manager, which then goes
with the last of it.

Source: DLPack's Python protocol (2024.12), "C API" and "Python Specification".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import CopyNeeded
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.elements import dlpack_type
from vyre_driver.kompute.submission import wait_for_earlier_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.kompute.cuda import Gpu
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.memory import TensorBuffer

ON_CPU = 1
ON_VULKAN = 7
"""DLPack's kDLCPU and kDLVulkan."""
_FIRST_WITH_VERSIONS = (2, 1)  # of numpy
_OF_ANOTHER_PACKAGE = 2  # numpy.dtype.isbuiltin of bfloat16 and 8-bit floats
_NO_WAIT = -1  # a stream, by DLPack's Python protocol


class Export:
    """Bytes of mapped memory, which stay as long as this lives: the base of the arrays that are made of them."""

    __slots__ = ("__array_interface__", "__weakref__", "_memory", "kept")

    def __init__(self, memory: TensorBuffer, data: NDArray[np.uint8]) -> None:
        """Hold the memory; ``data`` are those bytes."""
        self._memory = memory
        self.__array_interface__ = data.__array_interface__
        self.kept: object = None
        """What else has to stay: the Manager of a device that was closed since."""


def sharing_gpu(device: KomputeDevice, share: str | None) -> Gpu | None:
    """Return where a buffer is to be shared with what ``share`` names, None for nobody; raises as ``cuda.gpu_of``."""
    if share is None:
        return None
    from vyre_driver.kompute.cuda import gpu_of  # late: most share nothing

    return gpu_of(device, share)


def device_of(buffer: Buffer, gpu: Gpu | None) -> tuple[int, int]:
    """Return DLPack's device of a buffer: the GPU where CUDA shares it, the CPU where the host sees the memory, else Vulkan."""
    if gpu is not None:
        return gpu.dlpack_device
    return (ON_CPU, 0) if buffer.device.shares_memory else (ON_VULKAN, buffer.device.physical.index)


def capsule_of(  # noqa: PLR0913 -- the protocol's, and where CUDA sees the buffer
    buffer: Buffer,
    gpu: Gpu | None,
    stream: object,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,  # noqa: FBT001 -- as the protocol has it
) -> object:
    """Return a buffer as a DLPack capsule, in the memory of the CPU unless CUDA shares it; raises as ``Buffer.__dlpack__``."""
    device = buffer.device
    if gpu is not None and (copy is not True if dl_device is None else tuple(dl_device) == gpu.dlpack_device):
        if copy is True:
            raise CopyNeeded(
                f"{buffer.described} is not copied for CUDA", fix="leave copy=True out, and copy what was made of it"
            )
        return _cuda_capsule(buffer, gpu, stream, max_version)
    is_elsewhere = dl_device is not None and tuple(dl_device) != (ON_CPU, 0)
    may_copy = copy is not False and (copy is True or dl_device is not None)
    if is_elsewhere or not (may_copy or device.shares_memory):
        where = f"DLPack device {dl_device}" if is_elsewhere else "the CPU"
        raise CopyNeeded(
            f"{buffer.described} cannot be given to {where} without a copy",
            fix="copy it with numpy.asarray(buffer) or buffer.read(), or ask for copy=True and dl_device=(1, 0)",
        )
    if copy is True or not device.shares_memory or not buffer.nbytes:
        return _capsule(buffer.read(), max_version)
    with device.in_use:
        wait_for_earlier_work(device, Deadline(None, device.physical.name))
        held = Export(buffer.memory, buffer.memory.visible(buffer.offset, buffer.nbytes))
        device.note_export(held)
    return _capsule(np.asarray(held).view(buffer.dtype).reshape(buffer.shape), max_version)


def _cuda_capsule(buffer: Buffer, gpu: Gpu, stream: object, max_version: tuple[int, int] | None) -> object:
    """Return a capsule of the memory that CUDA shares, once what writes it has ended, unless the stream is -1: not to wait."""
    from vyre_driver.kompute.cuda import cuda_capsule  # late: most share nothing

    device = buffer.device
    buffer.check_open()
    with device.in_use:
        if stream != _NO_WAIT:
            wait_for_earlier_work(device, Deadline(None, device.physical.name))
        memory = buffer.memory.cuda if buffer.nbytes else None
    return cuda_capsule(gpu, memory, buffer.offset, buffer.shape, buffer.dtype, versioned=_is_versioned(max_version))


def _capsule(array: NDArray[Any], max_version: tuple[int, int] | None) -> object:
    """Return the capsule of an array, of the newest version that both sides know; numpy makes none of types that it lacks."""
    code = dlpack_type(array.dtype)
    if code is not None and array.dtype.isbuiltin == _OF_ANOTHER_PACKAGE:
        from vyre_driver.kompute._cuda import capsule_at  # late: most export nothing of these types

        return capsule_at(array, array.ctypes.data, (ON_CPU, 0), code, array.shape, _is_versioned(max_version))
    if max_version is not None and _knows_versions():
        return array.__dlpack__(max_version=max_version)  # type: ignore[call-arg, unused-ignore] # since numpy 2.1
    return array.__dlpack__()


def _is_versioned(max_version: tuple[int, int] | None) -> bool:
    return max_version is not None and max_version[0] >= 1


def _knows_versions() -> bool:
    return tuple(map(int, np.__version__.split(".")[:2])) >= _FIRST_WITH_VERSIONS
