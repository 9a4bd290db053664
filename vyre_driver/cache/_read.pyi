from typing import TypeAlias

DirectoryFacts: TypeAlias = tuple[int, int, int, int, int]
FileFacts: TypeAlias = tuple[int, int, int, int, int, int]

def read_entry(
    root: bytes, place: str, limit: int, settled_ns: int
) -> tuple[int, int, DirectoryFacts | None, int, DirectoryFacts | None, FileFacts | None, bytes | None]: ...
