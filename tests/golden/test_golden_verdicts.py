"""Verdicts of upstream 0.7.2's own validator on programs, by its codes in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vyre_driver.ir import Program, examine

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "upstream-0.7" / "verdicts.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_upstreams_findings_are_found_in_its_order(case: dict[str, Any]) -> None:
    report = examine(Program.from_wire(bytes.fromhex(case["wire"])), upstream="0.7")
    warnings = [warning.rule for warning in report.warnings if "upstream takes it" not in warning.message]
    assert ([problem.rule for problem in report.problems], warnings) == (case["errors"], case["warnings"])
