"""Enable the vyre Vulkan layer while kompute creates one device.

The layer is loaded by the Vulkan loader, which finds it through the process's environment, ahead of other layers, so that
a validation layer sees what ours adds. ``os.environ`` is left alone, and what C code sees is put back once the loader has read
it (``environment.c``). Without the layer (switched off, an old loader, a setuid process) kompute's device is made all the
same.

Source: the Vulkan loader's documentation of VK_ADD_LAYER_PATH, VK_LAYER_PATH and VK_INSTANCE_LAYERS.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.features import SHADER_FEATURES, extension_of
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.version import API_1_3, pack_version, without_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.vulkan.devices import PhysicalDevice

_Made = TypeVar("_Made")

MEMORY_CACHE_BYTES = 256 * 1024 * 1024
GPU_POLL_NS = 1_000_000
CPU_POLL_NS = 0  # a software device computes on the cores that a poll would keep busy

STATISTICS_FEATURE = "pipelineExecutableInfo"
"""Lets the driver give statistics of compiled code; the layer captures that of each pipeline where it is on."""
MEMORY_EXTENSIONS = ("VK_EXT_external_memory_host", "VK_KHR_external_memory_fd")
"""How host and device, and Vulkan and CUDA, see the same memory: switched on where the device has them."""
CLOCK_EXTENSIONS = ("VK_EXT_calibrated_timestamps", "VK_KHR_calibrated_timestamps")
"""How the device's clock and the host's are read at once: one of them, the first that the device has."""
CLOCK_FEATURES = ("hostQueryReset",)
"""Lets the host reset the queries of timestamps, which costs the device a wait where it does so itself."""
_FIRST_LOADER_WITH_ADD_PATH = pack_version(1, 3, 207)
_DIRECTORY = Path(_layer.__file__).parent


def wanted_features(device: PhysicalDevice, names: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return those of some features, without any of SHADER_FEATURES, that the device has and that can be switched on."""
    return tuple(
        name
        for name in (SHADER_FEATURES if names is None else names)
        if name in device.features and extension_of(name) in {None, *device.extensions}
    )


def _wanted_extensions(device: PhysicalDevice, features: tuple[str, ...]) -> set[str]:
    of_features = {extension for extension in map(extension_of, features) if extension is not None}
    clocks = [name for name in CLOCK_EXTENSIONS if name in device.extensions][:1]
    return of_features | device.extensions.intersection(MEMORY_EXTENSIONS) | set(clocks)


def layer_config(device: PhysicalDevice, hooks: tuple[str, ...], features: tuple[str, ...]) -> _layer.LayerConfig:
    """Return the configuration of the layer for a device."""
    clocks = wanted_features(device, CLOCK_FEATURES) if "features" in hooks else ()
    return _layer.LayerConfig(
        hooks=hooks,
        api_version=min(without_patch(min(device.loader_version, device.api_version)), API_1_3),
        device_uuid=device.device_uuid,
        features=(*features, *clocks),
        extensions=sorted(_wanted_extensions(device, features)),
        poll_ns=CPU_POLL_NS if device.device_type is DeviceType.CPU else GPU_POLL_NS,
        memory_cache_bytes=MEMORY_CACHE_BYTES,
    )


def create_under_layer(
    config: _layer.LayerConfig, loader_version: int, create: Callable[..., _Made], *arguments: object
) -> tuple[_Made, _layer.LayerDevice | None]:
    """Call ``create(*arguments)`` under the layer.

    Returns what it made, and the layer's device, None if the layer was not loaded.
    """
    if not _manifest_is_json():
        return create(*arguments), None
    # VK_LAYER_PATH, if it is set, makes the loader ignore VK_ADD_LAYER_PATH.
    by_add_path = loader_version >= _FIRST_LOADER_WITH_ADD_PATH and not _layer.environment_variable(b"VK_LAYER_PATH")
    path_variable = b"VK_ADD_LAYER_PATH" if by_add_path else b"VK_LAYER_PATH"
    return _layer.open_under_layer(config, path_variable, os.fsencode(_DIRECTORY), create, arguments)


def _manifest_is_json() -> bool:
    """Whether the loader can parse the manifest; one that it cannot parse fails vkCreateInstance, and kompute aborts then."""
    try:
        json.loads((_DIRECTORY / "vyre_layer.json").read_bytes())
    except (OSError, ValueError):
        return False
    return True
