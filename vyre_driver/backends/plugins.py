"""Backends of other packages: found by their entry points, imported when one of them is asked for.

The import runs in a thread of its own and has VYRE_PLUGIN_TIMEOUT seconds: a package that never ends importing is broken, and
nobody hangs. What was found out about a plug-in holds for the process.

Source: the entry points specification of the Python packaging guides.
"""

from __future__ import annotations

import functools
import logging
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.backends.registration import BackendRegistration, duplicate_error
from vyre_driver.errors import BackendUnavailable, InvalidRegistration, VyreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

GROUP = "vyre_driver.backends"
DEFAULT_TIMEOUT_S = 10.0
_LOG = logging.getLogger("vyre_driver.backends")


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plug-in that cannot be had: the id it claims, who brought it, and why."""

    id: str
    source: str
    error: VyreError


@dataclass(slots=True)
class _Attempt:
    """What came of an import."""

    registration: BackendRegistration | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Plugins:
    """The entry points of one look around, and what became of those that were imported. May be used from several threads."""

    def __init__(self, found: Iterable[EntryPoint]) -> None:
        """Remember them by id; imports nothing."""
        self._found: dict[str, list[EntryPoint]] = {}
        for entry in found:
            self._found.setdefault(entry.name, []).append(entry)
        self._outcomes: dict[str, BackendRegistration | VyreError] = {}
        self._lock = threading.Lock()

    def ids(self) -> tuple[str, ...]:
        """Return the ids they claim."""
        return tuple(self._found)

    def find(self, backend_id: str) -> BackendRegistration | None:
        """Return the registration of an id, None if no plug-in claims it.

        Raises
        ------
        BackendUnavailable
            2004 if its import fails or does not end; InvalidRegistration 2207 if it names none, or two claim the id.
        """
        if backend_id not in self._found:
            return None
        outcome = self._outcome(backend_id)
        if isinstance(outcome, VyreError):
            raise outcome
        return outcome

    def registrations(self, taken: Mapping[str, str]) -> tuple[BackendRegistration, ...]:
        """Return those that can be had, without the ids that are ``taken``."""
        found = (self._outcome(name) for name in self._found if name not in taken)
        return tuple(one for one in found if isinstance(one, BackendRegistration))

    def broken(self, taken: Mapping[str, str]) -> tuple[BrokenPlugin, ...]:
        """Return those that cannot be had, because of themselves or because their id is ``taken`` (by whom)."""
        broken = []
        for name, entries in self._found.items():
            sources = [_source(one) for one in entries]
            outcome = duplicate_error(name, [taken[name], *sources]) if name in taken else self._outcome(name)
            if isinstance(outcome, VyreError):
                broken.append(BrokenPlugin(name, " and ".join(sources), outcome))
        return tuple(broken)

    def _outcome(self, name: str) -> BackendRegistration | VyreError:
        with self._lock:
            if name not in self._outcomes:
                self._outcomes[name] = _load(name, self._found[name])
                if isinstance(self._outcomes[name], VyreError):
                    _LOG.warning("a backend of another package is left out: %s", self._outcomes[name])
            return self._outcomes[name]


def installed_plugins() -> Plugins:
    """Return the plug-ins of the installed packages, none with VYRE_DISABLE_PLUGINS; looked for once a process."""
    return _NONE if settings.switch(settings.DISABLE_PLUGINS) else _look_around()


_NONE = Plugins(())


@functools.cache
def _look_around() -> Plugins:
    from importlib.metadata import entry_points  # noqa: PLC0415 -- 10 ms that only who asks for backends has to wait

    return Plugins(entry_points(group=GROUP))


def _source(entry: EntryPoint) -> str:
    """Say who brought it: the distribution with its version, and what the entry point names."""
    dist = entry.dist
    return f"{dist.name} {dist.version} ({entry.value})" if dist is not None else entry.value


def _load(name: str, entries: list[EntryPoint]) -> BackendRegistration | VyreError:
    """Import a plug-in; returns why it cannot be had instead of raising."""
    if len(entries) > 1:
        return duplicate_error(name, [_source(one) for one in entries])
    (entry,) = entries
    source = _source(entry)
    timeout_s = settings.seconds(settings.PLUGIN_TIMEOUT) or DEFAULT_TIMEOUT_S
    attempt = _Attempt()
    threading.Thread(target=_attempt, args=(entry, attempt), name=f"vyre_driver import of {name}", daemon=True).start()
    if not attempt.done.wait(timeout_s):
        return _unavailable(name, source, f"its import did not end in {timeout_s:g} s")
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
    try:
        found = entry.load()
        attempt.registration = found() if callable(found) and not isinstance(found, BackendRegistration) else found
    except BaseException as error:  # noqa: BLE001 -- whatever another package does, SystemExit too, is its own failure
        attempt.error = error
    finally:
        attempt.done.set()


def _unavailable(name: str, source: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"backend {name!r} of {source} cannot be imported: {why}",
        fix="repair or uninstall that package, or set VYRE_DISABLE_PLUGINS=1",
        backend=name,
    )
