"""Emit SPIR-V from programs (docs/lowering.md)."""
