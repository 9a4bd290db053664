"""Memory of a device, in blocks that are kompute's tensors: included by _layer.pyx."""

cdef extern from "arena.h" nogil:
    enum: VYRE_SHORT_BYTES
    enum: VYRE_LONG_BYTES
    enum: VYRE_ARENA_STORAGE
    enum: VYRE_ARENA_STAGING
    enum: VK_NOT_READY
    ctypedef int vyre_arena_kind "enum vyre_arena_kind"
    ctypedef int vyre_length "enum vyre_length"
    ctypedef struct vyre_block:
        pass
    ctypedef struct vyre_allocation:
        VkBuffer buffer
        char* mapped
        uint64_t taken
        uint64_t launch
    ctypedef struct vyre_arena_facts:
        uint64_t blocks
        uint64_t used
        uint64_t reserved
        uint64_t idle
        uint64_t peak
        uint64_t longest
        uint64_t in_short
    vyre_length vyre_length_of(uint64_t bytes)
    VkResult vyre_allocate(
        vyre_device* device, vyre_arena_kind kind, uint64_t bytes, c_bool is_anywhere, vyre_allocation* out)
    c_bool vyre_free(vyre_device* device, vyre_arena_kind kind, const vyre_allocation* allocation)
    VkResult vyre_add_block(
        vyre_device* device, vyre_arena_kind kind, vyre_length length, vyre_allocation* out, vyre_block** block)
    vyre_block* vyre_take_surplus(vyre_device* device, vyre_arena_kind kind, c_bool is_all)
    void vyre_arena_facts_of(vyre_device* device, vyre_arena_kind kind, vyre_arena_facts* out)


SHORT_BYTES = <uint64_t> VYRE_SHORT_BYTES
LONG_BYTES = <uint64_t> VYRE_LONG_BYTES


class ArenaFacts(NamedTuple):
    """Memory of one kind: the number of blocks, and bytes.

    ``used`` are in buffers, ``reserved`` in blocks, ``idle`` in blocks of which no buffer has anything, ``peak`` is the most
    that ever was used, ``longest`` is free in one piece, and ``in_short`` is reserved for buffers of up to SHORT_BYTES.
    """

    blocks: int
    used: int
    reserved: int
    idle: int
    peak: int
    longest: int
    in_short: int


@cython.no_gc
cdef class Arena:
    """Memory of one kind on a device: what kernels use, or what the host reaches and the device copies from and to.

    A block goes when its tensor does, which is held here as long as the block may be used: the garbage collector, which would
    clear what holds them in a cycle that work still uses, does not see them.
    """

    cdef object __weakref__
    cdef LayerDevice layer
    cdef vyre_arena_kind kind
    cdef unsigned int forks  # behind the process that made it
    cdef dict tensors  # of blocks
    cdef PyObject* first  # the Allocation made last, which knows the one before
    cdef readonly uint64_t byte_len  # of all of them

    def __init__(self, LayerDevice layer not None, bint is_staging):
        self.layer = layer
        self.kind = VYRE_ARENA_STAGING if is_staging else VYRE_ARENA_STORAGE
        self.forks = vyre_forks()
        self.tensors = {}

    def take(
        self, uint64_t byte_len, str name not None, bint is_new=False, bint is_anywhere=False
    ) -> Allocation | Failure | None:
        """Return a buffer of so many bytes; None where no block has room for it.

        ``is_new``: a block was just added for it. ``is_anywhere``: it may lie in a block for buffers of other lengths.

        Of a device that was lost or closed, or is the parent process's, it is a Failure of no call.
        """
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        cdef vyre_failure noted
        cdef Allocation made = Allocation.__new__(Allocation)
        cdef VkResult result
        if self.forks != vyre_forks() or vyre_is_lost(self.layer.device):
            return Failure("none", VK_ERROR_DEVICE_LOST, byte_len)
        thread.failure.call = VYRE_CALL_NONE
        result = vyre_allocate(self.layer.device, self.kind, byte_len, is_anywhere, &made.raw)
        if result == VK_SUCCESS:
            made.byte_len, made.name = byte_len, name
            made.link(self)
            thread.failure = before
            if not is_new:
                vyre_count(self.layer.device, VYRE_MEMORY_REUSED, 1)
            return made
        noted = thread.failure
        thread.failure = before
        return None if result == VK_NOT_READY else Failure(CALLS[noted.call], result, noted.bytes)

    def add_block(self, make, tuple arguments not None, uint64_t byte_len, uint64_t buffer_bytes, bint is_mapped) -> None:
        """Call ``make(*arguments)``, which creates one kompute tensor of a word, and have it be a block of so many bytes.

        It is for buffers of about ``buffer_bytes``. ``is_mapped``: of memory that the host can write, if the device has such.

        After a failure, which ``call_and_note`` returns, nothing is left of it.
        """
        self.made_block(make, arguments, byte_len, buffer_bytes, is_mapped, None, None)

    def export(self, make, tuple arguments not None, uint64_t byte_len, str name not None) -> tuple[Allocation, ExportedMemory]:
        """As ``add_block``, for one buffer that other APIs of the device are to see; returns it, and its memory.

        The caller has seen that the device exports memory as file descriptors.
        """
        cdef Allocation made = Allocation.__new__(Allocation)
        cdef ExportedMemory exported = ExportedMemory.__new__(ExportedMemory)
        made.byte_len, made.name = byte_len, name
        self.made_block(make, arguments, byte_len, byte_len, False, made, exported)
        return made, exported

    cdef int made_block(
        self, make, tuple arguments, uint64_t byte_len, uint64_t buffer_bytes, bint is_mapped, Allocation buffer,
        ExportedMemory exported,
    ) except -1:
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_thread outer
        cdef vyre_device* device = self.layer.device
        cdef vyre_block* block = NULL
        tensor = None
        vyre_begin_making(&outer)
        thread.buffer_bytes = byte_len
        thread.want_export = exported is not None
        if self.kind == VYRE_ARENA_STAGING:
            thread.wanted_types = device.readback_types
        elif is_mapped:
            thread.wanted_types = device.upload_types
        vyre_watch()
        try:
            tensor = make(*arguments)
            if exported is not None and thread.failure.call == VYRE_CALL_NONE:
                exported.fill(self.layer)
            if thread.failure.call == VYRE_CALL_NONE:
                vyre_add_block(
                    device, self.kind, vyre_length_of(buffer_bytes), NULL if buffer is None else &buffer.raw, &block)
            if block == NULL:
                tensor = None  # kompute destroys what it knows of
            else:
                self.tensors[<size_t> block] = tensor
                if buffer is not None:
                    buffer.link(self)
        finally:
            # The tensor destroys what it holds: there is no other reference to it yet, so without it that is gone.
            if tensor is None:
                vyre_destroy_watched(device)
            vyre_end_making(&outer)
        return 0

    def trim(self) -> int:
        """Give all blocks back that nobody uses; returns how many there were."""
        return self.drop_surplus(True)

    cdef int drop_surplus(self, bint is_all) noexcept:
        cdef int count = 0
        cdef vyre_block* block = vyre_take_surplus(self.layer.device, self.kind, is_all)
        while block != NULL:
            count += 1
            self.tensors.pop(<size_t> block, None)  # kompute frees it
            block = vyre_take_surplus(self.layer.device, self.kind, is_all)
        if count:
            vyre_count(self.layer.device, VYRE_MEMORY_FLUSHES, 1)
        return count

    @property
    def facts(self) -> ArenaFacts:
        """How much memory there is, and how much of it is used."""
        cdef vyre_arena_facts found
        vyre_arena_facts_of(self.layer.device, self.kind, &found)
        return ArenaFacts(found.blocks, found.used, found.reserved, found.idle, found.peak, found.longest, found.in_short)

    def by_name(self) -> dict[str, tuple[int, int]]:
        """Return how many buffers of each name there are, and how many bytes they have together."""
        cdef list allocations = []
        cdef PyObject* at = self.first
        while at != NULL:  # they are held first: what is made below may let others go
            allocations.append(<Allocation> at)
            at = (<Allocation> at).older
        found = {}
        for allocation in reversed(allocations):
            count, byte_len = found.get((<Allocation> allocation).name, (0, 0))
            found[(<Allocation> allocation).name] = count + 1, byte_len + (<Allocation> allocation).byte_len
        return found


@cython.no_gc
@cython.freelist(64)
cdef class Allocation:
    """A buffer of an Arena's, until it goes; what the device does with it has ended by then.

    Of one that the host sees it is the bytes, to be read and written: reading a device's own memory is slow.
    """

    cdef object __weakref__
    cdef Arena arena  # None: it is nothing yet
    cdef vyre_allocation raw
    cdef uint64_t byte_len
    cdef str name
    cdef PyObject* newer
    cdef PyObject* older

    cdef void link(self, Arena arena) noexcept:
        self.arena = arena
        self.older = arena.first
        if self.older != NULL:
            (<Allocation> self.older).newer = <PyObject*> self
        arena.first = <PyObject*> self
        arena.byte_len += self.byte_len

    def __dealloc__(self):
        cdef Arena arena = self.arena
        if arena is None:
            return
        arena.byte_len -= self.byte_len
        if self.older != NULL:
            (<Allocation> self.older).newer = self.newer
        if self.newer != NULL:
            (<Allocation> self.newer).older = self.older
        else:
            arena.first = self.older
        # What a forked child has inherited is its parent's.
        if arena.forks == vyre_forks() and vyre_free(arena.layer.device, arena.kind, &self.raw):
            arena.drop_surplus(False)

    @property
    def handle(self) -> int:
        """The VkBuffer, for regions and parts."""
        return <uint64_t> self.raw.buffer

    @property
    def is_mapped(self) -> bool:
        """Whether the host sees it."""
        return self.raw.mapped != NULL

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.raw.mapped == NULL:
            raise BufferError("the host does not see this memory")
        PyBuffer_FillInfo(view, self, self.raw.mapped, self.byte_len, False, flags)


def create_stand_in(make, tuple arguments not None):
    """Call ``make(*arguments)``, which creates one kompute tensor, and return it: it has no memory.

    Pipelines are made with it, whose buffers are others.
    """
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_thread outer
    vyre_begin_making(&outer)
    thread.is_stand_in = True
    try:
        return make(*arguments)
    finally:
        vyre_end_making(&outer)
