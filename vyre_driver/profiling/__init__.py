"""What drivers did over time: recorded, written as trace events, summarised and drawn (docs/profiling.md)."""
