"""Launch geometry: check the workgroup size and the number of workgroups against the device's limits.

kompute checks neither, and a grid over the limit gives no error at all.
Source: Vulkan 1.3, limits ``maxComputeWorkGroupSize``, ``maxComputeWorkGroupInvocations``, ``maxComputeWorkGroupCount``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.binding._call_form import plain_workgroups
from vyre_driver.checks import integer, is_whole, items_of
from vyre_driver.errors import InvalidInput, InvalidSpecialization, LimitExceeded
from vyre_driver.target.config import check_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.specialization.resolve import Specialization
    from vyre_driver.spirv.reflection import Reflection
    from vyre_driver.vulkan.devices import DeviceLimits

_AXES = "xyz"


def local_size(reflection: Reflection, specialization: Specialization, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return the workgroup size in invocations per axis, after specialization.

    Raises LimitExceeded if an axis is 0 or over its limit, or their product is over the limit.
    """
    words = specialization.words
    x, y, z = (axis.specialized(words) for axis in reflection.local_size)
    for axis, size, limit in zip(_AXES, (x, y, z), limits.max_compute_work_group_size, strict=True):
        if not 1 <= size <= limit:
            raise LimitExceeded(
                f"the shader's workgroup has {size} invocations along {axis}, and the device allows 1 to {limit}",
                fix=f"choose a workgroup size of at most {limit} along {axis}",
                value=size,
                limit=limit,
            )
    if x * y * z > limits.max_compute_work_group_invocations:
        raise LimitExceeded(
            f"the shader's workgroup has {x}x{y}x{z} = {x * y * z} invocations, and the device allows "
            f"{limits.max_compute_work_group_invocations}",
            fix=f"choose a workgroup of at most {limits.max_compute_work_group_invocations} invocations",
            value=x * y * z,
            limit=limits.max_compute_work_group_invocations,
        )
    return x, y, z


def check_shared_memory(
    reflection: Reflection, specialization: Specialization, limits: DeviceLimits, reserved: int = 0
) -> None:
    """Check that a workgroup's shared variables, after specialization, each have a size and fit together.

    The device keeps ``reserved`` bytes of its limit for itself.

    Raises
    ------
    InvalidSpecialization
        If an array is left without elements.
    LimitExceeded
        If they take more bytes than ``maxComputeSharedMemorySize`` leaves.
    """
    words = specialization.words
    sizes = {one.name: one.formula.value(words) for one in reflection.sized_shared if one.formula is not None}
    for name, size in sizes.items():
        if size < 1:
            raise InvalidSpecialization(
                f"the specialization constants give shared variable {name!r} {size} bytes",
                fix="give constants that leave its arrays one element or more",
                variable=name,
            )
    total = reflection.shared_bytes + sum(sizes.values())
    limit = limits.max_compute_shared_memory_size
    if reserved and total + reserved > limit:
        raise LimitExceeded(
            f"the shader's workgroups share {total} bytes, and the device allows {limit} bytes, of which it keeps {reserved} "
            "for matrices of a whole workgroup",
            fix="use smaller shared arrays, or matrices of a subgroup",
            value=total,
            limit=limit - reserved,
        )
    if sizes and total > limit:
        largest = max(sizes, key=lambda name: sizes[name])
        raise LimitExceeded(
            f"the shader's workgroups share {total} bytes with these constants, {sizes[largest]} of them in {largest!r}, and "
            f"the device allows {limit} bytes",
            fix="give smaller constants",
            value=total,
            limit=limit,
            variable=largest,
        )


def grid(
    workgroups: tuple[int, int, int] | None,
    arguments: Sequence[BufferArgument],
    size: tuple[int, int, int],
    limits: DeviceLimits,
    *,
    beyond_x: bool = False,
) -> tuple[int, int, int]:
    """Return the workgroups per axis: as given, or enough for the outputs.

    Those are one invocation for each element of the largest output along x; where workgroup or code have more axes, one for
    each place in the outputs' shape, whose last axis is x. ``beyond_x`` says that the shader looks at more axes of the grid
    than the first, or may do so.

    Raises
    ------
    InvalidInput
        If they are not given, and cannot be guessed.
    LimitExceeded
        If an axis is over the device's limit.
    """
    counts = _automatic(arguments, size, beyond_x=beyond_x) if workgroups is None else workgroups
    fix = "start fewer workgroups, and let an invocation do several elements"
    check_axes("the grid", "workgroups", counts, limits.max_compute_work_group_count, fix=fix)
    return counts


def invocations_of_shapes(arguments: Sequence[BufferArgument], size: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """Return an invocation for each place in the shape of the outputs, the last axis along x.

    None where nobody knows: where the outputs differ, or have not as many axes as the work. That has three where the workgroup
    has them, else two: the third axis of an image is its channels, which an invocation mostly does all of.
    """
    shapes = {_places(one) for one in arguments if one.binding.role.produces_output}
    if len(shapes) != 1:
        return None
    shape = shapes.pop()
    if len(shape) != (2 if size[2] == 1 else 3):
        return None
    x, y, z = (*reversed(shape), 1)[:3]
    return x, y, z


def _places(argument: BufferArgument) -> tuple[int, ...]:
    """Return the shape of an argument in elements: without an axis that counts the components of one."""
    shape, stride = argument.shape, argument.binding.stride
    axes = int(bool(shape) and shape[-1] != 1 and shape[-1] * argument.dtype.itemsize == stride)
    if argument.elements is not None:  # values that are packed
        axes = len(argument.elements.shape)
    places = shape[: len(shape) - axes]
    return places if math.prod(places) == argument.element_count else ()  # where elements lie across axes, nobody knows


def given_groups(
    size: tuple[int, int, int], workgroups: int | Sequence[int] | None, invocations: int | Sequence[int] | None
) -> tuple[int, int, int] | None:
    """Return the workgroups that a caller gives, or that have as many invocations; None where neither is given.

    Raises
    ------
    InvalidInput
        If ``workgroups`` is not 1 to 3 numbers of at least 1, or ``invocations`` of at least 0, or both are given.
    """
    if invocations is None:
        return None if workgroups is None else plain_workgroups(workgroups) or _given("workgroups", workgroups, 1)
    if workgroups is not None:
        raise InvalidInput(
            f"both workgroups={workgroups} and invocations={invocations} are given", fix="give one of them", groups=workgroups
        )
    return covering(_given("invocations", invocations, 0), size)


def covering(invocations: tuple[int, int, int], size: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the workgroups of a size that have at least so many invocations along each axis."""
    x, y, z = (-(-count // side) for count, side in zip(invocations, size, strict=True))
    return x, y, z


def check_guessable(size: tuple[int, int, int], *, beyond_x: bool, subject: str) -> None:
    """Check that a shader or a program of this workgroup size can only want a grid of one axis.

    Raises InvalidInput if the workgroup has another axis, or the code looks at another axis of the grid, or may do so.
    """
    shown = "x".join(map(str, size))
    if size[1:] != (1, 1):
        why = f"a workgroup of {shown} invocations"
    elif beyond_x:
        why = f"a {subject} that looks at y or z of its place in the grid (gl_GlobalInvocationID, gl_WorkGroupID and the like)"
        if subject == "shader":
            why += ", or at all of it at once"
    else:
        return
    raise InvalidInput(
        f"the grid cannot be guessed for {why}",
        fix="give invocations=(width, height), or workgroups=(x, y, z) (--workgroups X,Y,Z, grid_override) of "
        f"{shown} invocations each, or an output of {'two' if size[2] == 1 else 'three'} axes",
        workgroup=size,
    )


def _automatic(arguments: Sequence[BufferArgument], size: tuple[int, int, int], *, beyond_x: bool) -> tuple[int, int, int]:
    if size[1:] != (1, 1) or beyond_x:
        found = invocations_of_shapes(arguments, size)
        if found is not None:
            return covering(found, size)
    check_guessable(size, beyond_x=beyond_x, subject="shader")
    outputs = [one for one in arguments if one.binding.role.produces_output]
    longest = max(outputs, key=_elements, default=None)
    if longest is None:
        return 0, 1, 1
    _check_longest(longest, arguments)
    return math.ceil(longest.element_count / size[0]), 1, 1


def _elements(argument: BufferArgument) -> int:
    return argument.element_count


def _check_longest(output: BufferArgument, arguments: Sequence[BufferArgument]) -> None:
    """Check that no array that is only read is longer than the longest output: a sum has an invocation for each of those."""
    # Of several views of a buffer the elements are what all of them are made of, and no measure.
    read = [one for one in arguments if one.binding.role.value == "input" and not one.binding.view_byte_len]
    longest = max([output, *read], key=_elements)
    if longest is not output and longest.element_count > output.element_count:
        raise InvalidInput(
            f"the grid cannot be guessed: {longest.binding.described} has {longest.element_count} elements and "
            f"{output.binding.described} {output.element_count}, and an invocation may be for one of either",
            fix=f"give invocations={longest.element_count} or invocations={output.element_count}, as the shader counts them",
            binding=longest.binding.name,
        )


def _given(name: str, counts: int | Sequence[int], least: int) -> tuple[int, int, int]:
    found = [integer(counts)] if is_whole(counts) else [integer(count) for count in items_of(counts) or []]
    if not 1 <= len(found) <= 3 or any(count is None or count < least for count in found):
        raise InvalidInput(
            f"{name} is {counts}, which is not 1 to 3 numbers of at least {least}",
            fix=f"give {name}=(x, y, z)",
            groups=counts,
        )
    x, y, z = [*map(int, found), 1, 1][:3]  # type: ignore[arg-type] # none is None
    return x, y, z
