# cython: language_level=3, embedsignature=True, binding=True
"""A lock that tells the thread which holds it from one that has to wait, seats and conditions. Imports nothing of ours.

Compiled, so that no signal handler and no collection of garbage runs between taking one and knowing that it is taken.
"""

import _thread
import os
import threading

cimport cython
from cpython.dict cimport PyDict_Contains, PyDict_DelItem, PyDict_GetItem, PyDict_SetItem
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "pythread.h":
    ctypedef enum PyLockStatus:
        PY_LOCK_FAILURE
        PY_LOCK_ACQUIRED
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int may_interrupt) nogil
    void PyThread_release_lock(PyThread_type_lock lock)
    unsigned long PyThread_get_thread_ident()

cdef unsigned long forks = 0  # between the process that imported this and this one
cdef unsigned long survivor = 0  # the thread that came along with the last of them


def _forked():
    """In a forked child: locks that were held then are known from those that are held now."""
    global forks, survivor
    forks += 1
    survivor = PyThread_get_thread_ident()


os.register_at_fork(after_in_child=_forked)

cdef double LONGEST_S = 1e9  # what fits a count of microseconds by far


cdef double now_s() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double> now.tv_sec + 1e-9 * <double> now.tv_nsec


cdef extern from "Python.h":
    ctypedef struct PyInterpreterState:
        pass
    PyInterpreterState* PyInterpreterState_Get()
    PyInterpreterState* PyInterpreterState_Main()


def is_main_interpreter():
    """Return whether this runs in Python's main interpreter, not in a subinterpreter."""
    return PyInterpreterState_Get() == PyInterpreterState_Main()


@cython.final
cdef class Elsewhere:
    """A call that another thread makes; ``result`` and ``error`` are for the one that waits for it."""

    cdef PyThread_type_lock _runs  # held until the call has ended
    cdef object _call, result, error

    def __cinit__(self, call):
        self._call = call
        self._runs = PyThread_allocate_lock()
        if self._runs == NULL:
            raise MemoryError("no memory for a lock")
        PyThread_acquire_lock_timed(self._runs, 0, 0)

    def __dealloc__(self):
        if self._runs != NULL:
            PyThread_free_lock(self._runs)

    def __call__(self):
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        finally:
            PyThread_release_lock(self._runs)


def call_uninterrupted(call):
    """Return ``call()``, made on another thread: Python runs signal handlers on the main thread alone, which waits here.

    What a handler raises comes after it. Where no thread can be had, it is called on this one.
    """
    cdef Elsewhere made = Elsewhere(call)
    if threading.current_thread() is not threading.main_thread():
        return call()
    try:
        _thread.start_new_thread(made, ())
    except RuntimeError:
        return call()
    with nogil:
        PyThread_acquire_lock_timed(made._runs, -1, 0)
    if made.error is not None:
        raise made.error
    return made.result


@cython.final
cdef class CallLock:
    """A lock for the length of a call, which the thread that holds it cannot wait for.

    A signal handler or a finalizer may run in the middle of such a call and make another one on the same object. It would wait
    for itself; ``refused()`` gives the exception that it gets instead. In a forked child a lock that another thread held is
    free: that thread did not come along.
    """

    def __cinit__(self, refused not None):
        """Start free."""
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError("no memory for a lock")
        self._refused = refused
        self._forks = forks

    def __dealloc__(self):
        if self._lock != NULL:
            if self._holder:
                PyThread_release_lock(self._lock)
            PyThread_free_lock(self._lock)

    def acquire(self, bint blocking=True, double timeout=-1):
        """Take the lock; returns whether it was had, in ``timeout`` seconds where that is 0 or more.

        Raises ``refused()`` in the thread that holds it; without ``blocking`` it returns False there.
        """
        if not self.take_now():
            if self._forks != forks and self._holder != survivor:
                self._renew()
                return self.acquire(blocking, timeout)
            if not blocking:
                return False
            if self._holder == PyThread_get_thread_ident():
                raise self._refused()
            if not waited(self._lock, timeout):
                return False
            self._holder, self._forks = PyThread_get_thread_ident(), forks
        return True

    cdef bint take_now(self) noexcept:
        """Take the lock if it is free; returns whether it was."""
        if PyThread_acquire_lock_timed(self._lock, 0, 0) != PY_LOCK_ACQUIRED:
            return False
        self._holder, self._forks = PyThread_get_thread_ident(), forks
        return True

    cdef int _renew(self) except -1:
        """Take a new lock in place of the one whose holder was left behind, which cannot be freed while it is held."""
        cdef PyThread_type_lock fresh = PyThread_allocate_lock()
        if fresh == NULL:
            raise MemoryError("no memory for a lock")
        self._lock, self._holder, self._forks = fresh, 0, forks
        return 0

    def release(self):
        """Let it go; raises RuntimeError in a thread that does not hold it."""
        if self._holder != PyThread_get_thread_ident():
            raise RuntimeError("this thread does not hold the lock")
        self.let_go()

    cdef void let_go(self) noexcept:
        """Let it go, in the thread that holds it."""
        self._holder = 0
        PyThread_release_lock(self._lock)

    def attempt(self):
        """Return a context manager that holds the lock if it is free, and gives whether it does; it never waits."""
        return Attempt(self)

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, kind, error, traceback):
        self.release()


@cython.final
cdef class Attempt:
    """A block that holds a lock, or goes without; made by ``CallLock.attempt`` for one use."""

    cdef CallLock _lock
    cdef bint _is_mine

    def __cinit__(self, CallLock lock not None):
        self._lock = lock

    def __enter__(self):
        self._is_mine = self._lock.acquire(False)
        return self._is_mine

    def __exit__(self, kind, error, traceback):
        if self._is_mine:
            self._is_mine = False
            self._lock.release()


@cython.final
@cython.no_gc  # what it refers to refers to nothing: its table and name are there until it is gone
cdef class Seat:
    """A name in a table that one holder at a time has, given back at the latest when this object goes.

    Neither needs a lock, which the thread that a collection of garbage interrupts might hold: each is one step under the GIL.
    The name must be made of what Python compares and hashes without running code: numbers, str and bytes.
    """

    cdef dict _taken
    cdef tuple _name
    cdef object _mark  # what stands in the table while it is ours: a forked child may have emptied that

    def __cinit__(self, dict taken not None, tuple name not None):
        """Take nothing yet."""
        self._taken, self._name, self._mark = taken, name, object()

    def __dealloc__(self):
        if self._mark is not None:
            self.give_back()

    def take(self):
        """Take it if nobody has it; returns whether it was had just now."""
        if PyDict_Contains(self._taken, self._name):
            return False
        PyDict_SetItem(self._taken, self._name, self._mark)
        return True

    def leave(self):
        """Give it back; nothing happens where it was not taken."""
        self.give_back()

    cdef int give_back(self) except -1:
        cdef PyObject* mark = <PyObject*> PyDict_GetItem(self._taken, self._name)
        if mark == <PyObject*> self._mark:
            PyDict_DelItem(self._taken, self._name)
        return 0


@cython.final
cdef class Condition:
    """As ``threading.Condition`` with an RLock, but that Ctrl-C leaves its lock neither taken nor given back once too often.

    Python's has functions of Python around the lock, and signal handlers run at their beginning and end.
    """

    cdef PyThread_type_lock _lock
    cdef unsigned long _holder  # 0 while it is free; changed under the GIL by the thread itself
    cdef unsigned long _depth  # how often its holder has taken it
    cdef list _waiting  # locks, each held until its thread is notified; changed by the thread that holds the lock

    def __cinit__(self):
        """Start with nobody waiting."""
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError("no memory for a lock")
        self._waiting = []

    def __dealloc__(self):
        if self._lock != NULL:
            if self._holder:
                PyThread_release_lock(self._lock)
            PyThread_free_lock(self._lock)

    def acquire(self, bint blocking=True, double timeout=-1):
        """Take the lock, once more where this thread has it; returns whether it was had."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        if self._holder != thread:
            if PyThread_acquire_lock_timed(self._lock, 0, 0) != PY_LOCK_ACQUIRED:
                if not blocking or not waited(self._lock, timeout):
                    return False
            self._holder = thread
        self._depth += 1
        return True

    def release(self):
        """Let it go; raises RuntimeError in a thread that does not hold it."""
        self._check_held()
        self._depth -= 1
        if not self._depth:
            self._holder = 0
            PyThread_release_lock(self._lock)

    def __enter__(self):
        return self.acquire()

    def __exit__(self, kind, error, traceback):
        self.release()

    cdef int _check_held(self) except -1:
        if self._holder != PyThread_get_thread_ident():
            raise RuntimeError("this thread does not hold the lock")
        return 0

    def wait(self, timeout=None):
        """Let the lock go until this is notified, at most ``timeout`` seconds; returns whether it was.

        Nothing is allocated between letting it go and having it back: a wait that fails ends with the lock held, too.
        """
        cdef unsigned long thread = PyThread_get_thread_ident(), depth = self._depth
        self._check_held()
        try:
            notified = threading.Lock()
        except RuntimeError as error:  # CPython has no memory for it
            raise MemoryError("no memory for a lock") from error
        notified.acquire()
        self._waiting.append(notified)
        self._holder = self._depth = 0
        PyThread_release_lock(self._lock)
        try:
            return notified.acquire(True, -1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX))
        finally:
            with nogil:
                PyThread_acquire_lock_timed(self._lock, -1, 0)
            self._holder, self._depth = thread, depth
            if notified in self._waiting:
                self._waiting.remove(notified)

    def notify_all(self):
        """Wake all who wait."""
        while self._waiting:
            self._waiting.pop().release()


cdef bint waited(PyThread_type_lock lock, double timeout) except -1:
    """Wait for a lock without the GIL and take it; tells whether it came free in time. A signal handler may raise out of it."""
    cdef double ends_s = now_s() + timeout
    cdef long long left_us = -1
    cdef PyLockStatus status
    while True:
        if timeout >= 0:
            left_us = <long long> (1e6 * max(0.0, min(ends_s - now_s(), LONGEST_S)))
        with nogil:
            status = PyThread_acquire_lock_timed(lock, left_us, 1)
        if status == PY_LOCK_ACQUIRED:
            return True
        if status == PY_LOCK_FAILURE:
            return False
        PyErr_CheckSignals()
