from collections.abc import Callable, Mapping
from typing import Any

from vyre_driver.ir.wire._scan import Walk
from vyre_driver.ir.wire.format import Cursor

class TermMaker:
    def __init__(
        self,
        walk: Walk,
        cursor: Cursor,
        classes: dict[int, Callable[..., Any]],
        tables: list[Mapping[int, Any]],
        readers: dict[int, Callable[[Cursor], Any]],
        short: int,
        plain: int,
    ) -> None: ...
    def make(self, at: int, end: int) -> Any: ...  # noqa: ANN401
