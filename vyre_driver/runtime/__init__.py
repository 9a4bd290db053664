"""Compiled kernels: called, bound to resident buffers, batched; and the pipelines and memory that they keep."""
