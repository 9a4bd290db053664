"""The timeline of _timeline.pyx for other extensions of the package."""

from libc.stdint cimport int64_t, uint32_t


cdef struct Event:
    int64_t began_ns
    int64_t ended_ns
    uint32_t kind
    uint32_t label
    uint32_t text
    uint32_t thread
    uint32_t count


cdef class Timeline:
    cdef readonly bint is_on
    cdef Event* _events
    cdef Py_ssize_t _filled
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _most
    cdef readonly int64_t dropped
    cdef int _users
    cdef uint32_t _thread  # of the last event, whose name is known
    cdef dict _texts
    cdef dict _threads
    cdef dict _names

    cdef int note(
        self, uint32_t kind, uint32_t label, object text, int64_t count, int64_t began_ns, int64_t ended_ns
    ) except -1
    cdef bint grow(self) noexcept
    cdef void use(self, int more) noexcept
