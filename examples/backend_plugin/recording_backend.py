"""A backend of another package: it forwards to kompute, and keeps a record of every dispatch.

Its entry point is in pyproject.toml. Nothing here is imported before somebody asks for the backend ``recording``, or for a
ranking.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.backends import (
    Backend,
    BackendFacts,
    BackendRegistration,
    BackendRequest,
    DeviceProfile,
    acquire,
    probe_backend,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends import DispatchConfig
    from vyre_driver.specialization.values import SpecMap

ID = "recording"
FORWARDED_TO = "kompute"
PRECEDENCE = 950  # where the facts are equal, what it forwards to goes first


class Record(NamedTuple):
    """One dispatch: its label, bytes in and out, and seconds."""

    label: str
    bytes_in: int
    bytes_out: int
    seconds: float


class RecordingBackend(Backend):
    """What it can do is what the other backend can do; ``records`` has one entry a dispatch."""

    id = ID
    version = "1.0"

    def __init__(self, inner: Backend) -> None:
        """Take over another backend; ``close`` closes it."""
        self.inner = inner
        self.records: list[Record] = []

    @property
    def profile(self) -> DeviceProfile:
        """The other's, under this id."""
        return _renamed(self.inner.profile)

    @property
    def supported_ops(self) -> frozenset[str]:
        """The other's."""
        return self.inner.supported_ops

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """The other's."""
        return self.inner.max_grid

    @property
    def device_lost(self) -> bool:
        """The other's."""
        return self.inner.device_lost

    def dispatch(
        self,
        artifact: object,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,
        push_constants: Mapping[str, object] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Forward, and record."""
        began = time.perf_counter()
        outputs = self.inner.dispatch(artifact, inputs, config, constants=constants, push_constants=push_constants)
        label = config.label or "" if config is not None else ""
        sizes = sum(memoryview(one).nbytes for one in inputs), sum(one.nbytes for one in outputs)  # type: ignore[arg-type]
        self.records.append(Record(label, *sizes, time.perf_counter() - began))
        return outputs

    def metrics(self) -> dict[str, int | float]:
        """The other's, and how many dispatches were recorded."""
        return {**self.inner.metrics(), "recorded": len(self.records)}

    def close(self) -> None:
        """Close the other one."""
        self.inner.close()


def registration() -> BackendRegistration:
    """Return how it is had; the facts it is ranked by are those of what it forwards to, and nothing is opened for them."""
    return BackendRegistration(ID, _open, PRECEDENCE, dispatches=True, probe=_probe)


def _open(request: BackendRequest) -> RecordingBackend:
    return RecordingBackend(acquire(FORWARDED_TO, request.device, allow_software=request.allow_software))


def _probe(request: BackendRequest) -> BackendFacts:
    facts = probe_backend(FORWARDED_TO, request)
    return dataclasses.replace(facts, profile=_renamed(facts.profile))


def _renamed(profile: DeviceProfile) -> DeviceProfile:
    return dataclasses.replace(profile, backend=ID)
