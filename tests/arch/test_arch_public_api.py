"""The public API is what it is written down to be (docs/compatibility.md)."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from public_api import GOLDEN, MODULES, listing

if TYPE_CHECKING:
    from pathlib import Path

CHANGED = """the public API is not what tests/golden/text/public_api.txt says.
Fix: keep what docs/compatibility.md promises, and where a change is meant, tell of it in CHANGELOG.md and write the file anew:
    .venv/bin/python tests/arch/public_api.py
"""


def test_the_public_api_is_as_it_is_written_down() -> None:
    written, found = GOLDEN.read_text("utf-8"), listing()
    difference = difflib.unified_diff(written.splitlines(), found.splitlines(), "written down", "found", lineterm="", n=1)
    assert written == found, CHANGED + "\n".join(difference)


def test_the_listing_has_nothing_that_changes_from_run_to_run() -> None:
    assert re.findall(r"0x[0-9a-f]{6,}|<locals>|ForwardRef", listing()) == []


def test_the_modules_of_the_listing_are_those_that_the_promise_names(root: Path) -> None:
    promise = (root / "docs" / "compatibility.md").read_text("utf-8").partition("## What is not")[0]
    assert set(re.findall(r"`(vyre_driver(?:\.\w+)*)`", promise)) == set(MODULES)
