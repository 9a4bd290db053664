"""The C functions that other Cython modules may cimport; every pointer must hold what its function says."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum vyre_spirv_fault:
    VYRE_SPIRV_WHOLE = 0
    VYRE_SPIRV_SHORT = 1
    VYRE_SPIRV_NO_MAGIC = 2
    VYRE_SPIRV_SWAPPED = 3
    VYRE_SPIRV_EMPTY_INSTRUCTION = 4
    VYRE_SPIRV_OVERRUN = 5
    VYRE_SPIRV_NESTED_FUNCTION = 6
    VYRE_SPIRV_STRAY_FUNCTION_END = 7
    VYRE_SPIRV_OPEN_FUNCTION = 8


cdef struct vyre_spirv_extent:
    size_t fault_word
    size_t first_function_word
    size_t functions


# Writes 2 * byte_len characters, no terminator.
cdef void vyre_hex(const uint8_t* data, size_t byte_len, char* out) noexcept nogil

# Reads 32 bytes, writes 71 characters, no terminator.
cdef void vyre_shard_path(const uint8_t* digest, char* out) noexcept nogil

# Reads `count` words in host byte order, aligned to 4 bytes; always fills in `extent`.
cdef vyre_spirv_fault vyre_spirv_scan(
    const uint32_t* words, size_t count, vyre_spirv_extent* extent
) noexcept nogil

# Reads at most `count` words; `start` is the word of an instruction.
cdef bint vyre_spirv_defines_function(
    const uint32_t* words, size_t count, size_t start, uint32_t function
) noexcept nogil


# One specialization constant: its name in UTF-8 without terminator, which may hold any byte, and its value's hash.
cdef struct vyre_spec_entry:
    const char* name
    size_t name_len
    uint64_t value_hash


cdef struct vyre_spec_cache_key:
    uint64_t shader_hash
    uint64_t binding_sig
    uint32_t workgroup_size[3]
    uint64_t spec_hash


# Reads `count` entries, which stand in the byte order of their names, each name once; none need no pointer.
cdef uint64_t vyre_spec_map_hash(const vyre_spec_entry* entries, size_t count) noexcept nogil

# Writes 32 characters, no terminator.
cdef void vyre_autotune_key(const vyre_spec_cache_key* key, char* out) noexcept nogil
