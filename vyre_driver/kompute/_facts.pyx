# cython: language_level=3, embedsignature=True, binding=True
"""The attributes of arrays on a device, where extensions reach them without a call of Python's."""

cimport cython


@cython.auto_pickle(False)
cdef class Facts:
    """Shape, type, size, name and memory of an array on a device; nobody sets one from outside."""

    def _set_facts(self, device, tuple shape not None, dtype, name, offset) -> None:
        """Set what the array is."""
        cdef object nbytes = dtype.itemsize
        cdef object length
        for length in shape:
            nbytes = nbytes * length
        self.device, self.shape, self.dtype, self.name = device, shape, dtype, name
        self.nbytes, self.offset = nbytes, offset

    def _set_storage(self, storage, form, bint is_view) -> None:
        """Set where it is, and what tells it from all other buffers and views of the process."""
        self._storage, self.form, self._is_view = storage, form, is_view
        self.part = None

    def _keep_part(self, part) -> None:
        """Keep what launches bind, of a buffer that is no view; it goes with the memory."""
        self.part = part
