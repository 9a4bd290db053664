"""What the buffers of a call begin with, and what comes back of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_driver.binding.outputs import returned_form
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.deadline import Deadline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding
    from vyre_driver.binding.structure import ResultForm

Timeout: TypeAlias = float | Deadline | None


@dataclass(frozen=True, slots=True)
class Result:
    """What one output gives: the buffer that holds it, or what is read of it, into ``target`` or a new array."""

    binding: Binding
    buffer: Buffer
    form: ResultForm
    target: NDArray[Any] | None
    is_array: bool

    def take(self, timeout: Timeout) -> Buffer | NDArray[Any]:
        """Return it, read back if need be."""
        part = part_of(self.binding, self.buffer)
        if not self.is_array:
            return part
        if self.form.elements is None:
            return part.read(timeout, out=self.target)
        found = self.form.finish(self.buffer.read(timeout))
        if self.target is None:
            return found
        np.copyto(self.target, found)
        return self.target


@dataclass(frozen=True, slots=True)
class Contents:
    """What the buffer of an argument begins with: a copy of another, an array, or zeros."""

    place: int
    buffer: Buffer
    source: Buffer | NDArray[Any] | None

    def put(self, timeout: Timeout) -> None:
        """Put it there; raises as ``Buffer.write``."""
        if isinstance(self.source, Buffer):
            self.source.copy_to(self.buffer, timeout)
        elif self.source is None:
            self.buffer.fill(0, timeout)
        else:
            self.buffer.write(self.source, timeout)


def part_of(binding: Binding, buffer: Buffer) -> Buffer:
    """Return what comes back of an output: a view of its ``output_byte_range``, as elements where that cuts none."""
    if binding.output_byte_range is None:
        return buffer
    start, length = binding.readback_slice(buffer.nbytes)
    _, dtype = returned_form(binding, buffer.shape, buffer.dtype)
    return buffer.reshape(-1).view(np.uint8)[start : start + length].view(dtype)
