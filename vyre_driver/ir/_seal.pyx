# cython: language_level=3, embedsignature=True, binding=True
"""Finish every new expression and node: its fields, parts, key, counts and traits.

A class's layout (:mod:`vyre_driver.ir.layout`) says what its parts are, docs/ir.md says what a key is. ``complete`` is
:func:`vyre_driver.ir.terms.complete`, which takes the terms that are not short and settled. The plain twins stand in
tests/properties/test_wire_twins.py.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject_GenericSetAttr
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from vyre_driver.ir.layout import Step

cdef Py_ssize_t KEY_BYTES = 256
cdef uint32_t PLAIN_AND_SETTLED = 7
cdef uint32_t OF_PARTS = 127  # a term has these only when all its parts have them

cdef enum:
    MOST_FIELDS = 8

cdef int U8 = Step.U8, U32 = Step.U32, U64 = Step.U64, I32 = Step.I32, FLAG = Step.FLAG, DTYPE = Step.DTYPE
cdef int EXPRESSION = Step.EXPRESSION, OPTIONAL = Step.OPTIONAL, ARGUMENTS = Step.ARGUMENTS, BODY = Step.BODY
cdef int MEMBER = Step.MEMBER


cdef bytes little_endian(uint64_t value, Py_ssize_t byte_len):
    cdef uint8_t data[8]
    cdef Py_ssize_t place
    for place in range(byte_len):
        data[place] = value >> 8 * place & 255
    return PyBytes_FromStringAndSize(<const char*> data, byte_len)


cdef bytes encoded(int step, object encode, object value):
    """Return a field in which no term stands."""
    if step >= MEMBER or step == DTYPE:
        return value.encoded
    if step == U32:
        return little_endian(<uint32_t> value, 4)
    if step == I32:
        return little_endian(<uint32_t> <int32_t> value, 4)
    if step == U8 or step == FLAG:
        return little_endian(<uint8_t> value, 1)
    return little_endian(<uint64_t> value, 8) if step == U64 else encode(value)


cdef inline int put(object term, object name, object value) except -1:
    return PyObject_GenericSetAttr(term, name, value)


cdef class Form:
    """The layout of a class of terms, as the loops below want it."""

    cdef bytes tag
    cdef tuple names, takes, encodes
    cdef int steps[MOST_FIELDS]
    cdef int count

    def __init__(self, type cls not None):
        """Look at a class."""
        cdef int place
        layout = cls._layout
        self.count = len(layout)
        if self.count > MOST_FIELDS:
            raise ValueError(f"{cls.__name__} has {self.count} fields, over the limit of {MOST_FIELDS}")
        self.tag, self.names = bytes((cls.wire_tag,)), cls.__match_args__
        self.takes, self.encodes = tuple(kind.take for kind in layout), tuple(kind.encode for kind in layout)
        for place in range(self.count):
            self.steps[place] = layout[place].step


cdef dict FORMS = {}


cdef Form form_of(type cls):
    found = FORMS.get(cls)
    if found is None:
        found = FORMS[cls] = Form(cls)
    return <Form> found


class NotATerm(bytes):
    """Bytes that stand where a term should: what checks the parts must not take them for an encoding."""

    __slots__ = ()


cdef inline object term_or_not(object value):
    return NotATerm(value) if type(value) is bytes else value


cdef list written(Form form, term, splice):
    """Return what :func:`parts_of` does."""
    cdef list parts = []
    cdef bytes head = form.tag
    cdef int place, step
    for place in range(form.count):
        step = form.steps[place]
        value = getattr(term, form.names[place])
        if step == EXPRESSION:
            if head is not None:
                parts.append(head)
            parts.append(term_or_not(value))
        elif step == OPTIONAL:
            flag = b"\0" if value is None else b"\1"
            parts.append(flag if head is None else head + flag)
            if value is not None:
                parts.append(term_or_not(value))
        elif step == ARGUMENTS or step == BODY:
            if splice is not None and step == BODY:
                value = splice(value)
            count = little_endian(len(value), 4)
            parts.append(count if head is None else head + count)
            for one in value:
                parts.append(term_or_not(one))
        else:
            piece = encoded(step, form.encodes[place], value)
            head = piece if head is None else head + piece
            continue
        head = None
    if head is not None:
        parts.append(head)
    return parts


def parts_of(term, splice=None) -> tuple:
    """Return the encoding of a term in wire order: literal bytes, and the terms inside; ``splice`` is applied to its bodies."""
    return tuple(written(form_of(type(term)), term, splice))


cdef bint fits(int step, object value):
    """Return whether a value is an int in the range of its step, so that its kind has nothing to refuse."""
    cdef int overflow = 0
    if type(value) is not int:
        return False
    cdef long long number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        return False
    if step == U32:
        return 0 <= number <= 0xFFFFFFFF
    return -0x80000000 <= number <= 0x7FFFFFFF if step == I32 else step == U8 and 0 <= number <= 0xFF


def take_fields(term) -> None:
    """Refuse fields that have no encoding, and keep the others as their kinds want them."""
    cdef Form form = form_of(type(term))
    cdef int place
    for place in range(form.count):
        take = form.takes[place]
        if take is not None:
            name = form.names[place]
            value = getattr(term, name)
            if not fits(form.steps[place], value):
                kept = take(term, name, value)
                if kept is not value:
                    put(term, name, kept)


cdef int finish(object term, list pieces, object count, uint32_t traits, bint short, object complete) except -1:
    cdef bytes key = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if len(key) > KEY_BYTES or traits & PLAIN_AND_SETTLED != PLAIN_AND_SETTLED:
        complete(term, key, count, traits, short=short)
        return 0
    put(term, "key", key)
    put(term, "wire", key)
    put(term, "term_count", count)
    put(term, "traits", traits)
    return 0


def seal_expression(term, dtype, uint32_t traits, type expression not None, complete) -> object:
    """Complete a new expression; None, or a tuple of the part that is neither bytes nor an instance of ``expression``."""
    cdef Py_ssize_t depth = 1, below
    cdef list pieces = []
    count = 1  # of any size: a tree may share its parts
    for part in written(form_of(type(term)), term, None):
        if type(part) is bytes:
            pieces.append(part)
        elif isinstance(part, expression):
            pieces.append(part.key)
            count += part.term_count
            traits &= <uint32_t> part.traits | ~OF_PARTS
            below = part.depth
            if below >= depth:
                depth = below + 1
        else:
            return (part,)
    finish(term, pieces, count, traits, True, complete)
    put(term, "depth", depth)
    put(term, "dtype", dtype)
    return None


def seal_node(term, uint32_t traits, type expression not None, type node not None, complete) -> object:
    """Complete a new node; None, or a tuple of the part that should be an expression."""
    cdef Form form = form_of(type(term))
    cdef Py_ssize_t nesting = 1, depth = 0, inside = 0, below
    cdef int place
    cdef list pieces = []
    first = None
    count = nodes = 1
    for part in written(form, term, None):
        if type(part) is bytes:
            pieces.append(part)
            continue
        if isinstance(part, expression):
            below = part.depth
        elif isinstance(part, node):
            if not inside:
                first = (part,)
            inside += 1
            nodes += part.node_count
            below = part.nesting
            if below >= nesting:
                nesting = below + 1
            below = part.expression_depth
        else:
            return (part,)
        if below > depth:
            depth = below
        pieces.append(part.key)
        count += part.term_count
        traits &= <uint32_t> part.traits | ~OF_PARTS
    for place in range(form.count):
        if form.steps[place] == BODY:
            inside -= len(getattr(term, form.names[place]))
    if inside:
        return first
    finish(term, pieces, count, traits, nodes <= KEY_BYTES, complete)
    put(term, "node_count", nodes)
    put(term, "nesting", nesting)
    put(term, "expression_depth", depth)
    return None
