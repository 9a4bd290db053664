"""The calls of a stream on the device: buffers that are used again, what goes into them, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.outputs import trimmed_output
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.overlap import Load
from vyre_driver.runtime.placement import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.runtime.placement import Contents, Result


class Slot:
    """The buffers of one call, by the names of their bindings, and the pipeline bound to them: for calls of one form."""

    __slots__ = ("_buffers", "form", "pipeline")

    def __init__(self, form: object) -> None:
        """Have no buffers yet."""
        self.form = form
        self.pipeline: BoundPipeline | None = None
        self._buffers: dict[str, Buffer] = {}

    def buffer(self, name: str, make: Callable[[], Buffer]) -> Buffer:
        """Return the buffer of a binding, made now if there is none."""
        found = self._buffers.get(name)
        if found is None:
            found = self._buffers[name] = make()
        return found

    def has(self, buffer: Buffer) -> bool:
        """Whether a buffer is one of its own."""
        return any(one is buffer for one in self._buffers.values())


class Slots:
    """The slots of one stream that no call uses just now; there are never more in all than calls were under way at once."""

    def __init__(self) -> None:
        """Have none."""
        self._free: list[Slot] = []

    def take(self, form: object) -> Slot:
        """Return a slot for calls of a form: one that was used before, or a new one in the place of another."""
        for one in self._free:
            if one.form == form:
                self._free.remove(one)
                return one
        if self._free:
            del self._free[0]
        return Slot(form)

    def give_back(self, slot: Slot) -> None:
        """Keep a slot for the next call; the device is done with it."""
        self._free.append(slot)


@dataclass(eq=False, slots=True)
class StreamedLoad:
    """One call of a stream: what is on the device of it, or the outputs themselves where nothing has to run."""

    slot: Slot | None = None
    load: Load | None = None
    results: list[tuple[Result, NDArray[Any]]] = field(default_factory=list)  # with the array that its buffer is read into
    outputs: list[Any] = field(default_factory=list)

    @property
    def moved_bytes(self) -> tuple[int, int]:
        """Bytes of arrays that go to the device, and that come back."""
        if self.load is None:
            return 0, 0
        return sum(array.nbytes for _, array in self.load.uploads if array is not None), sum(
            array.nbytes for _, array in self.load.downloads
        )

    def take(self) -> list[Any]:
        """Return the outputs in order, once what its buffers hold has been read."""
        return self.outputs if self.slot is None else [_taken(*one) for one in self.results]


def streamed_load(
    slot: Slot, pipeline: BoundPipeline, push_words: tuple[int, ...], contents: Sequence[Contents], results: Sequence[Result]
) -> StreamedLoad:
    """Return a call that is placed in a slot."""
    read = [(one, _read_into(one)) for one in results]
    uploads = [(one.buffer.memory, _array(one)) for one in contents]
    downloads = [(one.buffer.memory, array) for one, array in read if one.is_array]
    return StreamedLoad(slot, Load(pipeline, push_words, uploads, downloads), read)


def check_streamed(contents: Sequence[Contents], results: Sequence[Result], slot: Slot) -> None:
    """Check that nothing is copied from or to a buffer of the caller's, which other calls of the stream may be using."""
    for one in contents:
        if isinstance(one.source, Buffer):
            raise InvalidInput(
                f"{one.buffer.described} would begin with a copy of a {one.source.described} in each call of the stream",
                fix="give the contents as an array, or no array in out, so that the buffer itself is updated",
            )
        if not slot.has(one.buffer):
            raise InvalidInput(
                f"{one.buffer.described} in out would begin with an array, while calls before it in the stream may be using it",
                fix="give the buffer as an argument instead, so that it is updated, or get the result as an array",
            )
    for result in results:
        if result.is_array and not slot.has(result.buffer):
            raise InvalidInput(
                f"{result.binding.described} got a buffer, and would be read into an array in each call of the stream",
                fix="give None in its place in out, and read() the buffer when the stream has ended",
                binding=result.binding.name,
            )


def _array(contents: Contents) -> NDArray[Any] | None:
    assert not isinstance(contents.source, Buffer)  # noqa: S101 -- check_streamed has seen to it
    return contents.source


def _read_into(result: Result) -> NDArray[Any]:
    """Return the array that all of a buffer is read into: the caller's, where that is what it gets."""
    is_whole = result.form.elements is None and result.binding.output_byte_range is None
    if result.target is not None and is_whole:
        return result.target
    return np.empty(result.form.shape, result.form.dtype) if result.is_array else np.empty(0)


def _taken(result: Result, read: NDArray[Any]) -> Any:  # noqa: ANN401 -- an array or a buffer
    if not result.is_array:
        return part_of(result.binding, result.buffer)
    found = trimmed_output(result.binding, result.form.finish(read))
    if result.target is None or found is result.target:
        return found
    np.copyto(result.target, found)
    return result.target
