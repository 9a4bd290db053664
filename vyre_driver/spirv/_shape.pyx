# cython: language_level=3, embedsignature=True, binding=True
"""The structural check of a SPIR-V module whose framing was checked: sections, functions, blocks, and every id that is used.

A driver that is given an id that nothing defines, or a type where a value belongs, may crash. Refuses only what breaks a rule
of SPIR-V, and far from all of that: what an instruction outside ``SHAPES`` defines and uses is left open, as is the order of
definitions and uses inside a function.

Nothing here imports the rest of the package. In tests spirv-val is its judge.
Source: SPIR-V 1.6, 2.4 (logical layout), 2.16.1 (universal validation rules), 3.42 (instructions).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport strlen

# What operands are, in order: t result type, r result, y type, v value, f function, b label of the same function, a any id,
# l literal; for all that are left Y types, V values, A any ids, P pairs of value and label, L literals.
SHAPES = {
    "": (0, 56, 218, 219, 252, 253, 255, 317, 4416, 5380),
    "L": (2, 3, 4, 10, 14, 17, 330),
    "rL": (7, 11, 31),
    "rlL": (22,),
    "r": (19, 20, 26, *range(34, 38), 73, 248, 4472, 5341),
    "rl": (38,),
    "all": (8,),
    "aL": (5, 6, 16, 71, 72, 75, 5632, 5633),
    "aA": (74,),
    "alA": (332,),
    "alV": (331,),
    "laL": (15,),
    "al": (39,),
    "rll": (21,),
    "ryl": (23, 24),
    "ryL": (25,),
    "ry": (27, 29),
    "ryv": (28,),
    "rY": (30,),
    "rly": (32,),
    "ryY": (33,),
    "ryvvvv": (4456,),
    "tr": (1, 41, 42, 46, 48, 49, 55),
    "trL": (45,),
    "trlL": (43, 50, 52),
    "trV": (44, 51, 80),
    "trvV": (65, 66, 67, 70),
    "tralA": (12,),
    "trly": (54,),
    "trfV": (57,),
    "trlV": (59,),
    "trvL": (61, 81),
    "vvL": (62, 63),
    "vvvL": (64, 99, 4458),
    "trvl": (68,),
    "trvvL": (79, 82, 87, 88, 91, 92, 95, 98, 4450, 4451, 4452, 4457),
    "trvvvL": (89, 90, 93, 94, 96, 97, 4453, 4454, 4455, 4459),
    "trv": (
        *(83, 84, 100, 104, 106, 107, *range(109, 125), 126, 127, *range(154, 161), 168, 200, 204, 205, *range(207, 216)),
        *(333, 400, 4421, 4422, 4428, 4429, 4430, 5056),
    ),
    "trvv": (
        *(77, 86, 103, 105, *range(128, 153), *range(161, 168), *range(170, 192), *range(194, 200), *range(334, 337)),
        *(338, 339, 340, 343, 344, 401, 402, 403, 4432),
    ),
    "trvvv": (60, 78, 169, 202, 203, 227, 232, 233, 337, 341, *range(345, 349), 365, 366),
    "trvvvv": (201, 229, *range(234, 243), 5614, 5615, 6035),
    "trvvvvvv": (230, 231),
    "trvlv": (342,),
    "trvlV": (*range(349, 365),),
    "v": (220, 221, 254),
    "vl": (256, 257),
    "vv": (225,),
    "vvv": (224,),
    "vvvv": (228,),
    "trP": (245,),
    "bbL": (246,),
    "bl": (247,),
    "b": (249,),
    "vbbL": (250,),
    "vbL": (251,),
    "try": (4460,),
}
DECLARING = (*range(2, 8), 10, 11, *range(14, 53), *range(71, 76), 330, 331, 332, 4456, 4472, 5341, 5632, 5633)
ANYWHERE = (0, 1, 8, 12, 59, 317)
TERMINATING = (*range(249, 256), 4416)

FAULTS = (
    "",
    "{what} has too few operands",
    "{what} makes %{number}, and its ids end before %{bound}",
    "{what} makes %{number}, which another instruction makes too",
    "{what} uses %{number}, which nothing defines",
    "{what} uses %{number} as a type, and it is none",
    "{what} uses %{number} as a value, and it is none",
    "{what} calls %{number}, which is not a function",
    "{what} goes to %{number}, which is not a label of its function",
    "{what} declares something of the module, and stands in a function",
    "{what} stands outside a function",
    "{what} stands outside a block",
    "{what} comes before the block it stands in has ended with a branch or return",
    "{what} uses %{number}, which another function defines",
    "{what} ends a function that has no block",
    "{what} has too many operands",
    "{what} has operands whose types do not fit together",
    "{what} begins a function that does not have the parameters of its type",
    "{what} is none that SPIR-V has",
)

cdef enum:
    TOO_SHORT = 1
    OUT_OF_BOUND = 2
    TWICE = 3
    UNDEFINED = 4
    NO_TYPE = 5
    NO_VALUE = 6
    NO_FUNCTION = 7
    NO_LABEL = 8
    MISPLACED = 9
    OUTSIDE_FUNCTION = 10
    OUTSIDE_BLOCK = 11
    UNTERMINATED = 12
    FOREIGN = 13
    EMPTY = 14
    TOO_LONG = 15
    MISTYPED = 16
    PARAMETERS = 17
    UNKNOWN = 18

cdef enum:
    MOST_OPS = 6144
    NO_OPS = 0x4000  # the registry gives opcodes out from below, and is at about 7,400
    IS_KNOWN = 0x80
    IS_DECLARING = 1
    IS_ANYWHERE = 2
    IS_TERMINATING = 4

# What an id is: 0 not there, else the kind in the lowest bits, and above them the number of its function, 0 for the module's.
cdef enum:
    OTHER = 1
    TYPE = 2
    LABEL = 3
    FUNCTION = 4
    MAYBE = 5
    THING = 6
    KIND = 7
    OWNER_SHIFT = 4

include "operand_types.pxi"
include "debug_info.pxi"


cdef char[MOST_OPS][9] shapes
cdef uint8_t[MOST_OPS] places


cdef int fill() except -1:
    cdef bytes text
    for shape, opcodes in SHAPES.items():
        text = shape.encode()
        for op in opcodes:
            for at, letter in enumerate(text):
                shapes[op][at] = letter
            shapes[op][len(text)] = 0
            places[op] |= IS_KNOWN
    for flag, opcodes in ((IS_DECLARING, DECLARING), (IS_ANYWHERE, ANYWHERE), (IS_TERMINATING, TERMINATING)):
        for op in opcodes:
            places[op] |= flag
    return 0


fill()


cdef struct Place:
    bint in_function
    bint has_label
    int block  # 0 none is open, 1 one is, 2 an unknown instruction came last, which may have ended it
    uint32_t function


cdef inline bint is_known(uint32_t op) noexcept nogil:
    return op < MOST_OPS and places[op] & IS_KNOWN


cdef int step(Place* place, uint32_t op) noexcept nogil:
    """Move on by one instruction; tells whether it may stand where it does."""
    if op == 54:
        place.in_function, place.has_label, place.block = True, False, 0
        place.function += 1
        return 0
    if op == 56:
        place.in_function = False
        return UNTERMINATED if place.block == 1 else 0 if place.has_label else EMPTY
    if not is_known(op):
        place.block = 2 if place.block else 0
        return UNKNOWN if op >= NO_OPS else 0
    if not place.in_function:
        return 0 if places[op] & (IS_DECLARING | IS_ANYWHERE) else OUTSIDE_FUNCTION
    if places[op] & IS_DECLARING:
        return MISPLACED
    if op == 248:
        if place.block == 1:
            return UNTERMINATED
        place.has_label, place.block = True, 1
        return 0
    if op == 55:
        return OUTSIDE_BLOCK if place.has_label else 0
    if not place.block:
        return 0 if op == 8 or op == 317 else OUTSIDE_BLOCK
    place.block = 0 if places[op] & IS_TERMINATING else 1
    return 0


cdef inline uint32_t kind_of(uint32_t op) noexcept nogil:
    if op == 248:
        return LABEL
    if op == 54:
        return FUNCTION
    if 19 <= op <= 38 or op == 4456 or op == 4472 or op == 5341:
        return TYPE
    return OTHER if shapes[op][0] == c"t" else THING


cdef int define(Module* module, Place* place, const uint32_t* words, uint32_t length, uint32_t* number) noexcept nogil:
    """Note what an instruction makes; of an unknown one every word may be it."""
    cdef uint32_t op = words[0] & 0xFFFF
    cdef uint32_t at, one
    cdef uint32_t owner = place.function if place.in_function and op != 54 else 0
    if not is_known(op):
        for at in range(1, length):
            if words[at] < module.bound and not module.ids[words[at]]:
                module.ids[words[at]] = MAYBE
        return 0
    at = 1 if shapes[op][0] == c"r" else 2 if shapes[op][0] == c"t" else 0
    if not at:
        return 0
    if length <= at:
        return TOO_SHORT
    one = number[0] = words[at]
    if not 0 < one < module.bound:
        return OUT_OF_BOUND
    if module.ids[one] and module.ids[one] & KIND != MAYBE:
        return TWICE
    module.ids[one] = kind_of(op) | owner << OWNER_SHIFT
    module.made_at[one] = <uint32_t> (words - module.words)
    return 0


cdef int judge(uint32_t letter, uint32_t found, uint32_t function) noexcept nogil:
    """Tell whether an id of this state may be an operand of this letter."""
    cdef uint32_t kind = found & KIND
    cdef uint32_t owner = found >> OWNER_SHIFT
    if kind == 0:
        return UNDEFINED
    if kind == MAYBE or letter == c"a":
        return 0
    if letter == c"t" or letter == c"y":
        return 0 if kind == TYPE else NO_TYPE
    if letter == c"f":
        return 0 if kind == FUNCTION else NO_FUNCTION
    if letter == c"b":
        return 0 if kind == LABEL and owner == function else NO_LABEL
    if kind != OTHER:
        return NO_VALUE
    return FOREIGN if owner and owner != function else 0


cdef int check_uses(
    const Module* module, uint32_t function, const uint32_t* words, uint32_t length, uint32_t* number
) noexcept nogil:
    cdef uint32_t op = words[0] & 0xFFFF
    cdef uint32_t at, letter = 0, rest = 0
    cdef const char* shape
    cdef int fault
    if not is_known(op):
        return 0
    shape = shapes[op]
    at = 1
    while True:
        if rest:
            if at >= length:
                return 0
            letter = rest
            if rest == c"P":
                letter = c"v" if at & 1 else c"b"
        else:
            letter = shape[0]
            shape += 1
            if letter == 0:
                return 0 if at == length else TOO_LONG
            if letter == c"L":
                return 0
            if letter == c"Y" or letter == c"V" or letter == c"A" or letter == c"P":
                rest = letter + 32 if letter != c"P" else letter
                continue
            if at >= length:
                return TOO_SHORT
        if letter != c"l" and letter != c"r":
            number[0] = words[at]
            fault = judge(letter, module.ids[words[at]] if words[at] < module.bound else 0, function)
            if fault:
                return fault
        at += 1


def check(bytes code not None) -> tuple[int, int, int]:
    """Return ``(fault, word, number)`` of the first instruction that is out of place or uses an id wrongly, 0 for none.

    ``fault`` numbers ``FAULTS``, ``number`` is the id in question. What is defined twice, and where instructions stand, is
    judged before what is used.
    """
    cdef Py_ssize_t count = PyBytes_GET_SIZE(code) // 4
    cdef Module module
    cdef uint32_t number = 0
    cdef Py_ssize_t at = 0
    cdef int fault = 0
    if count < 5:
        raise ValueError(f"a module of {count} words has no header")
    module.words = <const uint32_t*> PyBytes_AS_STRING(code)
    module.bound = module.words[3]
    if module.bound > 0x400000:
        raise ValueError(f"its id bound is {module.bound}")
    module.ids = <uint32_t*> PyMem_Calloc(2 * (<size_t> module.bound + 1), 4)
    if module.ids == NULL:
        raise MemoryError(f"no memory for {module.bound} ids")
    module.made_at = module.ids + module.bound + 1
    module.has_pointers = False
    fault = walk(&module, count, &at, &number)
    PyMem_Free(module.ids)
    if fault:
        return fault, at, number
    return 0, 0, 0


cdef int walk(Module* module, Py_ssize_t count, Py_ssize_t* at, uint32_t* number) noexcept nogil:
    cdef Place place
    cdef const uint32_t* words
    cdef uint32_t length
    cdef int fault, turn
    for turn in range(3):
        place.in_function = place.has_label = False
        place.block = 0
        place.function = 0
        at[0] = 5
        while at[0] < count:
            words = module.words + at[0]
            length = words[0] >> 16
            if length == 0 or length > count - at[0]:
                break
            number[0] = 0
            fault = 0
            if turn == 0:
                if words[0] == (2 << 16 | 17) and words[1] in (4, 4441, 4442, 5347):
                    module.has_pointers = True
                fault = step(&place, words[0] & 0xFFFF)
                if fault == OUTSIDE_BLOCK and is_local_debug_info(module, words, length):
                    fault = 0
                if not fault:
                    fault = define(module, &place, words, length, number)
            elif turn == 1:
                step(&place, words[0] & 0xFFFF)
                fault = check_uses(module, place.function, words, length, number)
            elif not types_fit(module, words, length):
                fault = MISTYPED
            elif words[0] & 0xFFFF == 54 and not parameters_fit(module, words, module.words + count):
                fault = PARAMETERS
            if fault:
                return fault
            at[0] += length
    return 0


cdef bint parameters_fit(const Module* module, const uint32_t* function, const uint32_t* end) noexcept nogil:
    """Whether the parameters that follow a function are those of its type."""
    cdef const uint32_t* found = maker(module, function[4])
    cdef const uint32_t* at = function + 5
    cdef uint32_t left = (found[0] >> 16) - 3 if found != NULL else 0
    cdef uint32_t taken = 0
    while at < end and at[0] & 0xFFFF in (8, 12, 55, 317) and 0 < at[0] >> 16 <= end - at:
        if at[0] & 0xFFFF == 55:
            if found != NULL and (taken >= left or at[1] != found[3 + taken]):
                return False
            taken += 1
        at += at[0] >> 16
    return found == NULL or taken == left
