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


@pytest.mark.parametrize("row", MATRIX, ids=[row.name for row in MATRIX])
def test_it_ends_in_its_error_and_the_driver_works_on(run_python: RunChild, children: Path, row: Row) -> None:
    done = run_python(str(children / "misuse_row.py"), row.name)
    told = None if row.error is None else [row.error.__name__, row.error.code, True]
    assert (done.status, done.stderr, json.loads(done.stdout)) == (0, "", {"told": told, "right afterwards": True})
