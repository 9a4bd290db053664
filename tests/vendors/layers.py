"""The layers weak.c and pipelines.c, built, and the environments that put one of them below ours."""

from __future__ import annotations

from pathlib import Path

from made_layers import build_layer

HERE = Path(__file__).parent
EXPLICIT = "/usr/share/vulkan/explicit_layer.d"


def weak_environment(folder: Path) -> dict[str, str]:
    """The variables for a device as weak as many are. Raises FileNotFoundError without a compiler."""
    return _environment(folder, "weak")


def pipelines_environment(folder: Path) -> dict[str, str]:
    """The variables for pipelines without memory; PIPELINES_LIBRARY is what ``compiled.py`` loads to make them.

    Raises FileNotFoundError without a compiler.
    """
    return _environment(folder, "pipelines") | {"PIPELINES_LIBRARY": str(folder / "pipelines.so")}


def _environment(folder: Path, name: str) -> dict[str, str]:
    return {"VK_LAYER_PATH": f"{folder}:{EXPLICIT}", "VK_INSTANCE_LAYERS": build_layer(HERE / f"{name}.c", folder)}
