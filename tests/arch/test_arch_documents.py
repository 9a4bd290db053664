"""What the documents say is what the package does."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from builtins_table import PAGE, written
from test_arch_folders import STAGES, stage

from vyre_driver import errors, settings

if TYPE_CHECKING:
    from conftest import RunChild

ONE_PAGE = 80  # lines
MOST_WORDS = 50


def rows(path: Path) -> list[str]:
    """The rows of the Markdown tables in a file, without heads."""
    lines = path.read_text("utf-8").splitlines()
    heads = {i for i, line in enumerate(lines[1:]) if set(line) <= set("|-: ") and line.startswith("|")}
    return [line for i, line in enumerate(lines) if line.startswith("|") and i not in heads and i - 1 not in heads]


def test_the_settings_are_documented_row_by_row(root: Path) -> None:
    expected = [f"| `{one.variable}` | {one.takes} | {one.default} | {one.effect} |" for one in settings.SETTINGS]
    assert rows(root / "docs" / "settings.md") == expected


def test_the_builtins_are_documented_row_by_row() -> None:
    page = PAGE.read_text("utf-8")
    assert page == written(page), "Fix: write the table anew: .venv/bin/python tests/arch/builtins_table.py"


def test_the_errors_are_documented_row_by_row(root: Path) -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.VyreError)]
    coded = sorted((one for one in classes if "code" in vars(one)), key=lambda one: one.code)
    pages = "../vyre_driver/cli/error_pages"
    expected = [
        f"| [{one.code}]({pages}/{one.code}.md) | `{one.__name__}` | {(one.__doc__ or '').splitlines()[0]} |" for one in coded
    ]
    assert rows(root / "docs" / "errors.md") == expected


def test_the_tree_in_the_errors_docstring_names_every_class_with_its_code() -> None:
    tree = dict(re.findall(r"([A-Z]\w+)\s+(\d{4})", errors.__doc__ or ""))
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.VyreError)]
    coded = {one.__name__: str(one.code) for one in classes if "code" in vars(one) and one is not errors.VyreError}
    assert tree == coded


def stages_of_the_architecture(root: Path) -> list[tuple[list[str], str]]:
    """The stages that a row names, and the cell of what they may know."""
    cells = [row.strip("| ").split(" | ") for row in rows(root / "docs" / "architecture.md")]
    return [(re.findall(r"`([\w/]+)`", first), knows) for first, _, knows in cells]


def test_the_architecture_has_a_row_for_each_stage_in_order(root: Path) -> None:
    assert [name for names, _ in stages_of_the_architecture(root) for name in names] == list(STAGES)


def test_a_stage_knows_what_its_row_in_the_architecture_names(root: Path, imports: dict[str, set[str]]) -> None:
    """That "all above" are above is for test_arch_folders.py."""
    table = stages_of_the_architecture(root)
    everybodys = {name for names, _ in table[:2] for name in names}
    unnamed = set()
    for names, knows in table:
        may_know = everybodys.union(names, re.findall(r"`([\w/]+)`", knows), STAGES if "all above" in knows else ())
        modules = [name for name in imports if stage(name) in names]
        unnamed |= {(name, foreign) for name in modules for foreign in imports[name] if stage(foreign) not in may_know}
    assert unnamed == set()


def test_the_architecture_is_one_page(root: Path) -> None:
    assert len((root / "docs" / "architecture.md").read_text("utf-8").splitlines()) <= ONE_PAGE


def test_the_glossary_has_at_most_fifty_words_in_order(root: Path) -> None:
    words = [row.split(" | ")[0].removeprefix("| ") for row in rows(root / "docs" / "glossary.md")]
    assert (len(words) <= MOST_WORDS, words) == (True, sorted(words, key=str.lower))


# Added to a line, so that it ends within seconds; the last of two options counts.
SHORTER = {"tune": "--seconds 1 --allow-software", "run": "--allow-software"}


@pytest.mark.device
@pytest.mark.thorough
def test_the_commands_of_the_quick_start_run_one_after_the_other(root: Path, tmp_path: Path, run_program: RunChild) -> None:
    block = (root / "README.md").read_text("utf-8").partition("-->\n\n")[2].partition("\n\n")[0]
    (tmp_path / "README.md").symlink_to(root / "README.md")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    lines = [line.strip() for line in block.splitlines()]
    verbs = [line.split()[1] for line in lines]
    for line, verb in zip(lines, verbs, strict=True):
        done = run_program("sh", "-c", f"{line} {SHORTER.get(verb, '')}", cwd=tmp_path, env={"PATH": path})
        assert done.status == 0, f"{line}: {done.stderr}"
    assert verbs == ["devices", "run", "spirv", "tune", "demo"]
    assert np.load(tmp_path / "result.npy").tolist() == (2 * np.arange(1000, dtype=np.float32) + 1).tolist()


def test_every_file_that_contributing_names_is_there(root: Path) -> None:
    named = re.findall(r"`((?:vyre_driver|tests|scripts|docs)/[\w/.-]+)`", (root / "CONTRIBUTING.md").read_text("utf-8"))
    paths = [path for path in named if "NAME" not in path and "_vN" not in path]
    assert paths
    assert [path for path in paths if not (root / path).exists()] == []
