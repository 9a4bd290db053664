"""The layers weak.c and pipelines.c, built, and the environments that put one of them below ours."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

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
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("cc")
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, str(HERE / f"{name}.c"), "-o", str(folder / f"{name}.so")], check=True)
    layer = {"name": f"VK_LAYER_VYRE_TEST_{name}", "type": "GLOBAL", "library_path": f"./{name}.so", "api_version": "1.3.0"}
    layer |= {"implementation_version": "1", "description": f"tests/vendors/{name}.c"}
    (folder / f"{name}.json").write_text(json.dumps({"file_format_version": "1.2.0", "layer": layer}), "utf-8")
    return {"VK_LAYER_PATH": f"{folder}:{EXPLICIT}", "VK_INSTANCE_LAYERS": layer["name"]}
