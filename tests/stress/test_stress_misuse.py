"""The rows of the misuse matrix that the default suite leaves out, and all of them without spirv-val."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from misuse_table import MATRIX, MORE, Row

if TYPE_CHECKING:
    from conftest import RunChild

pytestmark = pytest.mark.device

CHILD = Path(__file__).parents[1] / "device" / "children" / "misuse_row.py"
WITHOUT = {"everything": {}, "spirv-val": {"VYRE_SPIRV_VAL": "0"}}
ROWS = [(row, kind) for kind in WITHOUT for row in (*MATRIX, *MORE) if kind != "everything" or row in MORE]


@pytest.mark.parametrize(("row", "kind"), ROWS, ids=[f"{row.name}, {kind}" for row, kind in ROWS])
def test_it_ends_in_its_error_and_the_driver_works_on(run_python: RunChild, row: Row, kind: str) -> None:
    done = run_python(str(CHILD), row.name, env=WITHOUT[kind])
    told = None if row.error is None else [row.error.__name__, row.error.code, True]
    assert (done.status, done.stderr, json.loads(done.stdout)) == (0, "", {"told": told, "right afterwards": True})
