"""What _layer.pyx runs and launches, for other extensions of the package."""

from libc.stdint cimport uint32_t


cdef class Runnable:
    cdef int run_within(self, timeout) except -1


cdef class Launchable:
    cdef object in_use, owner, bound, fail
    cdef void* what  # vyre_launch
    cdef int run(self, list parts, const uint32_t* words, Py_ssize_t count) except -1
