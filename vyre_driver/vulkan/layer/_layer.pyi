from collections.abc import Callable, Iterable
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from vyre_driver.process._lock import CallLock

_Made = TypeVar("_Made")
_Given = TypeVar("_Given")

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
    def wait_for_submitted(self, timeout_ns: int | None = None) -> Failure | None: ...
    def wait_idle(self) -> int: ...
    def trim(self, keep_bytes: int = 0) -> None: ...

class Reservation: ...

class MemoryCount:
    @property
    def allocated(self) -> int: ...
    def reserve(self, byte_len: int, limit: int) -> Reservation | None: ...

class Work:
    def __init__(self, device: LayerDevice, evaluate: Callable[[], Any], manager: object) -> None: ...
    @property
    def is_pending(self) -> bool: ...
    def submit(self) -> Failure | None: ...
    def wait(self, timeout_ns: int | None = None) -> int: ...

# (from, offset there, to, offset there, bytes), or (None, word, to, offset there, bytes)
Region: TypeAlias = tuple[int | None, int, int, int, int]

class Transfer:
    def __init__(
        self, device: LayerDevice, regions: Iterable[Region], keep: object = None, device_only: bool = False
    ) -> None: ...
    @property
    def is_pending(self) -> bool: ...
    def submit(self) -> Failure | None: ...
    def wait(self, timeout_ns: int | None = None) -> int: ...

class Bound: ...

class Dispatch:
    @property
    def is_pending(self) -> bool: ...
    def submit(self) -> Failure | None: ...
    def wait(self, timeout_ns: int | None = None) -> int: ...

def record_dispatch(
    device: LayerDevice,
    bound: Bound,
    groups: tuple[int, int, int],
    push: bytes,
    copies: tuple[Iterable[Region], Iterable[Region]] | None,
    device_only: bool,
    keep: object,
) -> Dispatch | Failure: ...

class Hold:
    def __init__(self, lock: Lock | CallLock, timeout_s: float, refusal: Callable[[], BaseException] | None = None) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class DeviceUse:
    def __init__(self, layer: LayerDevice | None, check: Callable[[], None]) -> None: ...
    def check_usable(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def is_mine(self) -> bool: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...

def open_under_layer(
    config: LayerConfig,
    path_variable: bytes | None,
    directory: bytes | None,
    create: Callable[..., _Made],
    arguments: tuple[Any, ...],
) -> tuple[_Made, LayerDevice | None]: ...
def call_and_note(
    call: Callable[[_Given], _Made], argument: _Given
) -> tuple[_Made, RuntimeError | None, Failure | None]: ...  # _Made only without an error
def record(sequence: object, groups: Iterable[Iterable[object]], device_only: bool) -> None: ...
def create_buffer(
    device: LayerDevice | None, make: Callable[..., _Made], arguments: tuple[Any, ...], byte_len: int, want_mapping: bool
) -> tuple[_Made, memoryview | None, tuple[int, int]]: ...
def environment_variable(name: bytes) -> bytes | None: ...
def wait_to_fork() -> None: ...
def leak(thing: object) -> None: ...
def inject(call: str, nth: int, result: int) -> None: ...
def create_pipeline(
    device: LayerDevice | None,
    make: Callable[..., _Made],
    arguments: tuple[Any, ...],
    blob: bytes | None,
    ranges: Iterable[tuple[int, int]] | None = None,
) -> tuple[_Made, PipelineFacts, Bound]: ...
