"""Copies between memory of the host: included by _layer.pyx."""

cdef extern from "host_copy.h" nogil:
    ctypedef struct vyre_span:
        char* to
        const char* from_ "from"
        size_t bytes
    void vyre_copy_bytes(void* to, const void* from_, size_t count)
    void vyre_copy_spans(const vyre_span* spans, size_t count)

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


cdef class Spans:
    """Pairs of a contiguous object and another of as many bytes that are copied into it, or None: zeros; as C has them."""

    cdef vyre_span* items
    cdef Py_buffer* held
    cdef Py_ssize_t count  # of what is held

    def __cinit__(self, tuple pairs not None):
        self.items = <vyre_span*> calloc(len(pairs) + 1, sizeof(vyre_span))
        self.held = <Py_buffer*> calloc(2 * len(pairs) + 1, sizeof(Py_buffer))
        if self.items == NULL or self.held == NULL:
            raise MemoryError
        for number, (target, source) in enumerate(pairs):
            PyObject_GetBuffer(target, &self.held[self.count], PyBUF_SIMPLE | PyBUF_WRITABLE)
            self.count += 1
            self.items[number].to = <char*> self.held[self.count - 1].buf
            self.items[number].bytes = <size_t> self.held[self.count - 1].len
            if source is not None:
                PyObject_GetBuffer(source, &self.held[self.count], PyBUF_SIMPLE)
                self.count += 1
                self.fill_from(&self.items[number], &self.held[self.count - 1])

    cdef int fill_from(self, vyre_span* span, Py_buffer* given) except -1:
        cdef size_t target = <size_t> span.to
        cdef size_t source = <size_t> given.buf
        if span.bytes != <size_t> given.len:
            raise ValueError(f"{given.len} bytes do not fill {span.bytes}")
        if target < source + span.bytes and source < target + span.bytes:
            raise ValueError("bytes are copied onto themselves")
        span.from_ = <const char*> given.buf
        return 0

    def __dealloc__(self):
        while self.count > 0:
            self.count -= 1
            PyBuffer_Release(&self.held[self.count])
        free(self.held)
        free(self.items)


def copy_spans(pairs) -> None:
    """Copy the bytes of the second of each pair into the first, by several threads, and zeros where it is None.

    No target may overlap anything else here.

    Raises ValueError if two of a pair differ in size or overlap, and what an object raises that is not contiguous, or cannot be
    written to.
    """
    cdef tuple given = tuple(pairs)
    cdef Spans spans = Spans(given)
    cdef size_t count = <size_t> len(given)
    with nogil:
        vyre_copy_spans(spans.items, count)
