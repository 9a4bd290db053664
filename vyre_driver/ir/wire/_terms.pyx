# cython: language_level=3, embedsignature=True, binding=True
"""Create terms from checked bytes; use it through :mod:`vyre_driver.ir.wire.reader`.

Its plain twin is tests/support/wire_twin.py.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint32_t

from vyre_driver.ir.wire._scan cimport (
    VYRE_WIRE_ARGUMENTS,
    VYRE_WIRE_BODY,
    VYRE_WIRE_END,
    VYRE_WIRE_EXPRESSION,
    VYRE_WIRE_I32,
    VYRE_WIRE_MEMBER,
    VYRE_WIRE_OPERATOR,
    VYRE_WIRE_OPTIONAL_EXPRESSION,
    VYRE_WIRE_TEXT,
    VYRE_WIRE_U8,
    VYRE_WIRE_U32,
    Walk,
    vyre_wire_term,
)

cdef uint8_t OPAQUE_OPERATOR = 0x80


cdef uint32_t u32_at(const uint8_t* data) noexcept nogil:
    return data[0] | <uint32_t> data[1] << 8 | <uint32_t> data[2] << 16 | <uint32_t> data[3] << 24


cdef class TermMaker:
    """Makes the terms of nodes that a walk has checked, those inside before those they are in.

    ``classes`` has the class of each tag (256 more for a node), ``tables`` the members of each table, ``readers`` what is
    called with ``cursor``, a place in the walk's bytes, for a field of any other kind, by its step. Of terms that take at most
    ``short`` bytes, two that are written alike become one; where a term's traits have the bit ``plain`` it gives those bytes.
    """

    cdef Walk walk
    cdef object cursor
    cdef dict classes, readers, expressions, nodes
    cdef list tables
    cdef Py_ssize_t short
    cdef uint32_t plain

    def __init__(self, Walk walk not None, cursor, dict classes not None, list tables not None, dict readers not None,
                 Py_ssize_t short, uint32_t plain):
        """Make terms of the walk's bytes."""
        self.walk, self.cursor, self.classes, self.tables, self.readers = walk, cursor, classes, tables, readers
        self.short, self.plain, self.expressions, self.nodes = short, plain, {}, {}

    def make(self, Py_ssize_t at, Py_ssize_t end) -> object:
        """Return the checked node that takes the bytes from ``at`` to ``end``."""
        cdef bytes tape = self.walk.terms(at, end)
        cdef const vyre_wire_term* terms = <const vyre_wire_term*> PyBytes_AS_STRING(tape)
        cdef Py_ssize_t count = PyBytes_GET_SIZE(tape) // <Py_ssize_t> sizeof(vyre_wire_term), place, inside
        cdef uint32_t* ends = <uint32_t*> PyMem_Malloc(count * sizeof(uint32_t))
        cdef list made = []
        if ends == NULL:
            raise MemoryError
        try:
            for place in range(count):
                inside = len(made) - <Py_ssize_t> (terms[place].what >> 9)
                term = self.term(terms + place, made, inside, ends)
                if inside < len(made):
                    del made[inside:]
                ends[inside] = terms[place].end
                made.append(term)
        finally:
            PyMem_Free(ends)
        return made[0]

    cdef object term(self, const vyre_wire_term* term, list made, Py_ssize_t inside, const uint32_t* ends):
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(self.walk.data)
        cdef Py_ssize_t byte_len = term.end - term.start
        cdef dict known = self.nodes if term.what >> 8 & 1 else self.expressions
        if byte_len > self.short:
            return self.classes[term.what & 511](*self.fields(term, made, inside, ends))
        written = PyBytes_FromStringAndSize(<const char*> data + term.start, byte_len)
        found = known.get(written)
        if found is None:
            found = self.classes[term.what & 511](*self.fields(term, made, inside, ends))
            known[found.key if <uint32_t> found.traits & self.plain else written] = found
        return found

    cdef list fields(self, const vyre_wire_term* term, list made, Py_ssize_t inside, const uint32_t* ends):
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(self.walk.data)
        cdef const uint8_t* steps = self.walk.grammar.grammar.steps[term.what >> 8 & 1][term.what & 255]
        cdef list fields = []
        cdef uint32_t at = term.start + 1, count, step
        while steps[0] != VYRE_WIRE_END:
            step = steps[0]
            steps += 1
            if step == VYRE_WIRE_OPTIONAL_EXPRESSION:
                at += 1
            if step == VYRE_WIRE_EXPRESSION or (step == VYRE_WIRE_OPTIONAL_EXPRESSION and data[at - 1]):
                fields.append(made[inside])
                at = ends[inside]
                inside += 1
            elif step == VYRE_WIRE_OPTIONAL_EXPRESSION:
                fields.append(None)
            elif step == VYRE_WIRE_ARGUMENTS or step == VYRE_WIRE_BODY:
                count = u32_at(data + at)
                fields.append(tuple(made[inside:inside + count]))
                inside += count
                at = ends[inside - 1] if count else at + 4
            elif step == VYRE_WIRE_TEXT:
                count = u32_at(data + at)
                fields.append(PyUnicode_DecodeUTF8(<const char*> data + at + 4, count, NULL))
                at += 4 + count
            elif step >= VYRE_WIRE_MEMBER and (step < VYRE_WIRE_OPERATOR or data[at] != OPAQUE_OPERATOR):
                fields.append(self.tables[step & 31][data[at]])
                at += 1
            elif step == VYRE_WIRE_U32:
                fields.append(u32_at(data + at))
                at += 4
            elif step == VYRE_WIRE_I32:
                fields.append(<int32_t> u32_at(data + at))
                at += 4
            elif step == VYRE_WIRE_U8:
                fields.append(data[at])
                at += 1
            else:
                self.cursor.at = at
                fields.append(self.readers[step](self.cursor))
                at = self.cursor.at
        return fields
