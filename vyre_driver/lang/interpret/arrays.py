"""Arrays and workgroups of kernels as plain Python sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.lang.plain.numbers import I32, Plain, cast, from_memory, is_constant, to_bool, to_memory
from vyre_driver.lang.types import COMPUTED, ScalarType, bool_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class PlainArray:
    """An array: an index that is out of range along its axis loads 0, and stores nothing."""

    def __init__(self, name: str, array: NDArray[Any], element: ScalarType, *, is_shared: bool = False) -> None:
        """Look at ``array``, which is written to."""
        self.name = name
        self.array = array
        self.dtype = element
        self.shape = tuple(array.shape) if is_shared else tuple(map(I32, array.shape))
        self.ndim = array.ndim
        self._counts = array.shape
        self._is_plain = element in COMPUTED
        self._is_bool = element is bool_  # words of memory

    @property
    def size(self) -> Plain:
        """The number of elements."""
        return I32(self.array.size) if self.shape and not is_constant(self.shape[0]) else self.array.size

    def __len__(self) -> int:
        """Return the elements along the first axis."""
        found: int = self._counts[0]
        return found

    def has(self, at: Plain) -> bool:
        """Whether there is such an element."""
        if type(at) is tuple:
            return all(0 <= one < count for one, count in zip(at, self._counts, strict=True))
        return bool(0 <= at < self._counts[0])

    def __getitem__(self, at: Plain) -> Plain:
        """Return an element as the type that kernels compute with."""
        if not self.has(at):
            return self._loaded(self.array.dtype.type(0))
        return self._loaded(self.array[at])

    def _loaded(self, found: Plain) -> Plain:
        if self._is_plain:
            return to_bool(found) if self._is_bool else found
        return from_memory(self.dtype, found)

    def __setitem__(self, at: Plain, value: Plain) -> None:
        """Write an element."""
        if self.has(at):
            self.array[at] = self.converted(value)

    def converted(self, value: Plain) -> Plain:
        """Return a value as an element."""
        if self._is_plain:
            return cast(self.dtype, value)
        return to_memory(self.dtype, value)

    def __repr__(self) -> str:
        """Return its name, type and shape."""
        return f"<{self.name}: {self.dtype} {self._counts}>"


class Workgroup:
    """The workgroup of one invocation; ``memory`` is what its invocations share, in the order in which each asks for it."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        groups: tuple[int, ...],
        at: tuple[int, ...],
        local: tuple[int, ...],
        memory: list[PlainArray],
    ) -> None:
        """Be the invocation ``local`` of the workgroup ``at``; the slowest axis first."""
        self.size = _each(sizes)
        self.groups = _each(tuple(map(I32, groups)))
        self.id = _each(tuple(map(I32, at)))
        self.local = _each(tuple(map(I32, local)))
        self.index = _each(tuple(I32(a * size + b) for a, size, b in zip(at, sizes, local, strict=True)))
        self._memory = memory
        self._taken = 0

    def shared(self, element: ScalarType, *shape: Any) -> PlainArray:  # noqa: ANN401 -- numbers, or one tuple
        """Return memory that the workgroup shares."""
        counts = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if self._taken == len(self._memory):
            array = np.zeros(tuple(int(count) for count in counts), element.dtype)
            self._memory.append(PlainArray(f"shared{self._taken}", array, element, is_shared=True))
        self._taken += 1
        return self._memory[self._taken - 1]

    def barrier(self) -> Iterator[None]:
        """Return what yields once, where the others are waited for."""
        yield


def _each(values: tuple[Any, ...]) -> Any:  # noqa: ANN401 -- a number, or several
    return values[0] if len(values) == 1 else values
