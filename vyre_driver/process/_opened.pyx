# cython: language_level=3, embedsignature=True, binding=True
"""Open files that are closed whatever comes. Imports nothing of ours."""

from posix.types cimport off_t

import os

cimport cython

cdef extern from "<unistd.h>" nogil:
    int close(int descriptor)
    int ftruncate(int descriptor, off_t length)


@cython.final
cdef class Opened:
    """A file that is open for as long as a block lasts, and closed at the latest when this object goes.

    Ctrl-C may come between any two steps of a Python function, and a descriptor that was just a number then would stay open
    for the process's life. ``descriptor`` is its number, -1 once it is closed.

    One that ``is_emptied`` holds what is true only as long as it is open: unless the process dies, it is emptied before it is
    closed, however that comes.
    """

    cdef readonly int descriptor
    cdef public bint is_emptied

    def __cinit__(self, path, int flags, int mode=0o777, *, dir_fd=None):
        """Open it as ``os.open`` does, and raise what that raises."""
        self.descriptor = -1
        if not isinstance(path, (str, bytes)):
            path = str(path)  # os.open's own way says TypeError where memory runs out
        self.descriptor = os.open(path, flags, mode, dir_fd=dir_fd)

    def __dealloc__(self):
        if self.descriptor >= 0:
            if self.is_emptied and ftruncate(self.descriptor, 0) < 0:
                pass  # closing it is what is left to do
            close(self.descriptor)

    def __enter__(self):
        """Return the descriptor."""
        return self.descriptor

    def __exit__(self, kind, error, traceback):
        """Close it, as ``close`` does."""
        self.close()

    def close(self) -> None:
        """Close it and raise OSError if that fails; a second call does nothing."""
        cdef int descriptor = self.descriptor
        self.descriptor = -1
        if descriptor >= 0:
            try:
                if self.is_emptied:
                    os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)
