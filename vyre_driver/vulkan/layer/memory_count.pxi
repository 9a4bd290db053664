"""Bytes counted as allocated, and as moved: included by _layer.pyx."""

cdef extern from * nogil:
    int __ATOMIC_SEQ_CST
    uint64_t __atomic_load_n(uint64_t* at, int order)
    uint64_t __atomic_add_fetch(uint64_t* at, uint64_t by, int order)
    uint64_t __atomic_sub_fetch(uint64_t* at, uint64_t by, int order)
    bint __atomic_compare_exchange_n(uint64_t* at, uint64_t* expected, uint64_t wanted, bint weak, int order, int or_else)


cdef class MemoryCount:
    """What is allocated on a device, in bytes.

    Counted without a lock and without Python code: what is given back may be so by a garbage collection anywhere, and where
    Ctrl-C would be lost with it.
    """

    cdef uint64_t bytes

    @property
    def allocated(self) -> int:
        """The bytes of all reservations that live."""
        return __atomic_load_n(&self.bytes, __ATOMIC_SEQ_CST)

    def reserve(self, uint64_t byte_len, uint64_t limit) -> Reservation | None:
        """Count bytes about to be allocated, as long as what comes back lives; None where they would be over the limit."""
        cdef Reservation made = Reservation.__new__(Reservation)
        cdef uint64_t before = __atomic_load_n(&self.bytes, __ATOMIC_SEQ_CST)
        while True:
            if before > limit or byte_len > limit - before:
                return None
            if __atomic_compare_exchange_n(&self.bytes, &before, before + byte_len, False, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST):
                made.count = self
                made.byte_len = byte_len
                return made


@cython.no_gc
cdef class Reservation:
    """Bytes counted as allocated until it goes."""

    cdef MemoryCount count
    cdef uint64_t byte_len

    def __dealloc__(self):
        if self.count is not None:
            __atomic_sub_fetch(&self.count.bytes, self.byte_len, __ATOMIC_SEQ_CST)


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
