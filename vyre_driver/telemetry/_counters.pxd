"""The tally of _counters.pyx for other extensions of the package."""

from libc.stdint cimport int64_t

from vyre_driver.telemetry._timeline cimport Timeline

cdef enum:
    KEPT = 256
    MOST_KINDS = 16
    PLACES = 44  # of a histogram: the last but one goes to 2 ** 42 ns, 73 minutes
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
    cdef int64_t[PLACES * MOST_KINDS] _histograms  # of one kind after the other
    cdef Entry[KEPT] _entries  # a ring, of which _next is written next; subjects and details lie beside it
    cdef list _subjects
    cdef list _details
    cdef Py_ssize_t _next
    cdef Py_ssize_t _filled
    cdef int _kinds
    cdef int64_t _looked_ns  # when, by the clock that only goes on, and how far the system's was ahead of that
    cdef int64_t _ahead_ns
    cdef public object hear
    cdef public Timeline timeline


cdef class KernelCounts:
    cdef readonly str name
    cdef readonly int64_t dispatches
    cdef readonly int64_t total_ns
    cdef readonly int64_t device_ns


cdef class Dispatches:
    cdef Counters _tally
    cdef int _kind
    cdef int _ended
    cdef int64_t _count
    cdef tuple _kernels
    cdef KernelCounts _alone
    cdef readonly object subject
    cdef readonly object detail

    cdef int add(self, int64_t began_ns, object detail) except -1
    cdef int count(self, int64_t duration_ns, bint is_new) except -1
