"""Acquire a backend: by its id, or the best one.

Which is best is upstream's order: capability score, timing quality and bandwidth downwards, precedence, acquisition time and id
upwards. Three things differ from upstream, on purpose. The facts are those that a probe tells without opening a device, so only
the winner is initialised; acquisition times are therefore all 0 when backends are ranked, and equal ones go by their ids
instead of by the clock. A winner that then fails is a failure like those of the probes, and the next one is taken. And a CPU
device ranks below every other, however capable it says it is, and is taken only where one was allowed.

Source: spec item 2.5.
"""

from __future__ import annotations

import difflib
import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.backends.base import Backend, BackendFacts, BackendRequest
from vyre_driver.backends.registry import NO_PRECEDENCE, find_registration, known_ids, registered_backends_by_precedence
from vyre_driver.display.line import aligned
from vyre_driver.errors import BackendError, BackendNotFound, NoUsableBackend, VyreError
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.backends.registry import BackendRegistration

_LOG = logging.getLogger("vyre_driver.backends")
_MOST_NEAR = 3
_FIX = "run vyre-driver doctor, which shows what a GPU backend lacks; the reference oracle is acquired by name only"
_MODEST_INVOCATIONS, _GOOD_INVOCATIONS = 64, 256
_DECIDING = {
    "capability score": "capability_score",
    "timing quality": "timing_quality_score",
    "bandwidth in GB/s": "memory_bandwidth_gbps",
    "precedence": "precedence",
}


@dataclass(frozen=True, slots=True)
class BackendSelectionFacts:
    """The measures that backends are ranked by; sorted, the best comes first. Bandwidth in GB/s, time in ns."""

    id: str
    precedence: int = NO_PRECEDENCE
    capability_score: int = 0
    timing_quality_score: int = 0
    memory_bandwidth_gbps: int = 0
    acquisition_ns: int = 0

    @classmethod
    def of(cls, registration: BackendRegistration, profile: DeviceProfile, acquisition_ns: int = 0) -> BackendSelectionFacts:
        """Return the facts of a backend with this profile."""
        return cls(
            registration.id,
            registration.precedence,
            backend_capability_score(profile),
            profile.timing_quality.score,
            profile.mem_bw_gbps,
            acquisition_ns,
        )

    def __lt__(self, other: BackendSelectionFacts) -> bool:
        """Whether it is the better one."""
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[int, int, int, int, int, bytes]:
        scores = (-self.capability_score, -self.timing_quality_score, -self.memory_bandwidth_gbps)
        return (*scores, self.precedence, self.acquisition_ns, self.id.encode())


@dataclass(frozen=True, slots=True)
class BackendCandidate:
    """One row of a ranking: a backend, what it was ranked by (None if it was not), and the verdict on it, in words."""

    id: str
    facts: BackendSelectionFacts | None = None
    device: str = ""
    is_software: bool = False
    verdict: str = "not opened"


@dataclass(frozen=True, slots=True)
class Acquisition:
    """A backend and why it is this one: every backend in the order of the ranking, those that were not ranked at the end."""

    backend: Backend
    why: tuple[BackendCandidate, ...]
    acquisition_ns: int

    def __str__(self) -> str:
        """Return the ranking as a table."""
        return ranking_text(self.why)


@dataclass(slots=True)
class _Ranking:
    """The rows of those that may be taken, the best first, and of the others; of these, why they failed, and the oracles."""

    ranked: list[BackendCandidate] = field(default_factory=list)
    others: list[BackendCandidate] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    oracles: list[str] = field(default_factory=list)

    def leave_out(self, row: BackendCandidate, why: str) -> None:
        self.others.append(replace(row, facts=None, verdict=why))

    def fail(self, row: BackendCandidate, error: Exception) -> None:
        said = str(error) if isinstance(error, VyreError) else f"{type(error).__name__}: {error}"
        self.failures[row.id] = said
        self.leave_out(row, f"failed: {said}")
        _LOG.info("backend %s is unavailable: %s", row.id, said)


def backend_capability_score(profile: DeviceProfile) -> int:
    """Return upstream's score of a profile, 0 to 66 (spec item 2.5)."""
    points = (
        (profile.max_storage_buffer_binding_size > 0, 16),
        (profile.max_invocations_per_workgroup >= _MODEST_INVOCATIONS, 8),
        (profile.max_invocations_per_workgroup >= _GOOD_INVOCATIONS, 4),
        (profile.subgroup_size > 0, 8),
        (profile.supports_subgroup_ops, 8),
        (profile.has_subgroup_shuffle, 4),
        (profile.has_shared_memory, 4),
        (profile.supports_f16, 2),
        (profile.supports_bf16, 2),
        (profile.supports_tensor_cores, 4),
        (profile.supports_indirect_dispatch, 2),
        (profile.supports_device_timestamps, 2),
        (profile.supports_hardware_counters, 2),
    )
    return sum(worth for there, worth in points if there)


def backend_registration(backend_id: str) -> BackendRegistration:
    """Return the registration of a backend, which is not opened.

    Raises
    ------
    BackendNotFound
        If no backend has the id; the message names those that are near.
    BackendUnavailable
        If the package that brings it cannot be imported.
    InvalidRegistration
        If the package that brings it registers it wrongly, or any id is claimed twice.
    """
    registration = find_registration(backend_id) if isinstance(backend_id, str) else None
    if registration is not None:
        return registration
    known = known_ids()
    near = difflib.get_close_matches(str(backend_id).lower(), known, _MOST_NEAR, 0.5)
    suggested = f"; near it: {', '.join(near)}" if near else ""
    raise BackendNotFound(
        f"no backend has the id {backend_id!r}; there are {', '.join(known)}{suggested}",
        fix="name one of those, or install the package that brings it",
        wanted=backend_id,
        near=near,
    )


def acquire(backend_id: str, device: str | int | None = None, *, allow_software: bool | None = None) -> Backend:
    """Open the backend with an id; the caller closes it.

    Parameters
    ----------
    backend_id
        ``kompute``, ``cpu-ref``, ``null``, or that of another package's.
    device
        As for ``Driver``; None takes VYRE_DEVICE, else the best device of the backend.
    allow_software
        Whether a CPU device will do; None takes VYRE_ALLOW_SOFTWARE.

    Raises
    ------
    BackendNotFound
        If no backend has the id; the message names those that are near.
    BackendUnavailable
        If the package that brings it cannot be imported.
    InvalidRegistration
        If the package that brings it registers it wrongly, or any id is claimed twice.
    VyreError
        If its factory raises it; any other error comes as BackendError.
    """
    return _open(backend_registration(backend_id), _request(device, allow_software))


def acquire_preferred_dispatch_backend(device: str | int | None = None, *, allow_software: bool | None = None) -> Backend:
    """Open the best backend that dispatches; the caller closes it.

    Parameters as for ``acquire``; ``explain_acquisition`` tells besides why it is this one.

    Raises
    ------
    NoUsableBackend
        If no backend can be used; names every one that was tried, and why not.
    InvalidRegistration
        If an id is claimed twice.
    """
    return explain_acquisition(device, allow_software=allow_software).backend


def explain_acquisition(device: str | int | None = None, *, allow_software: bool | None = None) -> Acquisition:
    """Do as ``acquire_preferred_dispatch_backend``, and return the backend with the ranking it was chosen from."""
    request = _request(device, allow_software)
    ranking = _rank(request)
    for place, row in enumerate(ranking.ranked):
        began = time.perf_counter_ns()
        try:
            backend = _open(backend_registration(row.id), request)
        except Exception as error:  # noqa: BLE001 -- whatever a factory raises, the others are still available
            ranking.fail(row, error)
            continue
        acquired_ns = time.perf_counter_ns() - began
        return Acquisition(backend, (*_verdicts(ranking.ranked[place:], acquired_ns), *ranking.others), acquired_ns)
    raise _nothing_usable(ranking)


def rank_backends(device: str | int | None = None, *, allow_software: bool | None = None) -> tuple[BackendCandidate, ...]:
    """Return the ranking that an acquisition would go by, from the probes alone: nothing is opened."""
    ranking = _rank(_request(device, allow_software))
    return (*ranking.ranked, *ranking.others)


def probe_backend(backend_id: str, request: BackendRequest) -> BackendFacts:
    """Return the facts of a backend that is not open; conservative ones if it has no probe.

    Raises
    ------
    BackendNotFound
        If no backend has the id.
    """
    registration = backend_registration(backend_id)
    if registration.probe is None:
        return BackendFacts(DeviceProfile.conservative(backend_id))
    return registration.probe(request)


def ranking_text(rows: tuple[BackendCandidate, ...]) -> str:
    """Return a ranking as a table of plain text, a row a backend."""
    head = ("", "backend", "capability", "timing", "GB/s", "precedence", "device", "verdict")
    return "\n".join(aligned([head, *(_cells(place, row) for place, row in enumerate(rows, start=1))], left=range(len(head))))


def _cells(place: int, row: BackendCandidate) -> tuple[str, ...]:
    facts = row.facts
    if facts is None:
        return ("-", row.id, "", "", "", "", row.device, row.verdict)
    precedence = "none" if facts.precedence == NO_PRECEDENCE else str(facts.precedence)
    scores = (str(facts.capability_score), str(facts.timing_quality_score), str(facts.memory_bandwidth_gbps))
    return (str(place), row.id, *scores, precedence, row.device, row.verdict)


def _request(device: str | int | None, allow_software: bool | None) -> BackendRequest:  # noqa: FBT001 -- passed through
    wanted = settings.text(settings.DEVICE) if device is None else device
    allowed = settings.switch(settings.ALLOW_SOFTWARE) if allow_software is None else allow_software
    return BackendRequest(wanted, allowed)


def _rank(request: BackendRequest) -> _Ranking:
    ranking = _Ranking()
    for registration in registered_backends_by_precedence():
        row = BackendCandidate(registration.id)
        if registration.is_oracle:
            if registration.dispatches:
                ranking.oracles.append(registration.id)
            ranking.leave_out(row, "left out: a reference oracle is acquired by name only")
        elif not registration.dispatches:
            ranking.leave_out(row, "left out: it does not dispatch")
        else:
            _probe(registration, request, row, ranking)
    ranking.ranked.sort(key=lambda row: (row.is_software, row.facts))
    return ranking


def _probe(registration: BackendRegistration, request: BackendRequest, row: BackendCandidate, ranking: _Ranking) -> None:
    """Add a row with its facts to the ranked ones, or with the reason to the others."""
    try:
        probed = probe_backend(registration.id, request)
        facts = BackendSelectionFacts.of(registration, probed.profile)
    except Exception as error:  # noqa: BLE001 -- whatever a probe raises, the others are still available
        ranking.fail(row, error)
        return
    row = replace(row, facts=facts, device=probed.device, is_software=probed.is_software)
    if probed.is_software and not request.allow_software:
        ranking.failures[row.id] = f"{probed.device or 'its device'} is a CPU (software) device and none was allowed"
        ranking.leave_out(row, f"left out: {ranking.failures[row.id]}")
    else:
        ranking.ranked.append(row)


def _verdicts(rows: list[BackendCandidate], acquired_ns: int) -> Iterator[BackendCandidate]:
    """Yield the rows of the one that was opened, which is the first, and of those behind it, with what decided."""
    first, *behind = rows
    facts = None if first.facts is None else replace(first.facts, acquisition_ns=acquired_ns)
    if first.is_software:
        _LOG.warning("backend %s runs on %s, a CPU (software) device", first.id, first.device)
    allowed = ": a CPU (software) device, which was allowed" if first.is_software else ""
    yield replace(first, facts=facts, verdict=f"chosen{allowed}")
    for row in behind:
        against = "a CPU (software) device" if row.is_software and not first.is_software else _difference(first, row)
        yield replace(row, verdict=f"behind: {against}")


def _difference(first: BackendCandidate, other: BackendCandidate) -> str:
    """Say what the first one is ranked before the other by."""
    for name, field_name in _DECIDING.items():
        best, its = (getattr(row.facts, field_name) for row in (first, other))
        if best != its:
            return f"{name} {its} against {best}"
    return "its id comes later"


def _open(registration: BackendRegistration, request: BackendRequest) -> Backend:
    """Call the factory; what it raises that is none of our errors is named after the backend."""
    try:
        return registration.factory(request)
    except VyreError:
        raise
    except Exception as error:
        raise BackendError(
            f"backend {registration.id!r} of {registration.source} failed to open with {type(error).__name__}: {error}",
            fix="report it to whoever made that backend, or acquire another one",
            backend=registration.id,
        ) from error


def _nothing_usable(ranking: _Ranking) -> NoUsableBackend:
    if ranking.failures:
        detail = "; ".join(f"{name}: {why}" for name, why in ranking.failures.items())
    elif ranking.oracles:
        detail = f"only reference oracle backend(s) were available: {', '.join(ranking.oracles)}"
    else:
        detail = "no dispatch-capable backend is registered"
    return NoUsableBackend(
        f"no usable GPU dispatch backend is available ({detail})",
        fix=_FIX,
        tried=dict(ranking.failures),
        oracles=ranking.oracles,
    )
