"""Taichi on its Vulkan backend, and how arrays come to it: for benchmarks.gallery_taichi.

Taichi reads the types of a kernel from its annotations: modules with kernels have none as strings.
"""

import os

import numpy as np
import taichi as ti  # type: ignore[import-not-found] # where it is installed

os.environ["TI_SKIP_VERSION_CHECK"] = "ON"  # which asks a server, on a thread beside what is timed
# Kernels are compiled anew in each process, before anything is timed.
ti.init(arch=ti.vulkan, offline_cache=False, log_level=ti.ERROR)
if ti.lang.impl.current_cfg().arch != ti.vulkan:
    raise NotImplementedError("Taichi finds no Vulkan device, and fell back to the processor")

FLOATS = ti.types.ndarray(dtype=ti.f32, ndim=1)
GRID = ti.types.ndarray(dtype=ti.f32, ndim=2)
INTEGERS = ti.types.ndarray(dtype=ti.i32, ndim=1)
WORDS = ti.types.ndarray(dtype=ti.u32, ndim=1)
TYPES = {"float32": ti.f32, "int32": ti.i32, "uint32": ti.u32, "uint8": ti.u8}


def upload(array):
    there = ti.ndarray(TYPES[array.dtype.name], array.shape)
    there.from_numpy(array)
    return there


def write(there, array):
    there.from_numpy(array)


def download(there):
    return there.to_numpy()


wait = ti.sync


def on_device(dtype, shape):
    return ti.ndarray(dtype, shape)


def on_host(dtype, shape):
    return np.empty(shape, np.int32 if dtype == ti.i32 else np.float32)
