"""All rows of the misuse matrix, each in a process of its own, with spirv-val and without."""

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


@pytest.mark.parametrize("validator", ["1", "0"])
@pytest.mark.parametrize("row", [*MATRIX, *MORE], ids=lambda row: row.name)
def test_it_ends_in_its_error_and_the_driver_works_on(run_forked: RunChild, row: Row, validator: str) -> None:
    done = run_forked(str(CHILD), row.name, env={"VYRE_SPIRV_VAL": validator})
    told = None if row.error is None else [row.error.__name__, row.error.code, True]
    assert (done.status, done.stderr, json.loads(done.stdout)) == (0, "", {"told": told, "right afterwards": True})
