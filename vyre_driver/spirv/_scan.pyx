# cython: language_level=3, embedsignature=True, binding=True
"""Walks over a SPIR-V module whose framing was checked: what it declares, which functions it has, and what each names.

Nothing here imports the rest of the package. Plain twins stand in tests/support/spirv_twin.py.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t OP_FUNCTION = 54
cdef uint32_t MOST_IDS = 0x400000


cdef void id_operands(uint32_t opcode, uint32_t length, uint32_t* first, uint32_t* end) noexcept nogil:
    """Tell which words of an instruction can be ids of variables or functions; what is unknown counts as one."""
    first[0], end[0] = 1, length
    if opcode == 61:  # OpLoad: memory operands are literals
        first[0], end[0] = 3, 4
    elif opcode == 62:  # OpStore
        end[0] = 3
    elif opcode == 12:  # OpExtInst: set and instruction
        first[0] = 5
    elif opcode == 81 or opcode == 82 or opcode == 79:  # OpCompositeExtract, OpCompositeInsert, OpVectorShuffle
        end[0] = 0
    elif opcode == 8 or 246 <= opcode <= 251 or opcode == 317:  # OpLine, merges, labels, branches, OpNoLine
        end[0] = 0
    if end[0] > length:
        end[0] = length


def functions(bytes module not None, Py_ssize_t start) -> set:
    """Return the result ids of the functions that begin at or after word ``start``."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(module) // 4
    cdef const uint32_t* words = <const uint32_t*> PyBytes_AS_STRING(module)
    cdef Py_ssize_t at = start
    cdef set found = set()
    if not 0 <= start <= count:
        raise ValueError(f"start is word {start} of a module of {count} words")
    while at < count and words[at] >> 16 != 0:
        if words[at] & 0xFFFF == OP_FUNCTION and at + 2 < count:
            found.add(words[at + 2])
        at += words[at] >> 16
    return found


def function_uses(bytes module not None, Py_ssize_t start, wanted not None) -> dict:
    """Return which of the ids ``wanted`` the instructions of each function name, by the function's result id.

    ``start`` is a word at which an instruction begins. Ids over 4,194,303 are left out.
    """
    cdef Py_ssize_t count = PyBytes_GET_SIZE(module) // 4
    cdef const uint32_t* words = <const uint32_t*> PyBytes_AS_STRING(module)
    cdef Py_ssize_t at = start
    cdef uint32_t length, opcode, first, end, i, one
    cdef uint8_t* marked
    cdef dict found = {}
    cdef set uses = set()
    if not 0 <= start <= count:
        raise ValueError(f"start is word {start} of a module of {count} words")
    marked = <uint8_t*> PyMem_Calloc(MOST_IDS, 1)
    if marked == NULL:
        raise MemoryError(f"no memory for {MOST_IDS} ids")
    try:
        for one in wanted:
            if one < MOST_IDS:
                marked[one] = 1
        while at < count:
            length, opcode = words[at] >> 16, words[at] & 0xFFFF
            if length == 0 or length > count - at:
                break
            if opcode == OP_FUNCTION:
                uses = found.setdefault(words[at + 2] if length > 2 else 0, set())
            else:
                id_operands(opcode, length, &first, &end)
                for i in range(first, end):
                    one = words[at + i]
                    if one < MOST_IDS and marked[one]:
                        uses.add(one)
            at += length
    finally:
        PyMem_Free(marked)
    return found


cpdef uint32_t least_operands(uint32_t opcode) noexcept nogil:
    """Tell how many operands an instruction that is read has at least (SPIR-V 1.6, 3.42)."""
    if opcode in (10, 17, 30, 74):  # OpExtension, OpCapability, OpTypeStruct, OpGroupDecorate
        return 1
    if opcode in (3, 5, 14, 16, 22, 27, 29, 41, 42, 44, 48, 49, 51, 71, 331):
        return 2
    if opcode in (6, 15, 21, 23, 24, 28, 32, 43, 50, 52, 59, 72):
        return 3
    if opcode == 25:  # OpTypeImage
        return 8
    return 1 if opcode in (19, 20, 26, 5341) else 0


cdef bint is_type(uint32_t opcode) noexcept nogil:
    return 19 <= opcode <= 30 or opcode == 32 or opcode == 5341


cdef bint is_constant(uint32_t opcode) noexcept nogil:
    return 41 <= opcode <= 44 or 48 <= opcode <= 52


cdef bint is_read(uint32_t decoration) noexcept nogil:
    """Whether a decoration says how a resource is bound and laid out; others are not kept, which bounds what groups copy."""
    return decoration in (1, 2, 3, 4, 6, 7, 11, 19, 24, 25, 33, 34, 35)


cdef tuple words_of(const uint32_t* words, uint32_t count):
    cdef tuple made = PyTuple_New(count)
    cdef uint32_t i
    cdef object word
    for i in range(count):
        word = words[i]
        Py_INCREF(word)
        PyTuple_SET_ITEM(made, i, word)
    return made


cdef str text_of(const uint32_t* words, uint32_t count):
    """Return the NUL-terminated literal that begins here; None where no NUL ends it (SPIR-V 2.2.1, "Literal")."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 4 * <Py_ssize_t> count)
    cdef char* data = PyBytes_AS_STRING(made)
    cdef Py_ssize_t i
    for i in range(4 * <Py_ssize_t> count):
        data[i] = <char> (words[i >> 2] >> 8 * (i & 3) & 0xFF)
        if data[i] == 0:
            return data[:i].decode("utf-8", "replace")
    return None


cdef dict inner(dict outer, object key):
    cdef dict found = outer.get(key)
    if found is None:
        found = outer[key] = {}
    return found


cdef class Tables:
    """The declarations of a module, nothing interpreted; operands are tuples of words.

    ``names`` by id, ``member_names`` by id and member; ``decorations`` and ``member_decorations`` the same, each a dict from
    decoration to operands; ``types`` hold (opcode, operands), ``constants`` (opcode, type's id, operands) by result id;
    ``variables`` are (id, pointer type's id, storage class), ``entry_points`` (model, function's id, name), ``modes`` (target,
    mode, operands), ``languages`` the source languages that OpSource names.
    """

    cdef readonly list capabilities, extensions, entry_points, modes, variables, languages
    cdef readonly tuple memory_model
    cdef readonly dict names, member_names, decorations, member_decorations, types, constants
    cdef uint32_t bound

    def __cinit__(self):
        self.capabilities, self.extensions, self.entry_points, self.modes, self.variables = [], [], [], [], []
        self.languages = []
        self.memory_model = (0, 0)
        self.names, self.member_names, self.types, self.constants = {}, {}, {}, {}
        self.decorations, self.member_decorations = {}, {}

    def read(self, bytes module not None, Py_ssize_t stop) -> tuple[int, int, int, int]:
        """Read the instructions up to word ``stop`` of a module whose framing was checked.

        Returns ``(fault, word, opcode, number)``, all 0 when nothing is wrong: fault 1 is an instruction with ``number``
        operands, too few; 2 a text without an end; 3 a result id, ``number``, that is 0 or not below the module's bound.
        """
        cdef Py_ssize_t count = PyBytes_GET_SIZE(module) // 4
        cdef const uint32_t* words = <const uint32_t*> PyBytes_AS_STRING(module)
        cdef Py_ssize_t at = 5
        cdef uint32_t length, opcode
        cdef int fault
        cdef list groups = []
        if not 5 <= stop <= count:
            raise ValueError(f"stop is word {stop} of a module of {count} words")
        self.bound = words[3]
        while at < stop:
            length, opcode = words[at] >> 16, words[at] & 0xFFFF
            if length == 0 or length > stop - at:
                break
            fault = self.record(opcode, words + at + 1, length - 1)
            if fault:
                return fault, at, opcode, words[at + (1 if is_type(opcode) else 2)] if fault == 3 else length - 1
            if opcode == 74:
                groups.append(at)
            at += length
        if groups:
            self.apply_groups(words, groups)
        return 0, 0, 0, 0

    cdef int record(self, uint32_t opcode, const uint32_t* given, uint32_t count) except -1:
        if count < least_operands(opcode):
            return 1
        if opcode == 5 or opcode == 6 or opcode == 10 or opcode == 15:
            return self.record_text(opcode, given, count)
        if opcode == 71:
            if is_read(given[1]):
                inner(self.decorations, given[0])[given[1]] = words_of(given + 2, count - 2)
        elif opcode == 72:
            if is_read(given[2]):
                inner(self.member_decorations, (given[0], given[1]))[given[2]] = words_of(given + 3, count - 3)
        elif is_type(opcode):
            if not 0 < given[0] < self.bound:
                return 3
            self.types[given[0]] = (opcode, words_of(given + 1, count - 1))
        elif is_constant(opcode):
            if not 0 < given[1] < self.bound:
                return 3
            self.constants[given[1]] = (opcode, given[0], words_of(given + 2, count - 2))
        elif opcode == 59:
            if not 0 < given[1] < self.bound:
                return 3
            self.variables.append((given[1], given[0], given[2]))
        else:
            self.record_other(opcode, given, count)
        return 0

    cdef int record_text(self, uint32_t opcode, const uint32_t* given, uint32_t count) except -1:
        cdef uint32_t start = 0 if opcode == 10 else 1 if opcode == 5 else 2
        cdef str text = text_of(given + start, count - start)
        if text is None:
            return 2
        if opcode == 5:
            self.names[given[0]] = text
        elif opcode == 6:
            self.member_names[given[0], given[1]] = text
        elif opcode == 10:
            self.extensions.append(text)
        else:
            self.entry_points.append((given[0], given[1], text))
        return 0

    cdef int record_other(self, uint32_t opcode, const uint32_t* given, uint32_t count) except -1:
        if opcode == 17:
            self.capabilities.append(given[0])
        elif opcode == 3:
            self.languages.append(given[0])
        elif opcode == 14:
            self.memory_model = (given[0], given[1])
        elif opcode == 16 or opcode == 331:
            self.modes.append((given[0], given[1], words_of(given + 2, count - 2)))
        return 0

    cdef int apply_groups(self, const uint32_t* words, list groups) except -1:
        """Give what is declared the decorations of its groups (OpGroupDecorate, at these words), after its own.

        A target costs a module one word, so those that are not declared get nothing, and those with the same decorations
        share one dict: nothing is changed in it from here on.
        """
        cdef set variables = {variable[0] for variable in self.variables}
        cdef dict joined = {}
        cdef dict own, group, both
        cdef uint32_t i, target
        cdef Py_ssize_t at
        for at in groups:
            group = self.decorations.get(words[at + 1])
            if group is None:
                continue
            for i in range(2, words[at] >> 16):
                target = words[at + i]
                if not (target in self.types or target in self.constants or target in variables):
                    continue
                own = self.decorations.get(target)
                if own is None:
                    self.decorations[target] = group
                elif own is not group:
                    if (id(own), id(group)) not in joined:
                        both = own.copy()
                        both.update(group)
                        joined[id(own), id(group)] = own, group, both  # holds them, so that no other gets their ids
                    self.decorations[target] = joined[id(own), id(group)][2]
        return 0
