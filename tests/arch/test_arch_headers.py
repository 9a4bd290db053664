"""What the C header declares of newer Vulkan: alone where the installed headers are old, and equal to theirs where not."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Compile = Callable[..., str]

# The names that newer_vulkan.h takes from vulkan.h, and no others.
BASE = """
#include <stdint.h>
#define VKAPI_PTR
typedef enum { VK_STRUCTURE_TYPE_MAX_ENUM = 0x7FFFFFFF } VkStructureType;
typedef int32_t VkResult;
typedef uint32_t VkBool32;
typedef uint32_t VkShaderStageFlags;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
"""
# Extension -> (structure, its number's name, its number, its members): as the specification has them.
FEATURES, PROPERTIES = (
    "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_{}_FEATURES_KHR",
    "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_{}_PROPERTIES_KHR",
)
NEWER = {
    "VK_KHR_cooperative_matrix": [
        (
            "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
            FEATURES.format("COOPERATIVE_MATRIX"),
            1000506000,
            ["cooperativeMatrix", "cooperativeMatrixRobustBufferAccess"],
        ),
        (
            "VkPhysicalDeviceCooperativeMatrixPropertiesKHR",
            PROPERTIES.format("COOPERATIVE_MATRIX"),
            1000506002,
            ["cooperativeMatrixSupportedStages"],
        ),
        (
            "VkCooperativeMatrixPropertiesKHR",
            "VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR",
            1000506001,
            ["MSize", "NSize", "KSize", "AType", "BType", "CType", "ResultType", "saturatingAccumulation", "scope"],
        ),
    ],
    "VK_KHR_pipeline_binary": [
        (
            "VkPhysicalDevicePipelineBinaryFeaturesKHR",
            FEATURES.format("PIPELINE_BINARY"),
            1000483000,
            ["pipelineBinaries"],
        ),
        (
            "VkPhysicalDevicePipelineBinaryPropertiesKHR",
            PROPERTIES.format("PIPELINE_BINARY"),
            1000483004,
            [
                "pipelineBinaryInternalCache",
                "pipelineBinaryInternalCacheControl",
                "pipelineBinaryPrefersInternalCache",
                "pipelineBinaryPrecompiledInternalCache",
                "pipelineBinaryCompressedData",
            ],
        ),
    ],
    "VK_KHR_shader_bfloat16": [
        (
            "VkPhysicalDeviceShaderBfloat16FeaturesKHR",
            FEATURES.format("SHADER_BFLOAT16"),
            1000141000,
            ["shaderBFloat16Type", "shaderBFloat16DotProduct", "shaderBFloat16CooperativeMatrix"],
        )
    ],
    "VK_EXT_shader_float8": [
        (
            "VkPhysicalDeviceShaderFloat8FeaturesEXT",
            "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT8_FEATURES_EXT",
            1000567000,
            ["shaderFloat8", "shaderFloat8CooperativeMatrix"],
        )
    ],
    "VK_NV_cooperative_matrix2": [
        (
            "VkPhysicalDeviceCooperativeMatrix2FeaturesNV",
            "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV",
            1000593000,
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
        (
            "VkPhysicalDeviceCooperativeMatrix2PropertiesNV",
            "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV",
            1000593002,
            [
                "cooperativeMatrixWorkgroupScopeMaxWorkgroupSize",
                "cooperativeMatrixFlexibleDimensionsMaxDimension",
                "cooperativeMatrixWorkgroupScopeReservedSharedMemory",
            ],
        ),
        (
            "VkCooperativeMatrixFlexibleDimensionsPropertiesNV",
            "VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV",
            1000593001,
            [
                *["MGranularity", "NGranularity", "KGranularity", "AType", "BType", "CType", "ResultType"],
                *["saturatingAccumulation", "scope", "workgroupInvocations"],
            ],
        ),
    ],
}
STRUCTURES = [(extension, structure[0]) for extension, structures in NEWER.items() for structure in structures]


def headers(extension: str | None = None, wrong: str = "", how: str = "") -> str:
    """Text of a vulkan.h with one extension or none; one of its structures may be ``wrong``."""
    text = BASE
    if extension is not None:
        text += f"#define {extension} 1\n"
        for name, number_name, number, members in NEWER[extension]:
            broken = how if name == wrong else ""
            told = {"": members, "longer": ["other", *members], "renumbered": members}[broken]
            text += f"#define {number_name} ((VkStructureType){number + (broken == 'renumbered')})\n"
            text += f"typedef struct {{ VkStructureType sType; void *pNext; uint32_t {', '.join(told)}; }} {name};\n"
    return text


@pytest.fixture
def compile_header(root: Path, tmp_path: Path) -> Compile:
    """Compile newer_vulkan.h with this text as vulkan.h, or with the installed one; returns the compiler's complaints."""
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
        header = root / "vyre_driver" / "vulkan" / "newer_vulkan.h"
        done = subprocess.run([*command, "-include", str(header), "/dev/null"], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is (done.stderr == "")
        return done.stderr

    return compile_with


def test_the_header_stands_beside_the_installed_ones(compile_header: Compile) -> None:
    assert compile_header() == ""


@pytest.mark.parametrize("extension", [None, *NEWER])
def test_the_header_agrees_with_newer_ones(compile_header: Compile, extension: str | None) -> None:
    assert compile_header(headers(extension)) == ""


@pytest.mark.parametrize("how", ["longer", "renumbered"])
@pytest.mark.parametrize(("extension", "structure"), STRUCTURES)
def test_a_difference_from_newer_headers_ends_the_build(
    compile_header: Compile, extension: str, structure: str, how: str
) -> None:
    complaints = compile_header(headers(extension, structure, how))
    said = {
        "longer": rf"differs from {structure} (in size|at )",
        "renumbered": rf"differs from {structure} in its number",
    }
    assert re.search(said[how], complaints)
