"""Search spaces and the search for the best candidate: pure functions, deterministic for the same timings."""
