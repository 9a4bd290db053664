"""Kernels on cooperative matrices (tensor cores), emitted as SPIR-V from a description: no compiler, sizes are plain Python.

``product`` emits matrix products and convolutions, ``parts`` what adds up the parts of their k, ``attention`` attention. What
a device multiplies is in ``PhysicalDevice.cooperative_matrices``.
"""
