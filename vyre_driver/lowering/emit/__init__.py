"""Emit SPIR-V from programs (docs/lowering.md)."""

from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.specialized import spec_constants
from vyre_driver.lowering.emit.target import EMITTER_VERSION, EmittedModule, LoweringTarget

__all__ = ["EMITTER_VERSION", "EmittedModule", "LoweringTarget", "emit", "spec_constants"]
