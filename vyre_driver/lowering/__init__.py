"""Lower programs of the IR to SPIR-V: plan, specialize, and emit code that no cache has (docs/lowering.md)."""
