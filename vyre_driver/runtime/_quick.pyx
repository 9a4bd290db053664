# cython: language_level=3, embedsignature=True, binding=True
"""Calls by position of forms that were met before, on buffers: from the arguments to a launch in one pass.

What is out of the ordinary is left to the plain code, which proves it from the ground up or says what is wrong.
"""

from weakref import ref

cimport cython
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport getenv
from libc.string cimport memcpy

from vyre_driver.binding._call_form cimport packed
from vyre_driver.kompute._facts cimport Facts
from vyre_driver.telemetry._counters cimport Dispatches, monotonic_ns
from vyre_driver.vulkan.layer._layer cimport Launchable

cdef enum:
    MOST_ARGUMENTS = 64
    MOST_WORDS = 64
    MOST_LAUNCHES = 4


@cython.no_gc_clear
cdef class QuickLaunch:
    """The launch of calls of one form: ``forms`` are (place, dtype, shape) of the buffers, in the order of their bindings.

    ``numbers`` are (place, kind, word) of plain numbers, and ``words`` the push constants around them. ``written`` are the
    places of what a call returns. ``reference`` is a weak one to what is launched, which has ``changed()``, and ``watch`` says
    sooner that nothing of it has.
    """

    cdef object __weakref__
    cdef Launchable launchable
    cdef Dispatches dispatches
    cdef object device, array_type, reference, watch, part_of, failed
    cdef Py_ssize_t count, array_count, number_count, word_count
    cdef int[MOST_ARGUMENTS] array_places, number_places, number_kinds, number_words
    cdef list dtypes, shapes
    cdef tuple written
    cdef uint32_t[MOST_WORDS] words

    def __init__(
        self, Launchable launchable not None, Dispatches dispatches not None, failed, device, type array_type not None,
        reference, watch, part_of, Py_ssize_t count, tuple forms, tuple numbers, tuple words, tuple written,
    ):
        cdef Py_ssize_t i
        if len(forms) + len(numbers) != count or count > MOST_ARGUMENTS or len(words) > MOST_WORDS:
            raise ValueError(f"{len(forms)} buffers, {len(numbers)} numbers and {len(words)} words of {count} arguments")
        self.launchable, self.dispatches, self.failed = launchable, dispatches, failed
        self.device, self.array_type, self.part_of = device, array_type, part_of
        self.reference, self.watch = reference, watch
        self.count, self.array_count, self.number_count = count, len(forms), len(numbers)
        self.word_count, self.written = len(words), written
        self.dtypes, self.shapes = [dtype for _, dtype, _ in forms], [shape for _, _, shape in forms]
        for i in range(len(forms)):
            self.array_places[i] = checked_place(forms[i][0], count)
        for i in range(len(numbers)):
            self.number_places[i] = checked_place(numbers[i][0], count)
            self.number_kinds[i] = numbers[i][1]
            self.number_words[i] = checked_place(numbers[i][2], len(words))
        for i in range(len(words)):
            self.words[i] = words[i]
        for place in written:
            checked_place(place, count)

    cdef list parts(self, tuple given):
        """Return what a call binds; None where it has another form."""
        cdef list made = []
        cdef object array
        cdef Facts facts
        cdef Py_ssize_t i, k
        for i in range(self.array_count):
            array = given[self.array_places[i]]
            if type(array) is not self.array_type:
                return None
            facts = <Facts> array
            if facts.device is not self.device or not is_of(facts, self.dtypes[i], self.shapes[i]):
                return None
            for k in range(i):
                if (<Facts> given[self.array_places[k]])._storage is facts._storage:
                    return None  # whether they overlap is a matter of which the kernel writes
            part = facts.part
            if part is None:
                part = self.part_of(array)
                if part is None:
                    return None
            made.append(part)
        return made

    cdef bint is_current(self) except -1:
        cdef object launch = self.reference()
        if launch is None:
            return False
        return (self.watch is not None and self.watch.is_untouched()) or launch.changed() is None

    cdef int run(self, tuple given) except -1:
        """Launch a call, and wait for it; returns whether it had the form."""
        cdef uint32_t[MOST_WORDS] words
        cdef int64_t began_ns = monotonic_ns()
        cdef list parts
        cdef Py_ssize_t i
        if len(given) != self.count:
            return False
        memcpy(words, self.words, self.word_count * sizeof(uint32_t))
        for i in range(self.number_count):
            if not packed(given[self.number_places[i]], self.number_kinds[i], &words[self.number_words[i]]):
                return False
        parts = self.parts(given)
        if parts is None or not self.is_current():
            return False
        try:
            self.launchable.run(parts, words, self.word_count)
        except Exception as error:
            self.failed(error, monotonic_ns() - began_ns)
            raise
        self.dispatches.add(began_ns, self.dispatches.detail)
        return True

    cdef object returned(self, tuple given):
        cdef Py_ssize_t place
        if len(self.written) == 1:
            place = self.written[0]
            return given[place]
        return tuple([given[place] for place in self.written]) or None


class NotQuick:
    """What ``QuickLaunches.run`` returns where a call has none of its forms."""


@cython.no_gc_clear
cdef class QuickLaunches:
    """A few of them, the latest first, each as long as somebody holds it: a driver's go with it.

    None is used while the environment variable ``interpret`` is set.
    """

    cdef list launches  # weak references
    cdef bytes interpret

    def __init__(self, bytes interpret not None):
        self.launches, self.interpret = [], interpret

    def add(self, QuickLaunch launch not None) -> None:
        """Use it from now on, in the place of the one that is the oldest of ``MOST_LAUNCHES``."""
        self.launches = [ref(launch), *self.launches[: MOST_LAUNCHES - 1]]

    def run(self, tuple given not None) -> object:
        """Run a call by position, and return what it does; NotQuick where it has none of the forms. Raises as a call."""
        cdef list launches = self.launches
        cdef const char* value
        cdef object reference
        cdef QuickLaunch launch
        if not launches:
            return NotQuick
        value = getenv(self.interpret)
        if value != NULL and value[0] != 0:
            return NotQuick
        for reference in launches:
            launch = reference()
            if launch is not None and launch.run(given):
                return launch.returned(given)
        return NotQuick


cdef inline bint is_of(Facts facts, object dtype, object shape) except -1:
    if facts.dtype is not dtype and not PyObject_RichCompareBool(facts.dtype, dtype, Py_EQ):
        return False
    return facts.shape is shape or PyObject_RichCompareBool(facts.shape, shape, Py_EQ)


cdef int checked_place(object place, Py_ssize_t count) except -1:
    if not 0 <= place < count:
        raise ValueError(f"place {place} of {count}")
    return place
