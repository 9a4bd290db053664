SHAPES: dict[str, tuple[int, ...]]
DECLARING: tuple[int, ...]
ANYWHERE: tuple[int, ...]
TERMINATING: tuple[int, ...]
FAULTS: tuple[str, ...]

def check(code: bytes) -> tuple[int, int, int]: ...
