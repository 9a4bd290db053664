"""The lock of _lock.pyx for other extensions of the package."""

cdef extern from "pythread.h":
    ctypedef void* PyThread_type_lock


cdef class CallLock:
    cdef PyThread_type_lock _lock
    cdef object _refused
    cdef unsigned long _holder  # 0 while it is free; changed under the GIL by the thread itself
    cdef unsigned long _forks  # when it was made, or taken last

    cdef bint take_now(self) noexcept
    cdef void let_go(self) noexcept
    cdef int _renew(self) except -1
