"""The layer weak.c, built, and the environment that puts it below ours."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

NAME = "VK_LAYER_VYRE_TEST_weak"
SOURCE = Path(__file__).with_name("weak.c")


def weak_environment(folder: Path) -> dict[str, str]:
    """Build the layer in a folder; returns the variables that switch it on. Raises FileNotFoundError without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("cc")
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(folder / "weak.so")], check=True)
    layer = {"name": NAME, "type": "GLOBAL", "library_path": "./weak.so", "api_version": "1.3.0"}
    layer |= {"implementation_version": "1", "description": "a device as weak as many are"}
    (folder / "weak.json").write_text(json.dumps({"file_format_version": "1.2.0", "layer": layer}), "utf-8")
    return {"VK_LAYER_PATH": f"{folder}:/usr/share/vulkan/explicit_layer.d", "VK_INSTANCE_LAYERS": NAME}
