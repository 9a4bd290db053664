"""Emit SPIR-V from programs (docs/lowering.md)."""

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit.specialized import spec_constants
from vyre_driver.lowering.emit.target import EMITTER_VERSION, EmittedModule, LoweringTarget

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.entry import emit

__all__ = ["EMITTER_VERSION", "EmittedModule", "LoweringTarget", "emit", "spec_constants"]


def __getattr__(name: str) -> object:
    """Import the emitter itself when it is asked for: a program whose code is in a cache needs the rest only."""
    if name != "emit":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vyre_driver.lowering.emit.entry import emit

    return emit


def __dir__() -> list[str]:
    """Name the late one too."""
    return sorted({*globals(), *__all__})
