"""Checks of the doctor run side by side, and are named when they begin."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from vyre_driver.cli import doctor
from vyre_driver.cli.doctor_vulkan import Check, State

if TYPE_CHECKING:
    import pytest
    from conftest import RunChild


def test_a_pipe_gets_a_line_for_each_check_that_begins(run_here: RunChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_BEFORE_DEVICES", ("variables", "Vulkan loader"))
    monkeypatch.setattr(doctor, "_AFTER_DEVICES", ())
    monkeypatch.setattr(doctor, "driver_manifests", list)
    env = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
    names = ["variables", "Vulkan loader", "devices"]
    plain, data = run_here("doctor", env=env), run_here("doctor", "--json", env=env)
    assert plain.stderr.splitlines() == [f"checking {name}" for name in names]
    assert [json.loads(line) for line in data.stderr.splitlines()] == [{"schema": 1, "checking": name} for name in names]


class Probe:
    """Stands for the process of a check that ends when it is let go."""

    made: ClassVar[list[Probe]] = []

    def __init__(self, _: str, name: str, **__: object) -> None:
        self.name, self.ended = name, False
        self.made.append(self)

    def only_answer(self, _: float) -> tuple[dict[str, object], bytes]:
        return Check(self.name, State.OK, f"one of {len(self.made)} begun").as_data(), b""

    def end(self, *_: object) -> None:
        self.ended = True

    def __enter__(self) -> Probe:
        return self

    __exit__ = end


def test_checks_run_side_by_side_and_what_was_begun_ends_with_the_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_BEFORE_DEVICES", ("python", "extensions", "kompute", "shader tools"))
    monkeypatch.setattr(doctor, "Worker", Probe)
    monkeypatch.setattr(doctor.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Probe, "made", [])
    begun: list[str] = []
    examination = doctor.examine(60, None, begun.append)
    found = [(one.name, one.says) for one in islice(examination, 3)]
    assert (found, begun) == (
        [("python", "one of 2 begun"), ("extensions", "one of 3 begun"), ("kompute", "one of 4 begun")],
        ["python", "extensions", "kompute", "shader tools"],
    )
    examination.close()  # type: ignore[attr-defined] # a generator
    assert [one.ended for one in Probe.made] == [True] * 4
