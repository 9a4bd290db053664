"""Backends: what runs compiled work, and how to acquire one (docs/backends.md).

Everything but the configuration of a dispatch is imported when first asked for.
"""

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
    from vyre_driver.backends.base import (
        Backend,
        BackendFacts,
        BackendRequest,
        LoadedArtifact,
        TimedDispatch,
        core_supported_ops,
    )
    from vyre_driver.backends.registry import (
        BackendRegistration,
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


def __getattr__(name: str) -> object:
    """Import lazily what not every user needs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vyre_driver.backends import acquisition, base, registry
    from vyre_driver.target import profile

    homes = (acquisition, base, profile, registry)
    return next(getattr(home, name) for home in homes if name in vars(home))


def __dir__() -> list[str]:
    """Name the late ones too."""
    return sorted({*globals(), *__all__})
