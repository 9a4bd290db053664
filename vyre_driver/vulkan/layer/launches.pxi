"""Launches on buffers, recorded as they come: included by _layer.pyx."""

cdef extern from "recorder.h" nogil:
    enum: VYRE_MOST_PARTS
    ctypedef struct vyre_launch:
        const vyre_bound* bound
        const vyre_range_of* parts
        uint32_t part_count
        uint64_t written
        const void* push
        uint32_t push_bytes
        uint32_t[3] groups
        c_bool shows_host
        uint32_t label
    VkResult vyre_record_launch(vyre_device* device, const vyre_launch* launch, uint64_t* number)
    VkResult vyre_wait_for_launch(vyre_device* device, uint64_t number, uint64_t slice_ns)
    c_bool vyre_has_launch_ended(vyre_device* device, uint64_t number)

cdef enum:
    MOST_PUSH_WORDS = 64


@cython.no_gc  # it refers to memory alone
@cython.freelist(64)
cdef class Part:
    """Bytes of a buffer, as a launch binds them."""

    cdef Allocation memory
    cdef vyre_range_of range

    def __init__(self, Allocation memory not None, uint64_t offset, uint64_t byte_len):
        if byte_len == 0 or offset > memory.byte_len or byte_len > memory.byte_len - offset:
            raise ValueError(f"a buffer of {memory.byte_len} bytes has not {byte_len} bytes from byte {offset} on")
        self.memory = memory
        self.range.buffer = memory.raw.buffer
        self.range.range.offset, self.range.range.bytes = offset, byte_len


@cython.no_gc_clear
cdef class Launchable:
    """A pipeline and a grid, launched with any buffers and push constants.

    A launch takes effect after all work that was handed over before and touches what it touches, and what is handed over later
    sees it. What it uses stays until it has ended, whoever lets go of it. ``written`` has a bit for each buffer that it writes.
    """

    cdef DeviceUse in_use
    cdef LayerDevice owner
    cdef Bound bound
    cdef vyre_launch what

    def __init__(
        self, DeviceUse in_use not None, LayerDevice owner not None, Bound bound not None, tuple groups, uint32_t parts,
        uint64_t written, uint32_t push_words, bint shows_host, uint32_t label,
    ):
        if bound.owner is None:
            raise ValueError("what an algorithm binds goes with it")
        if parts > VYRE_MOST_PARTS or push_words > MOST_PUSH_WORDS:
            raise ValueError(f"{parts} buffers and {push_words} words, and {VYRE_MOST_PARTS} and {MOST_PUSH_WORDS} are the most")
        self.in_use, self.owner, self.bound = in_use, owner, bound
        self.what.bound = &bound.handles
        self.what.groups[0], self.what.groups[1], self.what.groups[2] = groups
        self.what.part_count, self.what.written = parts, written
        self.what.push_bytes = 4 * push_words
        self.what.shows_host, self.what.label = shows_host, label

    def launch(self, list parts not None, tuple words not None) -> int | Failure:
        """Record a launch with these Parts, by binding, and these push constants; returns its number, or the Failure.

        Where too many are under way it waits until there is room. Raises what keeps the device from being used.
        """
        cdef vyre_range_of[VYRE_MOST_PARTS] ranges
        cdef uint32_t[MOST_PUSH_WORDS] push
        cdef vyre_launch what = self.what
        cdef uint64_t number = 0
        cdef VkResult result
        cdef Py_ssize_t i
        if len(parts) != what.part_count or 4 * len(words) != what.push_bytes:
            raise ValueError(f"{len(parts)} buffers and {len(words)} words for {what.part_count} and {what.push_bytes // 4}")
        for i in range(len(parts)):
            ranges[i] = (<Part?> parts[i]).range
        for i in range(len(words)):
            push[i] = words[i]
        what.parts, what.push = ranges, push
        self.in_use.begin()
        try:
            result = self.record(&what, &number)
        finally:
            vyre_use_end(&self.in_use.use)
        if result != VK_SUCCESS:
            return Failure("submit", result, 0)
        for i in range(len(parts)):
            (<Part> parts[i]).memory.raw.launch = number
        self.bound.launch = number
        return number

    cdef VkResult record(self, const vyre_launch* what, uint64_t* number) except? VK_NOT_READY:
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        cdef VkResult result = VK_NOT_READY
        while True:
            result = vyre_record_launch(self.owner.device, what, number)
            thread.failure = before  # the result tells
            if result != VK_NOT_READY:
                return result
            wait_for_launch_ns(self.owner, number[0], SLICE_NS)


def wait_for_launch(LayerDevice device not None, uint64_t number, timeout_ns=None) -> int:
    """Wait without the GIL until a launch has ended; returns a VkResult: 0, VK_TIMEOUT (2), or below 0.

    Signals are handled meanwhile: Ctrl-C raises out of here and leaves the work running.
    """
    return wait_for_launch_ns(device, number, NO_END if timeout_ns is None else timeout_ns)


cdef VkResult wait_for_launch_ns(LayerDevice device, uint64_t number, uint64_t left_ns) except? -1:
    cdef uint64_t slice_ns
    cdef VkResult result
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure before = thread.failure
    while True:
        slice_ns = min(left_ns, SLICE_NS)
        with nogil:
            result = vyre_wait_for_launch(device.device, number, slice_ns)
        thread.failure = before  # the result tells
        if result != VK_TIMEOUT or left_ns <= SLICE_NS:
            return result
        if left_ns != NO_END:
            left_ns -= SLICE_NS
        PyErr_CheckSignals()
