# Part of _shape.pyx: instructions of debug information, which may stand where others may not.
# Source: the instruction sets NonSemantic.Shader.DebugInfo.100 and OpenCL.DebugInfo.100, and what spirv-val accepts.


cdef bint is_local_debug_info(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    """Return whether an instruction may stand anywhere in a function, also outside its blocks.

    So may DebugScope (23), DebugNoScope (24), DebugDeclare (28) and DebugValue (29) of both sets, and DebugLine (103) and
    DebugNoLine (104) of the one for shaders. spirv-opt leaves a DebugNoScope behind the last block of a function.
    """
    cdef const uint32_t* made
    if words[0] & 0xFFFF != 12 or length < 5:
        return False
    made = maker(module, words[3])
    if op_of(made) != 11:
        return False
    if words[4] in (23, 24, 28, 29) and names_set(made, b"OpenCL.DebugInfo.100"):
        return True
    return words[4] in (23, 24, 28, 29, 103, 104) and names_set(made, b"NonSemantic.Shader.DebugInfo.100")


cdef bint names_set(const uint32_t* made, const char* name) noexcept nogil:
    """Return whether an OpExtInstImport is of the set of this name."""
    cdef uint32_t at
    for at in range(4 * ((made[0] >> 16) - 2)):
        if (made[2 + (at >> 2)] >> 8 * (at & 3) & 0xFF) != <uint8_t> name[at]:
            return False
        if name[at] == 0:
            return True
    return False
