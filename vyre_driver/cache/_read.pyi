from os import PathLike
from types import TracebackType
from typing import TypeAlias, final, overload

DirectoryFacts: TypeAlias = tuple[int, int, int, int, int]
FileFacts: TypeAlias = tuple[int, int, int, int, int, int]
Found: TypeAlias = tuple[int, int, DirectoryFacts | None, int, DirectoryFacts | None, FileFacts | None, bytes | None]

class Judged:
    def __init__(self, facts: DirectoryFacts, reader: int, forbidden: int) -> None: ...

@final
class Opened:
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

@overload
def read_entry(root: bytes, place: str, limit: int, settled_ns: int, judged: None = None, touch_after_ns: int = 0) -> Found: ...
@overload
def read_entry(
    root: bytes, place: str, limit: int, settled_ns: int, judged: Judged | None, touch_after_ns: int
) -> bytes | Found: ...
