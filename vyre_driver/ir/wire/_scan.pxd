"""The walk over encoded terms as C, for other Cython modules; every pointer must hold what its function says."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    VYRE_WIRE_STEPS = 8  # the most fields of a class, and the end
    VYRE_WIRE_TABLES = 16
    VYRE_WIRE_FRAMES = 256


# What stands for a field; 32 + n is a member of table n, 64 + n that or an extension's operator.
cdef enum vyre_wire_step:
    VYRE_WIRE_END = 0
    VYRE_WIRE_U8 = 1
    VYRE_WIRE_U32 = 2
    VYRE_WIRE_U64 = 3
    VYRE_WIRE_FLAG = 4
    VYRE_WIRE_TEXT = 5
    VYRE_WIRE_OPTIONAL_TEXT = 6
    VYRE_WIRE_PAYLOAD = 7
    VYRE_WIRE_DATA_TYPE = 8
    VYRE_WIRE_EXPRESSION = 9
    VYRE_WIRE_OPTIONAL_EXPRESSION = 10
    VYRE_WIRE_ARGUMENTS = 11
    VYRE_WIRE_BODY = 12
    VYRE_WIRE_NODE = 13
    VYRE_WIRE_I32 = 14
    VYRE_WIRE_MEMBER = 32
    VYRE_WIRE_OPERATOR = 64


cdef enum vyre_wire_fault:
    VYRE_WIRE_WHOLE = 0
    VYRE_WIRE_CUT = 1
    VYRE_WIRE_UNKNOWN_TAG = 2
    VYRE_WIRE_NO_FLAG = 3
    VYRE_WIRE_NO_UTF8 = 4
    VYRE_WIRE_TOO_LONG = 5
    VYRE_WIRE_TOO_DEEP = 6
    VYRE_WIRE_TOO_MANY = 7
    VYRE_WIRE_TOO_FEW_LEFT = 8
    VYRE_WIRE_NO_ZERO = 9


# How a data type of a tag goes on after it.
cdef enum vyre_wire_form:
    VYRE_WIRE_NO_TYPE = 0
    VYRE_WIRE_FIXED = 1  # type_bytes of it
    VYRE_WIRE_LIST = 2  # a u32 count and as many u32
    VYRE_WIRE_QUANTIZED = 3  # two members of tables, each with a u32, which is 0 for a member of the table after


# Steps end with VYRE_WIRE_END. Index 0 is expressions, 1 nodes; a table has a bit for each tag.
cdef struct vyre_wire_grammar:
    uint8_t known[2][256]
    uint8_t steps[2][256][VYRE_WIRE_STEPS]
    uint64_t tables[VYRE_WIRE_TABLES][4]
    uint8_t type_form[256]
    uint8_t type_bytes[256]
    uint8_t type_has_element[256]
    uint8_t scales
    uint8_t zero_points


cdef struct vyre_wire_limits:
    uint32_t nodes
    uint32_t terms
    uint32_t nesting
    uint32_t depth
    uint32_t type_nesting
    uint32_t arguments
    uint32_t text_bytes
    uint32_t payload_bytes
    uint32_t axes


# A term from byte start to byte end; what is its tag, 256 more for a node, and 512 times the number of terms in it.
cdef struct vyre_wire_term:
    uint32_t start
    uint32_t end
    uint32_t what


# A place in the bytes, what has been counted so far, and after a fault what was wanted (a step) and the numbers of it.
cdef struct vyre_wire_scan:
    const uint8_t* data
    uint32_t at
    uint32_t end
    uint32_t nodes
    uint32_t terms
    uint32_t wanted
    uint64_t number
    uint64_t limit


# Walks over one node at scan.at, which may not pass scan.end, and writes its terms, those inside before those they are in, to
# `out` unless that is NULL; `out` has room for as many as a walk without it has counted.
cdef vyre_wire_fault vyre_wire_walk(
    const vyre_wire_grammar* grammar, const vyre_wire_limits* limits, vyre_wire_scan* scan, vyre_wire_term* out
) noexcept nogil

# Whether bytes are UTF-8 as Unicode 15, table 3-7 has it.
cdef bint vyre_utf8(const uint8_t* text, size_t byte_len) noexcept nogil


cdef class Grammar:
    cdef vyre_wire_grammar grammar


cdef class Walk:
    cdef Grammar grammar
    cdef readonly bytes data
    cdef vyre_wire_limits limits
    cdef vyre_wire_scan scan
    cpdef bytes terms(self, Py_ssize_t at, Py_ssize_t end)
