"""PyTorch's tensors as numpy arrays in the same memory.

PyTorch is never imported here: a tensor can only come from a caller who has imported it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES = {
    "torch.bfloat16": ("BF16", "int16"),
    "torch.float8_e4m3fn": ("F8E4M3", "uint8"),
    "torch.float8_e5m2": ("F8E5M2", "uint8"),
}
"""The types of tensors that numpy does not have, with the names of ours, and the words that hold their bits."""


def is_tensor(given: object) -> bool:
    """Whether an object is a tensor of PyTorch, which has to be imported then."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(given, kind)


def fix_of(given: object) -> str | None:
    """Return what to do about a tensor that numpy cannot read, None for anything else."""
    if not is_tensor(given):
        return None
    tensor: Any = given
    return "pass tensor.detach()" if tensor.requires_grad else "convert the tensor as PyTorch says, or pass a numpy array"


def bits_as_array(given: object) -> NDArray[Any] | None:
    """Return a tensor of bfloat16 or of 8-bit floats as an array in its memory, None for anything that numpy can read itself.

    The array is of ml_dtypes' type, or of unsigned words where ml_dtypes is not installed. None also for a tensor that requires
    grad or is not in the memory of the CPU: PyTorch says why numpy cannot have it.
    """
    if not is_tensor(given):
        return None
    tensor: Any = given
    known = _TYPES.get(str(tensor.dtype))
    if known is None or tensor.requires_grad or tensor.device.type != "cpu":
        return None
    from vyre_driver.ir.dtypes import (
        DataType,  # late: a driver does without the IR, and few callers have such tensors
        numpy_element,
    )

    element = numpy_element(getattr(DataType, known[0]))
    words: NDArray[Any] = tensor.view(getattr(sys.modules["torch"], known[1])).numpy()
    return words if element is None else words.view(element.dtype)
