"""Work that nobody holds any more and that the device has not ended: included by _layer.pyx.

Python runs no signal handler while an object is freed, so a wait in there cannot be interrupted. It is a short one. What has
not ended then goes on in ``unfinished``, with all that it uses, until ``drop_ended`` finds that it has ended.
"""

cdef extern from "fork_guard.h" nogil:
    unsigned int vyre_forks()

cdef uint64_t NO_END = 0xFFFFFFFFFFFFFFFF  # of a time-out
cdef uint64_t PATIENCE_NS = 500_000_000
cdef list unfinished = []  # a Submitted each; as many as there is work that runs
cdef Py_ssize_t asked = 0  # of them, taken out by a thread that looks whether they have ended
cdef bint is_at_exit = False


cdef uint64_t patience_ns(LayerDevice owner) noexcept:
    """Return how long an object that is freed waits for its work: not at all behind work that took too long already."""
    cdef Submitted work
    if is_at_exit:
        return NO_END
    for work in unfinished:
        if work.owner is owner:
            return 0
    return PATIENCE_NS


def drop_ended() -> int:
    """Let go of the work in ``unfinished`` that has ended; returns how much has not, and never waits for it."""
    global asked
    cdef Submitted work
    cdef bint has_ended
    for _ in range(len(unfinished)):
        if not unfinished:  # another thread is in here too
            break
        work = unfinished.pop(0)
        asked += 1
        has_ended = work.has_ended_within(0)
        asked -= 1
        if not has_ended:
            unfinished.append(work)
    return len(unfinished) + asked


def begin_exit() -> None:
    """Have objects wait for all of their work from now on: nobody would look into ``unfinished`` again."""
    global is_at_exit
    is_at_exit = True


def abandon_unfinished() -> None:
    """In a forked child: keep for ever what is unfinished in the parent, which the child must not destroy."""
    global asked
    asked = 0  # by threads that the child does not have
    while unfinished:
        leak(unfinished.pop())
