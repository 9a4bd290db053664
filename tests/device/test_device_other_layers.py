"""Other people's layers, of which one refuses what kompute does not check: an error that names them, and no abort."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from made_layers import build_layer

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

OPEN = """
from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed
try:
    Driver().close()
except DispatchFailed as error:
    print(error)
else:
    print("opened")
"""
NAME = "VK_LAYER_VYRE_TEST_refusing"


def refusing_layer(children: Path, data: Path, kind: str) -> dict[str, str]:
    """Install the layer for one user; returns the variables with which it is active."""
    if shutil.which("cc") is None:
        pytest.skip("not installed: cc")
    build_layer(children / "refusing.c", data / f"vulkan/{kind}_layer.d", is_implicit=kind == "implicit")
    return {"XDG_DATA_HOME": str(data)} | ({"VK_INSTANCE_LAYERS": NAME} if kind == "explicit" else {})


@pytest.mark.parametrize(
    ("kind", "call"),
    [("implicit", "vkCreateDevice"), ("implicit", "vkCreateInstance"), ("explicit", "vkCreateDevice")],
)
def test_a_layer_that_refuses_a_device_is_named(  # noqa: PLR0913 -- four fixtures and a row of the table
    run_forked: RunChild, children: Path, tmp_path: Path, physical_device: PhysicalDevice, kind: str, call: str
) -> None:
    env = refusing_layer(children, tmp_path / "data", kind)
    done = run_forked("-c", OPEN, env=env | {"REFUSED": call})
    error = (
        f"kompute cannot open {physical_device.name!r} ({call} returned -3); other Vulkan layers are active, which may have "
        f"refused it: {NAME}. Fix: switch off the layer at fault: vyre-driver doctor lists all, and tries it without them "
        "(VK_LOADER_LAYERS_DISABLE=~implicit~, and no VK_INSTANCE_LAYERS).\n"
    )
    ours = re.sub(rf"(?<=refused it: )[\w, ]*\b{NAME}\b[\w, ]*", NAME, done.stdout)  # others may be installed here
    assert (done.status, ours) == (0, error), done.stderr


@pytest.mark.parametrize("switch", [{"REFUSED": ""}, {"VK_LOADER_LAYERS_DISABLE": "~implicit~"}, {"VYRE_TEST_NO_LAYERS": "1"}])
def test_without_the_layer_that_refuses_it_the_device_opens(
    run_forked: RunChild, children: Path, tmp_path: Path, switch: dict[str, str]
) -> None:
    env = refusing_layer(children, tmp_path / "data", "implicit") | {"REFUSED": "vkCreateDevice"}
    done = run_forked("-c", OPEN, env=env | switch)
    assert (done.status, done.stdout) == (0, "opened\n"), done.stderr
