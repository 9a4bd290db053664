"""Every row of the misuse matrix is an exception with code and fix, the process lives, and the driver works on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from misuse_table import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device


def test_each_ends_in_its_error_and_the_drivers_of_the_process_work_on(run_forked: RunChild, children: Path) -> None:
    done = run_forked(str(children / "misuse_row.py"), *(row.name for row in MATRIX))
    found = dict(zip((row.name for row in MATRIX), map(json.loads, done.stdout.splitlines()), strict=False))
    told = {row.name: None if row.error is None else [row.error.__name__, row.error.code, True] for row in MATRIX}
    expected = {name: {"told": one, "right afterwards": True} for name, one in told.items()}
    assert (done.status, done.stderr, found) == (0, "", expected)
