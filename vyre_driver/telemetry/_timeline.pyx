# cython: language_level=3, embedsignature=True, binding=True
"""Keep what a driver did, with its times and threads, while that is asked for. Imports nothing of ours.

As in _counters.pyx there is no lock: adding holds the GIL from the first change to the last. An event is 40 bytes of an array
that grows up to a limit; beyond it events are counted, and left out.
"""

import threading

cimport cython
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, realloc
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef extern from "native_thread.h":
    uint32_t vyre_native_thread()


cdef enum:
    FIRST_CAPACITY = 4096
    MOST_EVENTS = 1 << 26
    MOST_NAMES = 1 << 16

# The first numbers are the layer's own: none, copies, fills.
_labels = [("", 0), ("copy", 0), ("fill", 0)]
_numbers = {}


def label_of(str name not None, int64_t byte_len=0) -> int:
    """Return the number of a kernel's name and the bytes that a dispatch of it reads and writes; the same for the same two.

    Numbers are those of the process, and stay: they are in command buffers.
    """
    cdef tuple key = (name, byte_len)
    found = _numbers.get(key)
    if found is None:
        found = _numbers.setdefault(key, len(_labels))
        if found == len(_labels):
            _labels.append(key)
    return found


def label_of_number(number: int) -> tuple[str, int]:
    """Return the name and the bytes of a label."""
    return _labels[number]


cdef int64_t now_ns() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t> now.tv_sec * 1_000_000_000 + now.tv_nsec


@cython.final
@cython.no_gc_clear  # it is there as long as what adds to it
cdef class Timeline:
    """Events with their times. Where it is off, which is how it begins, adding one does nothing."""

    def __cinit__(self):
        self._texts, self._threads, self._names = {}, {}, {}

    def __dealloc__(self):
        free(self._events)

    def keep(self, Py_ssize_t most) -> Keeping:
        """Keep events as long as what is returned lives, ``most`` of them; where they are kept already, as many as those.

        They stay until the next time that they begin to be kept. Raises ValueError for a number that is not from 1 to 2**26.
        """
        if not 0 < most <= MOST_EVENTS:
            raise ValueError(f"{most} events are outside 1 to {MOST_EVENTS}")
        cdef dict names = {one.native_id: one.name for one in threading.enumerate()}
        if self._users == 0:
            self._most, self._filled, self.dropped, self._thread = most, 0, 0, 0
            self._texts, self._threads = {}, names
        return Keeping(self)

    cdef void use(self, int more) noexcept:
        self._users += more
        self.is_on = self._users > 0

    def now(self) -> int:
        """Return the ns of CLOCK_MONOTONIC where it is on, else 0."""
        return now_ns() if self.is_on else 0

    def add(
        self, uint32_t kind, int64_t began_ns, uint32_t label=0, object text=None, int64_t count=1, int64_t ended_ns=0
    ) -> None:
        """Add an event of this thread, from ``began_ns`` to ``ended_ns``, which is now where it is 0.

        Where ``began_ns`` is 0 nothing is added: it was off then.
        """
        if self.is_on and began_ns:
            self.note(kind, label, text, count, began_ns, ended_ns if ended_ns else now_ns())

    cdef int note(
        self, uint32_t kind, uint32_t label, object text, int64_t count, int64_t began_ns, int64_t ended_ns
    ) except -1:
        cdef Event* entry
        cdef uint32_t thread = vyre_native_thread()
        cdef uint32_t number = 0
        if self._filled == self._most or (self._filled == self._capacity and not self.grow()):
            self.dropped += 1
            return 0
        if text is not None:
            found = self._texts.get(text)
            number = len(self._texts) + 1 if found is None else found
            if found is None:
                self._texts[text] = number
        entry = &self._events[self._filled]
        self._filled += 1
        entry.began_ns, entry.ended_ns = began_ns, ended_ns
        entry.kind, entry.label, entry.text, entry.thread = kind, label, number, thread
        entry.count = <uint32_t> min(count, <int64_t> 0xFFFFFFFF)
        if thread != self._thread:
            self._thread = thread
            if thread not in self._threads:  # no main thread's, which was there at the start: nothing interrupts this
                self._threads[thread] = threading.current_thread().name
        return 0

    cdef bint grow(self) noexcept:
        cdef Py_ssize_t wanted = max(FIRST_CAPACITY, 2 * self._capacity)
        cdef Event* grown = <Event*> realloc(self._events, wanted * sizeof(Event))
        if grown == NULL:
            return False
        self._events, self._capacity = grown, wanted
        return True

    def events(self) -> list[tuple[int, int, int, int, int, int, object]]:
        """Return (began_ns, ended_ns, thread, kind, label, count, text) of each, in the order in which they were added."""
        cdef list texts = [None, *self._texts]
        cdef Py_ssize_t i
        cdef Py_ssize_t filled = self._filled
        cdef list found = []
        cdef Event entry
        for i in range(min(filled, self._filled)):
            entry = self._events[i]
            times = entry.began_ns, entry.ended_ns
            found.append((*times, entry.thread, entry.kind, entry.label, entry.count, texts[entry.text]))
        return found

    def name(self, str key not None, str name not None) -> None:
        """Remember the name of the kernel with this key in hex, of the last 65,536."""
        if len(self._names) >= MOST_NAMES:
            self._names.clear()
        self._names[key] = name

    def names(self) -> dict[str, str]:
        """Return the names of kernels by their keys."""
        return dict(self._names)

    def threads(self) -> dict[int, str]:
        """Return the names of the threads by their native ids."""
        return dict(self._threads)


@cython.final
@cython.no_gc_clear
cdef class Keeping:
    """Has a timeline keep events as long as it lives, whatever interrupts those who hold it."""

    cdef Timeline timeline

    def __cinit__(self, Timeline timeline not None):
        self.timeline = timeline
        timeline.use(1)

    def __dealloc__(self):
        if self.timeline is not None:
            self.timeline.use(-1)
