# cython: language_level=3, embedsignature=True, binding=True
"""Memory that CUDA has imported, and DLPack capsules of it: both go at any time and on any thread, so that no Python runs then.

A capsule holds its owner until the consumer lets go of what it took out of the capsule, or, where nobody took anything, until
the capsule goes. Consumers let go on any thread, with the GIL or without.

Source: DLPack's "Python Specification": names of capsules, and who calls the deleter.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

cimport cython


cdef extern from "Python.h":
    int Py_IsInitialized() nogil
    void PyErr_Fetch(PyObject** kind, PyObject** error, PyObject** traceback)
    void PyErr_Restore(PyObject* kind, PyObject* error, PyObject* traceback)


cdef extern from "dlpack.h" nogil:
    enum: VYRE_DLPACK_MAJOR
    enum: VYRE_DLPACK_MINOR
    ctypedef struct vyre_dl_type "__typeof__(((vyre_dl_tensor *)0)->dtype)":
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct vyre_dl_tensor:
        void* data
        int32_t device_type
        int32_t device_id
        int32_t axes
        vyre_dl_type dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct vyre_dl_managed:
        vyre_dl_tensor tensor
        void* context
        void (*deleter)(vyre_dl_managed*) noexcept nogil
    ctypedef struct vyre_dl_versioned:
        uint32_t major
        uint32_t minor
        void* context
        void (*deleter)(vyre_dl_versioned*) noexcept nogil
        uint64_t flags
        vyre_dl_tensor tensor


cdef extern from "<unistd.h>" nogil:
    int getpid()


cdef enum:
    MOST_AXES = 64


ctypedef int (*TakesHandle)(void*) noexcept nogil
ctypedef int (*TakesAddress)(unsigned long long) noexcept nogil


@cython.no_gc
cdef class CudaMemory:
    """Device memory as CUDA addresses it, which stays as long as this lives, whatever becomes of Vulkan's buffer and device.

    ``allocation`` is Vulkan's, which stays as long.
    """

    cdef readonly uint64_t address
    cdef object allocation
    cdef uint64_t handle
    cdef uint64_t context
    cdef uint64_t[4] calls
    cdef int pid

    def __init__(self, uint64_t address, uint64_t handle, uint64_t context, tuple calls not None, allocation):
        """Take over what was mapped and imported.

        ``calls`` are the addresses of cuCtxPushCurrent, cuMemFree, cuDestroyExternalMemory and cuCtxPopCurrent.
        """
        cdef int place
        for place in range(4):
            self.calls[place] = calls[place]
        self.allocation = allocation
        self.handle, self.context, self.address = handle, context, address
        self.pid = getpid()

    def __dealloc__(self):
        """Give it back; not in a forked child, where CUDA cannot be called. Once CUDA was shut down the calls do nothing."""
        cdef void* popped
        if self.handle == 0 or self.pid != getpid():
            return
        with nogil:
            if (<TakesHandle> self.calls[0])(<void*> self.context) == 0:
                (<TakesAddress> self.calls[1])(self.address)
                (<TakesHandle> self.calls[2])(<void*> self.handle)
                (<TakesHandle> self.calls[3])(&popped)


# One allocation: what the capsule points to, and the room for shape and strides behind it.
cdef struct Plain:
    vyre_dl_managed managed
    int64_t[128] lengths


cdef struct Versioned:
    vyre_dl_versioned managed
    int64_t[128] lengths


cdef void let_go(void* owner) noexcept nogil:
    """Drop the owner; at the end of the process, when Python is gone, there is nothing left to drop."""
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object> owner)


cdef void delete_plain(vyre_dl_managed* managed) noexcept nogil:
    let_go(managed.context)
    free(managed)


cdef void delete_versioned(vyre_dl_versioned* managed) noexcept nogil:
    let_go(managed.context)
    free(managed)


cdef void drop_untaken(object capsule) noexcept:
    """Delete what nobody has taken out of a capsule: a consumer that takes it renames the capsule."""
    cdef PyObject* kind
    cdef PyObject* error
    cdef PyObject* traceback
    PyErr_Fetch(&kind, &error, &traceback)
    if PyCapsule_IsValid(capsule, "dltensor"):
        delete_plain(<vyre_dl_managed*> PyCapsule_GetPointer(capsule, "dltensor"))
    elif PyCapsule_IsValid(capsule, "dltensor_versioned"):
        delete_versioned(<vyre_dl_versioned*> PyCapsule_GetPointer(capsule, "dltensor_versioned"))
    PyErr_Restore(kind, error, traceback)


cdef int describe(
    vyre_dl_tensor* tensor, int64_t* lengths, uintptr_t address, tuple device, tuple dtype, tuple shape
) except -1:
    """Write down an array that lies in one piece, with the last axis fastest. The address is of its first byte."""
    cdef int axes = len(shape)
    cdef int64_t step = 1
    cdef int axis
    tensor.data = <void*> address
    tensor.device_type, tensor.device_id = device
    tensor.axes = axes
    tensor.dtype.code, tensor.dtype.bits = dtype
    tensor.dtype.lanes = 1
    tensor.shape = lengths
    tensor.strides = lengths + MOST_AXES
    for axis in reversed(range(axes)):
        lengths[axis] = shape[axis]
        lengths[MOST_AXES + axis] = step
        step *= max(lengths[axis], <int64_t> 1)
    return 0


def capsule_at(owner, uintptr_t address, tuple device not None, tuple dtype not None, tuple shape not None, bint versioned):
    """Return a capsule of an array in somebody's memory, which ``owner`` keeps there.

    Parameters
    ----------
    address
        Where the first element is; 0 where there is none.
    device
        DLPack's device: its type, and which one.
    dtype
        DLPack's code of the elements, and their bits.
    versioned
        Whether the consumer said that it knows versions, from 1.0 on.
    """
    cdef Plain* plain
    cdef Versioned* numbered
    if len(shape) > MOST_AXES:
        raise ValueError(f"{len(shape)} axes, and at most {MOST_AXES} are described")
    if versioned:
        numbered = <Versioned*> calloc(1, sizeof(Versioned))
        if numbered == NULL:
            raise MemoryError
        try:
            describe(&numbered.managed.tensor, numbered.lengths, address, device, dtype, shape)
            numbered.managed.major, numbered.managed.minor = VYRE_DLPACK_MAJOR, VYRE_DLPACK_MINOR
            numbered.managed.context, numbered.managed.deleter = <void*> owner, delete_versioned
            made = PyCapsule_New(numbered, "dltensor_versioned", drop_untaken)
        except BaseException:
            free(numbered)
            raise
    else:
        plain = <Plain*> calloc(1, sizeof(Plain))
        if plain == NULL:
            raise MemoryError
        try:
            describe(&plain.managed.tensor, plain.lengths, address, device, dtype, shape)
            plain.managed.context, plain.managed.deleter = <void*> owner, delete_plain
            made = PyCapsule_New(plain, "dltensor", drop_untaken)
        except BaseException:
            free(plain)
            raise
    Py_INCREF(owner)
    return made
