from typing import TypeAlias, overload

DirectoryFacts: TypeAlias = tuple[int, int, int, int, int]
FileFacts: TypeAlias = tuple[int, int, int, int, int, int]
Found: TypeAlias = tuple[int, int, DirectoryFacts | None, int, DirectoryFacts | None, FileFacts | None, bytes | None]

class Judged:
    def __init__(self, facts: DirectoryFacts, reader: int, forbidden: int) -> None: ...

@overload
def read_entry(root: bytes, place: str, limit: int, settled_ns: int, judged: None = None, touch_after_ns: int = 0) -> Found: ...
@overload
def read_entry(
    root: bytes, place: str, limit: int, settled_ns: int, judged: Judged | None, touch_after_ns: int
) -> bytes | Found: ...
