"""Enable the vyre Vulkan layer while kompute creates one device.

The layer is loaded by the Vulkan loader, which finds it through the process's environment, ahead of other layers, so that
a validation layer sees what ours adds. ``os.environ`` is left alone, and what C code sees is put back once the loader has read
it (``environment.c``).

Source: the Vulkan loader's documentation of VK_ADD_LAYER_PATH, VK_LAYER_PATH, VK_INSTANCE_LAYERS and VK_LOADER_LAYERS_ENABLE.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vyre_driver import settings
from vyre_driver.errors import BackendUnavailable
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.features import SHADER_FEATURES, extension_of
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.layer.manifest import MANIFEST_NAME, manifest
from vyre_driver.vulkan.version import API_1_3, pack_version, without_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
_FIRST_LOADER_WITH_FILTERS = pack_version(1, 3, 234)
_LIBRARY = Path(_layer.__file__)
_PLACES = (None, "/tmp", "/dev/shm")  # noqa: S108 -- mkdtemp makes a folder of this user's alone


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


def layer_config(device: PhysicalDevice, features: tuple[str, ...]) -> _layer.LayerConfig:
    """Return the configuration of the layer for a device."""
    return _layer.LayerConfig(
        api_version=min(without_patch(min(device.loader_version, device.api_version)), API_1_3),
        device_uuid=device.device_uuid,
        features=(*features, *wanted_features(device, CLOCK_FEATURES)),
        extensions=sorted(_wanted_extensions(device, features)),
        poll_ns=CPU_POLL_NS if device.device_type is DeviceType.CPU else GPU_POLL_NS,
        memory_cache_bytes=MEMORY_CACHE_BYTES,
    )


def create_under_layer(
    config: _layer.LayerConfig, loader_version: int, create: Callable[..., _Made], *arguments: object
) -> tuple[_Made, _layer.LayerDevice | None]:
    """Call ``create(*arguments)`` under the layer.

    Returns what it made, and the layer's device, None if the loader has not loaded the layer (``layer_missing``).
    """
    # VK_LAYER_PATH, even an empty one, makes the loader ignore VK_ADD_LAYER_PATH.
    by_add_path = loader_version >= _FIRST_LOADER_WITH_ADD_PATH and _layer.environment_variable(b"VK_LAYER_PATH") is None
    path_variable = b"VK_ADD_LAYER_PATH" if by_add_path else b"VK_LAYER_PATH"
    # What VK_LOADER_LAYERS_DISABLE disables, all loaders enable that read VK_LOADER_LAYERS_ENABLE; some also by the other.
    is_filtered = loader_version >= _FIRST_LOADER_WITH_FILTERS and _layer.environment_variable(b"VK_LOADER_LAYERS_DISABLE")
    name_variable = b"VK_LOADER_LAYERS_ENABLE" if is_filtered else b"VK_INSTANCE_LAYERS"
    with _manifest_folder() as folder:
        return _layer.open_under_layer(config, path_variable, os.fsencode(folder), name_variable, create, arguments)


@contextmanager
def _manifest_folder() -> Iterator[str]:
    """Yield the folder of the layer's manifest: the package's, or else a private one with a manifest of its own.

    The loader splits paths at colons. Programs that freeze the package often leave the manifest out, for it is no code.
    """
    if ":" not in str(_LIBRARY) and _has_manifest(_LIBRARY.parent):
        yield str(_LIBRARY.parent)
        return
    folder = _private_folder()
    try:
        (Path(folder) / MANIFEST_NAME).write_text(json.dumps(manifest(str(_LIBRARY))), "utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _has_manifest(folder: Path) -> bool:
    """Whether a folder has the manifest that was installed there; kompute fails at one that the loader cannot parse."""
    try:
        data = json.loads((folder / MANIFEST_NAME).read_bytes())
    except (OSError, ValueError):
        return False
    return bool(data == manifest(f"./{_LIBRARY.name}"))


def _private_folder() -> str:
    """Return a new folder without a colon in its path, in the first place that has room for one."""
    for place in _PLACES:
        try:
            folder = tempfile.mkdtemp(prefix="vyre-layer-", dir=place)
        except OSError:
            continue
        if ":" not in folder:
            return folder
        Path(folder).rmdir()
    raise BackendUnavailable(
        f"the Vulkan layer of this package cannot be loaded: {_LIBRARY.parent} has a colon in its path or no {MANIFEST_NAME}, "
        "and no folder for temporary files can be written to",
        fix="set TMPDIR to a folder without a colon in its path that this user may write to",
    )


def layer_missing(device_name: str) -> BackendUnavailable:
    """Return the error of a device that the loader opened without the layer: why, as far as that can be seen, and the fix."""
    problem, fix = "it does not say why", "run it again with VK_LOADER_DEBUG=error,warn,layer, which says why"
    chooser = _loader_settings()
    if _layer.is_elevated():
        problem = "it takes no paths from a process with rights of another user or group, or with capabilities of its file"
        fix = (
            f"run it without these rights, or copy {_LIBRARY.with_name(MANIFEST_NAME)} to /etc/vulkan/explicit_layer.d, with "
            f"{_LIBRARY} as its library_path"
        )
    elif chooser is not None:
        problem = f"{chooser} (of Vulkan Configurator) chooses the layers"
        fix = f"let it leave {_layer.LAYER_NAME} to the application, or remove it"
    return BackendUnavailable(
        f"the Vulkan loader opened {device_name!r} without the layer of this package: {problem}",
        fix=fix,
        layer=_layer.LAYER_NAME,
    )


def _loader_settings() -> Path | None:
    """Return the file by which Vulkan Configurator chooses the layers of all programs, or of this user's; None without one."""
    variables = settings.foreign_variables(("HOME", "XDG_DATA_HOME"))
    data = variables.get("XDG_DATA_HOME") or f"{variables.get('HOME', '')}/.local/share"
    files = (Path(folder, "vulkan/loader_settings.d/vk_loader_settings.json") for folder in (data, "/etc"))
    return next((file for file in files if file.exists()), None)
