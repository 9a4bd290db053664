"""The result of a check, and the checks of what is below this package: Vulkan's loader and drivers, device files, variables.

Each runs in a child process of its own, because a driver may end the process that opens it.

Source: the Vulkan loader's LoaderDriverInterface document (where manifests are looked for, and what overrides that).
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.cli.devices import device_as_data
from vyre_driver.errors import InvalidSetting, VulkanUnavailable
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.devices import loader_fix
from vyre_driver.vulkan.manifests import DRIVER_VARIABLES, installed_layers
from vyre_driver.vulkan.version import format_version, pack_version

if TYPE_CHECKING:
    from collections.abc import Callable


class State(enum.Enum):
    """How a check came out, from good to bad."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the examination: what was looked at, how it is, details below it, what to do, and the facts as data."""

    name: str
    state: State
    says: str
    details: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self) | {"state": self.state.value, "details": list(self.details), "fixes": list(self.fixes)}

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> Check:
        """Return what ``as_data`` was made of."""
        return cls(**{**data, "state": State(data["state"]), "details": tuple(data["details"]), "fixes": tuple(data["fixes"])})


def worst(checks: list[Check]) -> State:
    """Return the worst state of all."""
    order = list(State)
    return max((one.state for one in checks), key=order.index, default=State.OK)


_MOST_SHOWN = 140  # of a value; containers have some of thousands of characters, which --json tells whole
_PREFIXES = ("VK_", "MESA_", "__GL_", "__NV_", "NVIDIA_", "VYRE_", "LIBGL_", "LD_LIBRARY_PATH")
_HINTS = (
    ("libEGL", "apt-get install libegl1"),
    ("libXext", "apt-get install libxext6"),
    ("libX11", "apt-get install libx11-6"),
    ("libGLX_nvidia", "start the container with NVIDIA_DRIVER_CAPABILITIES=all (or graphics,compute,utility)"),
    ("libnvidia", "start the container with NVIDIA_DRIVER_CAPABILITIES=all (or graphics,compute,utility)"),
)


def check_loader() -> Check:
    """Open libvulkan.so.1."""
    try:
        library = ctypes.CDLL("libvulkan.so.1")
    except OSError as error:
        return Check(
            "Vulkan loader",
            State.FAILURE,
            f"libvulkan.so.1 cannot be opened: {error}",
            fixes=(loader_fix(str(error)),),
        )
    version = ctypes.c_uint32(pack_version(1, 0))
    if hasattr(library, "vkEnumerateInstanceVersion"):
        library.vkEnumerateInstanceVersion(ctypes.byref(version))
    text = format_version(version.value)
    return Check("Vulkan loader", State.OK, f"libvulkan.so.1 is version {text}", facts={"version": text})


def check_variables() -> Check:
    """List the variables that steer loader and drivers."""
    found = settings.foreign_variables(_PREFIXES)
    if settings.CACHE_REMOTE.variable in found:
        found = {**found, settings.CACHE_REMOTE.variable: _address(found[settings.CACHE_REMOTE.variable])}
    shown = {name: value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}..." for name, value in found.items()}
    lines = tuple(f"{name}={value}" for name, value in shown.items())
    says = f"{len(found)} that steer the loader, drivers or this package" if found else "none that matter are set"
    return Check("variables", State.OK, says, lines, facts={"variables": found})


def _address(url: str) -> str:
    """Return the URL of a store as messages have it: doctor's reports are passed on, and a URL may hold a password."""
    from vyre_driver.remote.addresses import checked_address  # late: a process without a store does without it

    try:
        return checked_address(url)
    except InvalidSetting:
        return "(not shown: it is not valid, and may hold a password)"


def check_device_files() -> Check:
    """See whether this user may open the kernel's device files."""
    places = [*sorted(Path("/dev/dri").glob("renderD*")), *sorted(Path("/dev").glob("nvidia*"))]
    files = [place for place in places if not place.is_dir()]
    rights = {str(place): os.access(place, os.R_OK | os.W_OK) for place in files}
    lines = tuple(f"{place}: {'readable and writable' if may else 'no right to open it'}" for place, may in rights.items())
    if not files:
        says = "neither /dev/dri/renderD* nor /dev/nvidia* is there: no GPU, or a container without one"
        fix = "on a machine with a GPU start the container with it (--gpus all, or --device /dev/dri)"
        return Check("device files", State.WARNING, says, fixes=(fix,), facts={"files": {}})
    refused = [place for place, may in rights.items() if not may]
    if refused:
        fix = f"let user {os.getuid()} open {', '.join(refused)} (groups render and video: usermod -aG render,video NAME)"
        says = f"{len(refused)} of {len(files)} may not be opened"
        return Check("device files", State.WARNING, says, lines, (fix,), {"files": rights})
    return Check("device files", State.OK, f"{len(files)} may be opened", lines, facts={"files": rights})


def check_layers() -> Check:
    """List the layers that are installed, and which of them the loader puts into every program."""
    layers = installed_layers()
    active = [layer.name for layer in layers if layer.is_active]
    lines = tuple(f"{one.name}, {one.kind}, {'active' if one.is_active else 'not active'} ({one.path})" for one in layers)
    says = f"{len(active)} of {len(layers)} other layers are active" if layers else "no other layers are installed"
    return Check("layers", State.OK, says, lines, facts={"active": active, "layers": [asdict(one) for one in layers]})


def check_manifest(place: str) -> Check:
    """Open the driver that a manifest names."""
    name = f"driver {Path(place).name}"
    try:
        described = json.loads(Path(place).read_bytes())
        library, version = str(described["ICD"]["library_path"]), str(described["ICD"].get("api_version", "unknown"))
    except OSError as error:
        fix = f"correct {' or '.join(DRIVER_VARIABLES)}, or install the driver"
        return Check(name, State.WARNING, f"{place} cannot be read: {error.strerror}", fixes=(fix,), facts={"path": place})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        says = f"{place} is not a manifest of a driver ({type(error).__name__}: {error})"
        return Check(name, State.WARNING, says, fixes=(f"repair or remove {place}",), facts={"path": place})
    facts = {"path": place, "library": library, "api_version": version}
    target = str(Path(place).parent / library) if "/" in library and not library.startswith("/") else library
    try:
        ctypes.CDLL(target)
    except OSError as error:
        said = str(error)
        hint = next((fix for part, fix in _HINTS if part in said), f"install what {library} needs (ldd names it)")
        return Check(name, State.WARNING, f"{library} cannot be opened: {said}", (place,), (hint,), facts)
    return Check(name, State.OK, f"{library} opens, for Vulkan {version}", (place,), facts=facts)


def check_devices() -> Check:
    """Enumerate the devices."""
    try:
        devices = enumerate_devices()
    except VulkanUnavailable as error:
        return Check("devices", State.FAILURE, error.problem, fixes=(error.fix,))
    lines = tuple(
        f"{one.index} {one.name}, {one.device_type.name.lower()}, Vulkan {one.api}, {one.driver_name} {one.driver_info}, "
        f"{one.device_local_bytes >> 20} MiB, uuid:{one.device_uuid.hex()}"
        for one in devices
    )
    facts = {"devices": [device_as_data(one) for one in devices]}
    if all(one.is_software for one in devices):
        fix = "install the Vulkan driver of the GPU, if there is one"
        if not settings.switch(settings.ALLOW_SOFTWARE):
            fix += "; or let the CPU do with VYRE_ALLOW_SOFTWARE=1"
        return Check("devices", State.WARNING, f"{len(devices)}, a CPU (software) device each", lines, (fix,), facts)
    return Check("devices", State.OK, f"{len(devices)}", lines, facts=facts)


CHECKS: dict[str, Callable[..., Check]] = {
    "variables": check_variables,
    "device files": check_device_files,
    "Vulkan loader": check_loader,
    "layers": check_layers,
    "manifest": check_manifest,
    "devices": check_devices,
}
