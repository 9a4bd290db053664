# cython: language_level=3, embedsignature=True, binding=True, freethreading_compatible=True
"""Python's face of the vyre Vulkan layer, in the shared object that the loader opens as the layer.

What the loader and kompute do through the layer is done on the thread that armed it; the functions here read and write that
thread's state. A LayerDevice stays valid after its VkDevice has gone, and then says so.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, getenv
from libc.string cimport memcpy, memset

from typing import NamedTuple

cimport cython


cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"


cdef extern from "layer.h" nogil:
    ctypedef int32_t VkResult
    ctypedef struct VkFence_T:
        pass
    ctypedef VkFence_T* VkFence
    ctypedef struct VkBuffer_T:
        pass
    ctypedef VkBuffer_T* VkBuffer
    ctypedef struct VkDeviceMemory_T:
        pass
    ctypedef VkDeviceMemory_T* VkDeviceMemory
    enum: VK_SUCCESS
    enum: VK_TIMEOUT
    enum: VYRE_COUNTER_COUNT
    enum: VYRE_CALL_COUNT
    enum: VYRE_CALL_NONE
    enum: VYRE_MAX_EXTENSIONS
    enum: VYRE_EXTENSION_CHARS
    ctypedef struct vyre_config:
        uint32_t hooks
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
    ctypedef struct vyre_thread:
        vyre_failure failure
        uint64_t exact_bytes
        c_bool want_mapping
        c_bool watched
        VkBuffer storage_buffer
        VkDeviceMemory storage_memory
        VkBuffer staging_buffer
        c_bool detach_waits
        VkFence detached_fence
        uint32_t group
        c_bool device_only
        const void* blob_in
        size_t blob_in_bytes
        c_bool want_blob
        void* blob_out
        size_t blob_out_bytes
        vyre_pipeline_facts pipeline
    vyre_thread* vyre_this_thread()
    void vyre_arm(vyre_config* config)
    vyre_device* vyre_disarm()
    void vyre_release(vyre_device* device)
    void vyre_inject(int call, uint64_t countdown, int32_t result)
    int vyre_feature_index(const char* name)
    uint64_t vyre_counter_value(vyre_device* device, int counter)
    c_bool vyre_is_lost(vyre_device* device)
    c_bool vyre_is_alive(vyre_device* device)
    VkResult vyre_wait_fence(vyre_device* device, VkFence fence, uint64_t slice_ns)
    VkResult vyre_submit_marker(vyre_device* device, VkFence* out)
    void vyre_give_fence_back(vyre_device* device, VkFence fence)
    void* vyre_map_storage(vyre_device* device)
    void vyre_watch()
    void vyre_destroy_watched(vyre_device* device)
    void vyre_trim_memory(vyre_device* device, uint64_t keep_bytes)
    VkResult vyre_wait_idle(vyre_device* device)


LAYER_NAME = "VK_LAYER_VYRE_driver"

# In the order of enum vyre_counter and enum vyre_call.
COUNTERS = (
    "fences_created", "fences_reused", "waits_polled", "waits_blocked", "memory_allocated", "memory_reused",
    "memory_live_bytes", "memory_cached_bytes", "memory_peak_bytes", "memory_flushes", "barriers_added",
    "pipelines_created", "pipelines_shared", "blobs_given", "blobs_taken", "features_enabled", "work_pending",
    "failures_recorded",
)
CALLS = ("none", "allocate", "map", "bind", "create_buffer", "submit", "wait", "create_pipeline")
HOOKS = (
    "pipeline_cache", "fences", "waits", "memory", "features", "results", "barriers", "shared_pipelines",
)

# How long a blocked wait stays away from Python's signal handlers.
cdef uint64_t SLICE_NS = 50_000_000


class Failure(NamedTuple):
    """A VkResult below 0 that kompute ignored: which call, which result, and the bytes an allocation asked for."""

    call: str
    result: int
    bytes: int


class PipelineFacts(NamedTuple):
    """What the last pipeline creation of this thread was.

    ``cache_hit``: whether the driver found the pipeline in the blob that it was given; None where it does not tell. Drivers
    say so of their own cache as well: without a blob it is no hit.
    """

    created: bool
    shared: bool
    cache_hit: bool | None
    compile_ns: int
    blob: bytes | None


cdef class LayerConfig:
    """What the layer does for the instance to come."""

    cdef vyre_config raw

    def __init__(self, *, hooks, uint32_t api_version, bytes device_uuid, features, extensions, uint64_t poll_ns,
                 uint64_t memory_cache_bytes):
        memset(&self.raw, 0, sizeof(self.raw))
        for hook in hooks:
            self.raw.hooks |= 1u << HOOKS.index(hook)
        self.raw.api_version = api_version
        if PyBytes_GET_SIZE(device_uuid) != 16:
            raise ValueError(f"device_uuid has {len(device_uuid)} bytes, not 16")
        memcpy(self.raw.device_uuid, PyBytes_AS_STRING(device_uuid), 16)
        for feature in features:
            index = vyre_feature_index(feature.encode("ascii"))
            if index < 0:
                raise ValueError(f"{feature!r} is no feature the layer knows")
            self.raw.features |= (<uint64_t> 1) << <int> index
        for name in extensions:
            self._add_extension(name.encode("ascii"))
        self.raw.poll_ns = poll_ns
        self.raw.memory_cache_bytes = memory_cache_bytes

    cdef int _add_extension(self, bytes name) except -1:
        if self.raw.extension_count == VYRE_MAX_EXTENSIONS or len(name) >= VYRE_EXTENSION_CHARS:
            raise ValueError(f"extension {name!r} is one too many, or too long")
        memcpy(&self.raw.extensions[self.raw.extension_count][0], PyBytes_AS_STRING(name), len(name))
        self.raw.extension_count += 1
        return 0


def arm(LayerConfig config not None) -> None:
    """Take the next instance and device that this thread creates; ``disarm`` must follow while ``config`` lives."""
    vyre_arm(&config.raw)


def disarm() -> LayerDevice | None:
    """Take no further instances; returns the device created since ``arm``, None when the layer was not loaded."""
    cdef vyre_device* created = vyre_disarm()
    cdef LayerDevice wrapper
    if created == NULL:
        return None
    wrapper = LayerDevice.__new__(LayerDevice)
    wrapper.device = created
    return wrapper


def take_failure() -> Failure | None:
    """Return and forget the first failure on this thread since the last call."""
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure failure = thread.failure
    if failure.call == VYRE_CALL_NONE:
        return None
    thread.failure.call = VYRE_CALL_NONE
    return Failure(CALLS[failure.call], failure.result, failure.bytes)


def set_group(uint32_t group) -> None:
    """Declare what this thread records from now on independent of each other (0: dependent on all before)."""
    vyre_this_thread().group = group


def set_device_only(bint device_only) -> None:
    """Declare that the host reads nothing that what this thread records from now on writes: no barrier to the host."""
    vyre_this_thread().device_only = device_only


def create_buffer(LayerDevice device, make, uint64_t byte_len, bint want_mapping):
    """Call ``make()``, which creates one kompute tensor of which shaders shall see ``byte_len`` bytes.

    Returns its result and, if ``want_mapping`` and the device has memory of its own that the host can write, a memoryview of
    the tensor's device memory (bytes, to be written only: reading it is slow), else None. The view must not outlive the tensor.
    After a failure, for which see ``take_failure``, nothing is left of it: (None, None), or what ``make`` raised.
    """
    cdef vyre_thread* thread = vyre_this_thread()
    cdef void* mapped = NULL
    thread.exact_bytes = byte_len
    thread.want_mapping = want_mapping and device is not None
    thread.storage_buffer = NULL
    thread.storage_memory = NULL
    thread.staging_buffer = NULL
    if device is not None:
        vyre_watch()
    try:
        made = make()
        if device is not None and thread.failure.call != VYRE_CALL_NONE:
            made = None  # kompute destroys what it knows of
            vyre_destroy_watched(device.device)
        elif thread.want_mapping:
            mapped = vyre_map_storage(device.device)
        return made, PyMemoryView_FromMemory(<char*> mapped, byte_len, PyBUF_WRITE) if mapped != NULL else None
    except BaseException:
        if device is not None:
            vyre_destroy_watched(device.device)
        raise
    finally:
        thread.watched = False
        thread.exact_bytes = 0
        thread.want_mapping = False
        thread.storage_buffer = NULL
        thread.storage_memory = NULL
        thread.staging_buffer = NULL


def inject(str call not None, uint64_t nth, int32_t result) -> None:
    """Make the ``nth`` call from now fail with a VkResult (0: none), in this process, whichever thread makes it.

    A debugging aid: what an exhausted device or a lost one does to a program can be tried without one.
    """
    vyre_inject(CALLS.index(call), nth, result)


def environment_variable(bytes name not None) -> bytes | None:
    """Return a variable of the process's environment as C code sees it now; ``os.environ`` is Python's copy of it."""
    cdef const char* value = getenv(PyBytes_AS_STRING(name))
    return None if value == NULL else <bytes> value


def leak(thing) -> None:
    """Keep an object for ever: for what a forked child inherited and must not destroy."""
    Py_INCREF(thing)


def create_pipeline(LayerDevice device, make, bytes blob, bint want_blob):
    """Call ``make()``, which creates one pipeline, with a saved blob at hand; returns its result and PipelineFacts.

    Nothing is left of it if ``make`` raises.
    """
    cdef vyre_thread* thread = vyre_this_thread()
    vyre_watch()
    memset(&thread.pipeline, 0, sizeof(thread.pipeline))
    thread.want_blob = want_blob
    if blob is not None:
        thread.blob_in = PyBytes_AS_STRING(blob)
        thread.blob_in_bytes = PyBytes_GET_SIZE(blob)
    try:
        made = make()
        return made, PipelineFacts(
            thread.pipeline.created, thread.pipeline.shared,
            thread.pipeline.cache_hit and blob is not None if thread.pipeline.feedback else None,
            thread.pipeline.compile_ns,
            PyBytes_FromStringAndSize(<char*> thread.blob_out, thread.blob_out_bytes) if thread.blob_out != NULL else None,
        )
    except BaseException:
        if device is not None:
            vyre_destroy_watched(device.device)
        raise
    finally:
        thread.watched = False
        thread.blob_in = NULL
        thread.blob_in_bytes = 0
        thread.want_blob = False
        free(thread.blob_out)
        thread.blob_out = NULL
        thread.blob_out_bytes = 0


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

    def wait_idle(self) -> int:
        """Wait without the GIL until nothing submitted runs any more; returns a VkResult. Nobody may submit meanwhile."""
        cdef VkResult result
        with nogil:
            result = vyre_wait_idle(self.device)
        return result

    def trim(self, uint64_t keep_bytes=0) -> None:
        """Give freed memory beyond ``keep_bytes`` back to the driver."""
        with nogil:
            vyre_trim_memory(self.device, keep_bytes)


include "work.pxi"
