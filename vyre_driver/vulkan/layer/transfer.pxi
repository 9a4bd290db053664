"""Copies and fills of parts of buffers: included by _layer.pyx."""

cdef extern from "layer.h" nogil:
    ctypedef struct VkCommandBuffer_T:
        pass
    ctypedef VkCommandBuffer_T* VkCommandBuffer
    ctypedef struct vyre_region:
        VkBuffer from_ "from"
        uint64_t from_offset
        VkBuffer to
        uint64_t to_offset
        uint64_t bytes
        uint32_t word
    ctypedef struct vyre_copies:
        const vyre_region* before
        uint32_t before_count
        const vyre_region* after
        uint32_t after_count
    c_bool vyre_keep_bound(vyre_device* device, const vyre_bound* bound, vyre_bound* kept)
    c_bool vyre_part_fits(vyre_device* device, const vyre_range_of* part)
    VkResult vyre_bind_buffers(
        vyre_device* device, const vyre_bound* like, const vyre_range_of* parts, uint32_t count, vyre_bound* out)
    ctypedef struct vyre_dispatch:
        vyre_bound bound
        uint32_t[3] groups
        const void* push
        uint32_t push_bytes
        vyre_copies copies
        const vyre_region* beside
        uint32_t beside_count
        uint32_t label
    VkResult vyre_record_dispatch(
        vyre_device* device, const vyre_dispatch* dispatch, c_bool device_only, VkCommandBuffer* commands)
    VkResult vyre_submit_commands(vyre_device* device, VkCommandBuffer commands, VkFence* out)
    VkResult vyre_run_commands(vyre_device* device, VkCommandBuffer commands, uint64_t slice_ns, VkFence* fence)
    const char* vyre_fault_of(vyre_device* device, const vyre_region* region)
    c_bool vyre_enter(vyre_device* device)
    void vyre_leave(vyre_device* device)
    VkResult vyre_transfer(
        vyre_device* device, const vyre_region* regions, uint32_t count, c_bool device_only, VkCommandBuffer* commands,
        VkFence* out)
    void vyre_drop_transfer(vyre_device* device, VkCommandBuffer commands)


cdef enum:
    MOST_PARTS = 64


cdef class Parts:
    """(VkBuffer, offset, bytes) of each binding, as C has them."""

    cdef vyre_range_of* items
    cdef uint32_t count

    def __cinit__(self, tuple parts not None):
        cdef uint64_t handle
        self.items = <vyre_range_of*> calloc(len(parts) + 1, sizeof(vyre_range_of))
        if self.items == NULL:
            raise MemoryError
        for handle, offset, byte_len in parts:
            self.items[self.count].buffer = <VkBuffer> handle
            self.items[self.count].range.offset = offset
            self.items[self.count].range.bytes = byte_len
            self.count += 1

    def __dealloc__(self):
        free(self.items)


cdef class Regions:
    """Regions as C has them; what they are is said at Transfer."""

    cdef vyre_region* items
    cdef uint32_t count

    def __cinit__(self, regions):
        cdef tuple given = tuple(regions)
        cdef uint64_t handle
        self.items = <vyre_region*> calloc(len(given) + 1, sizeof(vyre_region))
        if self.items == NULL:
            raise MemoryError
        for source, offset, target, target_offset, byte_len in given:
            if source is None:
                self.items[self.count].word = offset
            else:
                handle = source
                if handle == 0:
                    raise ValueError("a region is copied from no buffer")
                self.items[self.count].from_ = <VkBuffer> handle
                self.items[self.count].from_offset = offset
            handle = target
            self.items[self.count].to = <VkBuffer> handle
            self.items[self.count].to_offset = target_offset
            self.items[self.count].bytes = byte_len
            self.count += 1

    def __dealloc__(self):
        free(self.items)

    cdef int check(self, LayerDevice device) except -1:
        """Check that each is right for the buffers that the device has now."""
        cdef const char* fault
        cdef uint32_t i
        for i in range(self.count):
            fault = "is for a device that is closed"
            if vyre_enter(device.device):
                fault = vyre_fault_of(device.device, &self.items[i])
                vyre_leave(device.device)
            if fault != NULL:
                raise ValueError(f"region {i} {(<bytes> fault).decode('ascii')}")
        return 0


@cython.no_gc_clear
cdef class Recorded(Submitted):
    """A command buffer of the layer's own. ``keep`` holds what it uses, and the Manager; the caller locks.

    A submission that is not waited for to its end stays known, and the object waits for it before it goes, or leaves it in
    ``unfinished``, whatever the garbage collector comes upon first.
    """

    cdef object keep
    cdef VkCommandBuffer commands

    cdef Submitted successor(self):
        return Recorded.__new__(Recorded)

    cdef void give_to(self, Submitted successor) noexcept:
        (<Recorded> successor).keep, (<Recorded> successor).commands = self.keep, self.commands
        self.commands = NULL

    def __dealloc__(self):
        self.end()
        if self.commands != NULL:
            vyre_drop_transfer(self.owner.device, self.commands)


def keep_bound(LayerDevice device not None, Bound bound not None) -> Bound | None:
    """Return the pipeline that is bound, kept on its own, for ``bind_buffers``; None if it is not shared."""
    cdef Bound kept = Bound()
    if not vyre_keep_bound(device.device, &bound.handles, &kept.handles):
        return None
    kept.owner = device
    return kept


def bind_buffers(LayerDevice device not None, Bound like not None, tuple parts not None):
    """Bind other buffers to a pipeline that is kept: ``parts`` are (VkBuffer, offset, bytes), by binding from 0 on.

    Returns what is bound, or the Failure; ValueError if a buffer has not those bytes.
    """
    cdef vyre_range_of[MOST_PARTS] found
    cdef Bound made = Bound()
    cdef vyre_thread outer
    cdef uint64_t handle
    cdef VkResult result
    cdef uint32_t i
    cdef uint32_t count = <uint32_t> len(parts)
    if count > MOST_PARTS:
        raise ValueError(f"{count} buffers are bound, and {MOST_PARTS} are the most")
    for i in range(count):
        handle, found[i].range.offset, found[i].range.bytes = parts[i]
        found[i].buffer = <VkBuffer> handle
        if not vyre_part_fits(device.device, &found[i]):
            raise ValueError(f"buffer {i} has not {found[i].range.bytes} bytes from byte {found[i].range.offset} on")
    vyre_begin_making(&outer)
    result = vyre_bind_buffers(device.device, &like.handles, found, count, &made.handles)
    vyre_end_making(&outer)
    vyre_this_thread().failure = outer.failure  # the result tells
    if result < VK_SUCCESS:
        return Failure("bind_buffers", result, 0)
    made.owner = device
    return made


@cython.no_gc_clear
cdef class Dispatch(Recorded):
    """A dispatch that ``record_dispatch`` recorded, to be submitted again and again.

    It takes effect after all that was submitted before, and what is submitted later sees it; so does the host once it has
    ended, unless it is ``device_only``.
    """

    def submit(self) -> Failure | None:
        """Hand it to the device; returns what failed."""
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        cdef VkResult result = VK_ERROR_DEVICE_LOST
        if self.commands == NULL or self.fence != NULL:
            raise RuntimeError("a Dispatch is submitted once it is recorded, and again once it has ended")
        if vyre_enter(self.owner.device):
            result = vyre_submit_commands(self.owner.device, self.commands, &self.fence)
            vyre_leave(self.owner.device)
        thread.failure = before  # the result tells
        return None if result >= VK_SUCCESS else Failure("submit", result, 0)


def record_dispatch(
    LayerDevice device not None, Bound bound, tuple groups not None, bytes push not None, copies, bint device_only, keep,
    beside=(), uint32_t label=0
):
    """Record a dispatch of ``groups`` workgroups of what an algorithm of kompute's binds; of nothing where ``bound`` is None.

    Returns a Dispatch, or the Failure. ``push`` are the bytes of all its push constants; ``copies`` are the
    regions, as a Transfer's, that are copied before it and those that are copied after it, or None; ValueError if they do not
    fit. Those of ``beside`` are copied while it runs, in turns, so that they and the dispatch must touch nothing that another
    of them writes. ``keep`` holds what it uses, and the Manager. ``label`` names it among ``intervals``.
    """
    cdef Dispatch made = Dispatch()
    cdef Regions before = Regions(() if copies is None else copies[0])
    cdef Regions after = Regions(() if copies is None else copies[1])
    cdef Regions others = Regions(beside)
    cdef vyre_dispatch what
    cdef VkResult result
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure outer = thread.failure
    memset(&what, 0, sizeof(what))
    if bound is not None:
        what.bound = bound.handles
    what.groups[0], what.groups[1], what.groups[2] = groups
    what.push, what.push_bytes = PyBytes_AS_STRING(push), <uint32_t> PyBytes_GET_SIZE(push)
    for regions in (before, after, others):
        (<Regions> regions).check(device)
    what.copies.before, what.copies.before_count = before.items, before.count
    what.copies.after, what.copies.after_count = after.items, after.count
    what.beside, what.beside_count = others.items, others.count
    what.label = label
    made.owner, made.keep = device, keep
    result = vyre_record_dispatch(device.device, &what, device_only, &made.commands)
    thread.failure = outer  # the result tells
    return made if result >= VK_SUCCESS else Failure("submit", result, 0)


@cython.no_gc_clear
cdef class Transfer(Recorded):
    """Copies between buffers and fills of them, one after the other, to be submitted again and again.

    A region is (from, offset there, to, offset there, bytes), the buffers being handles of ``create_buffer``'s, or (None, word,
    to, offset there, bytes), a fill, whose offset and length are multiples of 4. ValueError is raised for one that does not fit
    into its buffers or would be copied onto itself. It takes effect after all that was submitted before, and what is submitted
    later sees it; so does the host once it has ended, unless it is ``device_only``.

    """

    cdef Regions regions
    cdef bint device_only

    def __init__(self, LayerDevice device not None, regions, keep=None, bint device_only=False):
        cdef Regions parsed = Regions(regions)
        if self.regions is not None:
            raise RuntimeError("a Transfer is made once")
        parsed.check(device)
        self.owner = device
        self.keep = keep
        self.device_only = device_only
        self.regions = parsed

    def submit(self) -> Failure | None:
        """Hand it to the device; returns what failed."""
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        cdef VkResult result
        if self.regions is None or self.fence != NULL:
            raise RuntimeError("a Transfer is submitted once it is made, and again once it has ended")
        result = vyre_transfer(
            self.owner.device, self.regions.items, self.regions.count, self.device_only, &self.commands, &self.fence)
        thread.failure = before  # the result tells
        return None if result >= VK_SUCCESS else Failure("submit", result, 0)


def record(sequence, groups, bint device_only, Clock started=None, Clock stopped=None) -> None:
    """Record groups of operations into a kompute Sequence; those of one group are independent of each other.

    A dispatch may be given as (operation, before, after): regions, as a Transfer's, that are copied before it and after it, in
    the same submission; ValueError if they do not fit. ``device_only``: the host reads nothing that the operations write, so
    there is no barrier to the host. One clock is ``started`` before the first operation, and one is ``stopped`` when the last
    one and all before it have ended: there is one then, and the last is a dispatch.
    """
    cdef vyre_thread* thread = vyre_this_thread()
    cdef uint32_t group_before = thread.group
    cdef bint device_only_before = thread.device_only
    cdef const void* copies_before = thread.copies
    cdef uint32_t starts_before = thread.starts_clock
    cdef uint32_t stops_before = thread.stops_clock
    cdef uint32_t number = 0
    cdef uint32_t to_start = 0 if started is None else started.number
    left = sum(map(len, groups))
    add = sequence.record
    thread.copies = NULL
    try:
        for group in groups:
            number += 1
            for operation in group:
                left -= 1
                copied = isinstance(operation, tuple)
                operation, before, after = operation if copied else (operation, (), ())
                regions = (Regions(before), Regions(after)) if copied else None
                thread.group = number
                thread.device_only = device_only
                thread.starts_clock = to_start
                thread.stops_clock = 0 if left or stopped is None else stopped.number
                to_start = 0
                if copied:
                    add_with_copies(add, operation, regions[0], regions[1])
                else:
                    add(operation)
    finally:
        thread.group = group_before
        thread.device_only = device_only_before
        thread.copies = copies_before
        thread.starts_clock = starts_before
        thread.stops_clock = stops_before


cdef int add_with_copies(add, operation, Regions before, Regions after) except -1:
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_copies copies
    cdef bint are_taken = False
    copies.before = before.items
    copies.before_count = before.count
    copies.after = after.items
    copies.after_count = after.count
    thread.copies = &copies
    try:
        add(operation)
        are_taken = thread.copies == NULL
    finally:
        thread.copies = NULL
    if not are_taken:
        raise ValueError("the regions beside an operation do not fit into their buffers, or it is not a dispatch")
    return 0
