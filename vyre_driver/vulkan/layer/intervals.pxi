"""When the device worked on each submission, by its own clock: included by _layer.pyx."""

cdef extern from "intervals.h" nogil:
    ctypedef struct vyre_interval:
        uint64_t first
        uint64_t last
        uint64_t submit_ns
        uint64_t submitted_ns
        uint32_t thread
        uint32_t label
        uint32_t queue
    ctypedef struct vyre_moment:
        uint64_t ticks
        uint64_t host_ns
        uint64_t deviation_ns
    c_bool vyre_start_intervals(vyre_device* device, size_t most)
    void vyre_stop_intervals(vyre_device* device)
    size_t vyre_copy_intervals(vyre_device* device, size_t begin, vyre_interval* out, size_t room)
    void vyre_count_intervals(vyre_device* device, uint64_t* counts)
    c_bool vyre_read_moment(vyre_device* device, vyre_moment* out)
    c_bool vyre_last_moment(vyre_device* device, vyre_moment* out)

cdef enum:
    COPIED = 512  # intervals at once


class Interval(NamedTuple):
    """One submission: the device's clock before and after it, and CLOCK_MONOTONIC around the call that handed it over.

    ``first`` is when the device came to it, which may have been at work on the one before; it has ended at ``last``. ``thread``
    is the native id of the thread that handed it over, ``label`` what its command buffer was recorded with (1 of copies, 2 of
    fills, 0 of kompute's), ``queue`` 0 for kompute's, and from 1 on those for copies.
    """

    first: int
    last: int
    submit_ns: int
    submitted_ns: int
    thread: int
    label: int
    queue: int


class Moment(NamedTuple):
    """The device's clock and CLOCK_MONOTONIC at one moment, which are ``deviation_ns`` apart at most."""

    ticks: int
    host_ns: int
    deviation_ns: int


cdef object as_moment(vyre_moment* found):
    return Moment(found.ticks, found.host_ns, found.deviation_ns)


@cython.no_gc_clear
cdef class KeptIntervals:
    """Has intervals kept as long as it lives; keep_intervals makes it. In a fork of the process it does nothing."""

    cdef LayerDevice layer
    cdef unsigned int forks

    def __init__(self):
        raise TypeError("keep_intervals makes KeptIntervals")

    def __dealloc__(self):
        if self.layer is not None and vyre_forks() == self.forks:
            with nogil:
                vyre_stop_intervals(self.layer.device)


def keep_intervals(LayerDevice device not None, size_t most) -> KeptIntervals | None:
    """Keep the intervals of what is submitted as long as what is returned lives, ``most`` of them.

    Returns None where memory is short or the device is gone. Where they are kept already, it is as many as those. They stay
    until the next time that they begin to be kept. The queue has timestamps.
    """
    cdef KeptIntervals made = KeptIntervals.__new__(KeptIntervals)
    cdef bint is_started
    made.forks = vyre_forks()
    with nogil:
        is_started = vyre_start_intervals(device.device, most)
    if not is_started:
        return None
    made.layer = device
    return made


def intervals(LayerDevice device not None) -> list[Interval]:
    """Return those that have ended, those of a queue in the order of submission."""
    cdef vyre_interval[COPIED] found
    cdef size_t count = 0
    cdef size_t begin = 0
    cdef size_t i
    cdef list made = []
    while True:
        with nogil:
            count = vyre_copy_intervals(device.device, begin, found, COPIED)
        for i in range(min(count - begin, <size_t> COPIED) if count > begin else 0):
            made.append(Interval(found[i].first, found[i].last, found[i].submit_ns, found[i].submitted_ns, found[i].thread,
                                 found[i].label, found[i].queue))
        begin += COPIED
        if begin >= count:
            return made


def missing_intervals(LayerDevice device not None) -> tuple[int, int, int]:
    """Return how many are not there: beyond ``most``, submitted with too many under way, and those that have not ended."""
    cdef uint64_t[3] counts
    vyre_count_intervals(device.device, counts)
    return counts[0], counts[1], counts[2]


def read_moment(LayerDevice device not None) -> Moment | None:
    """Read both clocks at once; None where the device cannot, or is gone."""
    cdef vyre_moment found
    return as_moment(&found) if vyre_read_moment(device.device, &found) else None


def last_moment(LayerDevice device not None) -> Moment | None:
    """Return both clocks as they were when a device was closed whose intervals were being kept; None otherwise."""
    cdef vyre_moment found
    return as_moment(&found) if vyre_last_moment(device.device, &found) else None
