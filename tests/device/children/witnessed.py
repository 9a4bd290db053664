"""The witness layer, built and put below ours, and what it has written down."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from made_layers import build_layer


def witness_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build the layer in a new folder and switch it on; returns the file that it writes to. Skips without a compiler."""
    try:
        name = build_layer(Path(__file__).with_name("witness.c"), folder)
    except FileNotFoundError as error:
        pytest.skip(f"not installed: {error}")
    for variable, first in (("VK_LAYER_PATH", str(folder)), ("VK_INSTANCE_LAYERS", name)):
        monkeypatch.setenv(variable, os.pathsep.join([first, *filter(None, [os.environ.get(variable)])]))
    monkeypatch.setenv("WITNESS", str(folder / "seen"))
    return folder / "seen"


def seen(witness: Path) -> list[bytes]:
    """The initial data of what was compiled with since the last call, in order: not kompute's cache beside one with a blob."""
    data, found = witness.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<Q", data)
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    witness.unlink()
    return [one for one, after in zip(found, [*found[1:], b""], strict=True) if one or not after]
