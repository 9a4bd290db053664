# cython: language_level=3, embedsignature=True, binding=True
"""The Python interface of the vyre Vulkan layer, in the shared object that the loader opens as the layer.

What the loader and kompute do through the layer is done on the thread that armed it; the functions here read and write that
thread's state. A LayerDevice stays valid after its VkDevice has gone, and then says so.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, getenv
from libc.string cimport memcpy, memmove, memset

from typing import NamedTuple

cimport cython
from vyre_driver.process._lock cimport CallLock


cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"


cdef extern from "<sys/auxv.h>":
    unsigned long getauxval(unsigned long type)
    enum: AT_SECURE


cdef extern from "Python.h":
    int PyGC_Enable()
    int PyGC_Disable()


cdef extern from "layer.h" nogil:
    ctypedef int32_t VkResult
    ctypedef struct VkFence_T:
        pass
    ctypedef VkFence_T* VkFence
    ctypedef struct VkBuffer_T:
        pass
    ctypedef VkBuffer_T* VkBuffer
    enum: VK_SUCCESS
    enum: VK_TIMEOUT
    enum: VK_ERROR_DEVICE_LOST
    enum: VYRE_LOOP_CUT
    enum: VYRE_COUNTER_COUNT
    enum: VYRE_CALL_COUNT
    enum: VYRE_CALL_NONE
    enum: VYRE_MAX_EXTENSIONS
    enum: VYRE_EXTENSION_CHARS
    ctypedef struct vyre_config:
        uint32_t api_version
        uint8_t[16] device_uuid
        uint64_t features
        uint32_t extension_count
        char[16][64] extensions
        uint64_t poll_ns
        uint64_t memory_cache_bytes
    ctypedef struct vyre_failure:
        int32_t call
        int32_t result
        uint64_t bytes
    ctypedef struct vyre_pipeline_facts:
        c_bool created
        c_bool shared
        c_bool feedback
        c_bool cache_hit
        uint64_t compile_ns
    ctypedef struct vyre_device:
        uint8_t[16] device_uuid
        vyre_config config
        uint32_t upload_types
        uint32_t readback_types
    ctypedef struct vyre_range:
        uint64_t offset
        uint64_t bytes
    ctypedef struct vyre_range_of:
        VkBuffer buffer
        vyre_range range
    ctypedef struct vyre_bound:
        pass
    ctypedef struct vyre_thread:
        vyre_failure failure
        uint64_t buffer_bytes
        c_bool is_stand_in
        c_bool want_export
        uint32_t wanted_types
        uint64_t storage_bytes
        c_bool detach_waits
        VkFence detached_fence
        const vyre_range_of* parts
        uint32_t part_count
        uint32_t parts_written
        uint32_t parts_missed
        uint32_t group
        c_bool device_only
        const void* copies
        uint32_t starts_clock
        uint32_t stops_clock
        const void* blob_in
        size_t blob_in_bytes
        c_bool want_blob
        uint32_t subgroup_size
        void* blob_out
        size_t blob_out_bytes
        vyre_pipeline_facts pipeline
        vyre_bound bound
    vyre_thread* vyre_this_thread()
    ctypedef struct vyre_use:
        c_bool closed
    c_bool vyre_use_init(vyre_use* use)
    void vyre_use_destroy(vyre_use* use)
    c_bool vyre_use_begin(vyre_use* use)
    void vyre_use_end(vyre_use* use)
    c_bool vyre_use_is_mine(const vyre_use* use)
    void vyre_use_close(vyre_use* use)
    c_bool vyre_use_wait(vyre_use* use, uint64_t timeout_ns)
    void vyre_drop_bound(vyre_device* device, const vyre_bound* bound, uint64_t launch)
    void vyre_begin_making(vyre_thread* outer)
    void vyre_end_making(const vyre_thread* outer)
    c_bool vyre_arm(const vyre_config* config)
    c_bool vyre_tell_loader(const char* path_variable, const char* directory, const char* name_variable)
    void vyre_loader_knows()
    vyre_device* vyre_disarm()
    void vyre_release(vyre_device* device)
    void vyre_inject(int call, uint64_t countdown, int32_t result)
    int vyre_feature_index(const char* name)
    uint64_t vyre_counter_value(vyre_device* device, int counter)
    c_bool vyre_is_lost(vyre_device* device)
    c_bool vyre_is_alive(vyre_device* device)
    VkResult vyre_wait_fence(vyre_device* device, VkFence fence, uint64_t slice_ns)
    VkResult vyre_finish(vyre_device* device, VkFence* fence, uint64_t slice_ns)
    VkResult vyre_submit_marker(vyre_device* device, VkFence* out)
    void vyre_give_fence_back(vyre_device* device, VkFence fence)
    c_bool vyre_give_fence_back_within(vyre_device* device, VkFence fence, uint64_t most_ns)
    void vyre_abandon_fence(vyre_device* device, VkFence fence)
    void vyre_collect_abandoned(vyre_device* device)
    void vyre_watch()
    void vyre_destroy_watched(vyre_device* device)
    enum vyre_counter:
        VYRE_MEMORY_REUSED
        VYRE_MEMORY_FLUSHES
    void vyre_count(vyre_device* device, vyre_counter counter, int64_t by)
    VkResult vyre_wait_idle(vyre_device* device)


LAYER_NAME = "VK_LAYER_VYRE_driver"
LOOP_CUT = <int> VYRE_LOOP_CUT  # a VkResult of ours: the work has ended, and the driver has cut a loop of it

# In the order of enum vyre_counter and enum vyre_call.
COUNTERS = (
    "fences_created", "fences_reused", "waits_polled", "waits_blocked", "memory_allocated", "memory_reused",
    "memory_live_bytes", "memory_cached_bytes", "memory_peak_bytes", "memory_flushes", "barriers_added",
    "pipelines_created", "pipelines_shared", "blobs_given", "blobs_taken", "features_enabled", "work_pending",
    "failures_recorded", "command_pools_created", "command_pools_reused",
)
CALLS = ("none", "allocate", "map", "bind", "create_buffer", "submit", "wait", "create_pipeline", "bind_buffers",
         "export")
if (len(COUNTERS), len(CALLS)) != (VYRE_COUNTER_COUNT, VYRE_CALL_COUNT):
    raise ImportError("counters or calls have not the names that hooks.h counts")

# How long a blocked wait stays away from Python's signal handlers.
cdef uint64_t SLICE_NS = 50_000_000


class Failure(NamedTuple):
    """A VkResult below 0 that kompute ignored: which call, which result, and the bytes an allocation asked for."""

    call: str
    result: int
    bytes: int


include "statistics.pxi"


class PipelineFacts(NamedTuple):
    """What the last pipeline creation of this thread was.

    ``cache_hit``: whether the driver found the pipeline in the blob that it was given; None where it does not tell. Drivers
    say so of their own cache as well: without a blob it is not a hit. ``executables``: what it tells of the code, where the
    device is open with pipelineExecutableInfo; else, and where it tells nothing, empty.
    """

    created: bool
    shared: bool
    cache_hit: bool | None
    compile_ns: int
    blob: bytes | None
    executables: tuple[PipelineExecutable, ...] = ()


include "opening.pxi"


cdef object as_failure(vyre_failure noted):
    return None if noted.call == VYRE_CALL_NONE else Failure(CALLS[noted.call], noted.result, noted.bytes)


def call_and_note(call, argument):
    """Call ``call(argument)``, which calls kompute.

    Returns three things: its result, the RuntimeError that it raised, the first failure that the layer noted on this thread
    meanwhile; None for what there is not.
    """
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure before = thread.failure
    cdef vyre_failure noted
    made = error = None
    thread.failure.call = VYRE_CALL_NONE
    try:
        made = call(argument)
    except RuntimeError as raised:
        error = raised
    finally:
        noted = thread.failure
        thread.failure = before
    return made, error, as_failure(noted)


include "exported.pxi"


def inject(str call not None, uint64_t nth, int32_t result) -> None:
    """Make the ``nth`` call from now fail with a VkResult (0: none), in this process, whichever thread makes it.

    A debugging aid: what an exhausted device or a lost one does to a program can be tried without one.
    """
    vyre_inject(CALLS.index(call), nth, result)


def environment_variable(bytes name not None) -> bytes | None:
    """Return a variable of the process's environment as C code sees it now; ``os.environ`` is Python's copy of it."""
    cdef const char* value = getenv(PyBytes_AS_STRING(name))
    return None if value == NULL else <bytes> value


def is_elevated() -> bool:
    """Return whether this process has rights that its user has not, from its program's file: the loader trusts it less then."""
    return getauxval(AT_SECURE) != 0


include "forks.pxi"
include "pipelines.pxi"


cdef class LayerDevice:
    """A device that the layer looks after."""

    cdef vyre_device* device

    def __dealloc__(self):
        if self.device != NULL:
            vyre_release(self.device)

    @property
    def device_uuid(self) -> bytes:
        """The deviceUUID of the physical device that kompute opened."""
        return <bytes> (<char*> self.device.device_uuid)[:16]

    @property
    def is_lost(self) -> bool:
        """Whether VK_ERROR_DEVICE_LOST was seen; it stays so."""
        return vyre_is_lost(self.device)

    @property
    def is_alive(self) -> bool:
        """Whether the VkDevice exists."""
        return vyre_is_alive(self.device)

    def counters(self) -> dict[str, int]:
        """Return the layer's counters for this device."""
        return {name: <int64_t> vyre_counter_value(self.device, i) for i, name in enumerate(COUNTERS)}

    def wait_for_submitted(self, timeout_ns=None) -> Failure | None:
        """Wait without the GIL until all that was submitted before has ended, by whichever thread; returns what failed.

        With ``timeout_ns`` so long at most: VK_TIMEOUT (2) is a failure then. The caller keeps the device from being closed.
        Signals are handled meanwhile: Ctrl-C raises out of here and leaves the work running.
        """
        cdef bint forever = timeout_ns is None
        cdef uint64_t left = 0 if forever else timeout_ns
        cdef uint64_t slice_ns
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        cdef vyre_failure noted
        cdef VkFence fence = NULL
        cdef VkResult result = VK_TIMEOUT
        vyre_collect_abandoned(self.device)
        thread.failure.call = VYRE_CALL_NONE
        vyre_submit_marker(self.device, &fence)
        noted = thread.failure
        thread.failure = before
        if fence == NULL:
            return as_failure(noted)
        try:
            while True:
                PyErr_CheckSignals()
                slice_ns = SLICE_NS if forever or left > SLICE_NS else left
                with nogil:
                    result = vyre_wait_fence(self.device, fence, slice_ns)
                    if result != VK_TIMEOUT:
                        vyre_give_fence_back(self.device, fence)
                if result != VK_TIMEOUT or (not forever and left <= SLICE_NS):
                    break
                if not forever:
                    left -= SLICE_NS
        finally:
            thread.failure = before  # the result tells
            if result == VK_TIMEOUT:
                vyre_abandon_fence(self.device, fence)
        return None if result >= VK_SUCCESS and result != VK_TIMEOUT else Failure("wait", result, 0)

    def wait_idle(self) -> int:
        """Wait without the GIL until nothing submitted runs any more; returns a VkResult. Nobody may submit meanwhile.

        Signals are handled meanwhile: Ctrl-C raises out of here and leaves the work running.
        """
        cdef VkResult result
        self.wait_for_submitted()  # in slices; what failed, vkDeviceWaitIdle says once more
        with nogil:
            result = vyre_wait_idle(self.device)
        return result

include "moved.pxi"
include "unfinished.pxi"
include "arena.pxi"
include "work.pxi"
include "clocks.pxi"
include "intervals.pxi"
include "transfer.pxi"
include "launches.pxi"
include "runs.pxi"
include "taken.pxi"
include "host_copy.pxi"
include "host_memory.pxi"
include "mover.pxi"
