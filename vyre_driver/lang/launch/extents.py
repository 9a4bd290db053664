"""How far a call goes: the extents of its indices, its workgroups, and the shapes of the outputs that it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import InvalidInput
from vyre_driver.lang.launch.arrays import check_extent
from vyre_driver.lang.types import Access, ArrayType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.source.parameters import KernelSignature

    Shapes = dict[str, tuple[int, ...]]
    Uses = Sequence[Sequence[tuple[str, int]]]

_MOST_SHOWN = 1024  # an index that may be larger is no constant, nor of a short loop


class Reach(NamedTuple):
    """How far a call goes, slowest axis first: ``extent`` in elements, ``groups`` in workgroups; None where nothing says it.

    Each invocation takes ``turns`` indices along an axis.
    """

    extent: tuple[int, ...] | None
    groups: tuple[int, ...]
    turns: tuple[int, ...]

    def within(self, limits: Sequence[int]) -> Reach:
        """Return how the same extent is reached with no more workgroups along x, y, z than a device has."""
        most = limits[: len(self.groups)][::-1]
        turns = tuple(max(1, -(-count // limit)) for count, limit in zip(self.groups, most, strict=True))
        groups = tuple(-(-count // turn) for count, turn in zip(self.groups, turns, strict=True))
        return Reach(self.extent, groups, turns)


class ReachFinder:
    """Finds how far the calls of one program go."""

    def __init__(self, kernel: str, signature: KernelSignature, translated: TranslatedKernel) -> None:
        """Look at what its indices are used on."""
        self._kernel = kernel
        self._is_group = signature.group is not None
        self._names = index_names(signature)
        self._uses: Uses = translated.extents[::-1]  # slowest first, as the names
        self._sizes = translated.program.workgroup_size[: len(self._names)][::-1]

    def find(self, shapes: Shapes, over: tuple[int, ...] | None, groups: tuple[int, ...] | None, made: Shapes) -> Reach:
        """Return how far a call goes: as it says itself, else as far as the arrays that its indices are used on.

        ``made`` are the outputs that are left out and whose shape the signature says: they count where nothing else does.

        Raises
        ------
        InvalidInput
            If nothing says it, arrays differ, or are shorter than what the call says.
        """
        if groups is not None:
            return Reach(None, groups, (1,) * len(groups))
        if over is None:
            over = tuple(self._agreed(axis, shapes, made) for axis in range(len(self._names)))
        elif not self._is_group:
            self._check_within(over, shapes)
        for name, length in zip(self._names, over, strict=True):
            check_extent(f"what {name!r} of {self._kernel} goes over", length)
        groups = tuple(-(-length // size) for length, size in zip(over, self._sizes, strict=True))
        return Reach(over, groups, (1,) * len(groups))

    def _agreed(self, axis: int, shapes: Shapes, made: Shapes) -> int:
        """Return how far an index goes by the arrays that it is used on."""
        name, how = self._names[axis], "groups" if self._is_group else "over"
        uses = self._uses[axis]
        found = [(shapes[array][along], array) for array, along in uses if array in shapes]
        found = found or [((made[array] or (1,))[along], array) for array, along in uses if array in made]
        wanted = ", ".join(("n", "m", "k")[: len(self._uses)])
        if not found:
            fits = next((array for array, shape in shapes.items() if len(shape) == len(self._names)), None)
            named = f', or name an array that it goes over: @kernel(over="{fits}")' if fits else ""
            raise InvalidInput(
                f"nothing says how far {name!r} of {self._kernel} goes: no array that is given has it as an index alone",
                fix=f"say it: {self._kernel}.{how}({wanted})(...){named}",
                index=name,
            )
        length, first = found[0]
        for other, array in found:
            if other != length:
                what, shown = ("grid", wanted) if self._is_group else ("extent", self._least(shapes))
                raise InvalidInput(
                    f"index {name!r} goes over {length} ({first!r}) and {other} ({array!r})",
                    fix=f"pass arrays of one length, or say the {what}: {self._kernel}.{how}({shown})",
                    index=name,
                    lengths=(length, other),
                )
        return length

    def _least(self, shapes: Shapes) -> str:
        """Return the largest extent that is within all arrays."""
        lengths = [[shapes[array][along] for array, along in uses if array in shapes] for uses in self._uses]
        return ", ".join(str(min(one, default=1)) for one in lengths)

    def _check_within(self, over: tuple[int, ...], shapes: Shapes) -> None:
        """Check that no array that an index is used on is shorter than what the index goes over."""
        for name, length, uses in zip(self._names, over, self._uses, strict=True):
            for array, along in uses:
                has = shapes[array][along] if array in shapes else length
                if has < length:
                    raise InvalidInput(
                        f"index {name!r} of {self._kernel} is to go over {length}, and {array!r} has {has}",
                        fix=f"go over {has} at most, or pass a longer array",
                        index=name,
                        lengths=(length, has),
                    )


def index_names(signature: KernelSignature) -> tuple[str, ...]:
    """Return the names of a kernel's indices, slowest first: of a workgroup those of its index along each axis."""
    if signature.group is None:
        return signature.indexes
    name, group = signature.group
    axes = len(group.sizes)
    return (f"{name}.index",) if axes == 1 else tuple(f"{name}.index[{axis}]" for axis in range(axes))


def signature_for(signature: KernelSignature, translated: TranslatedKernel, shapes: Shapes) -> str | None:
    """Return a text for ``signature=`` with which a call like this can make its outputs; None where their shapes are not known.

    An axis that a kernel's index goes along is a letter. Another one is as long as in the array that is given, and of an output
    that is left out one more than the largest index.
    """
    if signature.group is not None:
        return None
    letters = dict(zip(range(len(translated.extents)), "nmk"[: len(translated.extents)][::-1], strict=True))
    along = {use: letters[axis] for axis, uses in enumerate(translated.extents) for use in uses}
    sides: dict[bool, list[str]] = {False: [], True: []}
    for parameter in signature.arrays:
        assert isinstance(parameter.type, ArrayType)  # noqa: S101 -- of arrays alone
        name, axes = parameter.name, []
        for axis in range(translated.ranks[name]):
            last = translated.last_places.get((name, axis), _MOST_SHOWN)
            if (name, axis) in along:
                axes.append(along[name, axis])
            elif name in shapes:
                axes.append(str(shapes[name][axis]))
            elif last < _MOST_SHOWN:
                axes.append(str(last + 1))
            else:
                return None
        sides[parameter.type.access is not Access.IN].append(f"({','.join(axes)})")
    return f"{','.join(sides[False])}->{','.join(sides[True])}"


def left_out_shapes(  # noqa: PLR0913 -- a call, taken apart
    kernel: str,
    signature: KernelSignature,
    translated: TranslatedKernel,
    shapes: Shapes,
    reach: Reach,
    made: Shapes | None,
) -> Shapes:
    """Return the shape of each output that a call leaves out: by the signature, else by the indices that it is used with.

    ``made`` are those that the signature says; None without one.

    Raises
    ------
    InvalidInput
        If nothing says it.
    """
    found: Shapes = {}
    for name, rank in translated.ranks.items():
        if name in shapes:
            continue
        shape: tuple[int, ...] = (-1,)
        if made is not None:
            shape = made.get(name, shape)
        elif reach.extent is not None:
            both = zip(reach.extent, translated.extents[::-1], strict=True)
            by_axis = {along: length for length, uses in both for array, along in uses if array == name}
            shape = tuple(by_axis.get(axis, -1) for axis in range(rank))
        if -1 in shape:
            text = None if reach.extent is None or made is not None else signature_for(signature, translated, shapes)
            raise InvalidInput(
                f"nothing says what shape {name} of {kernel} has, which was left out",
                fix=f"pass an array for {name}" + (f', or say its axes: @kernel(signature="{text}")' if text else ""),
                parameter=name,
            )
        found[name] = shape
    return found


def pushed_numbers(signature: KernelSignature, translated: TranslatedKernel, shapes: Shapes, reach: Reach) -> dict[str, int]:
    """Return the numbers that a program is given beside those of a call, by name: lengths, extents and workgroups."""
    found: dict[str, int] = {}
    sizes = translated.program.workgroup_size[: len(reach.groups)][::-1]
    for name in translated.scalars:
        owner, _, rest = name.partition(".")
        if rest.startswith(("shape", "groups")):
            lengths = shapes[owner] if rest.startswith("shape") else reach.groups
            found[name] = lengths[int(rest.partition("[")[2][:-1])]
        elif rest:
            axis = signature.indexes.index(owner)
            extent = 0 if reach.extent is None else reach.extent[axis]
            found[name] = {"extent": extent, "turns": reach.turns[axis], "stride": reach.groups[axis] * sizes[axis]}[rest]
    return found
