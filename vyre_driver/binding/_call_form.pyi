from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

Form: TypeAlias = tuple[object, object, object] | tuple[object, object, object, object]

def call_form(
    arrays: tuple[object, ...],
    groups: Sequence[int] | None,
    out_shapes: Mapping[str, int | tuple[int, ...]] | None,
    array_type: type,
    out: object = None,
) -> Form | None: ...
def matches(
    form: Form,
    arrays: tuple[object, ...],
    groups: Sequence[int] | None,
    out_shapes: Mapping[str, int | tuple[int, ...]] | None,
    array_type: type,
    out: object = None,
) -> bool: ...
def as_targets(out: object) -> tuple[NDArray[Any] | None, ...] | None: ...
def plain_workgroups(given: object) -> tuple[int, int, int] | None: ...
def as_contiguous(
    arrays: tuple[object, ...], positions: tuple[int | None, ...], copied: Callable[[Any], NDArray[Any]]
) -> list[NDArray[Any] | None]: ...

class PositionalForm:
    def __init__(
        self,
        forms: tuple[tuple[object, Sequence[int]], ...],
        array_type: type,
        places: tuple[int, ...],
        handed: tuple[int, ...],
        written: tuple[int, ...],
        numbers: tuple[tuple[str, int], ...],
        fixed: dict[str, int],
        count: int,
    ) -> None: ...
    def taken(self, given: tuple[object, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]] | None: ...

class PushPacker:
    def __init__(self, members: tuple[tuple[str, int, str], ...], word_count: int, are_shared: bool = False) -> None: ...
    @property
    def layout(self) -> dict[str, tuple[int, int]]: ...
    def pack(self, given: object) -> tuple[int, ...] | None: ...
    def pack_call(self, named: dict[str, object], push_constants: object) -> tuple[int, ...] | None: ...
