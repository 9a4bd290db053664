"""Programs of the IR on their way to SPIR-V: planned, specialized, lowered when no cache has their code (docs/lowering.md)."""
