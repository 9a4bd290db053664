"""Calls of kernels: arguments matched and checked, extents, and the compiled programs of each form of call."""
