"""The shaders that come with this package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from vyre_driver.spirv.module import SpirvModule


@cache
def shipped_names() -> tuple[str, ...]:
    """Return the names that ``shipped_module`` takes, in order."""
    names = [one.name for one in files("vyre_driver.shaders").iterdir()]
    return tuple(sorted(one.removesuffix(".spv") for one in names if one.endswith(".spv")))


@cache
def shipped_module(name: str) -> SpirvModule:
    """Return the shader ``name`` of ``vyre_driver.shaders``, for example ``saxpy``; an unknown one raises FileNotFoundError."""
    return SpirvModule.from_bytes(files("vyre_driver.shaders").joinpath(f"{name}.spv").read_bytes(), name=f"{name}.spv")
