"""Links of Markdown: where a document of the checkout stands in the site, and what its links become there."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A link or picture with a relative target; code is left alone by `prose`.
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(((?![a-z]+:|#|//)[^)\s]+)\)")
_FENCE = re.compile(r"^ *(```+|~~~+)")

# Pages that stand elsewhere in the site than in the checkout. What begins with docs/ loses that.
PLACES = {
    "README.md": "project/readme.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "tests/README.md": "project/tests.md",
    "LICENSE": "project/license.md",
}
FOLDERS = {
    "examples/gallery": "gallery/index.md",
    "examples/notebooks": "gallery/index.md",
    "examples/kernels": "gallery/index.md",
    "examples": "gallery/index.md",
    "docs/decisions": "decisions/index.md",
    "docs/guide": "guide/index.md",
    "docs": "explanation/index.md",
    "docs/reference/index.md": "reference/index.md",
}
ERROR_PAGES = "vyre_driver/cli/error_pages/"
FILES = "files/"  # files that are no pages: data, pictures, sources


def place_of(path: str) -> str:
    """Return where a file of the checkout stands in the site; ``path`` is relative to the checkout."""
    if path in PLACES:
        return PLACES[path]
    if path in FOLDERS:
        return FOLDERS[path]
    if path.startswith(ERROR_PAGES):
        return f"errors/{PurePosixPath(path).name}"
    if (
        path.startswith("examples/")
        and path.endswith((".py", ".ipynb"))
        and path.split("/")[1] in {"gallery", "notebooks", "kernels"}
    ):
        name = PurePosixPath(path)
        return f"gallery/{'notebook-' if name.suffix == '.ipynb' else ''}{name.stem}.md"
    if path.startswith("docs/") and path.endswith(".md"):
        return path.removeprefix("docs/")
    return FILES + path


def lines_outside_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a Markdown text, and whether it is outside of fenced code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        is_fence = found is not None and (not fence or line.strip().startswith(fence))
        yield line, not fence and not is_fence
        if found is not None and is_fence:
            fence = "" if fence else found[1]


def targets(text: str) -> list[str]:
    """Return the relative targets of a document's links and pictures."""
    return [found[2] for line, is_prose in lines_outside_code(text) if is_prose for found in _LINK.finditer(line)]


def target_path(document: str, target: str) -> tuple[str, str]:
    """Return the path in the checkout that a link of a document leads to, and its anchor with the ``#``."""
    path, mark, anchor = target.partition("#")
    parent = PurePosixPath(document).parent
    return os.path.normpath(parent / path), mark + anchor


def moved(document: str, text: str, place: str, root: Path) -> tuple[str, set[str]]:
    """Return a document's text with its links as they are in the site, and the files that have to stand there for them.

    ``document`` is its path in the checkout, ``place`` its page in the site. A folder that is no page loses its link.
    """
    files: set[str] = set()

    def replaced(found: re.Match[str]) -> str:
        path, anchor = target_path(document, found[2])
        if (root / path).is_dir() and path not in FOLDERS:
            return found[1].strip("[]")
        there = place_of(path)
        if there.startswith(FILES):
            files.add(path)
        return f"{found[1]}({os.path.relpath(there, PurePosixPath(place).parent)}{anchor})"

    lines = [_LINK.sub(replaced, line) if is_prose else line for line, is_prose in lines_outside_code(text)]
    return "".join(lines), files
