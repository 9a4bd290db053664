"""Check that an array is of the type of a buffer's numbers, and say how it becomes so: by value, or by the bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.binding.tensors import is_tensor
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from vyre_driver.binding.plan import Binding
    from vyre_driver.spirv.layout import Scalar

_TEXT = frozenset("US")
_USER_DEFINED = 2  # what numpy says of a type that another package registered, as ml_dtypes does


def check_dtype(binding: Binding, dtype: np.dtype[Any], given: object = None) -> None:
    """Check that a binding takes arrays of a type; ``given`` is what numpy converted, None for an array or a buffer."""
    wanted, scalar = binding.dtype, None if binding.element is None else binding.element.scalar
    if dtype.hasobject or (wanted is None and dtype.kind in _TEXT):
        what = "Python objects" if dtype.hasobject else "text"
        raise InvalidInput(f"{binding.described} got an array of {what}", fix="pass an array of numbers", binding=binding.name)
    if wanted is not None and scalar is not None and scalar.is_encoded:
        _check_bits(binding, scalar, dtype)
    elif wanted is not None and dtype != wanted and not same_bits(wanted, dtype):
        raise InvalidInput(
            f"{binding.described} holds {wanted} and got an array of {dtype}",
            fix=_conversion(wanted, dtype, given),
            binding=binding.name,
            expected=str(wanted),
            received=str(dtype),
        )


def _check_bits(binding: Binding, scalar: Scalar, dtype: np.dtype[Any]) -> None:
    """Check that an array holds the bits of floats that numpy does not have: one of its own floats would give other numbers."""
    if not scalar.has_bits_in(dtype):
        own = f"ml_dtypes.{scalar.of_ml_dtypes}"
        raise InvalidInput(
            f"{binding.described} holds {scalar} and got an array of {dtype}",
            fix=f"convert it with .astype({own}), which keeps the numbers, or pass their bits as numpy.uint{scalar.bits}",
            binding=binding.name,
            expected=str(scalar),
            received=str(dtype),
        )


def _conversion(wanted: np.dtype[Any], dtype: np.dtype[Any], given: object) -> str:
    """Return the words for how to get the wanted type: by value, or by the bits where one stands for the other."""
    if dtype.kind in _TEXT:
        return "pass an array of numbers"
    name = f"numpy.{wanted}" if wanted.isbuiltin != _USER_DEFINED else f"{wanted.type.__module__}.{wanted}"
    if is_tensor(given):
        return f"pass tensor.to(torch.{wanted})"
    if given is not None and not hasattr(given, "astype"):
        return f"pass numpy.asarray(..., {name})"
    by_value = f"convert it with .astype({name})"
    if dtype.kind == "c" and dtype.itemsize == 2 * wanted.itemsize and wanted.kind == "f":
        return f"pass real and imaginary parts one after the other with .view({name})"
    if dtype.kind not in "biuf" or dtype.itemsize != wanted.itemsize or not dtype.isnative or dtype.kind == wanted.kind:
        return by_value
    return f"{by_value}, which keeps the numbers, or with .view({name}), which keeps the bits"


def same_bits(wanted: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Return whether one is a type that numpy learnt from another package and the other the unsigned word of its bits."""
    kinds = {(wanted.isbuiltin == _USER_DEFINED, wanted.kind == "u"), (given.isbuiltin == _USER_DEFINED, given.kind == "u")}
    return kinds == {(True, False), (False, True)} and wanted.itemsize == given.itemsize and wanted.isnative and given.isnative
