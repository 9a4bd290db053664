"""What fails with --json is one JSON object on standard error, and nothing on standard output."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from vyre_driver.autotune import AutotuneWarning
from vyre_driver.cli import devices, main
from vyre_driver.cli.options import error_as_data
from vyre_driver.errors import FileUnusable, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

CODE, PATH = 2202, "missing.spv"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The only line that a refused command prints, on stderr, as data."""
    status = main(arguments)
    printed = capsys.readouterr()
    assert (status, printed.out, printed.err.count("\n")) == (2, "", 1)
    return dict(json.loads(printed.err))


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("verb", ["run", "spirv", "stub"])
def test_an_error_has_code_name_problem_fix_and_attributes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, verb, PATH, "--json") == {
        "schema": 1,
        "error": {
            "code": CODE,
            "name": "FileUnusable",
            "problem": "cannot read missing.spv (No such file or directory)",
            "fix": "name a .spv file",
            "attributes": {"path": PATH},
        },
    }


def test_a_usage_error_is_told_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = [told(capsys, *line)["error"]["code"] for line in (("--json",), ("device", "--json"), ("run", "--json", "--nope"))]
    assert found == [2501, 2501, 2501]


def test_a_process_of_its_own_prints_the_same_line(run_cli: RunChild, work: Path) -> None:
    assert work.exists()
    done = run_cli("spirv", PATH, "--json")
    assert (done.status, done.stdout, json.loads(done.stderr)["error"]["code"]) == (2, "", CODE)


def test_a_warning_is_an_object_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warn() -> tuple[()]:
        warnings.warn("two\nlines", AutotuneWarning, stacklevel=1)
        return ()

    monkeypatch.setattr(devices, "enumerate_devices", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().err) == {"schema": 1, "warning": "two\nlines"}


@pytest.mark.device
def test_the_error_of_a_child_of_demo_is_told_so_too(run_cli: RunChild) -> None:
    done = run_cli("demo", "--json", "--files", PATH, "--npy", PATH)
    assert (done.status, done.stdout, json.loads(done.complaint[-1])["error"]["attributes"]) == (2, "", {"path": PATH})


def test_attributes_of_any_type_become_json(tmp_path: Path) -> None:
    error = InvalidInput("p", fix="f", a=(1, math.inf), b={2: tmp_path}, c=FileUnusable("q", fix="g"), d=None, e=[True, 0.5])
    found = json.loads(json.dumps(error_as_data(error), allow_nan=False))
    assert found["attributes"] == {"a": [1, "inf"], "b": {"2": str(tmp_path)}, "c": "q. Fix: g.", "d": None, "e": [True, 0.5]}
