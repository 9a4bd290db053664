"""A source tree that nobody has built says so, whatever of it is imported first."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import vyre_driver

if TYPE_CHECKING:
    from conftest import RunChild

PACKAGE = Path(vyre_driver.__file__).parent


@pytest.mark.parametrize(
    "words", [("-c", "import vyre_driver"), ("-c", "from vyre_driver import ir"), ("-m", "vyre_driver", "devices")]
)
def test_an_unbuilt_tree_is_named_with_what_to_do(run_python: RunChild, tmp_path: Path, words: tuple[str, ...]) -> None:
    copy = tmp_path / "vyre_driver"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    done = run_python(*words, cwd=tmp_path)
    version = ".".join(map(str, sys.version_info[:2]))
    expected = (
        f"ImportError: the vyre_driver in {copy} has no compiled modules for Python {version}. Fix: run scripts/setup, or "
        "`pip install -e .` in that source tree; or leave its folder, so that the installed one is found."
    )
    assert (done.status, done.stderr.splitlines()[-1]) == (1, expected)
