# cython: language_level=3, embedsignature=True, binding=True
"""Whether what a kernel was translated from is what it was: names, variables around it, functions, the environment.

Asked in every call. Nothing here imports the rest of the package. Plain twins stand in tests/support/proof_twin.py.
"""

from types import CellType, FunctionType

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdlib cimport getenv

cdef extern from "Python.h":
    PyObject* PyCell_GET(object cell)

    PyObject* PyFunction_GetCode(object function) except NULL

    PyObject* PyFunction_GetDefaults(object function)

    PyObject* PyFunction_GetKwDefaults(object function)


def is_set(bytes name not None) -> bool:
    """Return whether an environment variable of this name has a value that is not empty, in tens of nanoseconds.

    Python's own environment takes microseconds, and writes what is set there to the one that is read here.
    """
    cdef const char* found = getenv(name)
    return found != NULL and found[0] != 0


cdef class Watch:
    """Names and functions: whether each still is the very object that it was.

    ``names`` are (dictionary, name, value), ``absent`` (dictionary, name) of names that stood for nothing, ``cells`` (variable
    of an enclosing function, value), ``functions`` (function, code, defaults, defaults by keyword).
    """

    cdef tuple _names
    cdef tuple _absent
    cdef tuple _cells
    cdef tuple _functions

    def __cinit__(self, tuple names not None, tuple absent not None, tuple cells not None, tuple functions not None):
        for names_of, _, _ in names:
            if type(names_of) is not dict:
                raise TypeError(f"names of type {type(names_of).__name__}")
        for names_of, _ in absent:
            if type(names_of) is not dict:
                raise TypeError(f"names of type {type(names_of).__name__}")
        for cell, _ in cells:
            if type(cell) is not CellType:
                raise TypeError(f"a variable of type {type(cell).__name__}")
        for function, _, _, _ in functions:
            if type(function) is not FunctionType:
                raise TypeError(f"a function of type {type(function).__name__}")
        self._names, self._absent, self._cells, self._functions = names, absent, cells, functions

    def is_untouched(self) -> bool:
        """Whether all of it is."""
        cdef object one
        for one in self._names:
            if PyDict_GetItemWithError(<object> (<tuple> one)[0], (<tuple> one)[1]) != <PyObject*> (<tuple> one)[2]:
                return False
        for one in self._absent:
            if PyDict_GetItemWithError(<object> (<tuple> one)[0], (<tuple> one)[1]) != NULL:
                return False
        for one in self._cells:
            if PyCell_GET((<tuple> one)[0]) != <PyObject*> (<tuple> one)[1]:
                return False
        for one in self._functions:
            if not is_untouched(<tuple> one):
                return False
        return True


cdef bint is_untouched(tuple kept) except -1:
    """Whether a function has the code and the defaults that it had."""
    cdef object function = kept[0]
    return (
        PyFunction_GetCode(function) == <PyObject*> kept[1]
        and is_object(PyFunction_GetDefaults(function), kept[2])
        and is_object(PyFunction_GetKwDefaults(function), kept[3])
    )


cdef inline bint is_object(PyObject* now, object before) noexcept:
    """Whether it is this object; of None also where there is none."""
    return now == <PyObject*> before or (now == NULL and before is None)
