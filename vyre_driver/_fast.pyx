# cython: language_level=3, embedsignature=True, binding=True, freethreading_compatible=True
"""Hot loops: the shard path of a cache key, and the instruction scan of a SPIR-V module.

Each loop is a ``noexcept nogil`` kernel on raw pointers, which others may cimport, and a wrapper that checks sizes before it
calls the kernel. Nothing here imports the rest of the package. Plain twins stand in tests/twins.py.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

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
