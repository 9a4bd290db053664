"""What the documents say is what the package does."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from test_arch_folders import STAGES, stage

from vyre_driver import errors, settings

if TYPE_CHECKING:
    from conftest import RunChild

ONE_PAGE = 80  # lines
MOST_WORDS = 50
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def rows(path: Path) -> list[str]:
    """The rows of the Markdown tables in a file, without heads."""
    lines = path.read_text("utf-8").splitlines()
    heads = {i for i, line in enumerate(lines[1:]) if set(line) <= set("|-: ") and line.startswith("|")}
    return [line for i, line in enumerate(lines) if line.startswith("|") and i not in heads and i - 1 not in heads]


def test_the_settings_are_documented_row_by_row(root: Path) -> None:
    expected = [f"| `{one.variable}` | {one.takes} | {one.default} | {one.effect} |" for one in settings.SETTINGS]
    assert rows(root / "docs" / "settings.md") == expected


def test_the_errors_are_documented_row_by_row(root: Path) -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.VyreError)]
    coded = sorted((one for one in classes if "code" in vars(one)), key=lambda one: one.code)
    expected = [f"| {one.code} | `{one.__name__}` | {(one.__doc__ or '').splitlines()[0]} |" for one in coded]
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


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.device
def test_the_quick_start_runs_and_prints_what_it_shows(root: Path, tmp_path: Path, run_python: RunChild) -> None:
    (tmp_path / "example.py").write_text(
        "\n".join(python_blocks(root / "README.md")), "utf-8"
    )  # kernels are read from their file
    done = run_python("-W", "error", "example.py", cwd=tmp_path)
    assert (done.status, done.stdout) == (0, "[1. 3. 5. 7.]\n"), done.stderr


# Added to a line, so that it ends within seconds; the last of two options counts.
SHORTER = {"tune": "--seconds 1 --allow-software", "demo": "--npy result.npy", "run": "--allow-software"}


@pytest.mark.device
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


def test_the_program_in_the_document_on_programs_prints_as_it_shows(root: Path, run_python: RunChild) -> None:
    document = root / "docs" / "ir.md"
    done = run_python("-W", "error", "-c", python_blocks(document)[0])
    shown = done.stdout.replace("\n", "\n    ").replace("\n    \n", "\n\n").rstrip(" ")
    assert (done.status, done.stdout.startswith("program anonymous")) == (0, True), done.stderr
    assert f"\n    {shown}" in document.read_text("utf-8")


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "number", "lines"),
    [("binding", 0, 2), ("binding", 1, 2), ("futures", 0, 3), ("tuning", 0, 1), ("tuning", 1, 1)],
)
def test_an_example_prints_as_its_document_shows(
    root: Path,
    run_python: RunChild,
    name: str,
    number: int,
    lines: int,
) -> None:
    document = root / "docs" / f"{name}.md"
    done = run_python("-W", "error", "-c", python_blocks(document)[number])
    assert (done.status, done.stdout.count("\n")) == (0, lines), done.stderr
    assert "".join(f"    {line}\n" for line in done.stdout.splitlines()) in document.read_text("utf-8")


@pytest.mark.device
def test_the_document_on_arrays_prints_what_stands_below_each_block(root: Path, run_python: RunChild) -> None:
    document = root / "docs" / "arrays.md"
    done = run_python("-W", "error", "-c", "\n".join(python_blocks(document)))
    shown = re.findall(r"^```\n\n((?:    .*\n)+)", document.read_text("utf-8"), re.MULTILINE)
    assert (done.status, len(shown)) == (0, len(python_blocks(document))), done.stderr
    assert done.stdout == "".join(line.removeprefix("    ") for line in "".join(shown).splitlines(keepends=True))


@pytest.mark.device
@pytest.mark.parametrize("name", ["lang", "lang-reference", "streams", "transfers"])
def test_a_document_prints_what_stands_below_its_blocks(root: Path, tmp_path: Path, run_python: RunChild, name: str) -> None:
    document = root / "docs" / f"{name}.md"
    (tmp_path / "example.py").write_text("\n".join(python_blocks(document)), "utf-8")  # kernels are read from their file
    done = run_python("-W", "error", "example.py", cwd=tmp_path)
    shown = re.findall(r"^```\n\n((?:(?:    .*)?\n)+)", document.read_text("utf-8"), re.MULTILINE)
    assert (done.status, len(shown)) == (0, len(python_blocks(document))), done.stderr
    assert done.stdout == "".join(textwrap.dedent(one).strip("\n") + "\n" for one in shown)


def test_links_between_the_documents_lead_somewhere(root: Path) -> None:
    documents = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    broken = [
        f"{document.relative_to(root)}: {target}"
        for document in documents
        for target in LINK.findall(document.read_text("utf-8"))
        if not (document.parent / target).exists()
    ]
    assert broken == []
