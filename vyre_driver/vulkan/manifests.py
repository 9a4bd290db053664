"""The files that tell the Vulkan loader of drivers and layers, and which layers it puts into every program.

Source: the Vulkan loader's documents LoaderDriverInterface and LoaderLayerInterface.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vyre_driver import settings

DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""Each names the manifests of all drivers, in place of those that are installed."""
_LAYER_KINDS = {"implicit": "VK_IMPLICIT_LAYER_PATH", "explicit": "VK_LAYER_PATH"}


@dataclass(frozen=True, slots=True)
class Layer:
    """A Vulkan layer that is installed; ``is_active`` tells whether it is in every program of this environment."""

    name: str
    kind: str
    """``implicit`` (active unless it is switched off) or ``explicit`` (active where somebody names it)."""
    path: str
    is_active: bool


def driver_manifests() -> list[str]:
    """Return the driver manifests that the loader would look at, in its order."""
    variables = settings.foreign_variables(("VK_", "XDG_", "HOME"))
    named = next((variables[name] for name in DRIVER_VARIABLES if variables.get(name)), None)
    if named is not None:
        return _listed(named.split(os.pathsep))
    added = variables.get("VK_ADD_DRIVER_FILES", "")
    return _listed([*added.split(os.pathsep), *_folders("icd.d", variables)])


def installed_layers() -> list[Layer]:
    """Return the layers that the loader would find, implicit ones first; files that it cannot read are left out."""
    variables = settings.foreign_variables(("VK_", "XDG_", "HOME"))
    layers: dict[str, Layer] = {}
    for kind, path_variable in _LAYER_KINDS.items():
        added = variables.get(path_variable.replace("VK_", "VK_ADD_"), "").split(os.pathsep)
        places = variables.get(path_variable, "").split(os.pathsep)
        if path_variable not in variables:
            places = [*added, *_folders(f"{kind}_layer.d", variables)]
        for path in _listed(places):
            for described in _described_layers(path):
                name = str(described.get("name"))
                layers.setdefault(name, Layer(name, kind, path, _is_active(described, kind)))
    return list(layers.values())


def _folders(kind: str, variables: dict[str, str]) -> list[str]:
    """Return where manifests of a kind are installed, such as ``icd.d``."""
    home = variables.get("HOME", "/")
    bases = [
        variables.get("XDG_CONFIG_HOME") or f"{home}/.config",
        *(variables.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep),
        "/etc",
        variables.get("XDG_DATA_HOME") or f"{home}/.local/share",
        *(variables.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep),
    ]
    return [f"{base}/vulkan/{kind}" for base in bases]


def _listed(places: list[str]) -> list[str]:
    """Return files as they are named and the manifests in directories, each once."""
    files: list[str] = []
    for place in filter(None, places):
        path = Path(place)
        files += map(str, sorted(path.glob("*.json"))) if path.is_dir() else [place] if path.suffix == ".json" else []
    return list(dict.fromkeys(files))


def _described_layers(path: str) -> list[dict[str, Any]]:
    try:
        data = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return []
    layers = [*data.get("layers", ()), data.get("layer")] if isinstance(data, dict) else []
    return [layer for layer in layers if isinstance(layer, dict)]


def _is_active(described: dict[str, Any], kind: str) -> bool:
    """Whether the loader puts a layer into each instance, as far as the environment says."""
    variables = settings.foreign_variables(("",))
    name = str(described.get("name"))
    named = variables.get("VK_INSTANCE_LAYERS", "").split(":")
    if _matches(name, kind, variables.get("VK_LOADER_LAYERS_ENABLE")):
        return True
    if _matches(name, kind, variables.get("VK_LOADER_LAYERS_DISABLE")):
        return _matches(name, kind, variables.get("VK_LOADER_LAYERS_ALLOW")) and (kind == "implicit" or name in named)
    if kind == "explicit" or name in named:
        return name in named
    wanted = described.get("enable_environment") or {}
    is_enabled = all(variables.get(variable) == str(value) for variable, value in wanted.items())
    return is_enabled and not any(variable in variables for variable in described.get("disable_environment") or {})


def _matches(name: str, kind: str, filters: str | None) -> bool:
    """Whether one of some globs, separated by commas, means a layer; the loader does not look at the case of letters."""
    wanted = [pattern.strip().lower() for pattern in (filters or "").split(",")]
    return any(pattern in ("~all~", f"~{kind}~") or fnmatchcase(name.lower(), pattern) for pattern in wanted)
