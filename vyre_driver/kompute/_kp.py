"""The only module that imports ``kp``: the one beside it in ``bundled``, or else the one that is installed.

kp links libvulkan, so it is imported late. It calls ``logging.basicConfig()`` at import; that is undone. Its PyPI release and
its main branch have one version number and different names, so names are looked for and the version is not asked.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from vyre_driver.errors import BackendUnavailable


@dataclass(frozen=True, slots=True)
class KomputeApi:
    """The parts of kp in use; ``flavour`` names the spelling that was found, and is part of the cache key."""

    flavour: str
    manager: Any
    sync_device: Any
    sync_local: Any
    dispatch: Any
    tensor_types: Any


@functools.cache
def load_kompute() -> KomputeApi:
    """Import kp and return what is used of it; raises BackendUnavailable if it is missing, does not load, or lacks a name."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        kp = _import_kp()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    for flavour, device_name, local_name in (
        ("kp-0.9.0", "OpTensorSyncDevice", "OpTensorSyncLocal"),
        ("kp-main", "OpSyncDevice", "OpSyncLocal"),
    ):
        if hasattr(kp, device_name):
            types = kp.TensorTypes if hasattr(kp, "TensorTypes") else kp.MemoryTypes
            return KomputeApi(flavour, kp.Manager, getattr(kp, device_name), getattr(kp, local_name), kp.OpAlgoDispatch, types)
    raise BackendUnavailable(
        "the installed kp has neither OpTensorSyncDevice nor OpSyncDevice", fix="install kp 0.9.0", module=kp.__file__
    )


def _import_kp() -> Any:  # noqa: ANN401 -- kp has no types
    """Import by name: it is not there where only keys or plans are wanted."""
    try:
        import vyre_driver.kompute.bundled.kp as bundled
    except ModuleNotFoundError as error:
        if error.name != "vyre_driver.kompute.bundled.kp":
            raise BackendUnavailable(f"kompute cannot be imported ({error})", fix=f"install {error.name}") from error
        # Not from a wheel, and not built here.
    except ImportError as error:
        raise BackendUnavailable(f"the kompute that comes with vyre_driver does not load ({error})", fix=_fix(error)) from error
    else:
        return bundled
    try:
        return import_module("kp")
    except ImportError as error:
        raise BackendUnavailable(f"kp (kompute) cannot be imported ({error})", fix=_fix(error)) from error


def _fix(error: ImportError) -> str:
    said = str(error)
    if "libvulkan" in said:
        return "install the Vulkan loader (Debian, Ubuntu: libvulkan1; Fedora: vulkan-loader; Arch: vulkan-icd-loader)"
    if isinstance(error, ModuleNotFoundError):
        return "install vyre_driver from a wheel for this Python, or run scripts/setup in a checkout"
    return "install the wheel that pip itself chooses for this system, or build vyre_driver and kompute here from source"
