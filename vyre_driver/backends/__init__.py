"""What can run compiled work, and how it is had (docs/backends.md).

Everything but the configuration of a dispatch is imported when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from vyre_driver.target.config import DispatchConfig, PersistentThreadMode, SpeculationMode

if TYPE_CHECKING:
    from vyre_driver.backends.acquisition import (
        Acquisition,
        BackendSelectionFacts,
        acquire,
        acquire_preferred_dispatch_backend,
        backend_capability_score,
        explain_acquisition,
        probe_backend,
        rank_backends,
    )
    from vyre_driver.backends.base import Backend, LoadedArtifact, TimedDispatch
    from vyre_driver.backends.operations import core_supported_ops
    from vyre_driver.backends.registration import BackendFacts, BackendRegistration, BackendRequest
    from vyre_driver.backends.registry import (
        backend_dispatches,
        backend_precedence,
        broken_plugins,
        known_ids,
        register_backend,
        registered_backends,
        registered_backends_by_precedence,
        unregister_backend,
    )
    from vyre_driver.target.profile import DeviceProfile, DeviceTimingQuality

__all__ = [
    "Acquisition",
    "Backend",
    "BackendFacts",
    "BackendRegistration",
    "BackendRequest",
    "BackendSelectionFacts",
    "DeviceProfile",
    "DeviceTimingQuality",
    "DispatchConfig",
    "LoadedArtifact",
    "PersistentThreadMode",
    "SpeculationMode",
    "TimedDispatch",
    "acquire",
    "acquire_preferred_dispatch_backend",
    "backend_capability_score",
    "backend_dispatches",
    "backend_precedence",
    "broken_plugins",
    "core_supported_ops",
    "explain_acquisition",
    "known_ids",
    "probe_backend",
    "rank_backends",
    "register_backend",
    "registered_backends",
    "registered_backends_by_precedence",
    "unregister_backend",
]

_LATE = {
    **dict.fromkeys(
        (
            "Acquisition",
            "BackendSelectionFacts",
            "acquire",
            "acquire_preferred_dispatch_backend",
            "backend_capability_score",
            "explain_acquisition",
            "probe_backend",
            "rank_backends",
        ),
        "acquisition",
    ),
    **dict.fromkeys(("Backend", "LoadedArtifact", "TimedDispatch"), "base"),
    "core_supported_ops": "operations",
    **dict.fromkeys(("DeviceProfile", "DeviceTimingQuality"), "profile"),
    **dict.fromkeys(("BackendFacts", "BackendRegistration", "BackendRequest"), "registration"),
    **dict.fromkeys(
        (
            "backend_dispatches",
            "backend_precedence",
            "broken_plugins",
            "known_ids",
            "register_backend",
            "registered_backends",
            "registered_backends_by_precedence",
            "unregister_backend",
        ),
        "registry",
    ),
}


def __getattr__(name: str) -> object:
    """Import what is not needed by everybody."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"vyre_driver.backends.{_LATE[name]}"), name)


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *_LATE})
