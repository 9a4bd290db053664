# cython: language_level=3, embedsignature=True, binding=True, freethreading_compatible=True
"""Finish every new expression and node: its key, counts and traits, computed from its parts.

docs/ir.md says what a key is. ``complete`` is :func:`vyre_driver.ir.terms.complete`, which takes the terms that are not short
and settled. A plain twin stands in tests/twins.py.
"""

from cpython.object cimport PyObject_GenericSetAttr
from libc.stdint cimport uint32_t

cdef Py_ssize_t KEY_BYTES = 256
cdef uint32_t PLAIN_AND_SETTLED = 7
cdef uint32_t OF_PARTS = 127  # a term has these only when all its parts have them


cdef inline int put(object term, object name, object value) except -1:
    return PyObject_GenericSetAttr(term, name, value)


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


def seal_expression(term, tuple parts not None, dtype, uint32_t traits, type expression not None, complete) -> int:
    """Complete a new expression; -1, or the place of the part that is neither bytes nor an instance of ``expression``."""
    cdef Py_ssize_t depth = 1, below, place = 0
    cdef list pieces = []
    count = 1  # of any size: a tree may share its parts
    for part in parts:
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
            return place
        place += 1
    finish(term, pieces, count, traits, True, complete)
    put(term, "depth", depth)
    put(term, "dtype", dtype)
    return -1


def seal_node(
    term, tuple parts not None, Py_ssize_t bodies, uint32_t traits, type expression not None, type node not None, complete
) -> int:
    """Complete a new node with ``bodies`` nodes directly in it; -1, or the place of the first part that should be another."""
    cdef Py_ssize_t nesting = 1, depth = 0, inside = 0, below, place = 0, first = 0
    cdef list pieces = []
    count = nodes = 1
    for part in parts:
        if type(part) is bytes:
            pieces.append(part)
            place += 1
            continue
        if isinstance(part, expression):
            below = part.depth
        elif isinstance(part, node):
            if not inside:
                first = place
            inside += 1
            nodes += part.node_count
            below = part.nesting
            if below >= nesting:
                nesting = below + 1
            below = part.expression_depth
        else:
            return place
        if below > depth:
            depth = below
        pieces.append(part.key)
        count += part.term_count
        traits &= <uint32_t> part.traits | ~OF_PARTS
        place += 1
    if inside != bodies:
        return first
    finish(term, pieces, count, traits, nodes <= KEY_BYTES, complete)
    put(term, "node_count", nodes)
    put(term, "nesting", nesting)
    put(term, "expression_depth", depth)
    return -1
