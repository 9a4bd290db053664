"""The witness layer, built and put below ours, and what it has written down."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

NAME = "VK_LAYER_VYRE_TEST_witness"


def witness_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build the layer in a new folder and switch it on; returns the file that it writes to. Skips without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")
    folder.mkdir()
    source = Path(__file__).with_name("witness.c")
    subprocess.run([str(compiler), "-shared", "-fPIC", "-O1", str(source), "-o", str(folder / "witness.so")], check=True)
    layer = {"name": NAME, "type": "GLOBAL", "library_path": "./witness.so", "api_version": "1.3.0"}
    layer |= {"implementation_version": "1", "description": "a witness"}
    (folder / "witness.json").write_text(json.dumps({"file_format_version": "1.2.0", "layer": layer}), "utf-8")
    for variable, first in (("VK_LAYER_PATH", str(folder)), ("VK_INSTANCE_LAYERS", NAME)):
        monkeypatch.setenv(variable, os.pathsep.join([first, *filter(None, [os.environ.get(variable)])]))
    monkeypatch.setenv("WITNESS", str(folder / "seen"))
    return folder / "seen"


def seen(witness: Path) -> list[bytes]:
    """The initial data of each pipeline cache since the last call, in order."""
    data, found = witness.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<Q", data)
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    witness.unlink()
    return found
