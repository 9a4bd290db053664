"""How products are cut on a device: fragments that it multiplies, what may be tuned, and what is taken before that."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.kernels.product_numbers import name_of
from vyre_driver.matrices.description import SCALAR, ProductDescription, Tiling
from vyre_driver.vulkan.matrices import FlexibleMatrixShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.autotune.measure.definition import DeviceFacts
    from vyre_driver.matrices.elements import ElementType
    from vyre_driver.vulkan.devices import PhysicalDevice

Fragment = tuple[int, int, int]

_FEATURES = frozenset({"cooperativeMatrix", "vulkanMemoryModel"})
_OF_TYPES = {
    "float16": {"shaderFloat16", "storageBuffer16BitAccess"},
    "bfloat16": {"shaderBFloat16Type", "shaderBFloat16CooperativeMatrix", "storageBuffer16BitAccess"},
    "sint8": {"shaderInt8", "storageBuffer8BitAccess"},
}
_FLEXIBLE = "cooperativeMatrixFlexibleDimensions"
_FRAGMENTS_OF_A_STEP = 2
_MOST_FRAGMENTS, _LEAST_FRAGMENTS = 16, 2  # of a subgroup's patch: more do not fit into registers
_MOST_FRAGMENTS_ON_A_CPU = 4  # whose compilers write every product of numbers out
_LEAST_PART = 512  # products of a sum that are worth a part of their own
_WORKGROUPS = 256  # that keep a large device busy
_SCALAR_DEPTH, _SCALAR_SPLIT = 16, 8


def fragment_of(description: ProductDescription, device: DeviceFacts) -> Fragment | None:
    """Return the fragment of a product; as ``fragment_for``."""
    return fragment_for(description.operand, description.result.accumulator, device)


def fragment_for(operand: ElementType, accumulator: ElementType, device: DeviceFacts) -> Fragment | None:
    """Return (m, n, k) of what the device's subgroups multiply at once, None if it has no such matrices or they are off."""
    if operand.name not in _OF_TYPES or not device.features >= _FEATURES | _OF_TYPES[operand.name]:
        return None
    types = (operand.name, operand.name, accumulator.name, accumulator.name)
    shapes = [
        one
        for one in device.physical.matrix_shapes(flexible=_FLEXIBLE in device.features)
        if (one.types, one.saturating, one.scope) == (types, False, "subgroup")
    ]
    least = operand.in_vector
    fixed = [one.sizes for one in shapes if not isinstance(one, FlexibleMatrixShape) and not any(x % least for x in one.sizes)]
    if fixed:
        return max(fixed, key=math.prod)
    # On a CPU none of those is a whole vector of int8 and small enough: its compiler works on a product for minutes.
    is_worth = not device.physical.is_software
    flexible = [one.sizes for one in shapes if is_worth and isinstance(one, FlexibleMatrixShape)]
    whole = [(max(m, least), max(n, least), max(k, least)) for m, n, k in flexible]
    found = [one for one, sizes in zip(whole, flexible, strict=True) if not any(x % y for x, y in zip(one, sizes, strict=True))]
    return found[0] if found else None


def lack_of(operand: ElementType, device: DeviceFacts) -> str:
    """Return that a device has no fragments of a type, as the beginning of a message."""
    return f"{device.physical.name!r} has no cooperative matrices of {name_of(operand)}, or is open without their features"


def holds_sums(element: ElementType, fragment: Fragment, device: DeviceFacts) -> bool:
    """Whether the device has matrices of a type as large as the sums of a fragment, which may be stored as such then."""
    for one in device.physical.matrix_shapes(flexible=_FLEXIBLE in device.features):
        is_flexible = isinstance(one, FlexibleMatrixShape)
        fits = all(x % y == 0 if is_flexible else x == y for x, y in zip(fragment[:2], one.sizes[:2], strict=True))
        if fits and one.scope == "subgroup" and element.name in (one.c, one.result):
            return True
    return False


def tiling_of(fragment: Fragment | None, subgroup_size: int, candidate: Candidate) -> Tiling:
    """Return the tiling that a candidate stands for; without a fragment that of invocations."""
    across, down, _ = candidate.workgroup_size
    tile = candidate["TILE_Y"], candidate["TILE_X"]
    if fragment is None:
        return Tiling((*tile, _SCALAR_DEPTH), (down, across), SCALAR, 1)
    return Tiling((*tile, _FRAGMENTS_OF_A_STEP * fragment[2]), (down, across // subgroup_size), fragment, subgroup_size)


def space_of(description: ProductDescription, fragment: Fragment | None, device: PhysicalDevice) -> TuningSpace:
    """Return what may be tuned of a product on a device with these fragments."""
    subgroup_size, most = device.subgroup_size, _MOST_FRAGMENTS_ON_A_CPU if device.is_software else _MOST_FRAGMENTS
    parts = Axis("SPLIT_K", (1, 2, 4, 8, 16), "parts of k that are summed side by side")
    sizes: tuple[int, ...] = (64, 32)
    across: tuple[int, ...] = (_SCALAR_SPLIT,)
    down = across
    if fragment is not None:
        sizes = tuple(count * fragment[0] for count in (8, 4, 2, 16))
        across = tuple(count * subgroup_size for count in (2, 4, 1))
        down = (2, 1, 4)
    axes = (
        Axis("TILE_X", sizes, "columns of the result that a workgroup makes"),
        Axis("TILE_Y", sizes, "rows of the result that a workgroup makes"),
        parts,
        Axis("WORKGROUP_X", across, "invocations side by side", "x"),
        Axis("WORKGROUP_Y", down, "invocations or subgroups below each other", "y"),
    )
    return TuningSpace(axes, partial(_rule, description, fragment, subgroup_size, most))


def _rule(  # noqa: PLR0913 -- the first four are of the space
    description: ProductDescription,
    fragment: Fragment | None,
    subgroup_size: int,
    most_fragments: int,
    candidate: Candidate,
    limits: Limits,
) -> str | None:
    """Return why a product cannot be cut so, or is not worth trying."""
    one = replace(description, tiling=tiling_of(fragment, subgroup_size, candidate))
    problem = one.problem()
    if problem is not None:
        return problem
    if fragment is not None:
        count = math.prod(one.tiling.patch)
        if not _LEAST_FRAGMENTS <= count <= most_fragments:
            return f"a subgroup would make {count} fragments, and {_LEAST_FRAGMENTS} to {most_fragments} are worth trying"
    if one.shared_bytes > limits.max_compute_shared_memory_size:
        return f"its tiles take {one.shared_bytes} bytes, and a workgroup may share {limits.max_compute_shared_memory_size}"
    return None


def untuned(candidates: Sequence[Candidate], size: tuple[int, ...]) -> Candidate:
    """Return what a product of (batch, m, n, k) is cut into when nothing was measured: enough for a large device.

    Of those that make enough workgroups the one with the fewest parts, then with the largest tile. Else what makes the most of
    them, of the smallest tile: no more of it than must be is beyond the result.
    """
    batch, m, n, k = size

    def area(one: Candidate) -> int:
        return one["TILE_X"] * one["TILE_Y"]

    def workgroups(one: Candidate) -> int:
        return batch * math.ceil(m / one["TILE_Y"]) * math.ceil(n / one["TILE_X"]) * one["SPLIT_K"]

    worth = [one for one in candidates if one["SPLIT_K"] == 1 or k >= one["SPLIT_K"] * _LEAST_PART]
    enough = [one for one in worth if workgroups(one) >= _WORKGROUPS]
    if not enough:
        return max(worth, key=lambda one: (workgroups(one), -area(one)), default=candidates[0])
    return min(enough, key=lambda one: (one["SPLIT_K"], -area(one)))
