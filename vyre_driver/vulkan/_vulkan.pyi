from typing import Any

class LoaderMissing(OSError): ...

class InstanceFailed(OSError):
    call: str
    result: int

def probe() -> tuple[int, list[dict[str, Any]]]: ...
