"""Backends: what runs compiled work, and how to acquire one (docs/backends.md).

The backends themselves are imported when one of them is asked for.
"""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.backends.acquisition import (
    Acquisition,
    BackendSelectionFacts,
    acquire,
    acquire_preferred_dispatch_backend,
    backend_capability_score,
    backend_registration,
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
from vyre_driver.target.config import DispatchConfig, PersistentThreadMode, ProgramConfig, SpeculationMode
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
    "ProgramConfig",
    "SpeculationMode",
    "TimedDispatch",
    "acquire",
    "acquire_preferred_dispatch_backend",
    "backend_capability_score",
    "backend_dispatches",
    "backend_precedence",
    "backend_registration",
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
