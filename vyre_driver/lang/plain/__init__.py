"""Kernels' numbers as scalars of numpy: what plain Python computes with when a kernel runs without a device."""
