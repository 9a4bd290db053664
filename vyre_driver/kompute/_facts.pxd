"""The attributes of arrays on a device, for other extensions of the package."""


cdef class Facts:
    cdef object __weakref__
    cdef readonly object device
    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly object name
    cdef readonly object nbytes
    cdef readonly object offset
    cdef readonly object form
    cdef readonly object _storage
    cdef readonly bint _is_view
    cdef object part  # of all of the memory, as launches bind it; None: it is not known, or this is a view
