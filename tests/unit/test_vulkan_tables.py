"""What the build takes from Vulkan's registry."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
import vulkan_tables
from vulkan_tables import feature_structure

from vyre_driver.spirv.opcodes import FEATURE_OF_CAPABILITY, capability_name
from vyre_driver.vulkan.features import ORIGINS

if TYPE_CHECKING:
    from pathlib import Path

    from vulkan_object import VulkanObject


@pytest.fixture(scope="module")
def vk() -> VulkanObject:
    """Vulkan's registry."""
    registry: VulkanObject = pytest.importorskip("vulkan_object").get_vulkan_object()
    return registry


def test_each_capability_of_the_registry_needs_the_feature_that_it_names(vk: VulkanObject) -> None:
    named = {spirv.name: {state.feature for state in spirv.enable} for spirv in vk.spirv if spirv.capability}
    ours = {capability_name(capability): feature for capability, feature in FEATURE_OF_CAPABILITY.items()}
    known = ours.keys() & named.keys()
    assert len(known) > 30
    assert {name: ours[name] for name in known if ours[name] not in named[name]} == {}


def test_each_feature_that_a_capability_needs_is_known() -> None:
    assert set(FEATURE_OF_CAPABILITY.values()) - ORIGINS.keys() == set()


def test_a_feature_that_its_extension_does_not_have_ends_the_build(vk: VulkanObject) -> None:
    with pytest.raises(SystemExit) as caught:
        feature_structure(vk, "VK_EXT_shader_float8", ["shaderFloat8", "shaderFloat4"])
    assert str(caught.value) == (
        "no structure of VK_EXT_shader_float8 has shaderFloat8, shaderFloat4. Fix: correct vyre_driver/vulkan/features.py."
    )


def test_a_header_that_is_up_to_date_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = tmp_path / "vulkan_tables.h"
    monkeypatch.setattr(sys, "argv", ["vulkan_tables.py", str(header)])
    vulkan_tables.main()
    text = header.read_text("utf-8")
    os.utime(header, (1, 1))
    vulkan_tables.main()
    left = header.stat().st_mtime
    header.write_text(text.replace("vulkan-object", "other", 1), "utf-8")
    vulkan_tables.main()
    assert (left, header.read_text("utf-8")) == (1, text)
