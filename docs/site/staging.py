"""The site's sources, put together in one folder: documents with their links moved, and the pages that are made."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import commands
import gallery
import performance
import reference
from links import ERROR_PAGES, FILES, PLACES, moved, place_of
from sections import EXPLANATION, GUIDE, REFERENCE, Group, rest

from vyre_driver.cli.explain import titles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def documents(root: Path) -> list[str]:
    """Return the paths of all Markdown files of the checkout that are pages of the site."""
    found = [
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / ERROR_PAGES).glob("*.md")),
        *(root / one for one in PLACES),
    ]
    paths = [str(one.relative_to(root)) for one in found if one.suffix == ".md" and one.exists()]
    return [one for one in paths if not one.startswith("docs/site/")]


class Stage:
    """The folder that Sphinx reads. What is the same as before is not written again, so that it is not read again."""

    def __init__(self, root: Path, target: Path) -> None:
        """Begin with nothing that has a place."""
        self.root, self.target = root, target
        self.placed: set[Path] = set()

    def write(self, place: str, content: str | bytes) -> None:
        """Write a page or a file."""
        path, data = self.target / place, content.encode() if isinstance(content, str) else content
        self.placed.add(path)
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def document(self, path: str, place: str, text: str) -> None:
        """Write a page whose links are relative to ``path`` of the checkout, and the files that it links to."""
        page, files = moved(path, text, place, self.root)
        self.write(place, page)
        for one in files:
            self.write(FILES + one, (self.root / one).read_bytes())

    def finish(self) -> None:
        """Remove what an earlier build had and this one has not."""
        for path in sorted(self.target.rglob("*"), reverse=True):
            if path.is_file() and path not in self.placed:
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def toctree(
    pages: Iterable[str], *, caption: str = "", hidden: bool = True, titles: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the directive that puts pages into the navigation, by their names, perhaps under other titles than their own."""
    options = [f":caption: {caption}"] if caption else []
    options += [":hidden:"] if hidden else []
    entries = [f"{titles[one]} </{one}>" if one in titles else f"/{one}" for one in pages]
    return "\n".join(["", "```{toctree}", *options, ":maxdepth: 1", "", *entries, "```", ""])


def toctrees(groups: Sequence[Group], *, hidden: bool = False) -> str:
    """Return one for each group."""
    return "".join(toctree(one.pages, caption=one.caption, hidden=hidden) for one in groups)


def stage(root: Path, target: Path) -> None:
    """Put everything together."""
    made = Stage(root, target)
    for path in documents(root):
        place, text = place_of(path), (root / path).read_text("utf-8")
        made.document(path, place, text + _added(place, root))
    made.write("index.md", (root / "docs/site/index.md").read_text("utf-8") + toctree(_TOP))
    made.write("reference/index.md", _reference_index())
    for page in reference.PAGES:
        made.write(f"reference/{page.name}.md", reference.text_of(page))
    made.write("reference/commands.md", commands.text())
    made.write("explanation/index.md", _explanation_index(root))
    made.write("decisions/index.md", _decisions_index(root))
    gallery.stage(made)
    performance.stage(made)
    made.finish()


_TOP = (
    "guide/index",
    "reference/index",
    "gallery/index",
    "benchmarks/index",
    "explanation/index",
    "glossary",
    "project/changelog",
)


def _added(place: str, root: Path) -> str:
    """Return what a page gets in the site only: its place in the navigation."""
    if place == "guide/index.md":
        return toctrees(GUIDE, hidden=True)
    if place.startswith("errors/"):
        return _class_of(titles()[int(place.removeprefix("errors/").removesuffix(".md"))])
    if place == "errors.md":
        return toctree(f"errors/{one.stem}" for one in sorted((root / ERROR_PAGES).glob("*.md")))
    return ""


def _class_of(name: str) -> str:
    names = [name, "BackendError"] if name == "VyreError" else [name]
    entries = [f".. autoexception:: vyre_driver.errors.{one}\n   :members:\n   :show-inheritance:\n" for one in names]
    return "\n".join(["", "## In Python", "", "```{eval-rst}", *entries, "```", ""])


def _reference_index() -> str:
    rows = [f"| [{page.title}]({page.name}.md) | {_names(page)} |" for page in reference.PAGES]
    api = toctree((f"reference/{one.name}" for one in reference.PAGES), caption="API")
    groups = []
    for group in REFERENCE:
        pages = [*group.pages, *(["reference/commands"] if "command-line" in group.pages else [])]
        groups.append(toctree(pages, caption=group.caption, hidden=False))
    head = (
        "# Reference\n\nEvery public name, with what it takes, returns and raises; settings, commands, error codes and files.\n"
    )
    return "\n".join([head, "| page | names |", "|---|---|", *rows, api, *groups])


def _names(page: reference.Page) -> str:
    found = [(name, f"{section.module}.{name}") for section in page.sections for name in section.names]
    return ", ".join(f"{{py:obj}}`{name} <{full}>`" for name, full in found)


def _explanation_index(root: Path) -> str:
    intro = (
        "# Explanation\n\nHow it works and why, for those who want to know more than the [guide](../guide/index.md) tells.\n"
    )
    others = ("project/readme", "project/contributing", "project/security", "project/tests", "decisions/index")
    more = [rest(root)] if rest(root).pages else []
    return intro + toctrees([*EXPLANATION, *more]) + toctree(others, caption="The project", hidden=False)


def _decisions_index(root: Path) -> str:
    found = sorted((root / "docs/decisions").glob("*.md"))
    head = "# Decisions\n\nWhat was decided, why, and what was measured for it.\n"
    return head + toctree((f"decisions/{one.stem}" for one in found), hidden=False)
