"""What kernels share: their one space, checks of their arrays and devices, grids with a workgroup for each tile, and zeros.

Source: Vulkan 1.3, limit ``maxComputeWorkGroupCount`` (65,535 along an axis is all that every device has).
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import DeviceFacts, KernelDefinition, Operand, Plan, Step
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vyre_driver.autotune.search.space import Limits, TuningSpace
    from vyre_driver.vulkan.devices import DeviceLimits

_AXES = {1: "one axis", 2: "two axes"}
_AXES_FIXES = {1: "give an array of one row or more", 2: "give a matrix: reshape a vector to one row or one column"}
_MOST_TURNS = 65_400  # of loops, on a CPU device


def grid_of(tiles: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return workgroups along x and y for at least so many tiles, row by row; shaders leave those past the last tile.

    A grid that is too large for y as well is refused where it is bound (LimitExceeded).
    """
    across = min(tiles, limits.max_compute_work_group_count[0])
    return across, math.ceil(tiles / across), 1


def least_parts(k: int, step: int, turns: int, device: DeviceFacts) -> int:
    """Return in how many parts k is summed at least, where a step takes so many turns of loops: one, but on a CPU device.

    llvmpipe ends loops after 65,535 turns.
    """
    return math.ceil(k / (_MOST_TURNS // turns * step)) if device.physical.is_software else 1


def check_matrices(
    kernel: str,
    operands: Mapping[str, Operand],
    dtypes: Sequence[np.dtype[np.generic]],
    fix: str,
) -> None:
    """Check that all are matrices of one of these types.

    Raises
    ------
    InvalidInput
        If not; ``fix`` says what makes a matrix of such a type.
    """
    for name, operand in operands.items():
        if len(operand.shape) != 2 or operand.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {operand.shape} and the type {operand.dtype}, and must be a matrix of "
                f"{_listed(dtypes)}",
                fix=fix,
                binding=name,
            )


def check_rows(
    kernel: str, operands: Mapping[str, Operand], dtypes: Sequence[np.dtype[np.generic]], *, least_axes: int = 1
) -> None:
    """Check that arrays have one of these types, and enough axes: the last one is a row, those before it count rows.

    Raises
    ------
    InvalidInput
        If the type is another one, or there are fewer than ``least_axes`` axes.
    """
    for name, operand in operands.items():
        if operand.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the type {operand.dtype}, and must have the type {_listed(dtypes)}",
                fix=f"convert it with .astype(numpy.{dtypes[0]})",
                binding=name,
            )
        if len(operand.shape) < least_axes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {operand.shape}, and must have {_AXES[least_axes]} or more",
                fix=_AXES_FIXES[least_axes],
                binding=name,
            )


def row_count(shape: tuple[int, ...]) -> int:
    """Return how many rows an array has along its last axis; a vector is one row."""
    return math.prod(shape[:-1])


def _listed(dtypes: Sequence[np.dtype[np.generic]]) -> str:
    *others, last = [dtype.name for dtype in dtypes]
    return f"{', '.join(others)} or {last}" if others else last


_FILLING = 128  # the workgroup of shaders/fill_words.comp
_MOST_FILLING = 1024


def zeros_step(name: str, words: int) -> Step:
    """Return the dispatch that sets so many words of a buffer to 0; it runs nothing where there are none."""
    filling = max(min(-(-words // _FILLING), _MOST_FILLING), 1)
    return Step(shipped_module("fill_words"), (name,), (filling, 1, 1), push_constants={"count": words, "value": 0})


def zeros_plan(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Plan:
    """Return the plan whose one output is all zeros: of numbers of 4 bytes, or of any where its shape has no elements."""
    return Plan((zeros_step(name, math.prod(shape)),), {name: Operand(shape, dtype)})


def check_parameters(
    kernel: str, parameters: Mapping[str, Any], known: Collection[str] = (), chosen: Collection[str] = ()
) -> None:
    """Check that all parameters are known, and raise InvalidInput otherwise; ``chosen`` are what a kernel is made with."""
    for name in parameters:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameters"
            fix = f"give {name!r} where the kernel is made, arrays by position" if name in chosen else f"leave {name!r} out"
            raise InvalidInput(f"{kernel} {takes} and got {name!r}", fix=fix, parameter=name)


def over_shared_memory(what: str, byte_len: int, limits: Limits) -> str | None:
    """Return why so many bytes a workgroup are too many, None if they are not."""
    most = limits.max_compute_shared_memory_size
    return f"{what} {byte_len} bytes, and a workgroup may share {most}" if byte_len > most else None


HALVES = "storageBuffer16BitAccess"


def check_feature(kernel: str, feature: str, device: DeviceFacts, otherwise: str = "") -> None:
    """Check that a device is open with a feature.

    Raises
    ------
    UnsupportedFeature
        If it is not; ``otherwise`` says what helps beside another device.
    """
    if feature not in device.features:
        raise UnsupportedFeature(
            f"{kernel} needs {feature}, and {device.physical.name!r} is open without it",
            fix=f"choose another device{otherwise}",
            feature=feature,
        )


class IncludedKernel(KernelDefinition):
    """A kernel whose modules come with this package; it has one space on every device that can run it."""

    is_included = True
    tuned: TuningSpace
    feature: str | None = None
    """What a device has to be open with."""
    otherwise = ""
    """What helps beside a device that has the feature."""

    def space(self, device: DeviceFacts) -> TuningSpace:
        """Return what may be tuned; raises UnsupportedFeature."""
        if self.feature is not None:
            check_feature(self.public_name, self.feature, device, self.otherwise)
        return self.tuned


def rounding_error(units: float, byte_len: int = 4) -> float:
    """Return so many units of 2**-23, of sums in float32; where results are rounded to float16 its own 2**-10 besides."""
    sums = float(np.finfo(np.float32).eps) * units
    return sums if byte_len == 4 else sums + float(np.finfo(np.float16).eps)


def float32_of(given: object) -> float | None:
    """Return a number rounded to float32, too large a one as infinite; None of what is not a number."""
    if type(given) is bool or not isinstance(given, numbers.Real):
        return None
    try:
        found = float(given)
    except OverflowError:  # an integer beyond float64
        found = -math.inf if given < 0 else math.inf
    with np.errstate(all="ignore"):
        return float(np.float32(found))
