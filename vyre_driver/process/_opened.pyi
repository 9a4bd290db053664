from os import PathLike
from types import TracebackType
from typing import final

@final
class Opened:
    is_emptied: bool
    @property
    def descriptor(self) -> int: ...
    def __init__(
        self, path: str | bytes | PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> None: ...
    def __enter__(self) -> int: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...
