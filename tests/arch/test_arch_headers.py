"""The header that the build makes of Vulkan's registry: alone where the installed headers are old, and beside newer ones."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from vulkan_tables import STRUCTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Compile = Callable[..., str]

# What the header takes from vulkan.h, and nothing else.
BASE = """
#include <stdint.h>
typedef enum { VK_STRUCTURE_TYPE_MAX_ENUM = 0x7FFFFFFF } VkStructureType;
typedef uint32_t VkBool32;
typedef uint32_t VkShaderStageFlags;
typedef struct VkBaseOutStructure { VkStructureType sType; struct VkBaseOutStructure *pNext; } VkBaseOutStructure;
"""
# Extension -> its structure of features, and the members: as the specification has them.
FEATURES = {
    "VK_KHR_cooperative_matrix": (
        "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
        ["cooperativeMatrix", "cooperativeMatrixRobustBufferAccess"],
    ),
    "VK_KHR_pipeline_binary": ("VkPhysicalDevicePipelineBinaryFeaturesKHR", ["pipelineBinaries"]),
    "VK_KHR_shader_bfloat16": (
        "VkPhysicalDeviceShaderBfloat16FeaturesKHR",
        ["shaderBFloat16Type", "shaderBFloat16DotProduct", "shaderBFloat16CooperativeMatrix"],
    ),
    "VK_EXT_shader_float8": (
        "VkPhysicalDeviceShaderFloat8FeaturesEXT",
        ["shaderFloat8", "shaderFloat8CooperativeMatrix"],
    ),
    "VK_NV_cooperative_matrix2": (
        "VkPhysicalDeviceCooperativeMatrix2FeaturesNV",
        [
            "cooperativeMatrixWorkgroupScope",
            "cooperativeMatrixFlexibleDimensions",
            "cooperativeMatrixReductions",
            "cooperativeMatrixConversions",
            "cooperativeMatrixPerElementOperations",
            "cooperativeMatrixTensorAddressing",
            "cooperativeMatrixBlockLoads",
        ],
    ),
}


@pytest.fixture
def tables(root: Path) -> Path:
    """The header, as the latest build has made it."""
    header = root / "build/vulkan/vulkan_tables.h"
    if not header.exists():
        pytest.skip("nothing was built here")
    return header


@pytest.fixture
def compile_header(tables: Path, tmp_path: Path) -> Compile:
    """Compile the header with this text as vulkan.h, or with the installed one; returns the compiler's complaints."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")

    def compile_with(vulkan_h: str | None = None) -> str:
        including = []
        if vulkan_h is not None:
            (tmp_path / "vulkan").mkdir()
            (tmp_path / "vulkan" / "vulkan.h").write_text(vulkan_h)
            including = ["-I", str(tmp_path)]
        command = [compiler, "-fsyntax-only", "-Wall", "-Wextra", *including, "-x", "c"]
        done = subprocess.run([*command, "-include", str(tables), "/dev/null"], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is (done.stderr == "")
        return done.stderr

    return compile_with


def newer_headers(tables: Path, extension: str, members: list[str]) -> str:
    """Text of a vulkan.h that has an extension, whose structure of features has these members."""
    declared = re.search(rf"#ifndef {extension}\n(.*?)#endif", tables.read_text("utf-8"), re.DOTALL)
    structure = (
        f"typedef struct {{ VkStructureType sType; void *pNext; VkBool32 {', '.join(members)}; }} {FEATURES[extension][0]};"
    )
    return f"{BASE}\n#define {extension} 1\n{declared[1] if declared else ''}\n{structure}\n"


def test_the_header_stands_beside_the_installed_ones(compile_header: Compile) -> None:
    assert compile_header() == ""


def test_the_header_declares_what_old_headers_lack(compile_header: Compile) -> None:
    names = [name for declared in STRUCTURES.values() for name in declared]
    assert compile_header(BASE + "".join(f"struct {name};\n" for name in names)) == ""


@pytest.mark.parametrize("extension", FEATURES)
def test_the_header_leaves_declarations_to_newer_headers(compile_header: Compile, tables: Path, extension: str) -> None:
    assert compile_header(newer_headers(tables, extension, FEATURES[extension][1])) == ""


@pytest.mark.parametrize("extension", FEATURES)
def test_a_difference_from_newer_headers_ends_the_build(compile_header: Compile, tables: Path, extension: str) -> None:
    members = FEATURES[extension][1]
    complaints = compile_header(newer_headers(tables, extension, ["other", *members]))
    assert set(re.findall(r"the headers have (\w+) in another place than the registry", complaints)) == set(members)
