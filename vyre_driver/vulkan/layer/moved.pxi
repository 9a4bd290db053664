"""Bytes counted as moved: included by _layer.pyx."""

cdef extern from * nogil:
    int __ATOMIC_SEQ_CST
    uint64_t __atomic_load_n(uint64_t* at, int order)
    uint64_t __atomic_add_fetch(uint64_t* at, uint64_t by, int order)


cdef class MovedBytes:
    """Bytes of arrays that the host has handed to a device, and got from it."""

    cdef uint64_t to_device
    cdef uint64_t from_device

    def add(self, uint64_t up, uint64_t down):
        """Count what goes up to the device, and what comes down."""
        __atomic_add_fetch(&self.to_device, up, __ATOMIC_SEQ_CST)
        __atomic_add_fetch(&self.from_device, down, __ATOMIC_SEQ_CST)

    @property
    def up(self) -> int:
        """The bytes that went to the device."""
        return __atomic_load_n(&self.to_device, __ATOMIC_SEQ_CST)

    @property
    def down(self) -> int:
        """The bytes that came from it."""
        return __atomic_load_n(&self.from_device, __ATOMIC_SEQ_CST)
