# cython: language_level=3, embedsignature=True, binding=True
"""Count, sum and keep events, cheaply enough for every replayed dispatch. Imports nothing of ours.

There is no lock. Every method holds the GIL from its first change to its last, and what it does in between neither runs Python
code nor makes an object for which garbage would be collected, so threads see each event whole. A free-threaded interpreter
takes the GIL back when the package is imported. The plain twin stands in tests/support/counters_twin.py.
"""

cimport cython
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, clockid_t, timespec

cdef int64_t clock_ns(clockid_t clock) noexcept:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t> now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef int64_t monotonic_ns() noexcept:
    return clock_ns(CLOCK_MONOTONIC)


cdef int64_t system_ns(Counters tally, int64_t now_ns) noexcept:
    """Return the system's time at ``now_ns`` of the clock that only goes on, in ns since 1970.

    How far it is ahead is looked up ten times in a millisecond at most: a look at a clock is a tenth of what the host does for
    a run of a bound kernel.
    """
    cdef int64_t seen_ns, looked_ns
    if not 0 <= now_ns - tally._looked_ns < LOOKED_AT_NS:
        seen_ns = clock_ns(CLOCK_REALTIME)
        looked_ns = clock_ns(CLOCK_MONOTONIC)
        if looked_ns - now_ns >= LOOKS_TAKE_NS:  # the thread stood still in between
            return seen_ns
        tally._ahead_ns, tally._looked_ns = seen_ns - looked_ns, now_ns
    return now_ns + tally._ahead_ns


@cython.final
@cython.no_gc_clear  # the lists are there as long as it is; what holds it clears the cycles
cdef class Counters:
    """Counts and sums by kind, and the last 256 events. Kinds are numbers from 0 on.

    ``hear``, where it is not None, is called after each event with its parts, as ``recent`` returns them.
    """

    def __cinit__(self, int kinds):
        """Start with nothing. Raises ValueError unless there are 1 to 16 kinds."""
        if not 0 < kinds <= MOST_KINDS:
            raise ValueError(f"{kinds} kinds are outside 1 to {MOST_KINDS}")
        self._kinds = kinds
        self._looked_ns = -LOOKED_AT_NS
        self._keys = [None] * KEPT
        self._details = [None] * KEPT

    def add(self, int kind, object duration_ns, object key, int64_t count, object detail):
        """Count an event that ends now, keep it, and let it be heard. A ``duration_ns`` of None is not summed.

        Raises ValueError for a kind that there is not, OverflowError for a count or duration that does not fit 64 bits.
        """
        check_kind(self, kind)
        if duration_ns is None:
            keep(self, kind, False, 0, key, count, detail, monotonic_ns())
        else:
            keep(self, kind, True, duration_ns, key, count, detail, monotonic_ns())

    def counts(self):
        """Return how many there were of each kind."""
        return [self._counts[kind] for kind in range(self._kinds)]

    def total_ns(self):
        """Return the nanoseconds that the timed ones of each kind took in all."""
        return [self._total_ns[kind] for kind in range(self._kinds)]

    def recent(self):
        """Return (kind, ended_ns, duration_ns, key, count, detail) of each event that is kept, the latest at the end.

        ``ended_ns`` is in ns since 1970 by the system's clock; ``duration_ns`` is None where none was given.
        """
        cdef Entry[KEPT] entries
        cdef list keys = [None] * KEPT
        cdef list details = [None] * KEPT
        cdef Py_ssize_t filled = self._filled
        cdef Py_ssize_t first = (self._next + KEPT - filled) % KEPT
        cdef Py_ssize_t i, at
        # Copied before any tuple is made: collecting garbage runs Python code, and then other threads add.
        for i in range(filled):
            at = (first + i) % KEPT
            entries[i] = self._entries[at]
            keys[i] = self._keys[at]
            details[i] = self._details[at]
        return [parts_of(&entries[i], keys[i], details[i]) for i in range(filled)]


cdef int check_kind(Counters tally, int kind) except -1:
    if not 0 <= kind < tally._kinds:
        raise ValueError(f"kind {kind} is outside 0 to {tally._kinds - 1}")
    return 0


cdef tuple parts_of(const Entry* entry, object key, object detail):
    return entry.kind, entry.ended_ns, entry.duration_ns if entry.is_timed else None, key, entry.count, detail


cdef int keep(
    Counters tally, int kind, bint is_timed, int64_t duration_ns, object key, int64_t count, object detail, int64_t now_ns
) except -1:
    cdef Py_ssize_t at = tally._next
    cdef Entry* entry = &tally._entries[at]
    # Held until all is written: the last reference to something may run Python code when it goes.
    cdef object _old_key = tally._keys[at]
    cdef object _old_detail = tally._details[at]
    entry.ended_ns = system_ns(tally, now_ns)
    entry.duration_ns = duration_ns
    entry.count = count
    entry.kind = kind
    entry.is_timed = is_timed
    tally._keys[at] = key
    tally._details[at] = detail
    tally._counts[kind] += count
    tally._total_ns[kind] += duration_ns
    tally._next = (at + 1) % KEPT
    if tally._filled < KEPT:
        tally._filled += 1
    if tally.hear is not None:
        tally.hear(parts_of(entry, key, detail))
    return 0


@cython.final
@cython.no_gc_clear  # the tally is there as long as it is
cdef class Replays:
    """Tells a tally of the runs of one recorded dispatch: events of one kind and one key, without detail."""

    def __cinit__(self, Counters tally not None, int kind, object key):
        """Report nothing yet. Raises ValueError for a kind that the tally has not."""
        check_kind(tally, kind)
        self._tally = tally
        self._kind = kind
        self._key = key

    def now(self):
        """Return the ns of a clock that only goes on, for ``ended``."""
        return monotonic_ns()

    def ended(self, int64_t began_ns):
        """Add a run that began at that ``now`` and ends now."""
        self.add(began_ns)

    cdef int add(self, int64_t began_ns) except -1:
        cdef int64_t now_ns = monotonic_ns()
        return keep(self._tally, self._kind, True, now_ns - began_ns, self._key, 1, "", now_ns)

    def handed_over(self):
        """Add a run that was begun and not waited for."""
        keep(self._tally, self._kind, False, 0, self._key, 1, "", monotonic_ns())
