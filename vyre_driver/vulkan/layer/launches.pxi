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

    def __cinit__(self):
        self.what = calloc(1, sizeof(vyre_launch))
        if self.what == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.what)

    def __init__(
        self, DeviceUse in_use not None, LayerDevice owner not None, Bound bound not None, fail, tuple groups, uint32_t parts,
        uint64_t written, uint32_t push_words, bint shows_host, uint32_t label,
    ):
        cdef vyre_launch* what = <vyre_launch*> self.what
        if bound.owner is None:
            raise ValueError("what an algorithm binds goes with it")
        if parts > VYRE_MOST_PARTS or push_words > MOST_PUSH_WORDS:
            raise ValueError(f"{parts} buffers, {push_words} words: {VYRE_MOST_PARTS} and {MOST_PUSH_WORDS} are the most")
        self.in_use, self.owner, self.bound, self.fail = in_use, owner, bound, fail
        what.bound = &bound.handles
        what.groups[0], what.groups[1], what.groups[2] = groups
        what.part_count, what.written = parts, written
        what.push_bytes = 4 * push_words
        what.shows_host, what.label = shows_host, label

    def launch(self, list parts not None, tuple words not None) -> int:
        """Record a launch with these Parts, by binding, and these push constants; returns its number.

        Where too many are under way it waits until there is room. Raises what keeps the device from being used, and what
        ``fail(call, result)`` raises of a failure.
        """
        cdef uint32_t[MOST_PUSH_WORDS] push
        cdef Py_ssize_t i
        if len(words) > MOST_PUSH_WORDS:
            raise ValueError(f"{len(words)} words, and {MOST_PUSH_WORDS} are the most")
        for i in range(len(words)):
            push[i] = words[i]
        return launched(self, parts, push, len(words))

    cdef int run(self, list parts, const uint32_t* words, Py_ssize_t count) except -1:
        """Launch it and wait; raises as ``launch``. Ctrl-C leaves the work running, and closing the device waits."""
        cdef VkResult result
        (<DeviceUse> self.in_use).begin()
        try:
            result = wait_for_launch_ns(<LayerDevice> self.owner, launched(self, parts, words, count), NO_END)
        finally:
            vyre_use_end(&(<DeviceUse> self.in_use).use)
        if result != VK_SUCCESS:
            self.fail("wait", result)
        return 0


cdef uint64_t launched(Launchable it, list parts, const uint32_t* words, Py_ssize_t count) except 0:
    cdef vyre_range_of[VYRE_MOST_PARTS] ranges
    cdef vyre_launch what = (<vyre_launch*> it.what)[0]
    cdef uint64_t number = 0
    cdef VkResult result
    cdef Py_ssize_t i
    if len(parts) != what.part_count or 4 * count != what.push_bytes:
        raise ValueError(f"{len(parts)} buffers and {count} words for {what.part_count} and {what.push_bytes // 4}")
    for i in range(len(parts)):
        ranges[i] = (<Part?> parts[i]).range
    what.parts, what.push = ranges, words
    (<DeviceUse> it.in_use).begin()
    try:
        result = recorded(<LayerDevice> it.owner, &what, &number)
    finally:
        vyre_use_end(&(<DeviceUse> it.in_use).use)
    if result != VK_SUCCESS:
        it.fail("submit", result)
        raise RuntimeError("a launch failed")  # fail raises
    for i in range(len(parts)):
        (<Part> parts[i]).memory.raw.launch = number
    (<Bound> it.bound).launch = number
    return number


cdef VkResult recorded(LayerDevice device, const vyre_launch* what, uint64_t* number) except? VK_NOT_READY:
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure before = thread.failure
    cdef VkResult result = VK_NOT_READY
    while True:
        result = vyre_record_launch(device.device, what, number)
        thread.failure = before  # the result tells
        if result != VK_NOT_READY:
            return result
        wait_for_launch_ns(device, number[0], SLICE_NS)


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
