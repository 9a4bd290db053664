"""Kernels written as Python functions."""
