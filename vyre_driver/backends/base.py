"""The interface of a backend.

A backend is one way of running compiled work on one device: kompute on a GPU, an interpreter on the CPU, another package on
whatever it drives. It is acquired (:mod:`vyre_driver.backends.acquisition`), loads an *artifact* (a ``Program`` or
a ``SpirvModule``, whichever of them it takes), and dispatches it: arrays in, for what the artifact reads, and arrays out, of
what it writes, both in the order of its bindings. Nothing of the caller's is ever written to.

A capability is there only if the lowering really emits it and the device has it; what it does not
say is False, 0 or the smallest that can be. It refuses by name what it cannot do (``UnsupportedFeature``) before anything runs:
there is no slow way that is taken silently, no field of a ``DispatchConfig`` that is dropped, no result that another backend
computed.

It owns what it made. ``close`` gives the device back once its work has ended; after it, and after ``device_lost`` turned True,
every call raises and nothing crashes. A lost backend stays lost: another one is acquired in its place.

A backend of one's own is a class with an ``id`` and ``dispatch``; everything else has a default here. Registered with
``register_backend``, or by a package through the entry-point group ``vyre_driver.backends`` (docs/backends.md).

Source: spec items 4.1 (methods and defaults), 4.2 and 4.5 (timing), 4.6 (the default set of 21 operations).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import DispatchFailed, UnsupportedFeature
from vyre_driver.target.config import DispatchConfig, check_config
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.specialization.values import SpecMap

_CORE_OPS = frozenset(
    {
        "vyre.node.let",
        "vyre.node.assign",
        "vyre.node.store",
        "vyre.node.if",
        "vyre.node.loop",
        "vyre.node.return",
        "vyre.node.block",
        "vyre.node.barrier",
        "vyre.node.indirect_dispatch",
        "vyre.node.async_load",
        "vyre.node.async_wait",
        "vyre.node.region",
        "vyre.lit_u32",
        "vyre.lit_i32",
        "vyre.lit_f32",
        "vyre.lit_bool",
        "vyre.var",
        "vyre.bin_op",
        "vyre.un_op",
        "vyre.load",
        "vyre.store",
    }
)


def core_supported_ops() -> frozenset[str]:
    """Return upstream's default set: control flow, loads, stores and arithmetic, without traps and collectives."""
    return _CORE_OPS


@dataclass(frozen=True, slots=True)
class TimedDispatch:
    """The outputs of a dispatch, and the nanoseconds it took.

    ``wall_ns`` is the call as a whole. ``enqueue_ns`` is handing the work to the device, ``wait_ns`` waiting for its end, and
    ``device_ns`` what the device's own clock says of the work alone; None is what this backend cannot tell.
    """

    outputs: tuple[NDArray[Any], ...]
    wall_ns: int
    enqueue_ns: int | None = None
    wait_ns: int | None = None
    device_ns: int | None = None


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """The request of an acquisition: which device, and whether a CPU device will do."""

    device: str | int | None = None
    allow_software: bool = False


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """The facts that a backend reports before anything is initialised: its profile, and the device it would open."""

    profile: DeviceProfile
    device: str = ""
    is_software: bool = False


class LoadedArtifact(ABC):
    """An artifact that a backend has made ready: it can be dispatched any number of times. May be called from several threads.

    A ``config`` of None is the one it was loaded with; another one, even one that is all defaults, takes its place.
    """

    def __init__(self, backend: Backend, artifact_id: str, config: DispatchConfig | None) -> None:
        """Made by ``Backend.load``."""
        self.backend = backend
        self.id = artifact_id
        self.config = DispatchConfig() if config is None else config

    @abstractmethod
    def dispatch_timed(
        self,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> TimedDispatch:
        """Run it once; raises as ``Backend.dispatch``."""

    def dispatch(
        self,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Run it once and return its outputs; raises as ``Backend.dispatch``."""
        return self.dispatch_timed(inputs, config, push_constants=push_constants).outputs


class PassThroughArtifact(LoadedArtifact):
    """The artifact itself: nothing was made ready, and each dispatch goes the whole way."""

    def __init__(
        self,
        backend: Backend,
        artifact: object,
        constants: Mapping[str, object] | SpecMap | None,
        config: DispatchConfig | None,
    ) -> None:
        """Keep what was given."""
        super().__init__(backend, f"{backend.id}:passthrough", config)
        self._artifact = artifact
        self._specs = constants

    def dispatch_timed(
        self,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> TimedDispatch:
        """Run it once."""
        began = time.perf_counter_ns()
        chosen = self.config if config is None else config
        outputs = self.backend.dispatch(self._artifact, inputs, chosen, constants=self._specs, push_constants=push_constants)
        return TimedDispatch(outputs, time.perf_counter_ns() - began)


class Backend(ABC):
    """One way of running work on one device; see the module."""

    id: str = ""
    version: str = "unspecified"

    @abstractmethod
    def dispatch(
        self,
        artifact: object,
        inputs: Sequence[object],
        config: DispatchConfig | None = None,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,
        push_constants: Mapping[str, object] | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Run an artifact once.

        Parameters
        ----------
        artifact
            A ``Program`` or a ``SpirvModule``, of those that the backend takes.
        inputs
            Arrays, in the order of the bindings that are read; a read-write buffer's comes back changed in a new array. An
            output that nothing sizes has its array among them too.
        config
            Options of the dispatch; None for none.
        constants, push_constants
            Specialization constants, and push constants, by name.

        Raises
        ------
        InvalidProgram
            If the artifact cannot be run; nothing has run then.
        InvalidInput
            If the inputs do not fit it; nothing has run then.
        UnsupportedFeature
            If the backend lacks a field of ``config``, an operation or a capability; names it.
        LimitExceeded
            If a size is over a limit of the device, or the outputs over ``max_output_bytes``.
        DispatchFailed
            If the device fails, is lost, or was closed.
        """

    @property
    def profile(self) -> DeviceProfile:
        """Its capabilities on its device; conservative unless it reports more."""
        return DeviceProfile.conservative(self.id)

    @property
    def supported_ops(self) -> frozenset[str]:
        """The operations of a program that it runs, by upstream's names."""
        return core_supported_ops()

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """The most workgroups of one dispatch, along x, y and z."""
        return (1, 1, 1)

    @property
    def supports_speculation(self) -> bool:
        """Whether variants of a kernel may race (``SpeculationMode.FORCE``)."""
        return False

    @property
    def supports_persistent_threads(self) -> bool:
        """Whether workgroups may stay and take further work (``PersistentThreadMode.FORCE``)."""
        return False

    @property
    def supports_grid_sync(self) -> bool:
        """Whether all workgroups of a dispatch can wait for each other (``cooperative``)."""
        return False

    @property
    def supports_subgroup_sizes(self) -> bool:
        """Whether a size that all subgroups must have can be asked for (``subgroup_size``)."""
        return False

    @property
    def supports_resident_buffers(self) -> bool:
        """Whether arrays can stay on the device between dispatches."""
        return False

    @property
    def supports_async_compute(self) -> bool:
        """Whether its work runs beside other work of the device."""
        return False

    @property
    def is_distributed(self) -> bool:
        """Whether it is more than one rank."""
        return False

    @property
    def device_lost(self) -> bool:
        """Whether its device stopped answering; every call raises from then on."""
        return False

    def load(
        self,
        artifact: object,
        *,
        constants: Mapping[str, object] | SpecMap | None = None,
        config: DispatchConfig | None = None,
    ) -> LoadedArtifact:
        """Make an artifact ready; by default nothing is, and ``dispatch`` goes the whole way. Raises as ``dispatch``."""
        return PassThroughArtifact(self, artifact, constants, config)

    def allocate_resident(self, byte_len: int, dtype: DTypeLike = np.uint8) -> Any:  # noqa: ANN401 -- the backend's own handle
        """Return a buffer of so many bytes (from 1 on) on the device, of contents that are not defined.

        ``dtype`` is the numpy type of its elements, for a backend that holds bindings to theirs.

        Raises
        ------
        UnsupportedFeature
            Where ``supports_resident_buffers`` is False, as the other methods on resident buffers.
        """
        del byte_len, dtype
        self.refuse("allocation of resident buffers")

    def upload_resident(self, buffer: Any, data: object) -> None:  # noqa: ANN401 -- the backend's own handle
        """Copy an array of just its size into a resident buffer."""
        del buffer, data
        self.refuse("upload to resident buffers")

    def download_resident(self, buffer: Any, start: int = 0, end: int | None = None) -> bytes:  # noqa: ANN401 -- as above
        """Return the bytes ``start`` to ``end`` of a resident buffer, by default all."""
        del buffer, start, end
        self.refuse("download of resident buffers")

    def free_resident(self, buffer: Any) -> None:  # noqa: ANN401 -- as above
        """Give a resident buffer back; a second time does nothing."""
        del buffer
        self.refuse("freeing of resident buffers")

    def dispatch_resident(
        self,
        loaded: LoadedArtifact,
        buffers: Sequence[Any],
        config: DispatchConfig | None = None,
        *,
        push_constants: Mapping[str, object] | None = None,
    ) -> TimedDispatch:
        """Run a loaded artifact on resident buffers, one for each binding; the outputs stay there, and none come back."""
        del loaded, buffers, config, push_constants
        self.refuse("dispatch on resident buffers")

    def refuse(self, feature: str, fix: str = "choose a backend that has it") -> NoReturn:
        """Refuse something by name.

        Raises
        ------
        UnsupportedFeature
            Always.
        """
        raise UnsupportedFeature(f"backend {self.id!r} has no {feature}", fix=fix, feature=feature, backend=self.id)

    def metrics(self) -> dict[str, int | float]:
        """Return its counters by name."""
        return {}

    def close(self) -> None:  # noqa: B027 -- most hold nothing
        """Give the device back once its work has ended; a second call does nothing."""

    def __enter__(self) -> Backend:
        """Return the backend itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close it."""
        self.close()


class HostBackend(Backend):
    """A backend without a device, which takes any grid; ``dispatched`` counts what it ran."""

    version = "1"
    title: str
    """What messages call it."""

    def __init__(self) -> None:
        """Open nothing."""
        self.dispatched = 0
        self._is_closed = False

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """Any grid."""
        return (U32_MAX, U32_MAX, U32_MAX)

    def checked_config(self, config: DispatchConfig | None) -> DispatchConfig:
        """Return the configuration of a dispatch.

        Raises
        ------
        DispatchFailed
            If the backend is closed.
        UnsupportedFeature
            If it lacks a field of the configuration.
        """
        if self._is_closed:
            raise DispatchFailed(f"{self.title} is closed", fix="acquire it again")
        chosen = DispatchConfig() if config is None else config
        check_config(self, chosen)
        return chosen

    def metrics(self) -> dict[str, int | float]:
        """Count dispatches."""
        return {"dispatched": self.dispatched}

    def close(self) -> None:
        """Refuse all dispatches from now on."""
        self._is_closed = True
