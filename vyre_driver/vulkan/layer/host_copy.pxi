"""Copies between memory of the host: included by _layer.pyx."""

cdef extern from "host_copy.h" nogil:
    void vyre_copy_bytes(void* to, const void* from_, size_t count)

cdef enum:
    # Below, letting other threads run costs more than the copy.
    LONG_COPY_BYTES = 1 << 16


def copy_bytes(target not None, source not None):
    """Copy all bytes of a contiguous object into another of as many, which it may overlap; long ones by several threads.

    Raises ValueError if they differ in size, and what an object raises that is not contiguous, or cannot be written to.
    """
    cdef Py_buffer into
    cdef Py_buffer given
    PyObject_GetBuffer(target, &into, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        PyObject_GetBuffer(source, &given, PyBUF_SIMPLE)
        try:
            if into.len != given.len:
                raise ValueError(f"{given.len} bytes do not fill {into.len}")
            if into.len < LONG_COPY_BYTES:
                memmove(into.buf, given.buf, into.len)
            else:
                with nogil:
                    vyre_copy_bytes(into.buf, given.buf, <size_t> into.len)
        finally:
            PyBuffer_Release(&given)
    finally:
        PyBuffer_Release(&into)
