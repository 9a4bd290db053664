"""The registry of backends: built in, registered by this process, or installed with other packages.

Nothing is imported before it is needed. A built-in is a row of ``_BUILT_IN``. A plug-in is an entry point of the group
``vyre_driver.backends``: its name is the backend's id, and what it names is a ``BackendRegistration`` or a function without
arguments that returns one. A plug-in that cannot be loaded is remembered with the reason (``broken_plugins``) and never
keeps others from loading; asked for by its id, the reason is raised. An id that is claimed twice is an error of every look-up,
whatever it asks for, as in upstream's 0.7: which backend is the best is not decided by the order of installing.

Source: spec item 5, and the entry points specification of the Python packaging guides. Upstream's precedence of a backend
without one, and its answer for unknown ids, are kept.
"""

from __future__ import annotations

import functools
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import BackendUnavailable, InvalidRegistration, VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

    from vyre_driver.backends.base import Backend, BackendFacts, BackendRequest

GROUP = "vyre_driver.backends"
NO_PRECEDENCE = U32_MAX
_ITSELF = "vyre_driver itself"
_ORACLES = frozenset({"cpu-ref", "reference"})
_LOG = logging.getLogger("vyre_driver.backends")


@dataclass(frozen=True, slots=True)
class BackendRegistration:
    """How to open and rank a backend.

    ``factory`` opens it. ``probe`` returns the facts it is ranked by without opening anything, and raises what a factory would;
    without one it is ranked as a conservative profile. Lower ``precedence`` goes first where the facts are equal. Only what
    ``dispatches`` is chosen without being named, and what is a ``reference_oracle`` never is. ``source`` names the package that
    registered it.
    """

    id: str
    factory: Callable[[BackendRequest], Backend]
    precedence: int = NO_PRECEDENCE
    dispatches: bool = False
    probe: Callable[[BackendRequest], BackendFacts] | None = None
    reference_oracle: bool = False
    source: str = "this process"

    def __post_init__(self) -> None:
        """Check what is given.

        Raises
        ------
        InvalidRegistration
            If the id is empty, not printable or has space around it, the precedence is not a u32, or factory or probe cannot
            be called.
        """
        if not isinstance(self.id, str) or not self.id or not self.id.isprintable():
            _refuse(f"the id of a backend is {self.id!r}", "give a printable name", self.id)
        if self.id != self.id.strip():
            _refuse(f"the id of a backend is {self.id!r}", "leave out the space around it", self.id)
        if type(self.precedence) is not int or not 0 <= self.precedence <= NO_PRECEDENCE:
            _refuse(f"the precedence of backend {self.id!r} is {self.precedence!r}", f"give 0 to {NO_PRECEDENCE}", self.id)
        if not callable(self.factory) or not (self.probe is None or callable(self.probe)):
            _refuse(f"factory or probe of backend {self.id!r} cannot be called", "give functions", self.id)

    @property
    def is_oracle(self) -> bool:
        """Whether it is an interpreter that results are compared with; upstream knows those by their ids."""
        return self.reference_oracle or is_reference_oracle(self.id)


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plug-in that cannot be loaded: the id it claims, who brought it, and why."""

    id: str
    source: str
    error: VyreError


def _open_kompute(request: BackendRequest) -> Backend:
    from vyre_driver.backends.kompute import KomputeBackend

    return KomputeBackend.open(request)


def _probe_kompute(request: BackendRequest) -> BackendFacts:
    from vyre_driver.backends.kompute import probe

    return probe(request)


def _open_cpu_ref(_: BackendRequest) -> Backend:
    from vyre_driver.backends.reference.backend import ReferenceBackend

    return ReferenceBackend()


def _open_null(_: BackendRequest) -> Backend:
    from vyre_driver.backends.null import NullBackend

    return NullBackend()


# A row a backend. 30 is the precedence of upstream's other Vulkan backends; 900 is behind everything that has a device.
_BUILT_IN = {
    one.id: one
    for one in (
        BackendRegistration("kompute", _open_kompute, 30, dispatches=True, probe=_probe_kompute, source=_ITSELF),
        BackendRegistration("cpu-ref", _open_cpu_ref, 900, dispatches=True, reference_oracle=True, source=_ITSELF),
        BackendRegistration("null", _open_null, source=_ITSELF),
    )
}
_registered: dict[str, BackendRegistration] = {}
_lock = threading.RLock()


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
        own, plugin = _own().get(registration.id), _installed().get(registration.id)
        taken = ([] if own is None else [own.source]) + ([] if plugin is None else plugin.sources)
        if taken:
            raise _duplicate(registration.id, *taken, registration.source)
        _registered[registration.id] = registration


def unregister_backend(backend_id: str) -> None:
    """Forget what ``register_backend`` was given under this id, if anything."""
    with _lock:
        _registered.pop(backend_id, None)


def registered_backends() -> tuple[BackendRegistration, ...]:
    """Return every backend that can be asked for: built in, of this process, of other packages; the broken ones left out.

    Raises
    ------
    InvalidRegistration
        If an id is claimed twice; this holds for every look-up below too.
    """
    own, installed = _without_conflicts()
    outcomes = (plugin.outcome() for plugin in installed.values())
    return (*own.values(), *(outcome for outcome in outcomes if isinstance(outcome, BackendRegistration)))


def registered_backends_by_precedence() -> tuple[BackendRegistration, ...]:
    """Return them, lowest precedence first, equal ones by id."""
    return tuple(sorted(registered_backends(), key=lambda one: (one.precedence, one.id)))


def find_registration(backend_id: str) -> BackendRegistration | None:
    """Return the backend of an id, None if there is none; of other packages only the one of this name is imported.

    Raises
    ------
    InvalidRegistration
        If it is a plug-in that cannot be loaded, with the reason, or if any id is claimed twice.
    BackendUnavailable
        If it is a plug-in that cannot be loaded, with the reason.
    """
    own, installed = _without_conflicts()
    plugin = installed.get(backend_id)
    return own.get(backend_id) if plugin is None else plugin.registration()


def known_ids() -> tuple[str, ...]:
    """Return the ids that can be asked for, sorted, without importing any backend."""
    own, installed = _without_conflicts()
    return tuple(sorted({*own, *installed}))


def broken_plugins() -> tuple[BrokenPlugin, ...]:
    """Return the plug-ins that cannot be loaded, or whose id is claimed twice, with the reasons; imports all others."""
    own, broken = _own(), []
    for name, plugin in _installed().items():
        outcome = _conflict(plugin, own) or plugin.outcome()
        if isinstance(outcome, VyreError):
            broken.append(BrokenPlugin(name, " and ".join(plugin.sources), outcome))
    return tuple(broken)


def backend_dispatches(backend_id: str) -> bool:
    """Whether a backend runs programs; False for an unknown id, or one whose plug-in is broken."""
    return any(one.dispatches for one in registered_backends() if one.id == backend_id)


def backend_precedence(backend_id: str) -> int:
    """Return a backend's precedence; 2**32 - 1 without one, and for an unknown id."""
    return next((one.precedence for one in registered_backends() if one.id == backend_id), NO_PRECEDENCE)


def is_reference_oracle(backend_id: str) -> bool:
    """Whether upstream takes an id for that of the oracle."""
    return backend_id in _ORACLES


def _own() -> dict[str, BackendRegistration]:
    """Return the backends that are no plug-ins, by id."""
    with _lock:
        return {**_BUILT_IN, **_registered}


def _conflict(plugin: _Plugin, own: Mapping[str, BackendRegistration]) -> InvalidRegistration | None:
    """Return the error of an id that a plug-in shares with another one or with a backend that is none."""
    if not plugin.is_contested and plugin.id not in own:
        return None
    others = [own[plugin.id].source] if plugin.id in own else []
    return _duplicate(plugin.id, *others, *plugin.sources)


def _without_conflicts() -> tuple[Mapping[str, BackendRegistration], Mapping[str, _Plugin]]:
    """Return the other backends and the plug-ins, by id; raises InvalidRegistration if an id is claimed twice."""
    own, installed = _own(), _installed()
    for plugin in installed.values():
        conflict = _conflict(plugin, own)
        if conflict is not None:
            raise conflict
    return own, installed


class _Plugin:
    """An id that entry points claim, and the result of importing what they name. May be used from several threads.

    Threads that ask at the same moment may each import it, which Python does once, and all get the first result.
    """

    def __init__(self, entries: list[EntryPoint]) -> None:
        """Remember who claims it; imports nothing."""
        self.id = entries[0].name
        self.is_contested = len(entries) > 1
        self._entries = entries
        self._importing = threading.local()  # has .now in a thread that imports it
        self._outcome: BackendRegistration | VyreError | None = None

    @functools.cached_property
    def sources(self) -> list[str]:
        """The plug-ins that claim it: each distribution with its version, and what its entry point names."""
        dists = ((one.dist, one.value) for one in self._entries)
        return [value if dist is None else f"{dist.name} {dist.version} ({value})" for dist, value in dists]

    def registration(self) -> BackendRegistration:
        """Return what it registers.

        Raises
        ------
        BackendUnavailable
            If its import fails or asks for it.
        InvalidRegistration
            If it has no registration of that id.
        """
        outcome = self.outcome() or self._unavailable("its own import asks for it")
        if isinstance(outcome, VyreError):
            raise outcome
        return outcome

    def outcome(self) -> BackendRegistration | VyreError | None:
        """Return what it registers, or why it cannot be loaded; None where its own import asks for it."""
        if self._outcome is None and not hasattr(self._importing, "now"):
            self._importing.now = True
            try:
                outcome = self._imported()
            finally:
                del self._importing.now
            with _lock:
                is_first = self._outcome is None
                self._outcome = self._outcome or outcome
            if is_first and isinstance(outcome, VyreError):
                _LOG.warning("a backend of another package is left out: %s", outcome)
        return self._outcome

    def _imported(self) -> BackendRegistration | VyreError:
        try:
            found = self._entries[0].load()
            made = found() if callable(found) and not isinstance(found, BackendRegistration) else found
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- whatever another package does is its own failure
            outcome = self._unavailable(f"{type(error).__name__}: {error}")
            outcome.__cause__ = error
            return outcome
        return self._checked(made)

    def _checked(self, made: object) -> BackendRegistration | VyreError:
        if isinstance(made, BackendRegistration) and made.id == self.id:
            return replace(made, source=self.sources[0])
        what = f"for {made.id!r}" if isinstance(made, BackendRegistration) else f"of type {type(made).__name__}"
        return InvalidRegistration(
            f"the entry point of backend {self.id!r} in {self.sources[0]} gives something {what}",
            fix=f"let it name a BackendRegistration with the id {self.id!r}, or a function that returns one",
            backend=self.id,
            sources=self.sources,
        )

    def _unavailable(self, why: str) -> BackendUnavailable:
        return BackendUnavailable(
            f"backend {self.id!r} of {self.sources[0]} cannot be imported: {why}",
            fix="repair or uninstall that package",
            backend=self.id,
        )


def _installed() -> Mapping[str, _Plugin]:
    """Return the plug-ins of the installed packages; looked for once a process."""
    with _lock:  # a cache alone lets two threads look, and each make its own plug-ins
        return _look_around()


@functools.cache
def _look_around() -> Mapping[str, _Plugin]:
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    return {name: _Plugin(entries) for name, entries in found.items()}


def _duplicate(backend_id: str, *sources: str) -> InvalidRegistration:
    return InvalidRegistration(
        f"backend {backend_id!r} is brought by {' and by '.join(sources)}",
        fix="uninstall one of them",
        backend=backend_id,
        sources=list(sources),
    )


def _refuse(problem: str, fix: str, backend_id: object) -> NoReturn:
    raise InvalidRegistration(problem, fix=fix, backend=backend_id)
