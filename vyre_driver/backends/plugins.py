"""Backends from other packages: found by their entry points, and imported when one of them is asked for.

The import runs in a thread of its own and has VYRE_PLUGIN_TIMEOUT seconds: a package whose import never ends counts as broken,
and no caller hangs. The result for a plug-in holds for the process. While it is imported, a plug-in may ask which backends
there are: those that are being imported too, itself among them, are not there yet.

Source: the entry points specification of the Python packaging guides.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.backends.registration import BackendRegistration, duplicate_error
from vyre_driver.errors import BackendUnavailable, InvalidRegistration, VyreError
from vyre_driver.process._lock import Condition
from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

GROUP = "vyre_driver.backends"
DEFAULT_TIMEOUT_S = 10.0
_LOG = logging.getLogger("vyre_driver.backends")


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plug-in that cannot be loaded: the id it claims, who brought it, and why."""

    id: str
    source: str
    error: VyreError


@dataclass(slots=True)
class _Attempt:
    """An import that runs in a thread, and its result."""

    timeout_s: float
    until: float
    registration: BackendRegistration | None = None
    error: BaseException | None = None
    is_done: bool = False
    changed: Condition = field(default_factory=Condition)

    def wait(self) -> bool:
        """Wait for its end as long as it may take; returns whether it came."""
        with self.changed:
            while not self.is_done:
                left_s = self.until - time.monotonic()
                if left_s <= 0:
                    return False
                self.changed.wait(left_s)
        return True

    def end(self) -> None:
        """Wake the waiters: it is done."""
        with self.changed:
            self.is_done = True
            self.changed.notify_all()


class _Thread(threading.local):
    """What is known of a thread."""

    imports = False


_HERE = _Thread()


class Plugins:
    """The entry points of one scan, and the results of those that were imported. May be used from several threads."""

    def __init__(self, found: Iterable[EntryPoint]) -> None:
        """Remember them by id; imports nothing."""
        self._found: dict[str, list[EntryPoint]] = {}
        for entry in found:
            self._found.setdefault(entry.name, []).append(entry)
        self._outcomes: dict[str, BackendRegistration | VyreError] = {}
        self._attempts: dict[str, _Attempt] = {}
        self._lock = threading.Lock()

    def ids(self) -> tuple[str, ...]:
        """Return the ids they claim."""
        return tuple(self._found)

    def find(self, backend_id: str) -> BackendRegistration | None:
        """Return the registration of an id, None if no plug-in claims it.

        Raises
        ------
        BackendUnavailable
            If its import fails, does not end or asks for it.
        InvalidRegistration
            If it has no registration, or two plug-ins claim the id.
        """
        if backend_id not in self._found:
            return None
        outcome = self._outcome(backend_id)
        if outcome is None:
            outcome = _unavailable(backend_id, _source(self._found[backend_id][0]), "it is being imported by who asks for it")
        if isinstance(outcome, VyreError):
            raise outcome
        return outcome

    def registrations(self, taken: Mapping[str, str]) -> tuple[BackendRegistration, ...]:
        """Return those that can be loaded, without the ids that are ``taken``."""
        found = (self._outcome(name) for name in self._found if name not in taken)
        return tuple(one for one in found if isinstance(one, BackendRegistration))

    def broken(self, taken: Mapping[str, str]) -> tuple[BrokenPlugin, ...]:
        """Return those that cannot be loaded, because of themselves or because their id is ``taken`` (by whom)."""
        broken = []
        for name, entries in self._found.items():
            sources = [_source(one) for one in entries]
            outcome = duplicate_error(name, [taken[name], *sources]) if name in taken else self._outcome(name)
            if isinstance(outcome, VyreError):
                broken.append(BrokenPlugin(name, " and ".join(sources), outcome))
        return tuple(broken)

    def _outcome(self, name: str) -> BackendRegistration | VyreError | None:
        """Return the result of importing a plug-in; None in a thread that imports plug-ins, while another one imports this."""
        entries = self._found[name]
        with self._lock:
            if name in self._outcomes:
                return self._outcomes[name]
            attempt = self._attempts.get(name)
            is_begun = attempt is not None
            if attempt is None and len(entries) == 1:
                attempt = self._attempts[name] = _begin(name, entries[0])
        if attempt is None:
            found: BackendRegistration | VyreError = duplicate_error(name, [_source(one) for one in entries])
        elif is_begun and _HERE.imports:
            return None  # a thread that waits for this one may be the one it would wait for
        else:
            found = _judge(name, entries[0], attempt)
        with self._lock:
            if name not in self._outcomes:
                self._outcomes[name] = found
                if isinstance(found, VyreError):
                    _LOG.warning("a backend of another package is left out: %s", found)
            return self._outcomes[name]


def installed_plugins() -> Plugins:
    """Return the plug-ins of the installed packages, none with VYRE_DISABLE_PLUGINS; looked for once a process."""
    if settings.switch(settings.DISABLE_PLUGINS):
        return _NONE
    with _LOOKING:  # a cache alone lets two threads look, and import everything twice
        return _look_around()


_NONE = Plugins(())
_LOOKING = threading.RLock()


@functools.cache
def _look_around() -> Plugins:
    from importlib.metadata import entry_points

    return Plugins(entry_points(group=GROUP))


def _source(entry: EntryPoint) -> str:
    """Say who brought it: the distribution with its version, and what the entry point names."""
    dist = entry.dist
    return f"{dist.name} {dist.version} ({entry.value})" if dist is not None else entry.value


def _begin(name: str, entry: EntryPoint) -> _Attempt:
    """Import a plug-in in a thread of its own."""
    timeout_s = settings.seconds(settings.PLUGIN_TIMEOUT) or DEFAULT_TIMEOUT_S
    attempt = _Attempt(timeout_s, time.monotonic() + timeout_s)
    start_all([threading.Thread(target=_attempt, args=(entry, attempt), name=f"vyre_driver import of {name}", daemon=True)])
    return attempt


def _judge(name: str, entry: EntryPoint, attempt: _Attempt) -> BackendRegistration | VyreError:
    """Wait for an import; returns why the plug-in cannot be loaded instead of raising."""
    source = _source(entry)
    if not attempt.wait():
        return _unavailable(name, source, f"its import did not end in {attempt.timeout_s:g} s")
    if attempt.error is not None:
        error = _unavailable(name, source, f"{type(attempt.error).__name__}: {attempt.error}")
        error.__cause__ = attempt.error
        return error
    found = attempt.registration
    if not isinstance(found, BackendRegistration) or found.id != name:
        what = f"for {found.id!r}" if isinstance(found, BackendRegistration) else f"of type {type(found).__name__}"
        return InvalidRegistration(
            f"the entry point of backend {name!r} in {source} gives something {what}",
            fix=f"let it name a BackendRegistration with the id {name!r}, or a function that returns one",
            backend=name,
            sources=[source],
        )
    return replace(found, source=source)


def _attempt(entry: EntryPoint, attempt: _Attempt) -> None:
    _HERE.imports = True
    try:
        found = entry.load()
        attempt.registration = found() if callable(found) and not isinstance(found, BackendRegistration) else found
    except BaseException as error:  # noqa: BLE001 -- whatever another package does, SystemExit too, is its own failure
        attempt.error = error
    finally:
        attempt.end()


def _unavailable(name: str, source: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"backend {name!r} of {source} cannot be imported: {why}",
        fix="repair or uninstall that package, or set VYRE_DISABLE_PLUGINS=1",
        backend=name,
    )
