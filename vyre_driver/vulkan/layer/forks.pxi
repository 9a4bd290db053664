"""Forks of the process: what is done before one, and in the child: included by _layer.pyx."""

cdef extern from "fork_guard.h" nogil:
    void vyre_prepare_fork()
    void vyre_end_fork()
    void vyre_skip_exit_handlers()


def prepare_fork():
    """Return, without the GIL meanwhile, when no other thread compiles a pipeline: in the child its locks would stay taken.

    None begins to until the fork.
    """
    with nogil:
        vyre_prepare_fork()


def end_fork():
    """In the parent: let other threads compile again, also where there was no fork."""
    vyre_end_fork()


def skip_exit_handlers() -> None:
    """In a forked child: have it end without the exit handlers of C libraries that were registered before the fork.

    Those of GPU drivers crash there, or wait for threads that were not copied. Python's own handlers run, and what C has
    buffered is written.
    """
    vyre_skip_exit_handlers()


def leak(thing) -> None:
    """Keep an object for ever: for what a forked child inherited and must not destroy."""
    Py_INCREF(thing)
