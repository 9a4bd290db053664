"""Signatures as numpy's generalized functions have them: ``(m,k),(k,n)->(m,n)``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.lang.types import Access, ArrayType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.lang.source.parameters import KernelSignature

_NAME = r"[A-Za-z_]\w*"
_SIDE = re.compile(rf"\(({_NAME}(?:,{_NAME})*)?\)(?:,\(({_NAME}(?:,{_NAME})*)?\))*")
_OPERAND = re.compile(r"\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class ShapeSignature:
    """The names of the axes of each array, by its own name; an axis of one name has one length."""

    text: str
    axes: Mapping[str, tuple[str, ...]]

    def sizes(self, kernel: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the length of each named axis.

        Raises
        ------
        InvalidInput
            If two axes of one name have different lengths.
        """
        found: dict[str, tuple[int, str]] = {}
        for name, axes in self.axes.items():
            for axis, length in zip(axes, shapes.get(name, ()), strict=False):
                known, other = found.setdefault(axis, (length, name))
                if known != length:
                    raise InvalidInput(
                        f"axis {axis!r} of {kernel} has {known} elements in {other!r} and {length} in {name!r}",
                        fix=f"pass arrays of the shapes {self.text}",
                        axis=axis,
                        lengths=(known, length),
                    )
        return {axis: length for axis, (length, _) in found.items()}


def parsed(text: str, signature: KernelSignature, kernel: str) -> ShapeSignature:
    """Return what a text says of a kernel's arrays.

    Raises
    ------
    KernelTypeError
        If it is none, or of other arrays than the kernel's.
    """
    left, arrow, right = text.replace(" ", "").partition("->")
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


def with_ranks(signature: KernelSignature, shapes: ShapeSignature) -> KernelSignature:
    """Return a kernel's parameters with as many axes for each array as a text gives it."""
    return replace(
        signature,
        parameters=tuple(
            replace(one, type=replace(one.type, rank=max(1, len(shapes.axes[one.name]))))
            if isinstance(one.type, ArrayType)
            else one
            for one in signature.parameters
        ),
    )
