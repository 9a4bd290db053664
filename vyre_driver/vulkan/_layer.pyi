from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

_Made = TypeVar("_Made")

LAYER_NAME: str
COUNTERS: tuple[str, ...]
CALLS: tuple[str, ...]
HOOKS: tuple[str, ...]

class Failure(NamedTuple):
    call: str
    result: int
    bytes: int

class PipelineFacts(NamedTuple):
    created: bool
    shared: bool
    cache_hit: bool | None
    compile_ns: int
    blob: bytes | None

class LayerConfig:
    def __init__(
        self,
        *,
        hooks: Iterable[str],
        api_version: int,
        device_uuid: bytes,
        features: Iterable[str],
        extensions: Iterable[str],
        poll_ns: int,
        memory_cache_bytes: int,
    ) -> None: ...

class LayerDevice:
    @property
    def device_uuid(self) -> bytes: ...
    @property
    def is_lost(self) -> bool: ...
    @property
    def is_alive(self) -> bool: ...
    def counters(self) -> dict[str, int]: ...
    def trim(self, keep_bytes: int = 0) -> None: ...

class Work:
    def __init__(self, device: LayerDevice, evaluate: Callable[[], Any]) -> None: ...
    @property
    def is_pending(self) -> bool: ...
    def submit(self) -> bool: ...
    def wait(self, timeout_ns: int | None = None) -> int: ...

def arm(config: LayerConfig) -> None: ...
def disarm() -> LayerDevice | None: ...
def take_failure() -> Failure | None: ...
def set_group(group: int) -> None: ...
def set_exact_bytes(byte_len: int) -> None: ...
def leak(thing: object) -> None: ...
def inject(call: str, nth: int, result: int) -> None: ...
def create_pipeline(make: Callable[[], _Made], blob: bytes | None, want_blob: bool) -> tuple[_Made, PipelineFacts]: ...
