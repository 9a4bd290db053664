"""Every row of the misuse matrix is an exception with code and fix, the process lives, and the driver works on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from misuse_table import MATRIX, Row

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device


def expected(row: Row) -> dict[str, object]:
    told = None if row.error is None else [row.error.__name__, row.error.code, True]
    return {"told": told, "right afterwards": True}


def test_each_ends_in_its_error_and_the_drivers_of_the_process_work_on(run_forked: RunChild, children: Path) -> None:
    done = run_forked(str(children / "misuse_row.py"), *(row.name for row in MATRIX))
    found = dict(zip((row.name for row in MATRIX), map(json.loads, done.stdout.splitlines()), strict=False))
    assert (done.status, done.stderr, found) == (0, "", {row.name: expected(row) for row in MATRIX})


@pytest.mark.thorough
@pytest.mark.parametrize("row", MATRIX, ids=[row.name for row in MATRIX])
def test_it_ends_so_in_a_process_of_its_own(run_forked: RunChild, children: Path, row: Row) -> None:
    done = run_forked(str(children / "misuse_row.py"), row.name)
    assert (done.status, done.stderr, json.loads(done.stdout)) == (0, "", expected(row))
