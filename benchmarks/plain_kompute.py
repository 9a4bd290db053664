"""kompute without anything of ours, to compare with: the installed ``kp``, or else the one that vyre_driver bundles."""

from __future__ import annotations

from typing import Any


def plain_kompute() -> Any:
    """Import it; its ``__name__`` tells which one it is."""
    try:
        import kp
    except ModuleNotFoundError:
        from vyre_driver.kompute.bundled import kp
    return kp
