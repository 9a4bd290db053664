"""What docstrings say in a form that tools read: a ``Raises`` section lists one exception class an entry, as numpydoc does."""

from __future__ import annotations

import ast
import builtins
import importlib
from typing import TYPE_CHECKING

from test_arch_folders import STAGES, stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Source

# Stages whose sections are not yet written so. The list may only shrink.
NOT_YET: set[str] = set()


def docstrings(source: Source) -> Iterator[tuple[str, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{source.name}.{getattr(node, 'name', '')}", ast.get_docstring(node) or ""


def raises_entries(docstring: str) -> list[tuple[str, str]]:
    """Return the entries of the Raises section: a line without indentation, and the lines below it."""
    _, found, rest = docstring.partition("Raises\n------\n")
    section = rest.partition("\n\n")[0]
    entries: list[tuple[str, str]] = []
    for line in section.splitlines():
        if line.startswith(" ") and entries:
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}".strip())
        else:
            entries.append((line, ""))
    return entries or ([("", "")] if found else [])


def is_exception(name: str, module: str) -> bool:
    places = (builtins, importlib.import_module("vyre_driver.errors"), importlib.import_module(module))
    found = next((getattr(one, name) for one in places if hasattr(one, name)), None)
    return isinstance(found, type) and issubclass(found, BaseException)


def test_an_entry_of_a_raises_section_is_one_exception_class_and_its_condition(sources: dict[str, Source]) -> None:
    wrong, count = [], 0
    for source in sources.values():
        if stage(source.name) in NOT_YET:
            continue
        for place, docstring in docstrings(source):
            for name, condition in raises_entries(docstring):
                count += 1
                if not is_exception(name, source.name) or not condition or condition[0].isdigit():
                    wrong.append(f"{place}: {name!r}: {condition[:40]!r}")
    assert (wrong, count > 100) == ([], True)


def test_the_list_of_what_is_not_yet_written_so_is_no_longer_than_needed(sources: dict[str, Source]) -> None:
    found = {
        stage(source.name)
        for source in sources.values()
        for _, docstring in docstrings(source)
        for name, condition in raises_entries(docstring)
        if not is_exception(name, source.name) or not condition or condition[0].isdigit()
    }
    assert (set(STAGES) >= NOT_YET, NOT_YET - found) == (True, set())
