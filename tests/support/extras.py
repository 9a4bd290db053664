"""Packages that the extra ``test`` brings, and that only some tests ask: without them those are skipped.

With VYRE_REQUIRE=extras they fail instead, as under ``make test``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import pytest

REQUIRED = "extras" in os.environ.get("VYRE_REQUIRE", "").split(",")  # at import: tests begin without any VYRE_ variable


def imported(name: str) -> Any:  # noqa: ANN401 -- a module
    """Return a module of one of those packages."""
    try:
        return import_module(name)
    except ImportError as error:
        reason = f"{error}. Fix: pip install -e '.[test]'."
    if REQUIRED:
        pytest.fail(f"VYRE_REQUIRE=extras: {reason}", pytrace=False)
    pytest.skip(reason)
