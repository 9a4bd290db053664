"""A call of a stream, as the caller gave it, and the kernels that take one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from vyre_driver.binding.arguments import as_array, check_switch
from vyre_driver.binding.names import OPTIONS
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.runtime.options import CallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel import Kernel


class StreamedCall(NamedTuple):
    """A call of a compiled kernel: arrays by position and name, options, and what makes the caller's result of its outputs.

    Without a kernel there are no outputs, and nothing runs. ``read`` and ``written`` are the caller's own arrays, which the
    inputs come from, and which the results go to. ``named_error`` says what a strict call has found in the caller's words.
    """

    kernel: Kernel | None
    arrays: tuple[object, ...]
    named: dict[str, object]
    options: CallOptions
    finish: Callable[[list[Any]], Any]
    read: tuple[NDArray[Any], ...] = ()
    written: tuple[NDArray[Any], ...] = ()
    named_error: Callable[[Any], Exception] | None = None


class Streamable(Protocol):
    """A kernel that a stream runs."""

    def __vyre_stream__(
        self, context: Context, arrays: tuple[object, ...], named: dict[str, object], out: object
    ) -> StreamedCall:
        """Return the call of a compiled kernel on the driver of this context; raises InvalidInput where it does not fit."""


def split_options(named: Mapping[str, object], out: object, *, is_strict: bool) -> tuple[dict[str, object], CallOptions]:
    """Return the arrays and push constants among the keywords of a call, and its options; ``is_strict`` is the driver's.

    Raises InvalidInput for one that says nothing in a stream.
    """
    options: dict[str, Any] = {name: value for name, value in named.items() if name in OPTIONS}
    for name in ("split", "out", "timeout"):
        if name in options:
            raise InvalidInput(f"a call of a stream is given {name!r}", fix=_INSTEAD[name], name=name)
    strict = options.get("strict")
    check_switch("strict", strict)
    options["strict"] = is_strict if strict is None else strict
    return {name: value for name, value in named.items() if name not in options}, CallOptions(
        **options, out=out, in_stream=True
    )


def arrays_among(given: Iterable[object]) -> Iterator[NDArray[Any]]:
    """Yield the arrays that are given, also as members of structures, and those that others show of their memory."""
    for one in given:
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, Mapping):
            yield from arrays_among(one.values())
        elif not isinstance(one, _OWN_MEMORY):
            try:
                yield as_array(one)
            except InvalidInput:  # the call says so, by the name of the argument
                continue


def check_untouched(call: StreamedCall, before: Iterable[StreamedCall]) -> None:
    """Check that a call touches no array that the results of those before it are yet to be written to; raises InvalidInput.

    It would read what was there before, and nobody could look at a result that the next one is written over.
    """
    for earlier in before:
        for target in earlier.written:
            for what, arrays in (("read", call.read), ("written", call.written)):
                if any(np.may_share_memory(target, one) for one in arrays):
                    raise InvalidInput(
                        f"an array of shape {target.shape} and type {target.dtype} is {what} by a call of the stream, while "
                        "the result of a call before it is yet to be written there",
                        fix=_APART[what],
                    )


# What shares no memory of the host's with an array: of these alone as_array would make a copy.
_OWN_MEMORY = (Buffer, list, tuple, str, bytes, np.generic, int, float, complex, type(None))
_APART = {
    "read": "give each call arrays of its own; where a call goes on with what the one before has left, give a resident buffer",
    "written": "give each call an array of its own in out, which may be used again by the fifth call after it",
}
_INSTEAD = {
    "split": "leave it out: the stages of several calls go on at once",
    "out": "give what results are written to as out= of stream(), one for each chunk",
    "timeout": "give it to stream()",
}
