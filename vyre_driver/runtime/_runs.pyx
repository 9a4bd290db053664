# cython: language_level=3, embedsignature=True, binding=True
"""Runs of a bound kernel, told to the events: one call of C where the layer recorded the work and nothing is in its way.

On an NVIDIA H200 the same in Python took half a microsecond of a run's 14 (benchmarks/dispatch.py).
"""

cimport cython
from libc.stdint cimport int64_t

from vyre_driver.telemetry._counters cimport Dispatches, monotonic_ns
from vyre_driver.vulkan.layer._layer cimport Runnable


cdef class Ring:
    """Recordings of one work, of which ``first`` is run."""

    cdef public Runnable first


@cython.no_gc_clear  # its subclass clears the cycles, and something of Python's is in each
cdef class ToldRuns:
    """The runs of recordings that may be replaced in one step.

    Each is added to ``dispatches``; one that raises is reported to ``failed(error, duration_ns)``.
    """

    cdef public Ring _recordings
    cdef Dispatches _dispatches
    cdef object _failed

    def __init__(self, Ring recordings not None, Dispatches dispatches not None, failed not None):
        self._recordings, self._dispatches, self._failed = recordings, dispatches, failed

    @cython.annotation_typing(False)
    @cython.nonecheck(True)
    def run(self, timeout: float | None = None) -> None:
        """Run it and wait, ``timeout`` seconds with an earlier run of it that goes on; raises as ``DispatchFuture.result``."""
        cdef Runnable first = self._recordings.first
        cdef int64_t began_ns = monotonic_ns()
        try:
            first.run_within(timeout)
        except Exception as error:
            self._failed(error, monotonic_ns() - began_ns)
            raise
        self._dispatches.add(began_ns, self._dispatches.detail)
