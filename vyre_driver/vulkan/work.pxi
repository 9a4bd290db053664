"""What is submitted, and who is using the device: included by _layer.pyx."""

cdef extern from "<unistd.h>" nogil:
    int getpid()


cdef extern from * nogil:
    int __ATOMIC_SEQ_CST
    Py_ssize_t __atomic_add_fetch(Py_ssize_t* at, Py_ssize_t by, int order)


@cython.no_gc_clear
cdef class Work:
    """Work recorded in a kompute Sequence, to be submitted again and again; one submission runs at a time.

    The caller locks. A submission that is not waited for to its end stays known, and the object waits for it before it goes;
    until then it holds the Sequence and the Manager, whichever of them the garbage collector comes upon first.
    """

    cdef LayerDevice owner
    cdef object evaluate
    cdef object manager
    cdef VkFence fence

    def __init__(self, LayerDevice device not None, evaluate, manager):
        self.owner = device
        self.evaluate = evaluate
        self.manager = manager

    def __dealloc__(self):
        if self.fence != NULL:
            with nogil:
                vyre_give_fence_back(self.owner.device, self.fence)

    @property
    def is_pending(self) -> bool:
        """Whether a submission has not been waited for to its end."""
        return self.fence != NULL

    def submit(self) -> bool:
        """Call kompute's ``eval``, whose wait returns at once; True when nothing failed, else see ``take_failure``."""
        cdef vyre_thread* thread = vyre_this_thread()
        thread.failure.call = VYRE_CALL_NONE
        thread.detached_fence = NULL
        thread.detach_waits = True
        try:
            self.evaluate()
        finally:
            thread.detach_waits = False
        self.fence = thread.detached_fence
        return thread.failure.call == VYRE_CALL_NONE

    def submit_marker(self) -> bool:
        """Instead of work of its own, take all that was submitted before; True and False as ``submit``."""
        return vyre_submit_marker(self.owner.device, &self.fence) == VK_SUCCESS

    def wait(self, timeout_ns=None) -> int:
        """Wait without the GIL for the submission's end; returns a VkResult: 0, VK_TIMEOUT (2), or below 0.

        Signals are handled meanwhile: Ctrl-C raises out of here and leaves the work running.
        """
        cdef bint forever = timeout_ns is None
        cdef uint64_t left = 0 if forever else timeout_ns
        cdef uint64_t slice_ns
        cdef VkResult result
        if self.fence == NULL:
            return VK_SUCCESS
        while True:
            slice_ns = SLICE_NS if forever or left > SLICE_NS else left
            with nogil:
                result = vyre_wait_fence(self.owner.device, self.fence, slice_ns)
                if result == VK_SUCCESS:
                    vyre_give_fence_back(self.owner.device, self.fence)
            if result == VK_SUCCESS:
                self.fence = NULL
            if result != VK_TIMEOUT:
                return result
            if not forever:
                if left <= SLICE_NS:
                    return result
                left -= SLICE_NS
            PyErr_CheckSignals()


cdef class DeviceUse:
    """Held while a device's memory or work is touched, so that closing it waits; any number of threads may hold it.

    In C, for Ctrl-C may come between any two steps of a Python function: a use that was counted and never ended would let
    ``close`` wait for ever.
    """

    cdef object check
    cdef LayerDevice layer
    cdef object unused
    cdef int process
    cdef bint closed
    cdef Py_ssize_t users

    def __init__(self, LayerDevice layer, check, unused):
        """``check()`` raises what keeps the device from being used; ``unused`` is an event, set once nobody uses it."""
        self.layer = layer
        self.check = check
        self.unused = unused
        self.process = getpid()
        self.users = 1  # the owner's, until close

    def __enter__(self):
        __atomic_add_fetch(&self.users, 1, __ATOMIC_SEQ_CST)
        if self.closed or getpid() != self.process or (self.layer is not None and vyre_is_lost(self.layer.device)):
            try:
                self.check()
            except BaseException:
                self.end()
                raise

    def __exit__(self, kind, error, traceback):
        self.end()

    def close(self) -> None:
        """End the owner's use, once; the caller has made ``check`` raise, and waits for ``unused``."""
        self.closed = True
        self.end()

    cdef int end(self) except -1:
        if __atomic_add_fetch(&self.users, -1, __ATOMIC_SEQ_CST) == 0:
            self.unused.set()
        return 0
