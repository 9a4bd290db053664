from collections.abc import Iterable, Sequence

class Grammar:
    def __init__(
        self,
        terms: Iterable[tuple[bool, int, Sequence[int]]],
        tables: Sequence[Iterable[int]],
        data_types: Iterable[tuple[int, int, int, bool]],
        scales: int,
        zero_points: int,
    ) -> None: ...

class Walk:
    def __init__(self, grammar: Grammar, data: bytes, limits: Sequence[int]) -> None: ...
    def check(self, at: int, end: int) -> tuple[int, int, int, int, int]: ...
    def terms(self, at: int, end: int) -> bytes: ...
