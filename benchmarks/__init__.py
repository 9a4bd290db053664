"""Benchmarks: ``python -m benchmarks.NAME --json`` prints medians, each beside what it is compared with in the same run."""
