"""Kernels worth tuning: on arrays they just work, with the best that the tuner found."""
