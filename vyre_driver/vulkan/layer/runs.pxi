"""Runs of bound kernels: included by _layer.pyx."""

cdef extern from "layer.h" nogil:
    c_bool vyre_begin_run(vyre_device* device, VkCommandBuffer commands, VkFence* fence, VkResult* result)
    VkResult vyre_end_run(vyre_device* device, uint64_t slice_ns, VkFence* fence)

cdef double MOST_S = 4294967296.0  # 136 years, as for kompute's Deadline


cdef class Runnable:
    """What is run in a call of C, as the ``run`` of a subclass does from Python."""

    cdef int run_within(self, timeout) except -1:
        raise NotImplementedError


@cython.no_gc_clear  # what it refers to refers to none of it; its subclass clears the cycles
cdef class Runs(Runnable):
    """The runs of one recorded work, one at a time. Where nothing is in the way of one, it is a single call of C.

    A subclass has ``_run_after_others(timeout)``, which does any run, ``_raise_result(call, result)``, which raises what a
    failed VkResult stands for, and ``_passed(timeout)``, which returns the error of a run that did not end in time.
    """

    cdef DeviceUse in_use
    cdef Dispatch dispatch
    cdef readonly CallLock _lock
    cdef public uint64_t _generation

    def __init__(self, DeviceUse in_use not None, CallLock lock not None, works):
        self.in_use = in_use
        self._lock = lock
        self._generation = 0
        if len(works) == 1 and type(works[0]) is Dispatch:
            self.dispatch = works[0]

    def run(self, timeout=None) -> None:
        """Submit, once an earlier submission has ended, and wait, ``timeout`` seconds in all; raises as ``wait``."""
        self.run_within(timeout)

    cdef int run_within(self, timeout) except -1:
        cdef uint64_t left_ns = NO_END
        if self.dispatch is None or not is_plain(timeout, &left_ns) or not self.run_alone_ns(left_ns, timeout):
            self._run_after_others(timeout)
        return 0

    cdef bint run_alone_ns(self, uint64_t left_ns, timeout) except -1:
        """Run it, if no thread has the lock and nothing of it is pending; returns whether."""
        self.in_use.begin()
        try:
            if not self._lock.take_now():
                return False
            try:
                if self.dispatch.fence != NULL or self.dispatch.commands == NULL:
                    return False
                self.submit_and_wait(left_ns, timeout)
            finally:
                self._lock.let_go()
        finally:
            vyre_use_end(&self.in_use.use)
        return True

    cdef int submit_and_wait(self, uint64_t left_ns, timeout) except -1:
        # Before it is submitted: whoever asks for an earlier one meanwhile gets the answer that it has ended.
        self._generation += 1
        cdef VkResult result = run_once(self.dispatch, min(left_ns, SLICE_NS))
        if result == VK_SUCCESS:
            result = self.dispatch.seen_end()
            if result == VK_SUCCESS:
                return 0
            self._raise_result("wait", result)
        if self.dispatch.fence == NULL:
            self._generation -= 1
            self._raise_result("submit", result)
        if result == VK_TIMEOUT and left_ns > SLICE_NS:
            PyErr_CheckSignals()
            result = self.dispatch.wait_ns(NO_END if left_ns == NO_END else left_ns - SLICE_NS)
        if result == VK_TIMEOUT:
            raise self._passed(timeout)
        if result != VK_SUCCESS:
            self._raise_result("wait", result)
        return 0


cdef VkResult run_once(Dispatch dispatch, uint64_t slice_ns) noexcept:
    """Submit it, and wait so long at most; a failure with nothing pending is the submission's.

    The GIL goes when the device has got the work: letting it go takes the run no time then.
    """
    cdef vyre_device* device = dispatch.owner.device
    cdef vyre_thread* thread = vyre_this_thread()
    cdef vyre_failure before = thread.failure
    cdef VkResult result
    if not vyre_begin_run(device, dispatch.commands, &dispatch.fence, &result):
        with nogil:
            result = vyre_run_commands(device, dispatch.commands, slice_ns, &dispatch.fence)
    elif result == VK_SUCCESS:
        with nogil:
            result = vyre_end_run(device, slice_ns, &dispatch.fence)
    thread.failure = before  # the result tells
    return result


cdef bint is_plain(timeout, uint64_t* ns) except -1:
    """Whether a time-out is None or a number of seconds that is a float or an int; ``ns`` are its nanoseconds."""
    cdef double seconds
    if timeout is None:
        return True
    if type(timeout) is float:
        seconds = timeout
    elif type(timeout) is int and 0 <= timeout < MOST_S:
        seconds = timeout
    else:
        return False
    if not 0 <= seconds < MOST_S:  # also what is no number
        return False
    ns[0] = <uint64_t> (seconds * 1e9)
    return True
