# cython: language_level=3, embedsignature=True, binding=True
"""Count, sum and keep events, cheaply enough for every dispatch.

There is no lock. Every method holds the GIL from its first change to its last, and what it does in between neither runs Python
code nor makes an object for which garbage would be collected, so threads see each event whole. A free-threaded interpreter
takes the GIL back when the package is imported. The plain twin stands in tests/support/counters_twin.py.
"""

cimport cython
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, clockid_t, timespec

cdef extern from *:
    int __builtin_clzll(unsigned long long value) noexcept


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
    """Counts, sums and histograms by kind, and the last 256 events. Kinds are numbers from 0 on.

    What an event is of is any object. ``hear``, where it is not None, is called after each event with its parts, as ``recent``
    returns them. ``timeline``, where it is not None and on, gets each with its times.
    """

    def __cinit__(self, int kinds):
        """Start with nothing. Raises ValueError unless there are 1 to 16 kinds."""
        if not 0 < kinds <= MOST_KINDS:
            raise ValueError(f"{kinds} kinds are outside 1 to {MOST_KINDS}")
        self._kinds = kinds
        self._looked_ns = -LOOKED_AT_NS
        self._subjects = [None] * KEPT
        self._details = [None] * KEPT

    def add(self, int kind, object duration_ns, object subject, int64_t count, object detail):
        """Count an event that ends now, keep it, and let it be heard. A ``duration_ns`` of None is not summed.

        Raises ValueError for a kind that there is not, OverflowError for a count or duration that does not fit 64 bits.
        """
        check_kind(self, kind)
        if duration_ns is None:
            keep(self, kind, False, 0, subject, count, detail, monotonic_ns())
        else:
            keep(self, kind, True, duration_ns, subject, count, detail, monotonic_ns())

    def counts(self):
        """Return how many there were of each kind."""
        return [self._counts[kind] for kind in range(self._kinds)]

    def total_ns(self):
        """Return the nanoseconds that the timed ones of each kind took in all."""
        return [self._total_ns[kind] for kind in range(self._kinds)]

    def histogram(self, int kind):
        """Return how many events of a kind were timed, by duration.

        Place 0 has those of at most 1 ns, place n those of more than 2 ** (n - 1) and at most 2 ** n ns, the last all longer
        ones. Raises ValueError for a kind that there is not.
        """
        check_kind(self, kind)
        return [self._histograms[kind * PLACES + place] for place in range(PLACES)]

    def recent(self):
        """Return (kind, ended_ns, duration_ns, subject, count, detail) of each event that is kept, the latest at the end.

        ``ended_ns`` is in ns since 1970 by the system's clock; ``duration_ns`` is None where none was given.
        """
        cdef Entry[KEPT] entries
        cdef list subjects = [None] * KEPT
        cdef list details = [None] * KEPT
        cdef Py_ssize_t filled = self._filled
        cdef Py_ssize_t first = (self._next + KEPT - filled) % KEPT
        cdef Py_ssize_t i, at
        # Copied before any tuple is made: collecting garbage runs Python code, and then other threads add.
        for i in range(filled):
            at = (first + i) % KEPT
            entries[i] = self._entries[at]
            subjects[i] = self._subjects[at]
            details[i] = self._details[at]
        return [parts_of(&entries[i], subjects[i], details[i]) for i in range(filled)]


cdef int check_kind(Counters tally, int kind) except -1:
    if not 0 <= kind < tally._kinds:
        raise ValueError(f"kind {kind} is outside 0 to {tally._kinds - 1}")
    return 0


cdef tuple parts_of(const Entry* entry, object subject, object detail):
    return entry.kind, entry.ended_ns, entry.duration_ns if entry.is_timed else None, subject, entry.count, detail


cdef int place_of(int64_t duration_ns) noexcept:
    """Return the place of a duration in a histogram: the exponent of the next power of two."""
    if duration_ns <= 1:
        return 0
    if duration_ns > (<int64_t> 1 << (PLACES - 2)):
        return PLACES - 1
    return 64 - __builtin_clzll(<unsigned long long> (duration_ns - 1))


cdef int keep(
    Counters tally, int kind, bint is_timed, int64_t duration_ns, object subject, int64_t count, object detail, int64_t now_ns
) except -1:
    cdef Py_ssize_t at = tally._next
    cdef Entry* entry = &tally._entries[at]
    # Held until all is written: the last reference to something may run Python code when it goes.
    cdef object _old_subject = tally._subjects[at]
    cdef object _old_detail = tally._details[at]
    entry.ended_ns = system_ns(tally, now_ns)
    entry.duration_ns = duration_ns
    entry.count = count
    entry.kind = kind
    entry.is_timed = is_timed
    tally._subjects[at] = subject
    tally._details[at] = detail
    tally._counts[kind] += count
    tally._total_ns[kind] += duration_ns
    if is_timed:
        tally._histograms[kind * PLACES + place_of(duration_ns)] += 1
    tally._next = (at + 1) % KEPT
    if tally._filled < KEPT:
        tally._filled += 1
    if tally.timeline is not None and tally.timeline.is_on:
        tally.timeline.note(kind, 0, (subject, detail), count, now_ns - duration_ns, now_ns)
    if tally.hear is not None:
        tally.hear(parts_of(entry, subject, detail))
    return 0


@cython.final
cdef class KernelCounts:
    """Dispatches of the kernels of one name, the ns of those that were waited for, and the ns that the device has measured."""

    def __cinit__(self, name):
        """Have counted nothing."""
        self.name = name


@cython.final
@cython.no_gc_clear  # the tally is there as long as it is
cdef class Dispatches:
    """Tells a tally of dispatches of one kind and one subject, each with the same detail unless it has one of its own.

    ``kernels`` are the KernelCounts of what one of them runs, with how many there are of each: several of a batch.
    """

    def __cinit__(self, Counters tally not None, int kind, int ended, object subject, tuple kernels not None, object detail=""):
        """Report nothing yet; ``ended`` is the kind of the end of what was handed over.

        Raises ValueError for a kind that the tally has not, TypeError unless kernels are pairs of a KernelCounts and an int.
        """
        cdef KernelCounts _counts
        cdef int64_t number
        check_kind(tally, kind)
        check_kind(tally, ended)
        for _counts, number in kernels:
            self._count += number
        self._tally = tally
        self._kind, self._ended = kind, ended
        self._kernels = kernels
        self._alone = None if len(kernels) != 1 else kernels[0][0]
        self.subject, self.detail = subject, detail

    def labelled(self, detail):
        """Return the same with another detail."""
        return Dispatches(self._tally, self._kind, self._ended, self.subject, self._kernels, detail)

    def now(self):
        """Return the ns of a clock that only goes on, for ``ran``: as time.perf_counter_ns."""
        return monotonic_ns()

    def ran(self, int64_t began_ns, object detail=None):
        """Add a run that began at that ``now`` and ends now."""
        self.add(began_ns, self.detail if detail is None else detail)

    cdef int add(self, int64_t began_ns, object detail) except -1:
        cdef int64_t now_ns = monotonic_ns()
        self.count(now_ns - began_ns, True)
        return keep(self._tally, self._kind, True, now_ns - began_ns, self.subject, self._count, detail, now_ns)

    def handed_over(self):
        """Add a run that has begun and is not waited for; returns when, for ``was_seen``."""
        cdef int64_t now_ns = monotonic_ns()
        self.count(0, True)
        keep(self._tally, self._kind, False, 0, self.subject, self._count, self.detail, now_ns)
        return now_ns

    def was_seen(self, int64_t began_ns):
        """Add the end of what was handed over then."""
        cdef int64_t now_ns = monotonic_ns()
        self.count(now_ns - began_ns, False)
        keep(self._tally, self._ended, True, now_ns - began_ns, self.subject, self._count, self.detail, now_ns)

    def measured(self, int64_t device_ns):
        """Add the ns that the device itself has measured of a dispatch; of several kernels none is said to have taken them."""
        if self._alone is not None:
            self._alone.device_ns += device_ns

    cdef int count(self, int64_t duration_ns, bint is_new) except -1:
        """Count it for its kernels; of several none is said to have taken the time."""
        cdef KernelCounts one
        if self._alone is not None:
            self._alone.total_ns += duration_ns
            self._alone.dispatches += self._count if is_new else 0
        elif is_new:
            for pair in self._kernels:
                one = <KernelCounts> (<tuple> pair)[0]
                one.dispatches += <int64_t> (<tuple> pair)[1]
        return 0
