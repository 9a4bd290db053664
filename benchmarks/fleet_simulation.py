"""A thousand machines in simulated time, by the driver's own code: what a store is worth to them, and what its faults cost.

python -m benchmarks.fleet_simulation [--json] [--machines N] [--processes P] [--pipelines K] [--case NAME]: breaker, queue,
negative list, patience, the order of a warm-up and its claims are the driver's own; the server and the compiler are models,
with rates that were measured (RATES).
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.fleet_clock import Simulation
from benchmarks.fleet_machines import POISON, Fleet, Machine, Process, ended
from benchmarks.fleet_store import Host, Rates, Server, SimulatedStore
from vyre_driver.remote.trust import Trust, make_key, trust_line
from vyre_driver.vulkan import enumerate_devices, select_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.vulkan.devices import PhysicalDevice

RATES = Rates(
    round_trip_s=200e-6,
    question_s=12e-6,
    command_s=0.7e-6,
    byte_s=0.8e-9,
    client_s=20e-6,
    name_s=5.3e-6,
    taken_s=1000e-6,
    sent_s=300e-6,
)
CORES = 8


@dataclass(frozen=True, slots=True)
class Case:
    """How a fleet starts, and what happens to its store; times in seconds."""

    window_s: float = 0.0
    dies_at_s: float = float("inf")
    slowness: float = 1.0
    damaged: float = 0.0
    poisoned: int = 0
    partition: bool = False
    warms: bool = True


CASES = {
    "together": Case(),
    "in the order of the program": Case(warms=False),
    "within 60 s": Case(window_s=60.0),
    "the store dies after 0.5 s": Case(dies_at_s=0.5),
    "within 60 s, the store dies after 10 s": Case(window_s=60.0, dies_at_s=10.0),
    "a store 100 times slower": Case(slowness=100.0),
    "1 % of the answers damaged": Case(damaged=0.01),
    "one name of the list poisoned": Case(poisoned=1),
    "half of the fleet cut off": Case(partition=True),
}


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a fleet: how often it compiled, what was taken that should not be, and each process's seconds, ascending."""

    compiled: int
    wrong: int
    took_s: list[float]
    questions: int

    def facts(self) -> dict[str, Any]:
        """Return it as plain data, with the seconds of each hundredth process."""
        last = len(self.took_s) - 1
        return {
            "compiled": self.compiled,
            "poison_taken": self.wrong,
            "questions": self.questions,
            "seconds_by_percent": [round(self.took_s[last * percent // 100], 4) for percent in range(101)],
        }


class Simulated:
    """A fleet of so many machines and processes each, for several cases."""

    def __init__(self, device: PhysicalDevice, place: Path, pipelines: int, compile_s: float) -> None:
        """Make the keys of the machines that compile, and one that is not trusted."""
        signer, self._stranger = make_key(place / "key"), make_key(place / "stranger")
        (place / "trusted").write_text(trust_line("fleet", signer), "utf-8")
        self.fleet = Fleet(device, Trust.read(place / "trusted"), signer, pipelines, compile_s)

    def run(self, case: Case, machines: int, processes: int, rates: Rates | None = RATES, *, cores: int = 0) -> Found:
        """Run a case, without a store where there are no rates; with ``cores`` all machines share so many."""
        clock, chance = Simulation(), random.Random(1)  # noqa: S311 -- no secret
        random.seed(1)
        server = None if rates is None else self._server(clock, rates, case, chance)
        common = Host(clock, cores) if cores else None
        made = [Machine(self.fleet, clock) for _ in range(machines)]
        program: Callable[[Process], None] = Process.warm if case.warms else Process.in_order
        for number, machine in enumerate(made):
            host, begins_s = common or Host(clock, CORES), chance.uniform(0, case.window_s)
            is_cut_off = partial(_is_cut_off, case, number)
            for _ in range(processes):
                store = None if server is None else SimulatedStore(server, host, is_cut_off)
                clock.start(partial(machine.process, store, program), after_s=begins_s)
        clock.run()
        wrong, compiled = sum(one.wrong for one in made), sum(one.compiled for one in made)
        return Found(compiled, wrong, ended(made), 0 if server is None else server.questions)

    def _server(self, clock: Simulation, rates: Rates, case: Case, chance: random.Random) -> Server:
        server = Server(clock, rates, case.dies_at_s, case.slowness)
        for key in self.fleet.keys[: case.poisoned]:
            server.values[self.fleet.name(key)] = self.fleet.sealed(key, self.fleet.blob() + POISON, self._stranger)
        if case.damaged:
            server.damage = partial(_damaged, chance, case.damaged)
        return server


def _is_cut_off(case: Case, number: int, now: float) -> bool:
    return case.partition and number % 2 == 1 and now >= 0.0


def _damaged(chance: random.Random, share: float, data: bytes) -> bytes:
    """Return a value, in so many of 1 with a bit of it flipped."""
    if chance.random() >= share:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def main() -> None:
    """Run the cases, each after its fleet without a store."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print data instead of a table")
    options.add_argument("--machines", type=int, default=1000)
    options.add_argument("--processes", type=int, default=8)
    options.add_argument("--pipelines", type=int, default=50)
    options.add_argument("--compile-ms", type=int, default=1000)
    options.add_argument("--case", action="append", choices=list(CASES), help="only this one; may be given again")
    given = options.parse_args()
    told: dict[str, Any] = {"machines": given.machines, "processes": given.processes, "pipelines": given.pipelines}
    device = select_device(enumerate_devices(), allow_software=True)
    with tempfile.TemporaryDirectory(prefix="vyre-fleet-") as name:
        simulated = Simulated(device, Path(name), given.pipelines, given.compile_ms / 1000)
        cases = {"without a store": Case(), **{one: CASES[one] for one in given.case or CASES}}
        for one, case in cases.items():
            began = time.perf_counter()
            found = simulated.run(case, given.machines, given.processes, None if one == "without a store" else RATES)
            told[one] = found.facts()
            if not given.json:
                seconds = told[one]["seconds_by_percent"]
                line = f"{found.compiled:6} compiled, {found.wrong} wrong, {found.questions:8} questions"
                line += f", seconds a process: median {seconds[50]:.2f}, p99 {seconds[99]:.2f}, last {seconds[100]:.2f}"
                print(f"{one:40} {line} ({time.perf_counter() - began:.0f} s)", flush=True)
    if given.json:
        print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
