# cython: language_level=3, embedsignature=True, binding=True
"""Find out whether a SPIR-V module uses more of its grid than the x axis. Imports nothing of ours.

The built-in indices are vectors of three. They are followed through loads, variables, calls and arithmetic, whatever the order
of the blocks, until nothing new is found; the framing of the module was checked before.

Source: SPIR-V 1.6, 3.42 (instructions); Vulkan 1.3, "Built-In Variables".
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    MOST_IDS = 0x400000
    VALUE = 1  # is an index of three components, or what was made of one component by component
    POINTER = 2  # points to such a value
    ZERO = 4  # is the constant 0
    OWN = 8  # is a variable of a function or of the invocation
    MOST_PASSES = 16
    SAME = 0
    CHANGED = 1
    BEYOND = 2


cdef uint8_t of(const uint8_t* marks, uint32_t one, uint32_t bound) noexcept nogil:
    return marks[one] if one < bound else 0


cdef bint is_componentwise(uint32_t opcode) noexcept nogil:
    """Whether component i of the result depends on component i of the operands alone (and on scalars)."""
    return (
        83 == opcode
        or 109 <= opcode <= 116
        or opcode == 124
        or 126 <= opcode <= 142
        or 169 <= opcode <= 191
        or 194 <= opcode <= 200
        or opcode == 245
    )


cdef bint are_of_x(const uint32_t* words, uint32_t length, const uint8_t* marks, uint32_t bound) noexcept nogil:
    """Whether an OpVectorShuffle takes nothing but the first component of the values that are marked."""
    cdef uint32_t i
    if not of(marks, words[3], bound) & VALUE:
        return False  # how many components the first one has is not known here
    for i in range(5, length):
        if words[i] != 0 and not (words[i] >= 3 and (words[i] == 3 or not of(marks, words[4], bound) & VALUE)):
            return False
    return True


cdef int uses(const uint32_t* words, uint32_t length, uint32_t opcode, uint8_t* marks, uint32_t bound) noexcept nogil:
    """Follow the indices through one instruction of a function; what is not understood counts as BEYOND."""
    cdef uint32_t i
    cdef int found = 0
    if opcode in (8, 317, 54, 55, 56, 59, 246, 247, 248, 249, 250, 251, 252, 253, 255):
        return SAME  # lines, functions and their parameters, variables, blocks and branches, which take scalars
    for i in range(1, length):
        found |= of(marks, words[i], bound) & (VALUE | POINTER)
        if opcode == 61 and i == 3 or opcode == 62 and i == 2 or opcode == 81 and i == 3:
            break  # literals follow
    if not found:
        return SAME
    if opcode == 61 and length >= 4 and words[2] < bound and of(marks, words[3], bound) & POINTER:
        return mark(marks, words[2], VALUE)
    if opcode == 62 and length >= 3 and words[1] < bound:
        if not of(marks, words[2], bound) & (VALUE | POINTER):
            return SAME  # something else is written over it
        return mark(marks, words[1], POINTER) if of(marks, words[2], bound) & VALUE and marks[words[1]] & OWN else BEYOND
    if (opcode == 65 or opcode == 66 or opcode == 77) and length == 5 and of(marks, words[4], bound) & ZERO:
        return SAME
    if opcode == 81 and length == 5 and words[4] == 0:
        return SAME
    if opcode == 79 and length >= 5:
        return SAME if are_of_x(words, length, marks, bound) else BEYOND
    if is_componentwise(opcode) and length >= 4 and words[2] < bound and not found & POINTER:
        return mark(marks, words[2], VALUE)
    return BEYOND


cdef int mark(uint8_t* marks, uint32_t one, uint8_t what) noexcept nogil:
    if marks[one] & what:
        return SAME
    marks[one] |= what
    return CHANGED


cdef int passes(const uint32_t* words, uint32_t length, uint8_t* marks, uint32_t bound, dict parameters) except -1:
    """Follow the indices into the function of an OpFunctionCall, whose parameters begin at a word of the module."""
    cdef uint32_t i
    cdef int found = SAME
    cdef object begin = parameters.get(words[3]) if length > 3 else None
    for i in range(4, length):
        if of(marks, words[i], bound) & (VALUE | POINTER):
            if begin is None or i - 4 >= len(<list> begin) or (<list> begin)[i - 4] >= bound:
                return BEYOND
            found |= mark(marks, (<list> begin)[i - 4], marks[words[i]] & (VALUE | POINTER))
    return found


cdef void mark_declarations(const uint32_t* words, Py_ssize_t stop, uint8_t* marks, uint32_t bound) noexcept nogil:
    """Mark the built-in indices, zeros and private variables of a module."""
    cdef Py_ssize_t at = 5
    cdef uint32_t length, opcode, i
    while at < stop:
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        if length == 0 or length > stop - at:
            break
        if opcode == 71 and length == 4 and words[at + 1] < bound and words[at + 2] == 11:
            if words[at + 3] == 24 or 26 <= words[at + 3] <= 28:  # NumWorkgroups; WorkgroupId, the two InvocationIds
                marks[words[at + 1]] |= POINTER
        elif opcode == 74 and length >= 2 and words[at + 1] < bound:
            for i in range(2, length):
                if words[at + i] < bound:
                    marks[words[at + i]] |= marks[words[at + 1]] & POINTER
        elif opcode == 46 and length == 3 and words[at + 2] < bound:
            marks[words[at + 2]] |= ZERO
        elif opcode == 43 and length == 4 and words[at + 2] < bound and words[at + 3] == 0:
            marks[words[at + 2]] |= ZERO
        elif opcode == 59 and length >= 4 and words[at + 2] < bound and words[at + 3] == 6:
            marks[words[at + 2]] |= OWN
        at += length


def looks_beyond_x(bytes module not None, Py_ssize_t start, reached) -> bool:
    """Whether functions of a module look at y or z of an index: of the invocation, of the workgroup, or how many there are.

    ``start`` is the word at which the functions begin; ``reached`` has the result ids of those that count, None for all. What
    cannot be determined counts as use.
    """
    cdef Py_ssize_t count = PyBytes_GET_SIZE(module) // 4
    cdef const uint32_t* words = <const uint32_t*> PyBytes_AS_STRING(module)
    cdef Py_ssize_t at
    cdef uint32_t length, opcode, bound
    cdef uint8_t* marks
    cdef int found, changed
    cdef dict parameters = {}
    cdef bint counts = False
    if not 5 <= start <= count:
        raise ValueError(f"start is word {start} of a module of {count} words")
    bound = words[3]
    if bound > MOST_IDS:
        return True
    marks = <uint8_t*> PyMem_Calloc(bound + 1, 1)
    if marks == NULL:
        raise MemoryError(f"no memory for {bound} ids")
    try:
        mark_declarations(words, start, marks, bound)
        mark_functions(words, start, count, marks, bound, parameters)
        for _ in range(MOST_PASSES):
            changed, at = SAME, start
            while at < count:
                length, opcode = words[at] >> 16, words[at] & 0xFFFF
                if length == 0 or length > count - at:
                    break
                if opcode == 54 and length > 2:
                    counts = reached is None or words[at + 2] in reached
                if counts:
                    if opcode == 57:
                        found = passes(words + at, length, marks, bound, parameters)
                    else:
                        found = uses(words + at, length, opcode, marks, bound)
                    if found & BEYOND:
                        return True
                    changed |= found
                at += length
            if changed == SAME:
                return False
        return True
    finally:
        PyMem_Free(marks)


cdef int mark_functions(
    const uint32_t* words, Py_ssize_t start, Py_ssize_t count, uint8_t* marks, uint32_t bound, dict parameters
) except -1:
    """Mark the variables of functions, and list the parameters of each."""
    cdef Py_ssize_t at = start
    cdef uint32_t length, opcode
    cdef list current = []
    while at < count:
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        if length == 0 or length > count - at:
            break
        if opcode == 54 and length > 2:
            current = parameters[words[at + 2]] = []
        elif opcode == 55 and length > 2:
            current.append(words[at + 2])
        elif opcode == 59 and length >= 4 and words[at + 2] < bound and words[at + 3] == 7:
            marks[words[at + 2]] |= OWN
        at += length
    return 0
