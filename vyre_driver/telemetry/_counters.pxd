"""The tally of _counters.pyx for other extensions of the package."""

from libc.stdint cimport int64_t

cdef enum:
    KEPT = 256
    MOST_KINDS = 16
    LOOKED_AT_NS = 100_000
    LOOKS_TAKE_NS = 300


cdef struct Entry:
    int64_t ended_ns
    int64_t duration_ns
    int64_t count
    int kind
    bint is_timed


cdef int64_t monotonic_ns() noexcept


cdef class Counters:
    cdef int64_t[MOST_KINDS] _counts
    cdef int64_t[MOST_KINDS] _total_ns
    cdef Entry[KEPT] _entries  # a ring, of which _next is written next; keys and details lie beside it
    cdef list _keys
    cdef list _details
    cdef Py_ssize_t _next
    cdef Py_ssize_t _filled
    cdef int _kinds
    cdef int64_t _looked_ns  # when, by the clock that only goes on, and how far the system's was ahead of that
    cdef int64_t _ahead_ns
    cdef public object hear


cdef class Replays:
    cdef Counters _tally
    cdef int _kind
    cdef object _key

    cdef int add(self, int64_t began_ns) except -1
