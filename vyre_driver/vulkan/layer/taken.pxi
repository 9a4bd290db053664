"""Bound kernels that C code runs without the GIL: included by _layer.pyx."""

from cpython.pycapsule cimport PyCapsule_New


cdef extern from "taken.h" nogil:
    ctypedef struct vyre_bound_kernel:
        pass
    ctypedef struct vyre_taken:
        vyre_bound_kernel handle
        unsigned int forks
        VkFence fence
    c_bool vyre_taken_init(
        vyre_taken* taken, vyre_device* device, vyre_use* use, VkCommandBuffer commands, volatile uint32_t* cut_word)
    void vyre_taken_end(vyre_taken* taken)


@cython.no_gc_clear  # the work that runs has to end before what it uses goes
cdef class Taken:
    """A recorded dispatch for C code, which runs it by its handle, and what that needs as long as this object lives.

    Without a dispatch there is nothing to run. ``keep`` is held too.
    """

    cdef vyre_taken taken
    cdef bint is_made
    cdef LayerDevice layer
    cdef DeviceUse in_use
    cdef Dispatch dispatch
    cdef object keep
    cdef object __weakref__

    def __cinit__(self, LayerDevice layer not None, DeviceUse in_use not None, Dispatch dispatch, keep):
        self.layer, self.in_use, self.dispatch, self.keep = layer, in_use, dispatch, keep
        self.is_made = vyre_taken_init(
            &self.taken, layer.device, &in_use.use, NULL if dispatch is None else dispatch.commands,
            NULL if dispatch is None else dispatch.cut_word)
        if not self.is_made:
            raise MemoryError

    def __dealloc__(self):
        cdef Recorded running
        if self.is_made and self.taken.fence != NULL and self.taken.forks == vyre_forks():
            # Its end as any other submission's, which uses the dispatch.
            running = Recorded.__new__(Recorded)
            running.owner, running.fence, running.keep = self.layer, self.taken.fence, (self.dispatch, self.keep)
            self.taken.fence = NULL
        if self.is_made:
            with nogil:
                vyre_taken_end(&self.taken)

    @property
    def handle(self):
        """A capsule of the vyre_bound_kernel (bound_calls.h), which is valid as long as this object lives."""
        return PyCapsule_New(&self.taken.handle, NULL, NULL)
