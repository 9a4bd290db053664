"""Signatures as numpy's generalized functions have them: ``(m,k),(k,n)->(m,n)``; an axis that is a number has that length."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.lang.types import Access, ArrayType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.lang.source.parameters import KernelSignature

_NAME = r"(?:[A-Za-z_]\w*|\d+)"
_MOST_AXES = 4
_SIDE = re.compile(rf"\(({_NAME}(?:,{_NAME})*)?\)(?:,\(({_NAME}(?:,{_NAME})*)?\))*")
_OPERAND = re.compile(r"\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class ShapeSignature:
    """The names of the axes of each array, by its own name; an axis of one name has one length."""

    text: str
    axes: Mapping[str, tuple[str, ...]]

    def sizes(self, kernel: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the length of each axis by its name.

        Raises
        ------
        InvalidInput
            If an array has more or fewer axes than it is given, or two axes of one name have different lengths.
        """
        fixed = {axis for axes in self.axes.values() for axis in axes if axis.isdigit()}
        found = {axis: (int(axis), "the signature") for axis in fixed}
        for name, axes in self.axes.items():
            shape = shapes.get(name)
            if shape is None:
                continue
            if len(shape) != max(1, len(axes)) or (not axes and shape != (1,)):
                raise InvalidInput(
                    f"{name} of {kernel} has the shape {shape}, and the signature gives it ({','.join(axes)})",
                    fix=f"pass arrays of the shapes {self.text}",
                    parameter=name,
                    shape=shape,
                )
            for axis, length in zip(axes, shape, strict=False):  # () has none
                known, other = found.setdefault(axis, (length, repr(name)))
                if known != length:
                    raise InvalidInput(
                        f"axis {axis!r} of {kernel} has {known} elements in {other} and {length} in {name!r}",
                        fix=f"pass arrays of the shapes {self.text}",
                        axis=axis,
                        lengths=(known, length),
                    )
        return {axis: length for axis, (length, _) in found.items()}

    def left_out(self, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays that are not given, where the lengths of their axes are known."""
        return {
            name: tuple(sizes[axis] for axis in axes)
            for name, axes in self.axes.items()
            if name not in shapes and all(axis in sizes for axis in axes)
        }

    def lengths_of(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that an array has for a kernel: what is of no axes is used with one, of one element."""
        return shape or ((1,) if not self.axes[name] else ())


def parsed(text: str, signature: KernelSignature, kernel: str) -> ShapeSignature:
    """Return what a text says of a kernel's arrays.

    Raises
    ------
    KernelTypeError
        If it is none, or of other arrays than the kernel's.
    """
    left, arrow, right = text.replace(" ", "").partition("->") if isinstance(text, str) else ("", "", "")
    if not arrow or not all(_SIDE.fullmatch(side) for side in (left, right)):
        raise KernelTypeError(
            f"the signature of {kernel!r} is {text!r}, which is none", fix='write it as numpy does: "(m,k),(k,n)->(m,n)"'
        )
    axes: dict[str, tuple[str, ...]] = {}
    for side, outputs in ((left, False), (right, True)):
        names = [one.name for one in signature.arrays if (one.type.access is not Access.IN) is outputs]  # type: ignore[union-attr] # arrays
        found = [tuple(filter(None, one.split(","))) for one in _OPERAND.findall(side)]
        if len(found) != len(names):
            raise KernelTypeError(
                f"the signature of {kernel!r} has {len(found)} array(s) {'behind' if outputs else 'before'} the arrow, and the "
                f"kernel {len(names)}: {', '.join(names) or 'none'}",
                fix="write In arrays before the arrow, Out and InOut behind it",
            )
        axes.update(zip(names, found, strict=True))
    return ShapeSignature(text, axes)


def with_ranks(signature: KernelSignature, shapes: ShapeSignature, kernel: str) -> KernelSignature:
    """Return a kernel's parameters with the axes of each array that a text gives it.

    Raises
    ------
    KernelTypeError
        If one is annotated with another number of axes, or has more than an array may.
    """
    found = []
    for one in signature.parameters:
        if not isinstance(one.type, ArrayType):
            found.append(one)
            continue
        axes = shapes.axes[one.name]
        rank = max(1, len(axes))
        if rank > _MOST_AXES:
            raise KernelTypeError(
                f"the signature of {kernel!r} gives {one.name!r} {rank} axes, and an array has {_MOST_AXES} at most",
                fix="join some of them",
            )
        if one.type.rank not in {None, rank}:
            raise KernelTypeError(
                f"the signature of {kernel!r} gives {one.name!r} ({','.join(axes)}), and it is annotated {one.type}",
                fix="leave the number of axes out of the annotation",
            )
        found.append(replace(one, type=replace(one.type, rank=rank)))
    return replace(signature, parameters=tuple(found), axes=tuple(shapes.axes.items()))


def checked_over(given: object, signature: KernelSignature, shapes: ShapeSignature | None, kernel: str) -> tuple[str, ...]:
    """Return what a decorator's ``over`` names: an array, or an axis of the signature for each index.

    Raises
    ------
    KernelTypeError
        If it names something else, or more or fewer axes than the kernel has indices.
    """
    if given is None:
        return ()
    names = tuple(one.strip() for one in given.split(",")) if isinstance(given, str) else ()
    arrays = {one.name: one.type.rank for one in signature.arrays}  # type: ignore[union-attr] # arrays
    axes = {axis for each in shapes.axes.values() for axis in each} if shapes is not None else set()
    count = len(signature.indexes) if signature.group is None else len(signature.group[1].sizes)
    if len(names) == 1 and names[0] in arrays:
        rank = arrays[names[0]]
        if rank not in {None, count}:
            raise KernelTypeError(
                f"{kernel!r} goes over {names[0]!r}, which has {rank} axes, and along {count} of its own",
                fix="name an axis of the signature for each index",
            )
        return names
    unknown = [name for name in names if name not in axes]
    if unknown or not names:
        known = [*arrays, *sorted(axes)]
        raise KernelTypeError(
            f"{kernel!r} is to go over {unknown[0] if unknown else given!r}, which is no array and no axis of its signature",
            fix=f"name one of {', '.join(known)}",
        )
    if len(names) != count:
        raise KernelTypeError(
            f"{kernel!r} is to go over {given!r}, which names {len(names)} axes, and has {count} of its own",
            fix="name an axis of the signature for each index, slowest first",
        )
    return names
