"""A server that a simulated fleet shares: what it takes for each command and byte, and what may happen to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.remote.link import longest_s
from vyre_driver.remote.redis_store import CONNECT_S
from vyre_driver.remote.store import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.fleet_clock import Simulation
    from vyre_driver.remote.store import Store

FIRST_ANSWER_S = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """What a server and a process take, in seconds.

    The network takes ``round_trip_s``; the server ``question_s``, ``command_s`` for each command of it and ``byte_s`` for each
    byte; a process ``client_s`` for a question, ``name_s`` for each command of it, ``taken_s`` for an entry that it takes and
    ``sent_s`` for one that it sends. ``value_bytes`` is how long an entry counts as, however short the simulated one is.
    """

    round_trip_s: float
    question_s: float
    command_s: float
    byte_s: float
    client_s: float
    name_s: float
    taken_s: float
    sent_s: float
    value_bytes: int = 16 << 10


class Host:
    """The cores of a machine: work waits for the one that is free first."""

    def __init__(self, simulation: Simulation, cores: int) -> None:
        """Begin with all of them free."""
        self._simulation, self._free = simulation, [0.0] * cores

    def compute(self, seconds: float) -> None:
        """Return when a core has worked for so many seconds."""
        now = self._simulation.now()
        core = min(range(len(self._free)), key=self._free.__getitem__)
        self._free[core] = max(now, self._free[core]) + seconds
        self._simulation.sleep(self._free[core] - now)


@dataclass(slots=True)
class Server:
    """One thread that serves one question after the other, as Redis does. ``dies_at_s`` and ``slowness`` are its faults."""

    simulation: Simulation
    rates: Rates
    dies_at_s: float = float("inf")
    slowness: float = 1.0
    damage: Callable[[bytes], bytes] = bytes
    values: dict[str, bytes] = field(default_factory=dict)
    claims: dict[str, float] = field(default_factory=dict)
    questions: int = 0
    _free_s: float = 0.0

    def serve(self, commands: int, size: int) -> tuple[float, float]:
        """Return in how many seconds an answer begins and ends that takes so many commands and bytes."""
        now, rates = self.simulation.now(), self.rates
        self.questions += 1
        half, busy_s = rates.round_trip_s / 2 * self.slowness, rates.question_s + commands * rates.command_s
        begins = max(now + half, self._free_s) + busy_s * self.slowness
        self._free_s = begins + size * rates.byte_s * self.slowness
        return begins + half - now, self._free_s + half - now

    def claim(self, name: str, for_s: float) -> bool:
        """Take a name for so many seconds unless it is taken."""
        if self.claims.get(name, 0.0) > self.simulation.now():
            return False
        self.claims[name] = self.simulation.now() + for_s
        return True


class SimulatedStore:
    """The store that one process reaches: its failures and deadlines are those of a client's (redis_store.py, link.py)."""

    def __init__(self, server: Server, host: Host, is_cut_off: Callable[[float], bool] = lambda _now: False) -> None:
        """Be connected to; ``is_cut_off`` says of a time whether nothing goes through."""
        self.address = "simulated:"
        self._server, self._host, self._is_cut_off = server, host, is_cut_off
        self._is_connected = False

    def do(self, what: Callable[[Store], object], size: int = 0) -> object:
        """Do an operation, as Link does."""
        del size
        return what(self)

    def open(self) -> None:
        """Have nothing to import."""

    def close(self) -> None:
        """End the connection."""
        self._is_connected = False

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the values: see ``Store``."""
        self._begin(len(names))
        now, held = self._server.simulation.now(), self._server
        found = [held.values.get(name) or (b"1" if held.claims.get(name, 0.0) > now else None) for name in names]
        taken = sum(one is not None for one in found) if limit else 0
        self._end(len(names), len(names) + taken * held.rates.value_bytes)
        if taken:
            self._host.compute(taken * held.rates.taken_s)
        return [None if one is None else held.damage(one) if limit else b"1" for one in found]

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:
        """Store a value: see ``Store``."""
        del keep_s
        self._host.compute(self._server.rates.sent_s)
        self._begin()
        is_free = self._server.values.setdefault(name, data) is data
        self._end(1, self._server.rates.value_bytes)
        return is_free

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for a while: see ``Store``."""
        del owner
        self._begin()
        is_ours = self._server.claim(name, for_s)
        self._end(1, 0)
        return is_ours

    def touch(self, names: Sequence[str], keep_s: int) -> None:
        """Note the use: see ``Store``."""
        del keep_s
        self._begin()
        self._end(2 * len(names), 0)

    def ping(self) -> None:
        """Return when it has answered."""
        self._begin()
        self._end(1, 0)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names: see ``Store``."""
        yield from (name for name in list(self._server.values) if name.startswith(prefix))

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return nothing: no tuning is simulated."""
        del name, limit
        return {}

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:
        """Store nothing: no tuning is simulated."""

    def _begin(self, names: int = 1) -> None:
        """Send a question; raises what a client would where nothing answers, when it would."""
        server, clock = self._server, self._server.simulation
        self._host.compute(server.rates.client_s + names * server.rates.name_s)
        if clock.now() >= server.dies_at_s:
            self._fail("refused", 0.0)
        if self._is_cut_off(clock.now()):
            self._fail("timed_out", FIRST_ANSWER_S if self._is_connected else CONNECT_S)
        self._is_connected = True

    def _end(self, commands: int, size: int) -> None:
        """Wait for the answer to so many commands, of so many bytes; raises what a client would, when it would."""
        server, clock = self._server, self._server.simulation
        begins_s, ends_s = server.serve(commands, size)
        if begins_s > FIRST_ANSWER_S:
            self._fail("timed_out", FIRST_ANSWER_S)
        if ends_s > longest_s(size):
            self._fail("late", longest_s(size))
        if clock.now() + ends_s >= server.dies_at_s:
            self._fail("cut", max(0.0, server.dies_at_s - clock.now()))
        clock.sleep(ends_s)

    def _fail(self, kind: str, after_s: float) -> None:
        self._server.simulation.sleep(after_s)
        self._is_connected = False
        raise StoreFailure(kind, f"simulated: {kind}")  # type: ignore[arg-type]
