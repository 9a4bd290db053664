"""A fleet in simulated time, by the driver's own policy: how often it compiles, how long it waits, what it does not take."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.cache.flight import MachineLock
from vyre_driver.identity import device_fields
from vyre_driver.remote.names import claim_name, device_name
from vyre_driver.remote.tier import TURN
from vyre_driver.vulkan import enumerate_devices, select_device

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.fleet_clock import Simulation
from benchmarks.fleet_machines import SPIRV, Machine, Process
from benchmarks.fleet_simulation import RATES, Case, Found, Simulated
from benchmarks.fleet_store import Host, Server, SimulatedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Answer = TypeVar("Answer")
pytestmark = pytest.mark.device
MACHINES, PROCESSES, PIPELINES = 24, 2, 12
FIRST_ANSWER_S = 0.26
PAUSE_S = 0.5  # half of a compilation, which somebody else's claim is waited for


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    device = select_device(enumerate_devices(), allow_software=True)
    return Simulated(device, tmp_path_factory.mktemp("fleet"), PIPELINES, 1.0)


@pytest.fixture(scope="module")
def alone_s(simulated: Simulated) -> float:
    """How long the slowest process takes without a store."""
    return simulated.run(Case(), MACHINES, PROCESSES, None).took_s[-1]


def run(simulated: Simulated, case: Case) -> Found:
    return simulated.run(case, MACHINES, PROCESSES)


def test_a_fleet_that_starts_together_compiles_each_pipeline_once_in_two_seconds(simulated: Simulated) -> None:
    found = run(simulated, Case())
    assert (found.compiled, found.wrong, len(found.took_s), found.took_s[-1] <= 2.0) == (PIPELINES, 0, 48, True)


def questions_of(simulated: Simulated, processes: int) -> int:
    """How often the processes of one machine ask, each of which begins when the one before has ended."""
    clock = Simulation()
    server, machine = Server(clock, RATES), Machine(simulated.fleet, clock)
    for number in range(processes):
        store = SimulatedStore(server, Host(clock, 1))
        clock.start(partial(machine.process, store, Process.warm), after_s=100.0 * number)
    clock.start(partial(clock.sleep, 100.0 * processes))  # until all is sent
    clock.run()
    assert machine.compiled == PIPELINES
    return server.questions


def test_what_one_process_of_a_machine_has_the_next_one_asks_nobody_for(simulated: Simulated) -> None:
    assert questions_of(simulated, 3) == questions_of(simulated, 1)


class Counted(SimulatedStore):
    """Notes how many processes of a machine ask for the state of entries, or claim one, at the same time."""

    def __init__(self, server: Server, host: Host, asking: list[int]) -> None:
        super().__init__(server, host)
        self._asking = asking  # how many do, and did at most

    def counted(self, ask: Callable[[], Answer]) -> Answer:
        self._asking[0] += 1
        self._asking[1] = max(self._asking)
        try:
            return ask()
        finally:
            self._asking[0] -= 1

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        ask = partial(super().fetch, names, limit)
        return ask() if limit else self.counted(ask)

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        return self.counted(partial(super().claim, name, owner, for_s))


def test_the_processes_of_a_machine_ask_for_a_warm_up_one_after_the_other(simulated: Simulated) -> None:
    clock, asking = Simulation(), [0, 0]
    server, machine, host = Server(clock, RATES), Machine(simulated.fleet, clock), Host(clock, 8)
    for _ in range(8):
        clock.start(partial(machine.process, Counted(server, host, asking), Process.warm))
    clock.run()
    assert (machine.compiled, asking) == (PIPELINES, [0, 1])


def test_a_neighbour_that_stands_still_in_its_turn_is_waited_for_once(simulated: Simulated) -> None:
    clock = Simulation()
    server, machine = Server(clock, RATES), Machine(simulated.fleet, clock)
    held = MachineLock(machine.cache, TURN)
    assert held.take()
    clock.start(partial(machine.process, SimulatedStore(server, Host(clock, 1)), Process.warm))
    clock.run()
    held.release()
    assert (machine.compiled, [round(took) for took in machine.took_s]) == (PIPELINES, [PIPELINES + 5])


def test_a_process_that_rests_goes_on_when_its_neighbours_have_taken_all_that_is_left(simulated: Simulated) -> None:
    clock, fleet = Simulation(), simulated.fleet
    server, machine = Server(clock, RATES), Machine(fleet, clock)
    device = device_name(device_fields(fleet.device))
    assert all(server.claim(claim_name(device, key.digest), 100.0) for key in fleet.keys)

    def neighbour() -> None:
        clock.sleep(0.1)  # the process rests for 0.25 s at least
        for key in fleet.keys:
            machine.cache.put(key, PipelineEntry(key.manifest, SPIRV, fleet.blob()))

    clock.start(partial(machine.process, SimulatedStore(server, Host(clock, 1)), Process.warm))
    clock.start(neighbour)
    clock.run()
    assert (machine.compiled, machine.took_s[0] <= 0.2) == (0, True)


def test_a_fleet_that_rolls_in_compiles_each_pipeline_once(simulated: Simulated) -> None:
    assert run(simulated, Case(window_s=60.0)).compiled == PIPELINES


@pytest.mark.parametrize(
    "case", [Case(slowness=2000.0), Case(dies_at_s=0.0), Case(partition=True)], ids=["slow", "dead", "cut off"]
)
def test_a_store_that_cannot_be_used_costs_a_process_one_first_answer_a_period(
    simulated: Simulated, alone_s: float, case: Case
) -> None:
    periods = 2  # from 0 s and from 5 s on: a process takes 6 to 9 s alone
    assert run(simulated, case).took_s[-1] <= alone_s + periods * FIRST_ANSWER_S


def test_a_store_that_dies_costs_no_more_than_what_its_claims_were_waited_for(simulated: Simulated, alone_s: float) -> None:
    assert run(simulated, Case(dies_at_s=0.4)).took_s[-1] <= alone_s + PAUSE_S + FIRST_ANSWER_S


def test_damaged_answers_are_taken_by_nobody(simulated: Simulated, alone_s: float) -> None:
    found = run(simulated, Case(damaged=0.2))
    assert (found.wrong, found.took_s[-1] <= alone_s) == (0, True)


def test_a_poisoned_name_is_compiled_by_each_machine_at_once_and_waited_for_by_none(simulated: Simulated) -> None:
    found = run(simulated, Case(poisoned=1))
    assert (found.wrong, found.compiled, found.took_s[-1] <= 3.5) == (0, PIPELINES - 1 + MACHINES, True)
