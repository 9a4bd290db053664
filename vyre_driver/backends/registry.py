"""The registry of backends: built in, registered by this process, or installed with other packages.

Nothing is imported before it is needed. A built-in is a row of ``_BUILT_IN``. A plug-in is an entry point of the group
``vyre_driver.backends``: its name is the backend's id, and what it names is a ``BackendRegistration`` or a function without
arguments that returns one. A plug-in that cannot be loaded is remembered with the reason (``broken_plugins``) and never
keeps others from loading; asked for by its id, the reason is raised.

Source: spec item 5. Upstream's precedence of a backend without one, and its answer for unknown ids, are kept.
"""

from __future__ import annotations

import threading

from vyre_driver.backends.plugins import BrokenPlugin, installed_plugins
from vyre_driver.backends.registration import BUILT_IN_SOURCE, NO_PRECEDENCE, BackendRegistration, duplicate_error
from vyre_driver.errors import InvalidRegistration

_lock = threading.RLock()
_registered: dict[str, BackendRegistration] = {}


def _kompute() -> BackendRegistration:
    from vyre_driver.backends import kompute

    return kompute.registration()


def _cpu_ref() -> BackendRegistration:
    from vyre_driver.backends.reference import backend

    return backend.registration()


def _null() -> BackendRegistration:
    from vyre_driver.backends import null

    return null.registration()


# One row a backend. Adding one is adding a row.
_BUILT_IN = {"kompute": _kompute, "cpu-ref": _cpu_ref, "null": _null}


def register_backend(registration: BackendRegistration) -> None:
    """Register a backend for this process.

    Raises
    ------
    InvalidRegistration
        If it is none, or its id is taken, naming both.
    """
    if not isinstance(registration, BackendRegistration):
        raise InvalidRegistration(
            f"what is registered is of type {type(registration).__name__}", fix="register a BackendRegistration"
        )
    with _lock:
        taken = _built_in(registration.id) or _registered.get(registration.id)
        if taken is not None:
            raise duplicate_error(registration.id, [taken.source, registration.source])
        _registered[registration.id] = registration


def unregister_backend(backend_id: str) -> None:
    """Forget what ``register_backend`` was given under this id, if anything."""
    with _lock:
        _registered.pop(backend_id, None)


def registered_backends() -> tuple[BackendRegistration, ...]:
    """Return every backend that can be asked for: built in, of this process, of other packages; the broken ones left out.

    Raises
    ------
    InvalidSetting
        If VYRE_DISABLE_PLUGINS or VYRE_PLUGIN_TIMEOUT is not valid.
    """
    with _lock:
        own = [*(find() for find in _BUILT_IN.values()), *_registered.values()]
    taken = {one.id: one.source for one in own}
    return (*own, *installed_plugins().registrations(taken))


def registered_backends_by_precedence() -> tuple[BackendRegistration, ...]:
    """Return them, lowest precedence first, equal ones by id."""
    return tuple(sorted(registered_backends(), key=lambda one: (one.precedence, one.id)))


def find_registration(backend_id: str) -> BackendRegistration | None:
    """Return the backend of an id, None if there is none; of other packages only the one of this name is imported.

    Raises
    ------
    InvalidRegistration
        If it is a plug-in that cannot be loaded, with the reason.
    BackendUnavailable
        If it is a plug-in that cannot be loaded, with the reason.
    """
    with _lock:
        found = _built_in(backend_id) or _registered.get(backend_id)
    return found or installed_plugins().find(backend_id)


def known_ids() -> tuple[str, ...]:
    """Return the ids that can be asked for, sorted, without importing any backend."""
    with _lock:
        return tuple(sorted({*_BUILT_IN, *_registered, *installed_plugins().ids()}))


def broken_plugins() -> tuple[BrokenPlugin, ...]:
    """Return the plug-ins that cannot be loaded, with the reasons; imports them all."""
    with _lock:
        taken = dict.fromkeys(_BUILT_IN, BUILT_IN_SOURCE) | {one.id: one.source for one in _registered.values()}
    return installed_plugins().broken(taken)


def backend_dispatches(backend_id: str) -> bool:
    """Whether a backend runs programs; False for an unknown id, or one whose plug-in is broken."""
    return any(one.dispatches for one in registered_backends() if one.id == backend_id)


def backend_precedence(backend_id: str) -> int:
    """Return a backend's precedence; 2**32 - 1 without one, and for an unknown id."""
    return next((one.precedence for one in registered_backends() if one.id == backend_id), NO_PRECEDENCE)


def _built_in(backend_id: str) -> BackendRegistration | None:
    return _BUILT_IN[backend_id]() if backend_id in _BUILT_IN else None
