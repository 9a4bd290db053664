"""The Khronos validation layer: settings with which every version from 1.3.239 on validates alike, and what it reports.

Versions differ in the names of settings, in what is on by default, and in the form of their messages. So one fault of each kind
of validation is planted, and a version that does not report it is not taken to validate.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

from vyre_driver import SpirvModule

PLANTED = Path(__file__).with_name("planted_faults.c")
REQUIRED = "validation" in os.environ.get("VYRE_REQUIRE", "").split(",")  # at import: tests begin without any VYRE_ variable
HANGS_AFTER_S = 60
VALIDATOR = "VK_LAYER_KHRONOS_validation"
# Kinds of validation, and what a planted fault of the kind is reported as.
KINDS = {
    "core": r"VUID-vkCmdFillBuffer-dstOffset-00024",
    "parameters": r"VUID-VkFenceCreateInfo-flags-parameter",
    "lifetimes": r"VUID-vkDestroyDevice-device-(00378|05137)",
    "shaders": r"VUID-VkShaderModuleCreateInfo-pCode-\d+|UNASSIGNED-CoreValidation-Shader-InconsistentSpirv",
    "threads": r"UNASSIGNED-Threading-MultipleThreads(-Write)?",
    "synchronization": r"SYNC-HAZARD-WRITE-AFTER-WRITE",
    "submissions": r"SYNC-HAZARD-WRITE-AFTER-WRITE",
    "shader accesses": r"SYNC-HAZARD-WRITE-AFTER-READ",
}
# Layers up to 1.3.275 know only the names in the first two lines. Newer ones still take these, and know those in the four lines
# after them; from 1.4.309 on they leave out what shaders access unless the heuristic is asked for. Without the cache every
# shader is validated anew. To stdout: a log file would be emptied by the next instance.
SETTINGS = """\
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,\
VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT
khronos_validation.disables = VK_VALIDATION_FEATURE_DISABLE_SHADER_VALIDATION_CACHE_EXT
khronos_validation.validate_sync = true
khronos_validation.syncval_submit_time_validation = true
khronos_validation.syncval_shader_accesses_heuristic = true
khronos_validation.check_shaders_caching = false
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf,info
khronos_validation.log_filename = stdout
khronos_validation.enable_message_limit = false
"""
# Messages about the layer itself: that it is there, with which settings, and that some of these have newer names.
STATUS = {
    "UNASSIGNED-khronos-validation-createinstance-status-message",
    "WARNING-CreateInstance-status-message",
    "CURRENT-VALIDATION-ENABLED",
    "VALIDATION-SETTINGS",
}
# ID(ERROR / SPEC): ... in layers of 2023, Validation Error: [ ID ] ... in newer ones.
MESSAGE = re.compile(
    r"^(?:(?P<old>[\w-]+)\((?:ERROR|WARN|PERF|INFO) / \w+\)|Validation(?: \w+)*):(?: \[ (?P<new>[\w-]+) \])?.*", re.MULTILINE
)
COPY = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) writeonly buffer B { float b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = a[i]; }
"""


def identifiers(output: str) -> list[str]:
    """Return the names of all messages of the layer in what a program printed; a message without a name has an empty one."""
    return [match["old"] or match["new"] or "" for match in MESSAGE.finditer(output)]


def messages(output: str) -> list[str]:
    """Return the first lines of the layer's messages, but for those about itself."""
    return [match.group() for match in MESSAGE.finditer(output) if (match["old"] or match["new"]) not in STATUS]


def layer_versions() -> dict[str, str]:
    """Return the versions of Vulkan that the installed layers are written for, by the layers' names.

    Raises
    ------
    OSError
        If there is no Vulkan loader.
    """

    class Layer(ctypes.Structure):  # VkLayerProperties
        _fields_ = (
            ("name", ctypes.c_char * 256),
            ("version", ctypes.c_uint32),
            ("implementation", ctypes.c_uint32),
            ("description", ctypes.c_char * 256),
        )

    count, layers = ctypes.c_uint32(64), (Layer * 64)()
    ctypes.CDLL("libvulkan.so.1").vkEnumerateInstanceLayerProperties(ctypes.byref(count), layers)
    versions = ((layer.name.decode(), layer.version) for layer in layers[: count.value])
    return {name: f"{version >> 22 & 0x7F}.{version >> 12 & 0x3FF}.{version & 0xFFF}" for name, version in versions}


def build_planted_faults(folder: Path) -> None:
    """Build planted_faults.c and the shader that it runs in a folder."""
    options = ["-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(["cc", *options, str(PLANTED), "-o", str(folder / "planted"), "-lvulkan"], check=True)  # noqa: S607 -- from PATH
    (folder / "copy.spv").write_bytes(SpirvModule.from_glsl(COPY).code)


def silent_kinds(folder: Path, settings: str) -> list[str]:
    """Return the kinds of validation that do not report the fault planted for them, with these settings of the layer."""
    file = folder / "vk_layer_settings.txt"
    file.write_text(settings, "utf-8")
    env = {**os.environ, "VK_INSTANCE_LAYERS": VALIDATOR, "VK_LAYER_SETTINGS_PATH": str(file)}
    silent = []
    for kind, pattern in KINDS.items():
        command = [str(folder / "planted"), kind, str(folder / "copy.spv")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=True)
        if not any(re.fullmatch(pattern, name) for name in identifiers(done.stdout)):
            silent.append(kind)
    return silent


def complaint(silent: list[str]) -> str:
    """Return what is wrong with a layer that does not report planted faults of these kinds."""
    return (
        f"{VALIDATOR} {layer_versions()[VALIDATOR]} does not report the planted faults of these kinds: {', '.join(silent)}. "
        "Fix: add to SETTINGS in tests/support/validation_layer.py what this version needs to find them."
    )
