# cython: language_level=3, embedsignature=True, binding=True
"""Hot loops: hex and shard paths, SPIR-V's framing, hashes and keys of specialization, binding plans and their inputs.

Each loop is a ``noexcept nogil`` kernel on raw pointers, which others may cimport, and a wrapper that checks sizes before it
calls the kernel. Nothing here imports the rest of the package but what the C table for embedders calls when it is called.
Plain twins stand in tests/support/twins.py.
"""

cimport cython
from cpython.buffer cimport PyBUF_INDIRECT, PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_CheckExact, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject, PyObject_GenericSetAttr
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from importlib import import_module

cdef const char* HEX_DIGITS = b"0123456789abcdef"

cdef uint32_t MAGIC = 0x07230203
cdef uint32_t MAGIC_SWAPPED = 0x03022307
cdef uint32_t OP_FUNCTION = 54
cdef uint32_t OP_FUNCTION_END = 56


cdef void vyre_hex(const uint8_t* data, size_t byte_len, char* out) noexcept nogil:
    cdef size_t i
    for i in range(byte_len):
        out[2 * i] = HEX_DIGITS[data[i] >> 4]
        out[2 * i + 1] = HEX_DIGITS[data[i] & 15]


cdef void vyre_shard_path(const uint8_t* digest, char* out) noexcept nogil:
    vyre_hex(digest, 1, out)
    out[2] = b"/"
    vyre_hex(digest, 32, out + 3)
    out[67] = b"."
    out[68] = b"b"
    out[69] = b"i"
    out[70] = b"n"


cdef vyre_spirv_fault vyre_spirv_scan(
    const uint32_t* words, size_t count, vyre_spirv_extent* extent
) noexcept nogil:
    cdef size_t at = 5
    cdef uint32_t length, opcode
    cdef bint in_function = False
    extent.fault_word = 0
    extent.first_function_word = count
    extent.functions = 0
    if count < 5:
        return VYRE_SPIRV_SHORT
    if words[0] != MAGIC:
        return VYRE_SPIRV_SWAPPED if words[0] == MAGIC_SWAPPED else VYRE_SPIRV_NO_MAGIC
    while at < count:
        extent.fault_word = at
        length = words[at] >> 16
        opcode = words[at] & 0xFFFF
        if length == 0:
            return VYRE_SPIRV_EMPTY_INSTRUCTION
        if length > count - at:
            return VYRE_SPIRV_OVERRUN
        if opcode == OP_FUNCTION:
            if in_function:
                return VYRE_SPIRV_NESTED_FUNCTION
            in_function = True
            if extent.functions == 0:
                extent.first_function_word = at
            extent.functions += 1
        elif opcode == OP_FUNCTION_END:
            if not in_function:
                return VYRE_SPIRV_STRAY_FUNCTION_END
            in_function = False
        at += length
    if in_function:
        return VYRE_SPIRV_OPEN_FUNCTION
    return VYRE_SPIRV_WHOLE


cdef bint vyre_spirv_defines_function(
    const uint32_t* words, size_t count, size_t start, uint32_t function
) noexcept nogil:
    cdef size_t at = start
    while at < count and words[at] >> 16 != 0:
        if words[at] & 0xFFFF == OP_FUNCTION and at + 2 < count and words[at + 2] == function:
            return True
        at += words[at] >> 16
    return False


def shard_path(bytes digest not None) -> str:
    """Return ``"ab/abcd....bin"``, the path below the cache root of the entry with this 32-byte key digest."""
    cdef char out[71]
    if PyBytes_GET_SIZE(digest) != 32:
        raise ValueError(f"digest has {PyBytes_GET_SIZE(digest)} bytes, not 32")
    vyre_shard_path(<const uint8_t*> PyBytes_AS_STRING(digest), out)
    return out[:71].decode("ascii")


def scan_spirv(bytes module not None) -> tuple[int, int, int, int]:
    """Walk every instruction of a SPIR-V module and tell whether its framing is whole.

    ``module`` is a multiple of 4 bytes in the host's byte order. Returns ``(fault, word, first_function, functions)``: the
    fault's number (0: whole), the word at which it shows, the word of the first ``OpFunction`` (the word count when there is
    none), and how many functions there are.
    """
    cdef vyre_spirv_extent extent
    cdef Py_ssize_t byte_len = PyBytes_GET_SIZE(module)
    cdef vyre_spirv_fault fault
    if byte_len % 4:
        raise ValueError(f"module has {byte_len} bytes, not a multiple of 4")
    cdef const uint32_t* words = <const uint32_t*> PyBytes_AS_STRING(module)
    with nogil:
        fault = vyre_spirv_scan(words, <size_t> byte_len // 4, &extent)
    return fault, extent.fault_word, extent.first_function_word, extent.functions


def defines_function(bytes module not None, Py_ssize_t start, uint32_t function) -> bool:
    """Whether an ``OpFunction`` at or after word ``start`` of a scanned module has the result id ``function``."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(module) // 4
    if not 0 <= start <= count:
        raise ValueError(f"start is word {start} of a module of {count} words")
    return vyre_spirv_defines_function(
        <const uint32_t*> PyBytes_AS_STRING(module), <size_t> count, <size_t> start, function)


cdef extern from "Python.h":
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text)

# FNV-1a of 64 bits. A zero byte only multiplies, so a value's zeros above its last byte are one step, by a power of the prime.
cdef extern from *:
    """
    #define VYRE_FNV_BASIS UINT64_C(0xCBF29CE484222325)
    #define VYRE_FNV_PRIME UINT64_C(0x100000001B3)
    #define VYRE_FNV_SQUARE (VYRE_FNV_PRIME * VYRE_FNV_PRIME)
    #define VYRE_FNV_FOURTH (VYRE_FNV_SQUARE * VYRE_FNV_SQUARE)
    static const uint64_t VYRE_FNV_POWERS[9] = {
        1, VYRE_FNV_PRIME, VYRE_FNV_SQUARE, VYRE_FNV_SQUARE * VYRE_FNV_PRIME,
        VYRE_FNV_FOURTH, VYRE_FNV_FOURTH * VYRE_FNV_PRIME, VYRE_FNV_FOURTH * VYRE_FNV_SQUARE,
        VYRE_FNV_FOURTH * VYRE_FNV_SQUARE * VYRE_FNV_PRIME, VYRE_FNV_FOURTH * VYRE_FNV_FOURTH
    };
    """
    const uint64_t VYRE_FNV_BASIS
    const uint64_t VYRE_FNV_PRIME
    const uint64_t VYRE_FNV_POWERS[9]


cdef uint64_t spec_map_step(uint64_t hash, const vyre_spec_entry* entry) noexcept nogil:
    cdef uint64_t value = entry.value_hash
    cdef const uint8_t* name = <const uint8_t*> entry.name
    cdef size_t left = 8
    cdef size_t i
    for i in range(entry.name_len):
        hash = (hash ^ name[i]) * VYRE_FNV_PRIME
    while value:
        hash = (hash ^ (value & 0xFF)) * VYRE_FNV_PRIME
        value >>= 8
        left -= 1
    return hash * VYRE_FNV_POWERS[left]


cdef uint64_t vyre_spec_map_hash(const vyre_spec_entry* entries, size_t count) noexcept nogil:
    cdef uint64_t hash = VYRE_FNV_BASIS
    cdef size_t i
    for i in range(count):
        hash = spec_map_step(hash, &entries[i])
    return hash


cdef void put_le64(uint64_t value, uint8_t* out) noexcept nogil:
    cdef size_t i
    for i in range(8):
        out[i] = <uint8_t> (value >> 8 * i)


cdef void vyre_autotune_key(const vyre_spec_cache_key* key, char* out) noexcept nogil:
    cdef uint8_t folded[16]
    cdef uint64_t workgroup = key.workgroup_size[0]
    workgroup ^= <uint64_t> key.workgroup_size[1] << 16
    workgroup ^= <uint64_t> key.workgroup_size[2] << 32
    put_le64(key.spec_hash ^ workgroup, folded)
    put_le64(key.shader_hash ^ key.binding_sig, folded + 8)
    vyre_hex(folded, 16, out)


def spec_map_hash(list rows not None) -> int:
    """Return the u64 hash of a specialization map.

    Each row is a tuple that begins with a constant's name in UTF-8 (bytes) and its value's hash (u64); rows stand in the byte
    order of their names.
    """
    cdef tuple held = tuple(rows)  # keeps every name in its place, whatever becomes of the list meanwhile
    cdef Py_ssize_t count = len(held)
    cdef vyre_spec_entry few[32]
    cdef vyre_spec_entry* entries = few
    cdef uint64_t hash
    cdef Py_ssize_t i
    cdef tuple row
    cdef bytes name
    if count > 32:
        entries = <vyre_spec_entry*> PyMem_Malloc(<size_t> count * sizeof(vyre_spec_entry))
        if entries == NULL:
            raise MemoryError(f"no memory for {count} entries")
    try:
        for i in range(count):
            row = held[i]
            name = row[0]
            if name is None:
                raise TypeError("a row begins with no name in bytes")
            entries[i].name = PyBytes_AS_STRING(name)
            entries[i].name_len = <size_t> PyBytes_GET_SIZE(name)
            entries[i].value_hash = row[1]
        if count <= 32:  # done before another thread could run
            return vyre_spec_map_hash(entries, <size_t> count)
        with nogil:
            hash = vyre_spec_map_hash(entries, <size_t> count)
        return hash
    finally:
        if count > 32:
            PyMem_Free(entries)


def autotune_key_hex(
    uint64_t shader_hash, uint64_t binding_sig, tuple workgroup_size not None, uint64_t spec_hash
) -> str:
    """Return the 32 hex digits that name a tuned kernel; ``workgroup_size`` is three u32."""
    cdef vyre_spec_cache_key key
    cdef char out[32]
    key.shader_hash = shader_hash
    key.binding_sig = binding_sig
    x, y, z = workgroup_size
    key.workgroup_size[0] = x
    key.workgroup_size[1] = y
    key.workgroup_size[2] = z
    key.spec_hash = spec_hash
    vyre_autotune_key(&key, out)
    return out[:32].decode("ascii")


def hex_text(data) -> str:
    """Return the bytes of a contiguous buffer as lower-case hex digits, two a byte."""
    cdef Py_buffer view
    cdef str text
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        text = PyUnicode_New(2 * view.len, 127)
        if view.len:
            vyre_hex(<const uint8_t*> view.buf, <size_t> view.len, <char*> PyUnicode_DATA(text))
    finally:
        PyBuffer_Release(&view)
    return text


include "_plans.pxi"
include "_c_api.pxi"
