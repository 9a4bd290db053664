"""What _layer.pyx runs, for other extensions of the package."""


cdef class Runnable:
    cdef int run_within(self, timeout) except -1
