"""What a pipeline binds of each buffer: all of it, a range, or a copy where the device cannot bind the range.

A descriptor begins at a multiple of ``minStorageBufferOffsetAlignment``. A view that does not is copied to memory of its own
before each dispatch, and copied back after it where the kernel writes it.

Source: Vulkan 1.3, VkDescriptorBufferInfo and "Limits".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.kompute.device import KomputeDevice

Region: TypeAlias = tuple[int, int, int, int, int]
"""A copy: from which VkBuffer and byte, to which VkBuffer and byte, how many bytes."""


class Pieces(NamedTuple):
    """The memory of each binding, the (offset, bytes) that is bound of it, and the copies around a dispatch.

    ``ranges`` is None where all of each is bound; ``kept`` is what the copies go to and from.
    """

    memory: tuple[TensorBuffer, ...]
    ranges: tuple[tuple[int, int], ...] | None = None
    before: tuple[Region, ...] = ()
    after: tuple[Region, ...] = ()
    kept: tuple[TensorBuffer, ...] = ()

    def watched(self, cut_word: TensorBuffer | None) -> Pieces:
        """Return them with a word behind them in which a loop that was cut is noted; themselves without one."""
        if cut_word is None:
            return self
        ranges = None if self.ranges is None else (*self.ranges, (0, cut_word.byte_len))
        return self._replace(memory=(*self.memory, cut_word), ranges=ranges)

    @property
    def parts(self) -> tuple[tuple[int, int, int], ...]:
        """The VkBuffer, offset and bytes of each binding."""
        if self.ranges is None:
            return tuple([(one.handle, 0, one.seen) for one in self.memory])
        return tuple([(one.handle, *part) for one, part in zip(self.memory, self.ranges, strict=True)])


def pieces_of(device: KomputeDevice, buffers: Sequence[Buffer], writes: Sequence[bool]) -> Pieces:
    """Return what is bound of each buffer; ``writes`` says which of them the kernel writes.

    Raises
    ------
    InvalidInput
        If a view that must be copied overlaps another argument, and one of the two is written.
    DeviceOutOfMemory
        If there is no memory for a copy.
    """
    whole = tuple([one.memory for one in buffers])
    if [one.nbytes for one in buffers] == [one.byte_len for one in whole]:
        return Pieces(whole)
    memory, ranges, before, after, kept = [], [], [], [], []
    for place, (buffer, is_written) in enumerate(zip(buffers, writes, strict=True)):
        if _is_bindable(device, buffer):
            memory.append(buffer.memory)
            ranges.append((buffer.offset, buffer.nbytes))
            continue
        _check_alone(place, buffers, writes)
        scratch = TensorBuffer(device, buffer.nbytes, buffer.itemsize)
        there, here = (buffer.memory.handle, buffer.offset), (scratch.handle, 0)
        before.append((*there, *here, buffer.nbytes))
        if is_written:
            after.append((*here, *there, buffer.nbytes))
        memory.append(scratch)
        ranges.append((0, buffer.nbytes))
        kept.append(buffer.memory)
    return Pieces(tuple(memory), tuple(ranges), tuple(before), tuple(after), tuple(kept))


def launch_part(buffer: Buffer) -> _layer.Part | None:
    """Return what a launch binds of a buffer; None of one that is closed, or that can only be bound as a copy."""
    if buffer.is_closed:
        return None
    memory = buffer.memory
    if buffer.nbytes == memory.byte_len:
        part = memory.part
        if not buffer._is_view:  # noqa: SLF001 -- of a view the memory may be closed without its knowledge
            buffer._keep_part(part)  # noqa: SLF001 -- which goes with the memory
        return part
    return _layer.Part(memory.allocation, buffer.offset, buffer.nbytes) if _is_bindable(buffer.device, buffer) else None


def _is_bindable(device: KomputeDevice, buffer: Buffer) -> bool:
    """Whether a descriptor can name a view: it begins where one may, and its last word is its own."""
    step = device.physical.limits.min_storage_buffer_offset_alignment
    is_end = buffer.offset + buffer.nbytes == buffer.memory.byte_len
    return buffer.offset % step == 0 and (is_end or buffer.nbytes % 4 == 0)


def _check_alone(place: int, buffers: Sequence[Buffer], writes: Sequence[bool]) -> None:
    """Check that a view that is bound as a copy shares no bytes with another argument, unless both are only read."""
    view = buffers[place]
    for other, buffer in enumerate(buffers):
        if other != place and (writes[place] or writes[other]) and buffer.overlaps(view):
            step = view.device.physical.limits.min_storage_buffer_offset_alignment
            raise InvalidInput(
                f"argument {place + 1} is a view from byte {view.offset} on and shares bytes with argument {other + 1}, one of "
                f"the two is written, and views begin at multiples of {step} bytes for that",
                fix=f"begin the view at a multiple of {step} bytes and end it at one of 4, or pass a copy of it (copy.copy)",
                offset=view.offset,
                alignment=step,
            )
