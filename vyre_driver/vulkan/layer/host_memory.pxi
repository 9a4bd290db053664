"""Pages of this process that a device copies from and to by itself: included by _layer.pyx."""

cdef extern from "host_memory.h" nogil:
    void* vyre_map_pages(size_t count)
    void vyre_unmap_pages(void* pages, size_t count)
    uint64_t vyre_import_alignment(const vyre_device* device)
    VkResult vyre_import_pages(vyre_device* device, void* pages, uint64_t count, VkBuffer* out)
    void vyre_drop_import(vyre_device* device, VkBuffer buffer)


@cython.no_gc
cdef class PinnedPages:
    """Pages that ``pin_pages`` imported into a device; they stay when that goes."""

    cdef object __weakref__
    cdef LayerDevice owner
    cdef VkBuffer buffer
    cdef void* pages
    cdef size_t byte_len

    def __dealloc__(self):
        with nogil:
            if self.buffer != NULL:
                vyre_drop_import(self.owner.device, self.buffer)
            if self.pages != NULL:
                vyre_unmap_pages(self.pages, self.byte_len)

    @property
    def address(self) -> int:
        """Where they begin."""
        return <uint64_t> self.pages

    @property
    def handle(self) -> int:
        """The VkBuffer of all of them, for regions of a Transfer, as long as the device is there."""
        return <uint64_t> self.buffer


def can_pin(LayerDevice device not None) -> bool:
    """Return whether the device can import pages of this process."""
    return vyre_import_alignment(device.device) != 0


def pin_pages(LayerDevice device not None, uint64_t byte_len) -> PinnedPages | Failure:
    """Return zeroed pages for ``byte_len`` bytes that the device can copy from and to, or the Failure.

    Without the GIL, for it takes a tenth of a second for each GiB. MemoryError is raised where the process gets no memory.
    """
    cdef uint64_t most = ~(<uint64_t> 0)
    cdef uint64_t alignment = vyre_import_alignment(device.device)
    cdef PinnedPages made = PinnedPages.__new__(PinnedPages)
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure before = thread.failure
    cdef VkResult result
    if alignment == 0 or byte_len == 0 or byte_len > most - alignment:
        raise ValueError(f"{byte_len} bytes cannot be pinned for this device")
    made.owner = device
    made.byte_len = <size_t> ((byte_len + alignment - 1) // alignment * alignment)
    with nogil:
        made.pages = vyre_map_pages(made.byte_len)
    if made.pages == NULL:
        raise MemoryError
    with nogil:
        result = vyre_import_pages(device.device, made.pages, made.byte_len, &made.buffer)
    thread.failure = before  # the result tells
    return made if result == VK_SUCCESS else Failure("allocate", result, byte_len)
