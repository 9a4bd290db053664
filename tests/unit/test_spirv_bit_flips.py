"""No flipped bit of a module crashes, hangs, or takes unbounded memory; all 32 of every word are tried in tests/stress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mutations import SHIPPED

from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from conftest import RunChild

SCRIPT = Path(__file__).parents[1] / "support" / "bit_flips.py"
BITS = ["4", "17"]


@pytest.mark.parametrize("name", SHIPPED)
def test_bits_of_every_word_of_a_module_may_flip(run_python: RunChild, name: str) -> None:
    done = run_python(str(SCRIPT), name, *BITS)
    found = json.loads(done.stdout)
    flipped = len(shipped_module(name).code) // 4 * len(BITS)
    assert (done.status, done.stderr, sum(found.values())) == (0, "", flipped)
    assert {"unread", "usable"} <= set(found)
