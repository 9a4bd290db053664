"""What is imported is declared: what CI's environment has for its tools is not there at a user's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import tomli

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from conftest import Others

IMPORTED_AS = {"pillow": "PIL", "opentelemetry_api": "opentelemetry"}
# By the strategies of the conformance kit, for those who test a backend; by what reaches a shared store; by
# vyre_driver.distributed, which nothing imports unasked.
OF_AN_EXTRA_ONLY = {"hypothesis", "obstore", "dask", "distributed"}

BY_PYINSTALLER = {"PyInstaller"}  # which runs the hook


def names(requirements: Iterable[str]) -> set[str]:
    found = {re.split(r"[\[<>=~!; ]", one, maxsplit=1)[0].lower().replace("-", "_") for one in requirements}
    return {IMPORTED_AS.get(one, one) for one in found}


def test_each_package_that_is_imported_is_a_dependency(root: Path, others: Others) -> None:
    project = tomli.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    needed = names(project["dependencies"])
    optional = set[str]().union(*(names(extra) for extra in project["optional-dependencies"].values()))
    assert (others.early - needed, others.ever - needed - optional) == (OF_AN_EXTRA_ONLY | BY_PYINSTALLER, BY_PYINSTALLER)
    assert needed - others.ever == set()
