"""Vulkan layers of the tests, built: one C file each, and ``layer_below.h``."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{Path(__file__).parent}")


def build_layer(source: Path, folder: Path, extensions: tuple[str, ...] = (), *, is_implicit: bool = False) -> str:
    """Build a layer in a folder, its manifest beside it; returns its name. Raises FileNotFoundError without a compiler.

    ``extensions`` are those of devices that it brings: the loader takes no others than these and the driver's own. An implicit
    layer is active wherever its folder is one of implicit layers.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("cc")
    folder.mkdir(parents=True, exist_ok=True)
    name = source.stem
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(folder / f"{name}.so")], check=True)
    layer: dict[str, object] = {"name": f"VK_LAYER_VYRE_TEST_{name}", "type": "GLOBAL", "library_path": f"./{name}.so"}
    layer |= {"api_version": "1.3.0", "implementation_version": "1", "description": f"{source.name} of the tests"}
    layer |= {"disable_environment": {"VYRE_TEST_NO_LAYERS": "1"}} if is_implicit else {}
    brought = [{"name": one, "spec_version": "1", "entrypoints": []} for one in extensions]
    told = {"file_format_version": "1.2.0", "layer": layer | ({"device_extensions": brought} if brought else {})}
    (folder / f"{name}.json").write_text(json.dumps(told), "utf-8")
    return str(layer["name"])
