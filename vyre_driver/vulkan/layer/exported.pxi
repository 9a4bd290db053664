"""Memory exported as a file descriptor: included by _layer.pyx."""

cdef extern from "exports.h" nogil:
    VkResult vyre_export_storage(vyre_device* device, int* fd)


cdef extern from "<unistd.h>" nogil:
    int close(int fd)


cdef class ExportedMemory:
    """A file descriptor of device memory, closed with this unless somebody has taken it, and the size of that memory."""

    cdef int fd
    cdef readonly uint64_t byte_len

    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        if self.fd >= 0:
            close(self.fd)

    def take(self) -> int:
        """Return the descriptor, which is the caller's to close from now on; -1 once it was taken."""
        cdef int fd = self.fd
        self.fd = -1
        return fd

    cdef int fill(self, LayerDevice device) except -1:
        """Export the storage buffer that this thread has made; a failure that the layer does not note is a RuntimeError."""
        cdef vyre_thread* thread = vyre_this_thread()
        cdef VkResult result = vyre_export_storage(device.device, &self.fd)
        self.byte_len = thread.storage_bytes
        if result != VK_SUCCESS and thread.failure.call == VYRE_CALL_NONE:
            raise RuntimeError(f"vkGetMemoryFdKHR returned {result}")
        return 0
