#!/usr/bin/env python3
"""Write the C header with what the build needs of Vulkan's registry: ``vulkan_tables.py HEADER``.

It has the place of each feature of ``vyre_driver/vulkan/features.py`` in its structure, and structures for which the installed
headers may be too old. Where those have them, theirs are taken, and the compiler checks the places of features against them.
A header that is up to date is left alone.
"""

from __future__ import annotations

import hashlib
import runpy
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vulkan_object import Struct, VulkanObject

ROOT = Path(__file__).resolve().parents[1]
FEATURES = ROOT / "vyre_driver/vulkan/features.py"
# Structures of extensions that Vulkan 1.3.239 lacks, the oldest headers that the package builds with (Debian 12).
STRUCTURES = {
    "VK_KHR_cooperative_matrix": ("VkPhysicalDeviceCooperativeMatrixPropertiesKHR", "VkCooperativeMatrixPropertiesKHR"),
    "VK_KHR_pipeline_binary": ("VkPhysicalDevicePipelineBinaryPropertiesKHR",),
    "VK_NV_cooperative_matrix2": (
        "VkPhysicalDeviceCooperativeMatrix2PropertiesNV",
        "VkCooperativeMatrixFlexibleDimensionsPropertiesNV",
    ),
}
HEADER = """\
/* Made by scripts/vulkan_tables.py from Vulkan's registry: {made_of} */
#ifndef VYRE_VULKAN_TABLES_H
#define VYRE_VULKAN_TABLES_H

#include <stddef.h>
#include <vulkan/vulkan.h>

{structures}
/* X(sType, the version of Vulkan that has the structure or 0 for an extension's); the first is VkPhysicalDeviceFeatures. */
#define VYRE_FEATURE_STRUCTURES(X) \\
{feature_structures}

/* X(feature, its structure's index, its index among the members behind pNext) */
#define VYRE_FEATURES(X) \\
{features}

#define VYRE_FEATURE_MEMBERS {most_members} /* of the largest of these structures */

#define VYRE_PLACE(structure, feature, offset) \\
  _Static_assert(offsetof(structure, feature) == (offset), "the headers have " #feature " in another place than the registry")

{checks}
#endif
"""


def main() -> None:
    """Write the header, unless it was made of the same."""
    header = Path(sys.argv[1])
    try:
        version = metadata.version("vulkan-object")
    except metadata.PackageNotFoundError:
        message = "vulkan-object is not installed. Fix: let pip isolate the build, or pip install 'vulkan-object>=1.4.330'."
        raise SystemExit(message) from None
    digest = hashlib.sha256(Path(__file__).read_bytes() + FEATURES.read_bytes()).hexdigest()
    made_of = f"vulkan-object {version}, {digest}"
    if header.exists() and made_of in header.read_text("utf-8").partition("\n")[0]:
        return
    from vulkan_object import get_vulkan_object  # reading the registry takes 2 s

    header.write_text(tables(get_vulkan_object(), made_of), "utf-8")


def tables(vk: VulkanObject, made_of: str) -> str:
    """Return the text of the header."""
    wanted: dict[str, list[str]] = {}
    for feature, origin in runpy.run_path(str(FEATURES))["ORIGINS"].items():
        wanted.setdefault(origin, []).append(feature)
    structures = {origin: feature_structure(vk, origin, wanted[origin]) for origin in sorted(wanted, key=is_extension)}
    rows, checks = [], []
    for index, (origin, structure) in enumerate(structures.items()):
        members = [member.name for member in structure.members if member.name not in {"sType", "pNext"}]
        rows += [f"  X({feature}, {index}, {members.index(feature)})" for feature in wanted[origin]]
        checks.append(layout_checks(origin, structure, [(feature, members.index(feature)) for feature in wanted[origin]]))
    return HEADER.format(
        made_of=made_of,
        structures="\n".join(declarations(vk, extension, names) for extension, names in STRUCTURES.items()),
        feature_structures=" \\\n".join(
            f"  X({structure_type(vk, structure)}, {needed_version(origin, structure)})"
            for origin, structure in structures.items()
        ),
        features=" \\\n".join(rows),
        most_members=max(len(structure.members) for structure in structures.values()),
        checks="\n".join(checks),
    )


def is_extension(origin: str) -> bool:
    """Return whether features are of an extension, and not of a version of Vulkan."""
    return not origin.startswith("VK_VERSION_")


def feature_structure(vk: VulkanObject, origin: str, features: list[str]) -> Struct:
    """Return the structure that has the features of a version or an extension."""
    if is_extension(origin):
        candidates = [struct for struct in vk.extensions[origin].structs if "VkPhysicalDeviceFeatures2" in struct.extends]
    else:
        version = origin.removeprefix("VK_VERSION_").replace("_", "")
        candidates = [vk.structs["VkPhysicalDeviceFeatures" if version == "10" else f"VkPhysicalDeviceVulkan{version}Features"]]
    for structure in candidates:
        types = {member.name: member.type for member in structure.members}
        if types.keys() >= set(features) and set(types.values()) <= {"VkStructureType", "void", "VkBool32"}:
            return structure
    raise SystemExit(f"no structure of {origin} has {', '.join(features)}. Fix: correct {FEATURES.relative_to(ROOT)}.")


def needed_version(origin: str, structure: Struct) -> str:
    """Return the version of Vulkan that has the structure: a later one than its features' for those of 1.1."""
    return "0" if is_extension(origin) or structure.version is None else structure.version.nameApi


def structure_type(vk: VulkanObject, structure: Struct) -> int:
    """Return its VkStructureType; 0 for a structure without."""
    types = {field.name: field.value for field in vk.enums["VkStructureType"].fields}
    return types[structure.sType] if structure.sType else 0


def declarations(vk: VulkanObject, extension: str, names: tuple[str, ...]) -> str:
    """Declare structures and their types, where the installed headers lack their extension."""
    lines = [f"#ifndef {extension}"]
    for name in names:
        structure = vk.structs[name]
        lines += [f"#define {structure.sType} ((VkStructureType){structure_type(vk, structure)})", f"typedef struct {name} {{"]
        for member in structure.members:
            is_new = member.type in vk.enums and member.type != "VkStructureType"  # an enumeration of the extension's
            lines.append(f"  uint32_t {member.name};" if is_new else f"  {member.cDeclaration.strip()};")
        lines.append(f"}} {name};")
    return "\n".join([*lines, "#endif", ""])


def layout_checks(origin: str, structure: Struct, places: list[tuple[str, int]]) -> str:
    """Have the compiler check the places of features against the headers that have the structure."""
    tag = origin.split("_")[1]
    names = [structure.name, *structure.aliases]
    name = next((name for name in names if name.endswith(tag)), structure.name)
    start = "sizeof(VkBaseOutStructure)" if structure.sType else "0"
    checks = [f"VYRE_PLACE({name}, {feature}, {start} + {index} * sizeof(VkBool32));" for feature, index in places]
    return "\n".join([f"#ifdef {origin}", *checks, "#endif", ""])


if __name__ == "__main__":
    main()
