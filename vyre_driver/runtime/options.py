"""What a call of a kernel takes beside its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vyre_driver.kompute.buffer import Buffer


class CallOptions(NamedTuple):
    """The options of one call, as :meth:`vyre_driver.runtime.kernel.Kernel.__call__` describes them.

    ``sized`` are the shapes that ``out_shapes`` and the targets in ``out`` give together, where there are targets;
    ``in_stream`` is for calls of ``Driver.stream``.
    """

    workgroups: int | Sequence[int] | None = None
    invocations: int | Sequence[int] | None = None
    push_constants: Mapping[str, object] | None = None
    out: object = None
    out_shapes: Mapping[str, int | tuple[int, ...]] | None = None
    split: bool = False
    timeout: float | None = None
    strict: bool = False
    label: object = None
    sized: Mapping[str, int | tuple[int, ...]] | None = None
    in_stream: bool = False

    @property
    def shapes(self) -> Mapping[str, int | tuple[int, ...]] | None:
        """The shapes of what is only written, by name, as far as the caller gives them."""
        return self.out_shapes if self.sized is None else self.sized


class QuickCall(NamedTuple):
    """A call by position on buffers, of a form that is to be launched in one pass.

    ``places`` are those of the buffers, in binding order, and ``number_places`` (name, place) of the numbers, whose values
    ``numbers`` has, with others that each call has. ``written`` are the places of what it returns.
    """

    buffers: tuple[Buffer, ...]
    grid: tuple[int, int, int] | None
    numbers: dict[str, Any]
    places: tuple[int, ...]
    number_places: tuple[tuple[str, int], ...]
    argument_count: int
    written: tuple[int, ...]
    reference: Callable[[], Any]
    watch: Any


class PreparedCall(NamedTuple):
    """A call with its arrays in binding order, its push constants as words, its grid, and what each output is written to."""

    arrays: tuple[object, ...]
    push_words: tuple[int, ...]
    groups: tuple[int, int, int] | None
    targets: tuple[object, ...]
    options: CallOptions
