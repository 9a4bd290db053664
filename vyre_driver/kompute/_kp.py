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

from vyre_driver.errors import BackendUnavailable, UnsupportedFeature
from vyre_driver.process._lock import call_uninterrupted, is_main_interpreter


@dataclass(frozen=True, slots=True)
class KomputeApi:
    """The parts of kp in use; ``flavour`` names the spelling that was found, and is part of the cache key."""

    flavour: str
    manager: Any
    dispatch: Any
    tensor_types: Any


@functools.cache
def load_kompute() -> KomputeApi:
    """Import kp and return what is used of it.

    Raises
    ------
    UnsupportedFeature
        In a subinterpreter.
    BackendUnavailable
        If kp is missing, does not load, or lacks a name.
    """
    _check_main_interpreter()
    # Its types are registered once a process: an import that an interrupt broke off could never be made up for.
    kp = call_uninterrupted(_import_quietly)
    for flavour, operation in (("kp-0.9.0", "OpTensorSyncDevice"), ("kp-main", "OpSyncDevice")):
        if hasattr(kp, operation):
            types = kp.TensorTypes if hasattr(kp, "TensorTypes") else kp.MemoryTypes
            return KomputeApi(flavour, kp.Manager, kp.OpAlgoDispatch, types)
    raise BackendUnavailable(
        "the installed kp has neither OpTensorSyncDevice nor OpSyncDevice", fix="install kp 0.9.0", module=kp.__file__
    )


def _check_main_interpreter() -> None:
    """Check that this is the main interpreter: in another one the import of kp would wait for ever (pybind11's GIL states)."""
    if not is_main_interpreter():
        raise UnsupportedFeature(
            "kompute works in Python's main interpreter alone, and this is a subinterpreter",
            fix="open the driver in the main interpreter; under mod_wsgi, set WSGIApplicationGroup %{GLOBAL}",
        )


def _import_quietly() -> Any:  # noqa: ANN401 -- kp has no types
    """Import it, and undo what it does to logging."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        return _import_kp()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


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
