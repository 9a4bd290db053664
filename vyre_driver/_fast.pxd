"""The C functions that other Cython modules may cimport; every pointer must hold what its function says.

What the C table has too is declared in include/vyre_driver.h, where its fields and numbers are explained: compile with
``-I`` of :func:`vyre_driver.get_include`.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "vyre_driver.h" nogil:
    enum:
        VYRE_DRIVER_ABI_VERSION

    const char* VYRE_DRIVER_CAPSULE

    ctypedef struct vyre_spec_entry:
        const char* name
        size_t name_len
        uint64_t value_hash

    ctypedef struct vyre_spec_cache_key:
        uint64_t shader_hash
        uint64_t binding_sig
        uint64_t spec_hash
        uint32_t workgroup_size[3]

    ctypedef enum vyre_binding_role:
        VYRE_ROLE_INPUT
        VYRE_ROLE_OUTPUT
        VYRE_ROLE_INPUT_OUTPUT
        VYRE_ROLE_UNIFORM
        VYRE_ROLE_SHARED
        VYRE_ROLE_PERSISTENT

    ctypedef enum vyre_buffer_access:
        VYRE_ACCESS_READ_ONLY
        VYRE_ACCESS_READ_WRITE
        VYRE_ACCESS_UNIFORM
        VYRE_ACCESS_WRITE_ONLY
        VYRE_ACCESS_WORKGROUP

    ctypedef enum vyre_memory_kind:
        VYRE_KIND_SHARED
        VYRE_KIND_PERSISTENT

    ctypedef enum vyre_plan_status:
        VYRE_PLAN_WHOLE
        VYRE_PLAN_UNKNOWN_ACCESS
        VYRE_PLAN_RUNTIME_SIZED
        VYRE_PLAN_LENGTH_OVERFLOW
        VYRE_PLAN_ALIGNMENT

    ctypedef enum vyre_lengths_status:
        VYRE_LENGTHS_FIT
        VYRE_LENGTHS_COUNT
        VYRE_LENGTHS_SHORT
        VYRE_LENGTHS_MISALIGNED
        VYRE_LENGTHS_MISMATCH

    ctypedef struct vyre_buffer_decl:
        uint64_t element_size
        uint32_t binding
        uint32_t count
        uint32_t preferred_alignment
        uint8_t access
        uint8_t kind
        uint8_t is_output
        uint8_t pipeline_live_out

    ctypedef struct vyre_binding:
        uint64_t element_size
        uint64_t preferred_alignment
        uint64_t static_byte_len
        uint64_t header_bytes
        uint64_t least_byte_len
        uint64_t buffer_index
        int64_t input_index
        int64_t output_index
        uint32_t binding
        uint32_t element_count
        uint8_t role
        uint8_t has_static_byte_len

    ctypedef struct vyre_lengths_fault:
        size_t place
        uint64_t expected
        uint64_t received

    ctypedef enum vyre_cache_verdict:
        VYRE_CACHE_FAILED
        VYRE_CACHE_HIT

    ctypedef struct vyre_cache:
        pass

    ctypedef struct vyre_cache_entry:
        const uint8_t* spirv
        size_t spirv_len
        const uint8_t* native
        size_t native_len
        void* owner
        char reason[256]

    ctypedef enum vyre_bound_status:
        VYRE_BOUND_SUCCESS
        VYRE_BOUND_RUNNING
        VYRE_BOUND_TIMED_OUT
        VYRE_BOUND_FAILED
        VYRE_BOUND_DEVICE_LOST
        VYRE_BOUND_CLOSED
        VYRE_BOUND_FORKED

    ctypedef struct vyre_bound_kernel:
        pass

    ctypedef struct vyre_driver_api:
        uint32_t abi_version
        uint32_t struct_size
        uint64_t (*spec_map_hash)(const vyre_spec_entry*, size_t) noexcept nogil
        void (*autotune_key)(const vyre_spec_cache_key*, char*) noexcept nogil
        void (*hex)(const uint8_t*, size_t, char*) noexcept nogil
        void (*shard_path)(const uint8_t*, char*) noexcept nogil
        vyre_plan_status (*plan_build)(
            const vyre_buffer_decl*, size_t, const uint64_t*, size_t, vyre_binding*, size_t*) noexcept nogil
        vyre_lengths_status (*validate_lengths)(
            const vyre_binding*, size_t, const uint64_t*, size_t, vyre_lengths_fault*) noexcept nogil
        int (*pipeline_key)(const uint8_t*, size_t, uint8_t*) noexcept nogil
        vyre_cache* (*cache_open)(const char*, char*) noexcept nogil
        vyre_cache_verdict (*cache_lookup)(vyre_cache*, const uint8_t*, size_t, vyre_cache_entry*) noexcept nogil
        void (*cache_release)(vyre_cache_entry*) noexcept nogil
        void (*cache_close)(vyre_cache*) noexcept nogil
        vyre_bound_kernel* (*bound_take)(void*, char*) noexcept nogil
        void (*bound_drop)(vyre_bound_kernel*) noexcept nogil
        vyre_bound_status (*bound_run)(vyre_bound_kernel*, uint64_t) noexcept nogil
        vyre_bound_status (*bound_submit)(vyre_bound_kernel*) noexcept nogil
        vyre_bound_status (*bound_wait)(vyre_bound_kernel*, uint64_t) noexcept nogil
        vyre_bound_status (*bound_poll)(vyre_bound_kernel*) noexcept nogil
        size_t (*device_counts)(const vyre_bound_kernel*, uint64_t*, size_t) noexcept nogil


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

# Reads `count` entries, which stand in the byte order of their names, each name once; none need no pointer.
cdef uint64_t vyre_spec_map_hash(const vyre_spec_entry* entries, size_t count) noexcept nogil

# Writes 32 characters, no terminator.
cdef void vyre_autotune_key(const vyre_spec_cache_key* key, char* out) noexcept nogil

# Writes `count` bindings in the order of their numbers, declarations of one number in their own order. `lengths` are those of
# the inputs in that order, at most `length_count` are read: they give buffers without a count their elements. On a fault, `out`
# is not defined and `fault_index` is the place of the first declaration at fault.
cdef vyre_plan_status vyre_plan_build(
    const vyre_buffer_decl* decls, size_t count, const uint64_t* lengths, size_t length_count, vyre_binding* out,
    size_t* fault_index
) noexcept nogil

# Reads the sizes, header, least length and input index of each binding, nothing else; fills in `fault` when one does not fit.
cdef vyre_lengths_status vyre_validate_lengths(
    const vyre_binding* bindings, size_t count, const uint64_t* lengths, size_t length_count, vyre_lengths_fault* fault
) noexcept nogil
