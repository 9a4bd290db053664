"""Submitted work and the uses of a device; included by _layer.pyx."""


@cython.no_gc_clear
cdef class Submitted:
    """What is handed to the device's queue; one submission of it runs at a time, and is known until it was waited for.

    Before something that the device uses goes, its owner ends the submission.
    """

    cdef LayerDevice owner
    cdef VkFence fence
    cdef object watched  # what holds the word, which the host shares with the device
    cdef volatile uint32_t* cut_word  # NULL: no loop of the work is watched

    def watch(self, word not None) -> None:
        """Have its end be LOOP_CUT where a run leaves something in a word, an array of four bytes, which is cleared then."""
        cdef Py_buffer view
        PyObject_GetBuffer(word, &view, PyBUF_WRITABLE)
        try:
            if view.len != sizeof(uint32_t):
                raise ValueError(f"a word has 4 bytes, and this has {view.len}")
            self.watched, self.cut_word = word, <volatile uint32_t*> view.buf
        finally:
            PyBuffer_Release(&view)

    def take_cut(self) -> bool:
        """Whether a run of it, whose end somebody else has seen, has left something in the word, which is cleared."""
        return self.seen_end() != VK_SUCCESS

    cdef VkResult seen_end(self) noexcept:
        """Return the result of work that has ended well."""
        if self.cut_word == NULL or self.cut_word[0] == 0:
            return VK_SUCCESS
        self.cut_word[0] = 0
        return <VkResult> VYRE_LOOP_CUT

    cdef void end(self) noexcept:
        """Wait for the submission's end; where that takes long, hand it and what it uses to ``unfinished`` instead."""
        if self.fence != NULL and not self.has_ended_within(patience_ns(self.owner)) and not self.hand_over():
            self.has_ended_within(NO_END)
        self.fence = NULL

    cdef bint has_ended_within(self, uint64_t most_ns) noexcept:
        cdef bint has_ended = True
        if self.fence != NULL:
            with nogil:
                has_ended = vyre_give_fence_back_within(self.owner.device, self.fence, most_ns)
            if has_ended:
                self.fence = NULL
        return has_ended

    cdef bint hand_over(self) noexcept:
        """Move the submission to an object in ``unfinished``; returns False where there is no memory for that."""
        cdef Submitted successor
        try:
            successor = self.successor()
            unfinished.append(successor)
        except MemoryError:
            return False
        successor.owner, successor.fence = self.owner, self.fence
        successor.watched, successor.cut_word = self.watched, self.cut_word
        self.give_to(successor)
        return True

    cdef Submitted successor(self):
        """Return an empty object of the kind that can hold what this submission uses."""
        raise NotImplementedError

    cdef void give_to(self, Submitted successor) noexcept:
        """Give what the submission uses to its successor."""

    @property
    def is_pending(self) -> bool:
        """Whether a submission has not been waited for to its end."""
        return self.fence != NULL

    def wait(self, timeout_ns=None) -> int:
        """Wait without the GIL for the submission's end; returns a VkResult: 0, VK_TIMEOUT (2), or below 0, as LOOP_CUT is.

        Signals are handled meanwhile: Ctrl-C raises out of here and leaves the work running.
        """
        return self.wait_ns(NO_END if timeout_ns is None else timeout_ns)

    cdef VkResult wait_ns(self, uint64_t left_ns) except? -1:
        cdef uint64_t slice_ns
        cdef VkResult result
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        if self.fence == NULL:
            return VK_SUCCESS
        while True:
            slice_ns = min(left_ns, SLICE_NS)
            with nogil:
                result = vyre_finish(self.owner.device, &self.fence, slice_ns)
            thread.failure = before  # the result tells
            if result != VK_TIMEOUT or left_ns <= SLICE_NS:
                return self.seen_end() if result == VK_SUCCESS else result
            if left_ns != NO_END:
                left_ns -= SLICE_NS
            PyErr_CheckSignals()


@cython.no_gc_clear
cdef class Work(Submitted):
    """Work recorded in a kompute Sequence, to be submitted again and again; one submission runs at a time.

    The caller locks. A submission that is not waited for to its end stays known, and the object waits for it before it goes,
    or leaves it in ``unfinished``; until it has ended, the Sequence and what it is to ``keep``, the Manager first of all, are
    held, whichever of them the garbage collector comes upon first.
    """

    cdef object evaluate
    cdef object keep

    def __init__(self, LayerDevice device not None, evaluate, keep):
        self.owner = device
        self.evaluate = evaluate
        self.keep = keep

    def __dealloc__(self):
        self.end()

    cdef Submitted successor(self):
        return Work.__new__(Work)

    cdef void give_to(self, Submitted successor) noexcept:
        (<Work> successor).evaluate, (<Work> successor).keep = self.evaluate, self.keep

    def submit(self) -> Failure | None:
        """Call kompute's ``eval``, whose wait returns at once; returns what failed."""
        cdef vyre_thread* thread = vyre_this_thread()
        cdef vyre_failure before = thread.failure
        cdef VkFence detached_before = thread.detached_fence
        cdef bint detaches_before = thread.detach_waits
        cdef vyre_failure noted
        thread.failure.call = VYRE_CALL_NONE
        thread.detached_fence = NULL
        thread.detach_waits = True
        try:
            self.evaluate()
        finally:
            self.fence = thread.detached_fence
            noted = thread.failure
            thread.failure = before
            thread.detached_fence = detached_before
            thread.detach_waits = detaches_before
        return as_failure(noted)


cdef class Hold:
    """A lock taken for a block, if it comes free within ``timeout_s`` seconds; the block gets whether it is held.

    With ``refusal``, what that returns is raised where it is not. In C: a signal cannot come between taking and entering.
    """

    cdef object lock
    cdef object refusal
    cdef double timeout_s
    cdef bint held

    def __init__(self, lock, double timeout_s, refusal=None):
        self.lock = lock
        self.timeout_s = timeout_s
        self.refusal = refusal

    def __enter__(self):
        self.held = self.lock.acquire(True, self.timeout_s)
        if not self.held and self.refusal is not None:
            raise self.refusal()
        return self.held

    def __exit__(self, kind, error, traceback):
        if self.held:
            self.held = False
            self.lock.release()


cdef class DeviceUse:
    """Held while a device's memory or work is touched, so that closing it waits; any number of threads may hold it.

    In C, for Ctrl-C may come between any two steps of a Python function: a use that was counted and never ended would let
    ``close`` wait for ever.
    """

    cdef object check
    cdef LayerDevice layer
    cdef unsigned int forks  # behind the process that made it
    cdef bint is_made
    cdef vyre_use use

    def __cinit__(self):
        self.is_made = vyre_use_init(&self.use)
        if not self.is_made:
            raise MemoryError

    def __init__(self, LayerDevice layer not None, check):
        """``check()`` raises what keeps the device from being used; it has to once the use is ``closed``."""
        self.layer = layer
        self.check = check
        self.forks = vyre_forks()

    def __dealloc__(self):
        if self.is_made:
            vyre_use_destroy(&self.use)

    def __enter__(self):
        self.begin()

    cdef int begin(self) except -1:
        cdef bint is_open = vyre_use_begin(&self.use)
        cdef bint is_lost = vyre_is_lost(self.layer.device)
        if is_open and not is_lost and vyre_forks() == self.forks:
            return 0
        try:
            self.check()
        except BaseException:
            vyre_use_end(&self.use)
            raise
        return 0

    def __exit__(self, kind, error, traceback):
        vyre_use_end(&self.use)

    def check_usable(self) -> None:
        """Raise what keeps the device from being used now, as a use of it would."""
        if self.use.closed or vyre_forks() != self.forks or vyre_is_lost(self.layer.device):
            self.check()

    @property
    def closed(self) -> bool:
        """Whether ``close`` has been called."""
        return self.use.closed

    @property
    def is_mine(self) -> bool:
        """Whether this thread uses the device just now: ``close`` would wait for ever."""
        return vyre_use_is_mine(&self.use)

    def close(self) -> None:
        """Refuse new uses of the device and wait for the present ones; call it again after an interrupt."""
        cdef bint is_unused = False
        vyre_use_close(&self.use)
        while not is_unused:
            with nogil:
                is_unused = vyre_use_wait(&self.use, SLICE_NS)
            if not is_unused:
                PyErr_CheckSignals()
