"""Vulkan layers of the tests, built: one C file each, and ``layer_below.h``."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{Path(__file__).parent}")


def build_layer(source: Path, folder: Path, extensions: tuple[str, ...] = ()) -> str:
    """Build a layer in a folder, its manifest beside it; returns its name. Raises FileNotFoundError without a compiler.

    ``extensions`` are those of devices that it brings: the loader takes no others than these and the driver's own.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("cc")
    folder.mkdir(parents=True, exist_ok=True)
    name = source.stem
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(folder / f"{name}.so")], check=True)
    layer = {"name": f"VK_LAYER_VYRE_TEST_{name}", "type": "GLOBAL", "library_path": f"./{name}.so", "api_version": "1.3.0"}
    layer |= {"implementation_version": "1", "description": f"{source.name} of the tests"}
    brought = [{"name": one, "spec_version": "1", "entrypoints": []} for one in extensions]
    told = {"file_format_version": "1.2.0", "layer": layer | ({"device_extensions": brought} if brought else {})}
    (folder / f"{name}.json").write_text(json.dumps(told), "utf-8")
    return layer["name"]
