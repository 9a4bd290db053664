"""Which Vulkan layers are installed, and which of them are active, by their manifests and the loader's variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from vyre_driver.vulkan.manifests import Layer, installed_layers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two implicit layers, of which one has to be switched on, an explicit one, and a file that is no manifest."""
    for variable in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"):
        monkeypatch.setenv(variable, "/nowhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    implicit, explicit = tmp_path / "vulkan/implicit_layer.d", tmp_path / "vulkan/explicit_layer.d"
    for folder in (implicit, explicit):
        folder.mkdir(parents=True)
    always = {"name": "VK_LAYER_always", "disable_environment": {"NO_ALWAYS": "1"}}
    asked = {"name": "VK_LAYER_asked", "enable_environment": {"ASKED": "1"}, "disable_environment": {"NO_ASKED": "1"}}
    (implicit / "a.json").write_text(json.dumps({"layers": [always, asked]}), "utf-8")
    (implicit / "b.json").write_text("{", "utf-8")
    (explicit / "c.json").write_text(json.dumps({"layer": {"name": "VK_LAYER_named"}}), "utf-8")


@pytest.mark.usefixtures("_installed")
def test_layers_are_found_with_their_files(tmp_path: Path) -> None:
    implicit, explicit = (str(tmp_path / f"vulkan/{place}") for place in ("implicit_layer.d/a.json", "explicit_layer.d/c.json"))
    found = [layer for layer in installed_layers() if layer.path.startswith(str(tmp_path))]
    assert found == [
        Layer("VK_LAYER_always", "implicit", implicit, is_active=True),
        Layer("VK_LAYER_asked", "implicit", implicit, is_active=False),
        Layer("VK_LAYER_named", "explicit", explicit, is_active=False),
    ]


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("variables", "active"),
    [
        ({}, "always"),
        ({"NO_ALWAYS": ""}, ""),
        ({"ASKED": "1"}, "always asked"),
        ({"ASKED": "2"}, "always"),
        ({"ASKED": "1", "NO_ASKED": "0"}, "always"),
        ({"VK_INSTANCE_LAYERS": "VK_LAYER_named:VK_LAYER_asked"}, "always asked named"),
        ({"VK_LOADER_LAYERS_DISABLE": "~implicit~", "VK_INSTANCE_LAYERS": "VK_LAYER_named"}, "named"),
        ({"VK_LOADER_LAYERS_DISABLE": "~explicit~", "VK_INSTANCE_LAYERS": "VK_LAYER_named"}, "always"),
        ({"VK_LOADER_LAYERS_DISABLE": "~all~"}, ""),
        ({"VK_LOADER_LAYERS_DISABLE": "*ALWAYS, other"}, ""),
        ({"VK_LOADER_LAYERS_DISABLE": "*", "VK_LOADER_LAYERS_ENABLE": "*named*"}, "named"),
        ({"VK_LOADER_LAYERS_DISABLE": "*", "VK_LOADER_LAYERS_ALLOW": "*always"}, "always"),
        ({"VK_LAYER_PATH": "/nowhere", "VK_INSTANCE_LAYERS": "VK_LAYER_named"}, "always"),
    ],
    ids=str,
)
def test_the_variables_say_which_of_them_are_active(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], active: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    found = [layer for layer in installed_layers() if layer.path.startswith(str(tmp_path)) and layer.is_active]
    assert " ".join(layer.name.removeprefix("VK_LAYER_") for layer in found) == active
