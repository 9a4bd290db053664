"""Single flight where much goes wrong, or many are under way: ``make stress``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from flights import Airport
from racing import expect_to_wait, race
from witnessed import seen, witness_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vyre_driver.vulkan import PhysicalDevice

RACERS = 16
KILLS = 100
# Waited for 5 s, at the pace of an unknown device.
SOME_SECONDS = 50_000


@pytest.fixture
def airport(tmp_path: Path) -> Iterator[Airport]:
    made = Airport(tmp_path / "root")
    yield made
    made.close()


@pytest.mark.device
@pytest.mark.parametrize("attempt", range(3))
def test_16_drivers_that_miss_a_key_at_once_compile_it_at_most_twice(
    physical_device: PhysicalDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: int
) -> None:
    witness = witness_below(tmp_path / "witness", monkeypatch)
    expect_to_wait(tmp_path / "home" / "pipelines", physical_device)
    assert race(RACERS) == ["True\n"] * RACERS, attempt
    sizes = [len(data) for data in seen(witness)]
    assert (len(sizes), 1 <= sizes.count(0) <= 2, set(sizes) <= {0, 1032}) == (RACERS, True, True), sizes


def test_owners_killed_one_after_the_other_are_followed_by_one_each(airport: Airport) -> None:
    airport.start_behind(4)
    for number in range(KILLS):
        owner = airport.wait_for("compiling", number + 1)[number]
        airport.kill(owner)
        airport.start(str(4 + number))
        airport.wait_for("boarding", 5 + number)
    owners = airport.wait_for("compiling", KILLS + 1)
    airport.tell(owners[-1], "land")
    assert (len(airport.wait_for("shared", 3)), len(airport.wait_for("alone", 1)), len(owners)) == (3, 1, KILLS + 1)
    (flight, root) = (airport.root / "flight", airport.root)
    assert (list(flight.iterdir()), (root / "quarantine").exists()) == ([], False)


def test_behind_an_owner_that_hangs_one_more_compiles_for_all_who_wait(airport: Airport) -> None:
    airport.start_behind(8, SOME_SECONDS)
    _, second = airport.wait_for("compiling", 2)
    airport.tell(second, "land")
    assert (len(airport.wait_for("shared", 6)), len(airport.who_said("compiling"))) == (6, 2)
