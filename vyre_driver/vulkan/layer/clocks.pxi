"""The device's clock before and after some work: included by _layer.pyx."""

cdef extern from "layer.h" nogil:
    uint32_t vyre_take_clock(vyre_device* device)
    void vyre_give_clock_back(vyre_device* device, uint32_t clock)
    VkResult vyre_read_clock(vyre_device* device, uint32_t clock, uint64_t* ticks)


@cython.no_gc_clear
cdef class Clock:
    """What the device's clock was before and after work that was recorded with it, each time that runs; take_clock makes it.

    The owner of such work holds it until the work has ended.
    """

    cdef LayerDevice layer
    cdef uint32_t number

    def __init__(self):
        raise TypeError("take_clock makes a Clock")

    def __dealloc__(self):
        if self.number:
            vyre_give_clock_back(self.layer.device, self.number)

    @property
    def ticks(self) -> tuple[int, int] | None:
        """Both, as the work that ran last has left them; None if none has ended, or the device is gone."""
        cdef uint64_t[2] ticks
        return (ticks[0], ticks[1]) if vyre_read_clock(self.layer.device, self.number, ticks) == VK_SUCCESS else None


def take_clock(LayerDevice device not None) -> Clock | None:
    """Return a clock of the device's, whose queue has one; None if all are taken, or memory is short."""
    cdef Clock made = Clock.__new__(Clock)
    made.layer = device
    made.number = vyre_take_clock(device.device)
    return made if made.number else None
