"""What packs numbers, for other extensions of the package."""

from libc.stdint cimport uint32_t

cdef bint packed(object value, int kind, uint32_t* word) except -1
