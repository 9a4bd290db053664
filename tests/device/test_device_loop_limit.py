"""The limit of loops is found by a run, kept for a driver version, and assumed where the run fails."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from vyre_driver import Driver
from vyre_driver.cache import loop_limits
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.runtime import loop_limit
from vyre_driver.vulkan.devices import DeviceType

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The limits that runs have found, of a process in which nothing is known."""
    found: list[int] = []
    monkeypatch.setattr(loop_limits, "_known", {})
    probed = loop_limit.probed_limit

    def counted(device: object) -> int:
        found.append(probed(device))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(loop_limit, "probed_limit", counted)
    return found


def limit_of(root: Path | None) -> int:
    """Return the limit that a driver with this cache has, asked twice."""
    with Driver(cache=root) as driver:
        opened = driver.context.device
        if opened.physical.device_type is not DeviceType.CPU:
            pytest.skip("the drivers of GPUs are not asked")
        first = opened.loop_limit(opened)
        assert opened.loop_limit(opened) == first
        return first


def test_a_driver_version_is_asked_once_and_a_file_that_holds_nonsense_is_written_anew(
    probes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = limit_of(tmp_path)
    (kept,) = (tmp_path / "flight").glob("*.loops")
    assert (probes, kept.read_text()) == ([limit], str(limit))
    for text, runs in ((str(limit), 1), ("", 2), ("-1", 3), ("1234567890", 4)):
        kept.write_text(text)
        monkeypatch.setattr(loop_limits, "_known", {})
        assert limit_of(tmp_path) == limit
        assert (probes, kept.read_text()) == ([limit] * runs, str(limit))


def test_a_run_that_fails_counts_as_the_limit_of_llvmpipe(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise DeviceOutOfMemory("there is no memory", fix="free some")

    monkeypatch.setattr(loop_limits, "_known", {})
    monkeypatch.setattr(loop_limit, "record_alone", refuse)
    with Driver() as driver:
        opened = driver.context.device
        assert loop_limit.probed_limit(opened) == 65_535
        name = opened.physical.name
    said = f"loops of {name} are taken to end after 65535 turns: there is no memory. Fix: free some."
    assert [one.message for one in caplog.records if one.name == "vyre_driver.loops"] == [said]


def test_a_gpu_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with Driver() as driver:
        opened = driver.context.device
        monkeypatch.setattr(opened, "physical", dataclasses.replace(opened.physical, device_type=DeviceType.DISCRETE))
        assert loop_limit.loop_limit(lambda find: find(), opened) == 0
