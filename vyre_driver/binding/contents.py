"""Values as the bytes of a buffer, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.arguments import as_array, check_array, fresh_output, refuse_resident
from vyre_driver.binding.faults import check_byte_len
from vyre_driver.binding.values import raw_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding


def pack(binding: Binding, values: object) -> NDArray[Any]:
    """Return what a call would put into a buffer for these values, as an array that a resident buffer may be made of.

    Of plain numbers it has their type; else it is of bytes, a row for each element, or one row if there is a header.

    Raises
    ------
    InvalidInput
        If they do not fit.
    """
    refuse_resident(binding, values)
    argument = check_array(binding, 0, values, allow_empty=True)
    array = np.asarray(argument.data)
    if binding.dtype is not None and array.dtype.names is None:
        return array
    if binding.dtype is not None:  # the only member of a block, given by its name
        return array.reshape(-1).view(binding.dtype)
    return array.reshape(-1).view(np.uint8).reshape(raw_shape(binding, argument.byte_len))


def unpack(binding: Binding, memory: object) -> NDArray[Any]:
    """Return the bytes of a buffer as the array that a call gives back which was given none; a copy.

    Raises
    ------
    InvalidInput
        If they are no whole elements.
    """
    array = np.ascontiguousarray(as_array(memory, binding.described)).reshape(-1).view(np.uint8)
    check_byte_len(binding, array.nbytes, allow_empty=True)
    form = fresh_output(binding, (array.nbytes - binding.header_bytes) // binding.stride).result
    return form.finish(array.copy().view(form.dtype).reshape(form.shape))
