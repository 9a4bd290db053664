from collections.abc import Iterable

def least_operands(opcode: int) -> int: ...
def functions(module: bytes, start: int) -> set[int]: ...
def function_uses(module: bytes, start: int, wanted: Iterable[int]) -> dict[int, set[int]]: ...

class Tables:
    capabilities: list[int]
    extensions: list[str]
    entry_points: list[tuple[int, int, str]]
    modes: list[tuple[int, int, tuple[int, ...]]]
    variables: list[tuple[int, int, int]]
    languages: list[int]
    memory_model: tuple[int, int]
    names: dict[int, str]
    member_names: dict[tuple[int, int], str]
    decorations: dict[int, dict[int, tuple[int, ...]]]
    member_decorations: dict[tuple[int, int], dict[int, tuple[int, ...]]]
    types: dict[int, tuple[int, tuple[int, ...]]]
    constants: dict[int, tuple[int, int, tuple[int, ...]]]
    def read(self, module: bytes, stop: int) -> tuple[int, int, int, int]: ...
