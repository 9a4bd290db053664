"""Arrays that threads of the host and the device move together: included by _layer.pyx."""

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int us)

cdef extern from "mover.h" nogil:
    ctypedef struct vyre_move:
        VkBuffer buffer
        uint64_t offset
        uint64_t bytes
        char* host
        VkBuffer pinned
        uint64_t pinned_offset
        char* direct
        c_bool is_down
    ctypedef struct vyre_mover:
        pass
    vyre_mover* vyre_mover_make(vyre_device* device, char* memory, VkBuffer areas, uint64_t count)
    uint64_t vyre_mover_put(
        vyre_mover* mover, const vyre_move* moves, size_t count, VkCommandBuffer commands, c_bool is_beside)
    VkResult vyre_mover_settle(vyre_mover* mover, uint64_t slice_ns)
    VkResult vyre_mover_wait(vyre_mover* mover, uint64_t number, uint64_t slice_ns)
    ctypedef struct vyre_turn_times:
        uint64_t step
        uint64_t begun
        uint64_t filled
        uint64_t submitted
        uint64_t ended
        uint64_t emptied
    size_t vyre_mover_times(vyre_mover* mover, vyre_turn_times* out, size_t most)
    void vyre_mover_cancel(vyre_mover* mover)
    void vyre_mover_free(vyre_mover* mover)


cdef enum:
    ONLY_DIRECT_BYTES = 1 << 25
    MOST_TIMES = 512


cdef class Moves:
    """What a step moves, as C has it; what is described at Mover is held as long as this is."""

    cdef vyre_move* items
    cdef Py_buffer* held
    cdef size_t count
    cdef Py_ssize_t held_count

    def __cinit__(self, tuple moves not None):
        self.items = <vyre_move*> calloc(len(moves) + 1, sizeof(vyre_move))
        self.held = <Py_buffer*> calloc(2 * len(moves) + 1, sizeof(Py_buffer))
        if self.items == NULL or self.held == NULL:
            raise MemoryError
        for is_down, buffer, offset, byte_len, host, pinned, direct in moves:
            self.add(&self.items[self.count], is_down, buffer, offset, byte_len, host, pinned, direct)
            self.count += 1

    cdef int add(
        self, vyre_move* move, bint is_down, uint64_t buffer, uint64_t offset, uint64_t byte_len, host, pinned, direct
    ) except -1:
        move.is_down = is_down
        move.buffer = <VkBuffer> buffer
        move.offset = offset
        move.bytes = byte_len
        if host is not None:
            move.host = self.hold(host, byte_len, is_down)
        if direct is not None:
            move.direct = self.hold(direct, byte_len, not is_down)
        if pinned is not None:
            move.pinned = <VkBuffer> <uint64_t> pinned[0]
            move.pinned_offset = pinned[1]
        return 0

    cdef char* hold(self, given, uint64_t byte_len, bint is_written) except NULL:
        cdef Py_buffer* view = &self.held[self.held_count]
        PyObject_GetBuffer(given, view, PyBUF_SIMPLE | PyBUF_WRITABLE if is_written else PyBUF_SIMPLE)
        self.held_count += 1
        if <uint64_t> view.len != byte_len:
            raise ValueError(f"{view.len} bytes are moved to or from {byte_len}")
        return <char*> view.buf

    def __dealloc__(self):
        while self.held_count > 0:
            self.held_count -= 1
            PyBuffer_Release(&self.held[self.held_count])
        free(self.held)
        free(self.items)

    cdef int check(self, LayerDevice device) except -1:
        """Check that each is right for the buffers that the device has now."""
        cdef const char* fault
        cdef size_t i
        for i in range(self.count):
            if self.items[i].direct != NULL:
                continue
            fault = fault_of(device, &self.items[i])
            if fault != NULL:
                raise ValueError(f"move {i} {(<bytes> fault).decode('ascii')}")
        return 0


cdef const char* fault_of(LayerDevice device, const vyre_move* move) noexcept:
    """Return what is wrong with a move of the device's, or NULL."""
    cdef vyre_range_of part
    cdef vyre_region region
    cdef const char* fault = "is for a device that is closed"
    if move.host != NULL:
        part.buffer = move.buffer
        part.range.offset, part.range.bytes = move.offset, move.bytes
        if vyre_part_fits(device.device, &part):
            return NULL
        return "ends past its buffer"
    memset(&region, 0, sizeof(region))
    region.to, region.to_offset, region.bytes = move.buffer, move.offset, move.bytes
    region.from_, region.from_offset = move.pinned, move.pinned_offset
    if vyre_enter(device.device):
        fault = vyre_fault_of(device.device, &region)
        vyre_leave(device.device)
    return fault


@cython.no_gc_clear
cdef class LeftMover(Submitted):
    """A mover that nobody holds any more, and what the device has been given by it."""

    cdef vyre_mover* mover
    cdef object kept

    cdef void end(self) noexcept:
        if self.has_ended_within(patience_ns(self.owner)):
            return
        try:
            unfinished.append(self)
        except MemoryError:
            self.has_ended_within(NO_END)

    cdef bint has_ended_within(self, uint64_t most_ns) noexcept:
        cdef VkResult result
        if self.mover == NULL:
            return True
        with nogil:
            result = vyre_mover_settle(self.mover, most_ns)
            if result != VK_TIMEOUT:
                vyre_mover_free(self.mover)
        if result == VK_TIMEOUT:
            return False
        self.mover = NULL
        return True


@cython.no_gc_clear
cdef class Mover:
    """Moves arrays to and from buffers in steps, beside dispatches; one thread at a time calls it, and any may close it.

    ``pages`` are those that plain memory travels through. Its threads begin with the first step, and end with it. In a forked
    process there are none, and nothing is done.
    """

    cdef object __weakref__
    cdef LayerDevice owner
    cdef PinnedPages pages
    cdef object manager
    cdef vyre_mover* mover
    cdef Py_ssize_t users  # calls that are under way without the GIL
    cdef unsigned int forks  # behind the process that made it: its threads are in no other
    cdef list kept  # (number, Moves, dispatch, what else the step needs)

    def __cinit__(self, LayerDevice device not None, PinnedPages pages, manager):
        self.owner = device
        self.pages = pages
        self.manager = manager
        self.kept = []
        self.forks = vyre_forks()
        if pages is None:
            self.mover = vyre_mover_make(device.device, NULL, NULL, ONLY_DIRECT_BYTES)
        else:
            self.mover = vyre_mover_make(device.device, <char*> pages.pages, pages.buffer, pages.byte_len)
        if self.mover == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef LeftMover left = None
        if not self.is_live():
            return
        with nogil:
            vyre_mover_cancel(self.mover)
        try:
            left = LeftMover.__new__(LeftMover)
        except MemoryError:
            with nogil:
                vyre_mover_free(self.mover)
            return
        left.owner, left.mover, left.kept = self.owner, self.mover, (self.pages, self.manager, self.kept)
        left.end()

    cdef bint is_live(self) noexcept:
        return self.mover != NULL and self.forks == vyre_forks()

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and this process's."""
        return self.is_live()

    def put(self, moves, Dispatch dispatch=None, keep=None, *, bint is_beside=False) -> int:
        """Add a step; returns its number.

        A move is (whether it goes down to the host, VkBuffer, offset there, bytes, array or None, (VkBuffer, offset) of pinned
        memory or None, memory of the buffer that the host shares or None), the arrays contiguous and of as many bytes; with
        neither of the first two the buffer gets zeros. All may overlap only what is read. The moves of a step begin when the
        dispatch of the step before has ended, and its own dispatch begins when the moves of the step before have. The device's
        copies take effect in the order of submission, unless ``is_beside`` says that they may go on beside other work.

        Raises ValueError if one does not fit, MemoryError if there is no memory or no thread.
        """
        cdef Moves parsed = Moves(tuple(moves))
        cdef VkCommandBuffer commands = NULL if dispatch is None else dispatch.commands
        cdef uint64_t number
        if not self.is_live():
            raise ValueError("the mover is closed, or another process's")
        parsed.check(self.owner)
        self.kept.append((self.kept[-1][0] + 1 if self.kept else 0, parsed, dispatch, keep))
        number = vyre_mover_put(self.mover, parsed.items, parsed.count, commands, is_beside)
        if number == 0:
            self.kept.pop()
            raise MemoryError
        self.kept[-1] = (number, parsed, dispatch, keep)
        return number

    def wait(self, uint64_t number, timeout_ns=None) -> int:
        """Wait without the GIL for a step's moves and the dispatch before; returns a VkResult, as ``Submitted.wait``."""
        cdef uint64_t left_ns = NO_END if timeout_ns is None else timeout_ns
        cdef uint64_t slice_ns
        cdef vyre_mover* mover
        cdef VkResult result
        while True:
            if not self.is_live():
                raise ValueError("the mover is closed, or another process's")
            slice_ns = min(left_ns, SLICE_NS)
            mover = self.mover
            self.users += 1
            with nogil:
                result = vyre_mover_wait(mover, number, slice_ns)
            self.users -= 1
            if result == VK_SUCCESS:
                self.let_go(number)
            if result != VK_TIMEOUT or left_ns <= SLICE_NS:
                return result
            if left_ns != NO_END:
                left_ns -= SLICE_NS
            PyErr_CheckSignals()

    cdef int let_go(self, uint64_t number) except -1:
        """Hold no more what steps needed that have ended: those before, and this one if it has no dispatch."""
        while self.kept and (self.kept[0][0] < number or (self.kept[0][0] == number and self.kept[0][2] is None)):
            del self.kept[0]
        return 0

    def times(self) -> list[tuple[int, int, int, int, int, int]]:
        """Return of the last 512 turns, pieces of steps, that are over: the step, and ns of the monotonic clock.

        That is when it was begun, filled by the host, handed over, ended by the device, and emptied by the host.
        """
        cdef vyre_turn_times[MOST_TIMES] found
        cdef size_t count = 0 if not self.is_live() else vyre_mover_times(self.mover, found, MOST_TIMES)
        return [
            (found[i].step, found[i].begun, found[i].filled, found[i].submitted, found[i].ended, found[i].emptied)
            for i in range(count)
        ]

    def cancel(self) -> None:
        """Return when no thread touches an array any more; what the device has been given it ends."""
        cdef vyre_mover* mover = self.mover
        if self.is_live():
            self.users += 1
            with nogil:
                vyre_mover_cancel(mover)
            self.users -= 1

    def settle(self, timeout_ns=None) -> int:
        """Wait without the GIL until the device has ended what it has been given; returns a VkResult, as ``wait``."""
        cdef uint64_t left_ns = NO_END if timeout_ns is None else timeout_ns
        cdef uint64_t slice_ns
        cdef vyre_mover* mover
        cdef VkResult result
        while self.is_live():
            slice_ns = min(left_ns, SLICE_NS)
            mover = self.mover
            self.users += 1
            with nogil:
                result = vyre_mover_settle(mover, slice_ns)
            self.users -= 1
            if result != VK_TIMEOUT or left_ns <= SLICE_NS:
                return result
            if left_ns != NO_END:
                left_ns -= SLICE_NS
            PyErr_CheckSignals()
        return VK_SUCCESS

    def close(self) -> None:
        """Cancel, and wait for what the device has been given; a second call does nothing."""
        cdef vyre_mover* mover = self.mover if self.is_live() else NULL
        self.mover = NULL
        if mover == NULL:
            return
        with nogil:
            vyre_mover_cancel(mover)
        while self.users > 0:  # they return now
            with nogil:
                usleep(100)
        with nogil:
            vyre_mover_free(mover)
        self.kept = []
