# Part of _shape.pyx: instructions of debug information, which may stand where others may not.
# Source: the instruction sets NonSemantic.Shader.DebugInfo.100 and OpenCL.DebugInfo.100, and what spirv-val accepts.


cdef bint is_local_debug_info(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    """Return whether an instruction may stand anywhere in a function, also outside its blocks.

    So may DebugScope (23), DebugNoScope (24), DebugDeclare (28) and DebugValue (29) of both sets, and DebugLine (103) and
    DebugNoLine (104) of the one for shaders. spirv-opt leaves a DebugNoScope behind the last block of a function.

    Later versions of the set for shaders, as the 102 of glslang 16, keep the numbers of their instructions.
    """
    cdef const uint32_t* made
    if words[0] & 0xFFFF != 12 or length < 5:
        return False
    made = maker(module, words[3])
    if op_of(made) != 11:
        return False
    if words[4] in (23, 24, 28, 29) and names_set(made, b"OpenCL.DebugInfo.100"):
        return True
    return words[4] in (23, 24, 28, 29, 103, 104) and names_version(made, b"NonSemantic.Shader.DebugInfo.")


cdef bint names_set(const uint32_t* made, const char* name) noexcept nogil:
    """Return whether an OpExtInstImport is of the set of this name."""
    cdef uint32_t length = <uint32_t> strlen(name)
    return begins(made, name, length) and character(made, length) == 0


cdef bint names_version(const uint32_t* made, const char* name) noexcept nogil:
    """Return whether an OpExtInstImport is of a set of this name and a version of at least 100."""
    cdef uint32_t first = <uint32_t> strlen(name)
    cdef uint32_t at = first
    if not begins(made, name, first) or character(made, first) == c"0":
        return False
    while c"0" <= character(made, at) <= c"9":
        at += 1
    return at - first >= 3 and character(made, at) == 0


cdef bint begins(const uint32_t* made, const char* name, uint32_t length) noexcept nogil:
    """Return whether the name of an OpExtInstImport begins with these characters."""
    cdef uint32_t at
    for at in range(length):
        if character(made, at) != name[at]:
            return False
    return True


cdef int character(const uint32_t* made, uint32_t at) noexcept nogil:
    """Return a character of the name of an OpExtInstImport, -1 behind its last word."""
    if at >= 4 * ((made[0] >> 16) - 2):
        return -1
    return made[2 + (at >> 2)] >> 8 * (at & 3) & 0xFF
