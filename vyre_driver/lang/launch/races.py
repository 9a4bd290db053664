"""Whether the invocations of a call update one element at once: refused where that is certain, warned of where it may be."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from vyre_driver.errors import KernelTypeError
from vyre_driver.lang.frontend.atomic_fixes import atomic_fix, updated_element
from vyre_driver.lang.frontend.translation import shown_frames

if TYPE_CHECKING:
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.frontend.updates import Axis, Update
    from vyre_driver.lang.launch.extents import Reach
    from vyre_driver.lang.launch.fitting import Definition
    from vyre_driver.lang.source.parameters import KernelSignature


class RaceWarning(UserWarning):
    """Several invocations of a kernel may load, change and store one element at once, and lose what others store."""


def check_updates(definition: Definition, translated: TranslatedKernel, reach: Reach, mode: str | None) -> None:
    """Check that the invocations of a call do not all load, change and store one element.

    The reference interpreter, whose ``mode`` is ``"trap"``, tells of each race by itself.

    Warns (RaceWarning), at the line of the kernel, where a condition decides it that is not known before the call.

    Raises
    ------
    KernelTypeError
        If they certainly do: nearly all that they store is lost.
    """
    for update in translated.updates if mode != "trap" else ():
        counts = [_count(translated, reach, axis) for axis in update.axes]
        is_small = any(count < least for count, least in zip(counts, update.least, strict=True))
        if is_small or 0 in reach.groups or 0 in (reach.extent or ()):
            continue
        names = [axis_name(definition.signature, axis) for axis in update.axes]
        along = "there are " + " and ".join(f"{count:,} along {name}" for count, name in zip(counts, names, strict=True))
        if not update.is_certain:
            _warn(definition, update, along)
            continue
        element = updated_element(update.place.node, update.array)
        raise KernelTypeError(
            f"invocations of {definition.name!r} load {element}, change it and store it, and lose what others store: {along}",
            fix=atomic_fix(update.place.node, update.array),
            frames=shown_frames(update.place),
            count=min(counts),
        )


def warn_of_updates(definition: Definition, translated: TranslatedKernel) -> None:
    """Warn of updates of one element by several invocations, for a program whose calls are not seen."""
    for update in translated.updates:
        names = [axis_name(definition.signature, axis) for axis in update.axes]
        along = " and ".join(f"{count:,} or more along {name}" for count, name in zip(update.least, names, strict=True))
        _warn(definition, update, f"where there are {along}")


def _warn(definition: Definition, update: Update, along: str) -> None:
    """Warn at the line of an update."""
    element, fix = updated_element(update.place.node, update.array), atomic_fix(update.place.node, update.array)
    source, function = update.place.frames[-1].source, update.place.frames[-1].function
    warnings.warn_explicit(
        f"invocations of {definition.name!r} may load {element}, change it and store it at once, and lose updates: {along}. "
        f"Fix: {fix}.",
        RaceWarning,
        source.filename,
        getattr(update.place.node, "lineno", source.first_line),
        registry=function.__globals__.setdefault("__warningregistry__", {}),
    )


def axis_name(signature: KernelSignature, along: Axis) -> str:
    """Return what a kernel calls an axis along which invocations update one element."""
    kind, axis = along
    if signature.group is None:
        return repr(signature.indexes[len(signature.indexes) - 1 - axis])
    name, group = signature.group
    axes = len(group.sizes)
    return f"{name}.{'local' if kind == 'local' else 'id'}" + (f"[{axes - 1 - axis}]" if axes > 1 else "")


def _count(translated: TranslatedKernel, reach: Reach, along: Axis) -> int:
    """Return how many invocations, or workgroups, of a call there are along an axis."""
    kind, axis = along
    if kind == "local":
        return translated.program.workgroup_size[axis]
    lengths = reach.groups if kind == "group" or reach.extent is None else reach.extent
    return lengths[len(lengths) - 1 - axis]
