from types import CellType, CodeType, FunctionType

def is_set(name: bytes) -> bool: ...

class Watch:
    def __init__(
        self,
        names: tuple[tuple[dict[str, object], str, object], ...],
        absent: tuple[tuple[dict[str, object], str], ...],
        cells: tuple[tuple[CellType, object], ...],
        functions: tuple[tuple[FunctionType, CodeType, object, object], ...],
    ) -> None: ...
    def is_untouched(self) -> bool: ...
