# cython: language_level=3, embedsignature=True, binding=True
"""Recognize a call of the same form as an earlier one: compare types, shapes and counts, and pack push constants.

What is out of the ordinary is left to the plain code, which proves it from the ground up or says what is wrong.
Nothing here imports the rest of the package. Plain twins stand in tests/support/proof_twin.py.
"""

from cpython.buffer cimport PyBuffer_Release
from cpython.dict cimport PyDict_GetItemWithError
from cpython.exc cimport PyErr_Clear
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.math cimport isinf, isnan
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

    int get_buffer "PyObject_GetBuffer"(object exporter, Py_buffer* view, int flags)
    const int PyBUF_WRITABLE

cdef enum:
    MOST_TARGETS = 16
    MOST_WORDS = 64
    UNSIGNED = 0
    SIGNED = 1
    FLOAT = 2
    BOOL = 3


cdef bint are_plain(object counts) noexcept:
    """Whether these are exact integers in a tuple or list."""
    cdef object one
    if type(counts) is tuple:
        for one in <tuple> counts:
            if type(one) is not int:
                return False
        return True
    if type(counts) is list:
        for one in <list> counts:
            if type(one) is not int:
                return False
        return True
    return False


cdef object plain_counts(object out_shapes):
    """Return (name, count) pairs of a dictionary of exact integers and tuples of them, None of none, False of anything else."""
    cdef object count
    if out_shapes is None:
        return None
    if type(out_shapes) is not dict:
        return False if out_shapes else None
    for count in (<dict> out_shapes).values():
        if type(count) is not int and (type(count) is not tuple or not are_plain(count)):
            return False
    return tuple((<dict> out_shapes).items()) if out_shapes else None


cdef object target_forms(object out, type array_type):
    """Return (dtype, shape) of each array in ``out``, None for None in a tuple, False of anything else."""
    cdef object one
    cdef list forms = []
    for one in <tuple> out if type(out) is tuple else (out,):
        if one is not None and type(one) is not array_type:
            return False
        forms.append(None if one is None else (one.dtype, one.shape))
    return tuple(forms)


def call_form(
    tuple arrays not None, object groups, object out_shapes, type array_type not None, object out=None
) -> tuple | None:
    """Return what decides whether a call fits, to be compared: (dtype, shape) of each array, groups, counts.

    With ``out`` (dtype, shape) of each target besides.

    None when something is of an unusual type: 1.0 equals 1, and is not a number of workgroups.
    """
    cdef object array, counts, targets
    cdef list forms = []
    if groups is not None and not are_plain(groups):
        return None
    counts = plain_counts(out_shapes)
    if counts is False:
        return None
    for array in arrays:
        if type(array) is not array_type:
            return None
        forms.append((array.dtype, array.shape))
    if out is None:
        return tuple(forms), None if groups is None else tuple(groups), counts
    targets = target_forms(out, array_type)
    return None if targets is False else (tuple(forms), None if groups is None else tuple(groups), counts, targets)


cdef inline bint is_like(object array, tuple form, type array_type) except -1:
    """Whether it is an array of this (dtype, shape)."""
    cdef object held
    if type(array) is not array_type:
        return False
    held = array.dtype
    if held is not form[0] and not PyObject_RichCompareBool(held, form[0], Py_EQ):
        return False
    return PyObject_RichCompareBool(array.shape, form[1], Py_EQ)


cdef bint are_like(object out, tuple forms, type array_type) except -1:
    """Whether the targets of a call have these forms, which ``target_forms`` gave for an earlier one."""
    cdef object one, form
    cdef Py_ssize_t i
    if type(out) is not tuple:
        return len(forms) == 1 and forms[0] is not None and is_like(out, <tuple> forms[0], array_type)
    if len(<tuple> out) != len(forms):
        return False
    for i in range(len(<tuple> out)):
        one, form = (<tuple> out)[i], forms[i]
        if one is None or form is None:
            if one is not form:
                return False
        elif not is_like(one, <tuple> form, array_type):
            return False
    return True


def matches(
    tuple form not None, tuple arrays not None, object groups, object out_shapes, type array_type not None, object out=None
) -> bool:
    """Whether a call has this form, which ``call_form`` gave for an earlier one."""
    cdef tuple forms = <tuple> form[0]
    cdef object held
    cdef Py_ssize_t i
    if len(arrays) != len(forms) or (out is None) != (len(form) == 3):
        return False
    if out is not None and not are_like(out, <tuple> form[3], array_type):
        return False
    for i in range(len(arrays)):
        if not is_like(arrays[i], <tuple> forms[i], array_type):
            return False
    if groups is None or form[1] is None:
        if groups is not form[1]:
            return False
    elif not are_plain(groups) or not PyObject_RichCompareBool(
        groups if type(groups) is tuple else tuple(groups), form[1], Py_EQ
    ):
        return False
    if out_shapes is None:
        return form[2] is None
    held = plain_counts(out_shapes)
    return held is not False and held == form[2]


cdef tuple items_at(tuple given, tuple places):
    """Return the items at these places, which lie within."""
    cdef object one
    cdef Py_ssize_t i
    cdef tuple found = PyTuple_New(len(places))
    for i in range(len(places)):
        one = given[<Py_ssize_t> places[i]]
        Py_INCREF(one)
        PyTuple_SET_ITEM(found, i, one)
    return found


cdef class PositionalForm:
    """The form of calls by position: at ``places`` there are arrays of ``forms``, each (dtype, shape), at others numbers.

    ``handed`` are the places of the arrays that the program is handed, ``written`` of those that it writes. ``numbers`` are
    (name, place); ``fixed`` are numbers by name that every call has; ``count`` is how many arguments there are.
    """

    cdef tuple _forms
    cdef tuple _places
    cdef tuple _handed
    cdef tuple _written
    cdef tuple _numbers
    cdef dict _fixed
    cdef type _array_type
    cdef Py_ssize_t _count

    def __cinit__(
        self,
        tuple forms not None,
        type array_type not None,
        tuple places not None,
        tuple handed not None,
        tuple written not None,
        tuple numbers not None,
        dict fixed not None,
        Py_ssize_t count,
    ):
        cdef object place
        if len(forms) != len(places) or len(places) + len(numbers) != count:
            raise ValueError(f"{len(places)} places of {len(forms)} arrays and {len(numbers)} numbers of {count} arguments")
        for place in (*places, *handed, *written, *(one for _, one in numbers)):
            if not 0 <= <Py_ssize_t> place < count:
                raise ValueError(f"place {place} of {count} arguments")
        self._forms = tuple([(dtype, tuple(shape)) for dtype, shape in forms])
        self._array_type = array_type
        self._places, self._handed, self._written = places, handed, written
        self._numbers = tuple([(str(name), place) for name, place in numbers])
        self._fixed = fixed
        self._count = count

    def taken(self, tuple given not None) -> tuple | None:
        """Return the arrays of a call that are handed over and those that are written, and its numbers by name.

        None where it has another form.
        """
        cdef object one
        cdef dict numbers
        cdef Py_ssize_t i
        if len(given) != self._count:
            return None
        for i in range(len(self._places)):
            if not is_like(given[<Py_ssize_t> self._places[i]], <tuple> self._forms[i], self._array_type):
                return None
        numbers = self._fixed.copy()
        for one in self._numbers:
            numbers[(<tuple> one)[0]] = given[<Py_ssize_t> (<tuple> one)[1]]
        return items_at(given, self._handed), items_at(given, self._written), numbers


def plain_workgroups(object given) -> tuple[int, int, int] | None:
    """Return workgroups along x, y, z of an exact integer, or of 1 to 3 in a tuple or list; None of anything else."""
    cdef object x, y = 1, z = 1
    cdef Py_ssize_t count
    if type(given) is int:
        return (given, 1, 1) if given > 0 else None
    if not are_plain(given):
        return None
    count = len(given)
    if not 1 <= count <= 3:
        return None
    x = given[0]
    if count > 1:
        y = given[1]
    if count > 2:
        z = given[2]
    return (x, y, z) if x > 0 and y > 0 and z > 0 else None


def as_contiguous(tuple arrays not None, tuple positions not None, object copied) -> list:
    """Return the array at each position, None for None; what is not contiguous, or has no axis, as ``copied`` gives it."""
    cdef object place, array
    cdef list found = []
    for place in positions:
        if place is None:
            found.append(None)
            continue
        array = arrays[<Py_ssize_t> place]
        found.append(array if array.flags.c_contiguous and array.ndim else copied(array))
    return found


def as_targets(object out) -> tuple | None:
    """Return an array, or the arrays and Nones in a tuple, as a tuple that results are copied into.

    None where one of them cannot be written to or has gaps, two share memory, or there are many: what is wrong, if anything
    is, the plain code says.
    """
    cdef tuple targets = <tuple> out if type(out) is tuple else (out,)
    cdef Py_buffer view
    cdef char* begins[MOST_TARGETS]
    cdef char* ends[MOST_TARGETS]
    cdef Py_ssize_t i, count = 0
    cdef object one
    if len(targets) > MOST_TARGETS:
        return None
    for one in targets:
        if one is None:
            continue
        if get_buffer(one, &view, PyBUF_WRITABLE) < 0:  # which promises memory without gaps
            PyErr_Clear()
            return None
        begins[count] = <char*> view.buf
        ends[count] = <char*> view.buf + view.len
        PyBuffer_Release(&view)
        for i in range(count):
            if begins[i] < ends[count] and begins[count] < ends[i]:
                return None
        count += 1
    return targets


cdef class PushPacker:
    """Packs push constants that are all single numbers of 32 bits or bools, at multiples of 4 bytes.

    ``members`` are (name, byte offset, ``u``, ``i``, ``f`` or ``b``); ``word_count`` is the block's length, at most 64.
    ``are_shared`` says that a name may be a buffer's as well.
    """

    cdef tuple _names
    cdef uint32_t[MOST_WORDS] _places
    cdef int[MOST_WORDS] _kinds
    cdef Py_ssize_t _word_count
    cdef bint _are_shared

    def __cinit__(self, tuple members not None, Py_ssize_t word_count, bint are_shared=False):
        cdef Py_ssize_t i
        if not 0 <= word_count <= MOST_WORDS or len(members) > MOST_WORDS:
            raise ValueError(f"{len(members)} push constants in {word_count} words, and there are {MOST_WORDS} at most")
        self._names = tuple([name for name, _, _ in members])
        self._word_count = word_count
        self._are_shared = are_shared
        for i in range(len(members)):
            _, offset, kind = members[i]
            if offset % 4 or not 0 <= offset // 4 < word_count:
                raise ValueError(f"{self._names[i]!r} is at byte {offset} of {4 * word_count}")
            self._places[i] = offset // 4
            self._kinds[i] = {"u": UNSIGNED, "i": SIGNED, "f": FLOAT, "b": BOOL}[kind]

    @property
    def layout(self) -> dict[str, tuple[int, int]]:
        """The kind of each number, for ``packed``, and its word."""
        return {name: (self._kinds[i], self._places[i]) for i, name in enumerate(self._names)}

    def pack_call(self, dict named not None, push_constants) -> tuple[int, ...] | None:
        """Return the block of a call as words: of its keywords, or of ``push_constants`` where those are not None.

        None where anything else is named, or a name may be a buffer's as well, and where ``pack`` gives None.
        """
        if push_constants is None:
            return None if self._are_shared and named else self.pack(named)
        return None if named else self.pack(push_constants)

    cpdef tuple pack(self, object given):
        """Return the block as words; None unless ``given`` is a dict of just these names to plain numbers that fit."""
        cdef uint32_t[MOST_WORDS] words
        cdef PyObject* found
        cdef Py_ssize_t i
        if type(given) is not dict or len(<dict> given) != len(self._names):
            return None
        memset(words, 0, 4 * self._word_count)
        for i in range(len(self._names)):
            found = PyDict_GetItemWithError(given, self._names[i])
            if found == NULL or not packed(<object> found, self._kinds[i], &words[self._places[i]]):
                return None
        return words_of(words, self._word_count)


cdef tuple words_of(const uint32_t* words, Py_ssize_t count):
    cdef tuple made = PyTuple_New(count)
    cdef Py_ssize_t i
    cdef object word
    for i in range(count):
        word = words[i]
        Py_INCREF(word)
        PyTuple_SET_ITEM(made, i, word)
    return made


cdef bint packed(object value, int kind, uint32_t* word) except -1:
    """Write a number's bits; tells whether it is of an exact plain type and in range."""
    cdef long long number
    cdef int overflow = 0
    cdef double wide
    cdef float narrow
    if kind == BOOL:
        word[0] = value is True
        return type(value) is bool
    if kind != FLOAT:
        if type(value) is not int:
            return False
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow or number < (-0x80000000LL if kind == SIGNED else 0):
            return False
        if number > (0x7FFFFFFFLL if kind == SIGNED else 0xFFFFFFFFLL):
            return False
        word[0] = <uint32_t> number
        return True
    if type(value) is float:
        wide = PyFloat_AS_DOUBLE(value)
    elif type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return False
        wide = <double> number
    else:
        return False
    narrow = <float> wide
    if isnan(wide) or (isinf(narrow) and not isinf(wide)):
        return False
    memcpy(word, &narrow, 4)
    return True
