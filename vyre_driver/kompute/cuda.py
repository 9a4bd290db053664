"""Memory of a Vulkan device that CUDA sees too, without a copy: exported by Vulkan, imported by CUDA's driver.

libcuda is opened when a buffer is first shared. It has to see the device that Vulkan opened, known by its UUID. CUDA's primary
context, which PyTorch and CuPy use as well, is kept from then on until the process ends.

Source: the CUDA driver API, "External Resource Interoperability"; DLPack's C API for the numbers of devices and types.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_ubyte, c_uint, c_ulonglong, c_void_p
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, InvalidInput, UnsupportedFeature
from vyre_driver.kompute._cuda import CudaMemory, capsule_at
from vyre_driver.kompute.elements import dlpack_type

if TYPE_CHECKING:
    import numpy as np

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.vulkan.layer._layer import Allocation, ExportedMemory

ON_CUDA = 2
"""DLPack's kDLCUDA."""
_EXTENSION = "VK_KHR_external_memory_fd"
_LIBRARY = "libcuda.so.1"
_OPAQUE_FD, _DEDICATED = 1, 1
_CUDA_ERROR_OUT_OF_MEMORY = 2


class _Handle(ctypes.Union):
    _fields_ = (("fd", c_int), ("names", c_void_p * 2))


class _MemoryDesc(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC."""

    _fields_ = (("type", c_int), ("handle", _Handle), ("size", c_ulonglong), ("flags", c_uint), ("reserved", c_uint * 16))


class _BufferDesc(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = (("offset", c_ulonglong), ("size", c_ulonglong), ("flags", c_uint), ("reserved", c_uint * 16))


_CALLS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetUuid": (POINTER(c_ubyte * 16), c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuImportExternalMemory": (POINTER(c_void_p), POINTER(_MemoryDesc)),
    "cuExternalMemoryGetMappedBuffer": (POINTER(c_ulonglong), c_void_p, POINTER(_BufferDesc)),
    "cuMemFree_v2": (c_ulonglong,),
    "cuDestroyExternalMemory": (c_void_p,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
}


class _CudaFailure(Exception):
    """A call of libcuda's returned a CUresult other than 0."""

    def __init__(self, call: str, result: int, name: str) -> None:
        super().__init__(f"{call} returned {name} ({result})")
        self.result = result


class _Library:
    """libcuda, with calls that raise."""

    def __init__(self, path: str) -> None:
        """Open it; raises OSError, or AttributeError if it is older than what is called."""
        library = ctypes.CDLL(path)
        self._calls = {name: getattr(library, name) for name in _CALLS}
        for name, types in _CALLS.items():
            self._calls[name].argtypes, self._calls[name].restype = types, c_int

    def address(self, name: str) -> int:
        """Return where a function is, for code in C."""
        return ctypes.cast(self._calls[name], c_void_p).value or 0

    def call(self, name: str, *arguments: object) -> None:
        """Raise _CudaFailure if the call fails."""
        result = self._calls[name](*arguments)
        if result:
            said = c_char_p()
            self._calls["cuGetErrorName"](result, byref(said))
            raise _CudaFailure(name, result, (said.value or b"an unknown error").decode())


class Gpu:
    """A GPU that both Vulkan and CUDA see."""

    def __init__(self, library: _Library, ordinal: int) -> None:
        """Retain its primary context; raises _CudaFailure."""
        self.dlpack_device = (ON_CUDA, ordinal)
        """DLPack's device, whose number is CUDA's."""
        self.library = library
        self.context = c_void_p()
        names = ("cuCtxPushCurrent_v2", "cuMemFree_v2", "cuDestroyExternalMemory", "cuCtxPopCurrent_v2")
        self._calls = tuple([library.address(name) for name in names])
        library.call("cuDevicePrimaryCtxRetain", byref(self.context), _device(library, ordinal))

    def import_memory(self, exported: ExportedMemory, allocation: Allocation) -> CudaMemory:
        """Return what Vulkan exported, mapped for CUDA; it holds the allocation.

        Raises
        ------
        DeviceOutOfMemory
            If CUDA says so.
        DispatchFailed
            If CUDA refuses it for another reason.
        """
        try:
            self.library.call("cuCtxPushCurrent_v2", self.context)
            try:
                return CudaMemory(*self._import(exported), self.context.value or 0, self._calls, allocation)
            finally:
                self.library.call("cuCtxPopCurrent_v2", byref(c_void_p()))
        except _CudaFailure as failure:
            what = f"CUDA cannot take the {exported.byte_len} bytes of a buffer ({failure})"
            if failure.result == _CUDA_ERROR_OUT_OF_MEMORY:
                fix = "free buffers, and what other libraries keep on the GPU"
                raise DeviceOutOfMemory(what, fix=fix, requested_bytes=exported.byte_len) from failure
            raise DispatchFailed(what, fix="update the GPU's driver, or leave share out", result=failure.result) from failure

    def _import(self, exported: ExportedMemory) -> tuple[int, int]:
        handle, address = c_void_p(), c_ulonglong()
        fd = exported.take()
        memory = _MemoryDesc(_OPAQUE_FD, _Handle(fd=fd), exported.byte_len, _DEDICATED)
        try:
            self.library.call("cuImportExternalMemory", byref(handle), byref(memory))
        except _CudaFailure:
            os.close(fd)  # CUDA's own only once it is imported
            raise
        try:
            mapped = _BufferDesc(0, exported.byte_len, 0)
            self.library.call("cuExternalMemoryGetMappedBuffer", byref(address), handle, byref(mapped))
        except _CudaFailure:
            self.library.call("cuDestroyExternalMemory", handle)
            raise
        return address.value, handle.value or 0


def gpu_of(device: KomputeDevice, share: object) -> Gpu:
    """Return the GPU that a buffer is shared on with what ``share`` names, which is ``"cuda"``.

    Raises
    ------
    InvalidInput
        If it is something else.
    UnsupportedFeature
        If the device cannot export memory, there is no CUDA, or CUDA does not see the device.
    """
    if share != "cuda":
        raise InvalidInput(
            f"share is {share!r}, and a buffer is shared with 'cuda' or nobody", fix="give share='cuda', or leave it out"
        )
    device.check_usable()
    name = device.physical.name
    if _EXTENSION not in device.physical.extensions:
        raise UnsupportedFeature(
            f"share='cuda' needs {_EXTENSION}, and {name!r} does not have it", fix="leave share out", feature=_EXTENSION
        )
    try:
        return _gpu(_LIBRARY, device.physical.device_uuid, name, os.getpid())
    except OSError as error:
        problem, fix = f"{_LIBRARY} cannot be loaded ({error})", "install NVIDIA's driver with CUDA, or leave share out"
    except AttributeError as error:
        problem, fix = f"{_LIBRARY} is too old ({error})", "update NVIDIA's driver, or leave share out"
    except _CudaFailure as error:
        problem, fix = f"CUDA does not start ({error})", "let nvidia-smi show the GPU, or leave share out"
    raise UnsupportedFeature(f"share='cuda' needs CUDA's driver, and {problem}", fix=fix, feature="cuda")


@functools.cache
def _gpu(path: str, uuid: bytes, name: str, pid: int) -> Gpu:
    """Return the GPU of this UUID; raises what ``gpu_of`` explains, and UnsupportedFeature. The pid tells forks apart."""
    del pid
    library, count, found = _Library(path), c_int(), (c_ubyte * 16)()
    library.call("cuInit", 0)
    library.call("cuDeviceGetCount", byref(count))
    for ordinal in range(count.value):
        library.call("cuDeviceGetUuid", byref(found), _device(library, ordinal))
        if bytes(found) == uuid:
            return Gpu(library, ordinal)
    raise UnsupportedFeature(
        f"share='cuda' needs a GPU that CUDA sees, and none of the {count.value} that it sees is {name!r}, UUID {uuid.hex()}",
        fix="open one that CUDA sees (VYRE_DEVICE, CUDA_VISIBLE_DEVICES), or leave share out",
        feature="cuda",
    )


def _device(library: _Library, ordinal: int) -> c_int:
    found = c_int()
    library.call("cuDeviceGet", byref(found), ordinal)
    return found


def cuda_capsule(  # noqa: PLR0913 -- what a capsule says
    gpu: Gpu, memory: CudaMemory | None, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, versioned: bool
) -> object:
    """Return a DLPack capsule of an array in CUDA's memory, which it keeps; without memory there are no elements.

    The offset is part of the address, since consumers are known that do not look at DLPack's.

    Raises
    ------
    InvalidInput
        If the elements are structures, which DLPack has no type for.
    """
    code = dlpack_type(dtype)
    if code is None:
        raise InvalidInput(
            f"DLPack has no type for elements of {dtype}", fix="share a view of numbers: buffer.view(numpy.uint8)"
        )
    address = 0 if memory is None else memory.address + offset
    return capsule_at(memory, address, gpu.dlpack_device, code, shape, versioned)
