"""Devices and cache of a machine as text for Prometheus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from extras import imported

from vyre_driver.vulkan import enumerate_devices

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

NO_ICD = {"VK_DRIVER_FILES": "/nonexistent/icd.json", "VK_ICD_FILENAMES": "/nonexistent/icd.json"}


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    parser = imported("prometheus_client.parser")
    return {
        family.name: [(one.labels, one.value) for one in family.samples]
        for family in parser.text_string_to_metric_families(text)
    }


@pytest.mark.device
def test_devices_and_cache_are_told(run_cli: RunChild, run_saxpy: RunChild, tmp_path: Path) -> None:
    assert run_saxpy("--out", "y=out.npy").status == 0
    done = run_cli("metrics")
    assert (done.status, done.complaint) == (0, [])
    found = samples(done.stdout)
    devices = enumerate_devices()
    named = [{"device": one.name, "uuid": one.device_uuid.hex()} for one in devices]
    assert (found["vyre_driver_devices"], [labels for labels, _ in found["vyre_driver_device_memory_bytes"]]) == (
        [({}, len(devices))],
        named,
    )
    root = {"root": str(tmp_path / "home" / "pipelines")}
    told = [found[f"vyre_driver_cache_{what}"] for what in ("usable", "entries")]
    assert (told, found["vyre_driver_cache_bytes"][0][1] > 0) == ([[(root, 1)], [(root, 1)]], True)


def test_without_a_driver_there_are_no_devices_and_the_cache_is_told(run_cli: RunChild, tmp_path: Path) -> None:
    done = run_cli("metrics", env=NO_ICD)
    found = samples(done.stdout)
    root = {"root": str(tmp_path / "home" / "pipelines")}
    assert (done.status, found["vyre_driver_devices"], found["vyre_driver_cache_entries"]) == (0, [({}, 0)], [(root, 0)])
    assert "vyre_driver_device_info" not in found


def test_a_cache_in_memory_is_not_usable_on_disk(run_cli: RunChild) -> None:
    done = run_cli("metrics", env={**NO_ICD, "VYRE_CACHE_DISABLE": "1"})
    assert samples(done.stdout)["vyre_driver_cache_usable"] == [({"root": ""}, 0)]


def test_as_json_the_text_is_in_a_document(run_cli: RunChild) -> None:
    text, document = run_cli("metrics", env=NO_ICD).stdout, run_cli("metrics", "--json", env=NO_ICD).stdout
    assert json.loads(document) == {"schema": 1, "metrics": text}
