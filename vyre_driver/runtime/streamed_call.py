"""A call of a stream, as the caller gave it, and the kernels that take one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vyre_driver.binding.arguments import check_switch
from vyre_driver.binding.names import OPTIONS
from vyre_driver.errors import InvalidInput
from vyre_driver.runtime.options import CallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel import Kernel


class StreamedCall(NamedTuple):
    """A call of a compiled kernel: arrays by position and name, options, and what makes the caller's result of its outputs.

    Without a kernel there are no outputs, and nothing runs.
    """

    kernel: Kernel | None
    arrays: tuple[object, ...]
    named: dict[str, object]
    options: CallOptions
    finish: Callable[[list[Any]], Any]


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


_INSTEAD = {
    "split": "leave it out: the stages of several calls go on at once",
    "out": "give what results are written to as out= of stream(), one for each chunk",
    "timeout": "give it to stream()",
}
