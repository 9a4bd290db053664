# Part of _shape.pyx: the types that operands have, as far as a driver relies on them unasked (SPIR-V 1.6, 3.42).

cdef struct Module:
    const uint32_t* words
    uint32_t bound
    uint32_t* ids
    uint32_t* made_at  # the word of the instruction that makes an id, 0 where that is not known
    bint has_pointers  # a capability allows arithmetic on pointers


cdef inline const uint32_t* maker(const Module* module, uint32_t one) noexcept nogil:
    """Return the instruction that makes an id, or NULL."""
    return module.words + module.made_at[one] if one < module.bound and module.made_at[one] else NULL


cdef inline uint32_t op_of(const uint32_t* made) noexcept nogil:
    return made[0] & 0xFFFF if made != NULL else 0


cdef inline const uint32_t* type_of(const Module* module, uint32_t value) noexcept nogil:
    """Return the declaration of a value's type, or NULL."""
    cdef const uint32_t* made = maker(module, value)
    return maker(module, made[1]) if made != NULL else NULL


cdef uint32_t scalar_op(const Module* module, const uint32_t* found) noexcept nogil:
    """Return the opcode of what a vector or matrix is made of, or of a scalar type itself; 0 if that is not known."""
    cdef int depth
    for depth in range(3):
        if op_of(found) not in (23, 24, 4456):
            break
        found = maker(module, found[2])
    return op_of(found)


cdef bint have_one_form(const Module* module, const uint32_t* a, const uint32_t* b) noexcept nogil:
    """Whether two types of integers are alike but for the sign; true as well where one is not known."""
    if a == NULL or b == NULL or a == b:
        return True
    if op_of(a) != op_of(b):
        return False
    if op_of(a) == 23 and a[3] == b[3]:
        a, b = maker(module, a[2]), maker(module, b[2])
        if a == NULL or b == NULL or a == b:
            return True
    return op_of(a) == op_of(b) == 21 and a[2] == b[2]


cdef uint32_t wanted_scalar(uint32_t op) noexcept nogil:
    """Return the opcode of the scalar type that an operation gives, 0 for any."""
    if op in (111, 112, 115, 116, 127, 129, 131, 133, 136) or 140 <= op <= 148 or 207 <= op <= 215:
        return 22
    if op in (109, 110, 113, 114, 126, 128, 130, 132, 134, 135, 137, 138, 139) or 194 <= op <= 205:
        return 21
    return 20 if 154 <= op <= 191 and op != 169 else 0


cdef bint numbers_fit(const Module* module, uint32_t op, const uint32_t* words, uint32_t length) noexcept nogil:
    cdef uint32_t wanted = wanted_scalar(op)
    cdef uint32_t at
    cdef const uint32_t* result
    cdef const uint32_t* first
    if not wanted:  # the last instruction of a module may have no operands
        return True
    result = maker(module, words[1])
    if result == NULL:
        return True
    if scalar_op(module, result) != wanted:
        return False
    if op in (127, 129, 131, 133, 136, 140, 141):
        for at in range(3, length):
            first = type_of(module, words[at])
            if first != NULL and first != result:
                return False
    elif op in (126, 128, 130, 132, 134, 135, 137, 138, 139, 197, 198, 199, 200):
        for at in range(3, length):
            if not have_one_form(module, type_of(module, words[at]), result):
                return False
    elif 170 <= op <= 191 and length == 5:
        first = type_of(module, words[3])
        if first != NULL and scalar_op(module, first) != (21 if op < 180 else 22):
            return False
        return have_one_form(module, first, type_of(module, words[4]))
    return True


cdef bint chain_fits(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    """Whether indices lead from a pointer to what the result points to."""
    cdef const uint32_t* base = type_of(module, words[3])
    cdef const uint32_t* result = maker(module, words[1])
    cdef const uint32_t* found
    cdef const uint32_t* index
    cdef uint32_t at, reached
    if base == NULL or result == NULL:
        return True
    if op_of(base) != 32 or op_of(result) != 32 or base[2] != result[2]:
        return False
    reached = base[3]
    for at in range(4 if words[0] & 0xFFFF in (65, 66) else 5, length):
        found = maker(module, reached)
        if found == NULL:
            return True
        index = type_of(module, words[at])
        if index != NULL and op_of(index) != 21:
            return False
        if op_of(found) == 30:
            index = maker(module, words[at])
            if op_of(index) != 43 or index[3] >= (found[0] >> 16) - 2:
                return False
            reached = found[2 + index[3]]
        elif op_of(found) in (23, 24, 28, 29, 4456):
            reached = found[2]
        else:
            return False
    return reached == result[3]


cdef bint constant_fits(const Module* module, uint32_t op, const uint32_t* words, uint32_t length) noexcept nogil:
    """Whether a constant has as many words or parts as its type."""
    cdef const uint32_t* found = maker(module, words[1])
    if found == NULL:
        return True
    if op == 43 or op == 50:
        return op_of(found) in (21, 22) and length == (5 if found[2] > 32 else 4)
    if op == 44 or op == 51:
        if op_of(found) == 30:
            return length - 3 == (found[0] >> 16) - 2
        return length - 3 == found[3] if op_of(found) in (23, 24) else op_of(found) in (28, 4456)
    return op_of(found) == 20


cdef bint call_fits(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    cdef const uint32_t* called = maker(module, words[3])
    cdef const uint32_t* found = maker(module, called[4]) if called != NULL else NULL
    cdef const uint32_t* given
    cdef uint32_t at
    if found == NULL:
        return True
    if op_of(found) != 33 or length - 4 != (found[0] >> 16) - 3 or words[1] != found[2]:
        return False
    for at in range(4, length):
        given = maker(module, words[at])
        if given != NULL and given[1] != found[at - 1]:
            return False
    return True


cdef bint switch_fits(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    """Whether a switch on a number of 32 bits or fewer has pairs of a literal and a label."""
    cdef const uint32_t* found = type_of(module, words[1])
    cdef uint32_t at
    if found == NULL:
        return True
    if op_of(found) != 21 or found[2] > 32:
        return op_of(found) == 21
    for at in range(4, length, 2):
        if op_of(maker(module, words[at])) != 248:
            return False
    return length % 2 == 1


cdef bint atomic_fits(const Module* module, uint32_t op, const uint32_t* words) noexcept nogil:
    """Whether an atomic is on a pointer to what it gives or stores, numbers."""
    cdef const uint32_t* pointer = type_of(module, words[1 if op == 228 else 3])
    cdef const uint32_t* given = type_of(module, words[4]) if op == 228 else maker(module, words[1])
    cdef const uint32_t* found
    if pointer == NULL or given == NULL:
        return True
    found = maker(module, pointer[3]) if op_of(pointer) == 32 else NULL
    if found != given or op_of(given) not in (21, 22, 23):
        return False
    if op_of(given) == 23:  # two or four halves, where an extension has them
        return op > 5000 or op == 229
    return op_of(given) == (22 if op > 5000 else 21) or op < 230


cdef bint is_form(const uint32_t* found, uint32_t op) noexcept nogil:
    return found == NULL or op_of(found) == op


cdef bint matrix_fits(const Module* module, uint32_t op, const uint32_t* words) noexcept nogil:
    """Whether a product has vectors, matrices and scalars where it must."""
    cdef const uint32_t* result = maker(module, words[1])
    cdef const uint32_t* left = type_of(module, words[3])
    cdef const uint32_t* right = type_of(module, words[4])
    cdef uint32_t first = 24 if op in (143, 145, 146) else 23
    cdef uint32_t second = 22 if op < 144 else 24 if op in (144, 146) else 23
    cdef uint32_t given = 22 if op == 148 else 23 if op in (142, 144, 145) else 24
    if op in (142, 143) and left != NULL and left != result:
        return False
    return is_form(result, given) and is_form(left, first) and is_form(right, second)


cdef const char* FUNCTION_OPERANDS = (  # of GLSL.std.450, from number 1
    b"111111111111111111111111" b"22" b"11111111" b"21" b"222222" b"33333" b"2" b"33" b"212" b"1111111111111" b"2213231111"
    b"22223"
)


cdef bint function_fits(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    """Whether a function of GLSL.std.450 has its operands, of the result's type where it wants that."""
    cdef const uint32_t* imported = maker(module, words[3])
    cdef const uint32_t* result = maker(module, words[1])
    cdef const uint32_t* found
    cdef uint32_t number = words[4]
    cdef uint32_t at
    cdef bint is_float = number in (4, 6, 37, 40, 43, 46, 48, 49, 50) or 8 <= number <= 32 or 68 <= number <= 71 or number > 78
    cdef bint is_whole = number in (5, 7, 38, 39, 41, 42, 44, 45)
    if op_of(imported) != 11 or imported[0] >> 16 < 6 or result == NULL:
        return True
    if imported[2] != 0x4C534C47 or imported[3] != 0x6474732E or imported[4] != 0x3035342E:
        return True
    if not 1 <= number <= 81 or length - 5 != <uint32_t> (FUNCTION_OPERANDS[number - 1] - c"0"):
        return False
    if (is_float and scalar_op(module, result) != 22) or (is_whole and scalar_op(module, result) != 21):
        return False
    for at in range(5, length):
        found = type_of(module, words[at])
        if is_float and found != NULL and found != result:
            return False
        if is_whole and not have_one_form(module, found, result):
            return False
    return True


cdef bint types_fit(const Module* module, const uint32_t* words, uint32_t length) noexcept nogil:
    """Whether the operands of an instruction, which are there and of the right kind, have types that fit together."""
    cdef uint32_t op = words[0] & 0xFFFF
    cdef const uint32_t* found
    cdef const uint32_t* other
    if op in (65, 66, 67, 70):
        return (module.has_pointers or op < 67) and chain_fits(module, words, length)
    if op == 12:
        return function_fits(module, words, length)
    if op in (227, 228) or 229 <= op <= 242 or op in (5614, 5615, 6035):
        return atomic_fits(module, op, words)
    if 142 <= op <= 148:
        if op_of(maker(module, words[1])) == 4456:  # a cooperative matrix, of integers too
            return True
        if not matrix_fits(module, op, words):
            return False
    if op == 61 or op == 62:  # the pointer and what it points to; structures may be laid out differently
        found = type_of(module, words[3 if op == 61 else 1])
        other = maker(module, words[1]) if op == 61 else type_of(module, words[2])
        if found == NULL or other == NULL:
            return True
        if op_of(found) != 32:
            return False
        found = maker(module, found[3])
        return found == NULL or found == other or (op_of(found) == op_of(other) and op_of(other) in (28, 30))
    if op == 59:
        found = maker(module, words[1])
        return found == NULL or (op_of(found) == 32 and found[2] == words[3])
    if op == 54:
        found = maker(module, words[4])
        return found == NULL or (op_of(found) == 33 and found[2] == words[1])
    if op == 15 and words[1] == 5:  # GLCompute: its function takes and gives nothing
        found = maker(module, words[2])
        found = maker(module, found[4]) if op_of(found) == 54 else NULL
        return found != NULL and (found[0] >> 16) == 3 and op_of(maker(module, found[2])) == 19
    if op == 251:
        return switch_fits(module, words, length)
    if op == 57:
        return call_fits(module, words, length)
    if op == 28:
        found = maker(module, words[3])
        return found == NULL or op_of(found) in (43, 50, 52)
    if op in (41, 42, 43, 44, 48, 49, 50, 51):
        return constant_fits(module, op, words, length)
    return numbers_fit(module, op, words, length)
