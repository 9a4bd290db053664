"""Code of Markdown documents: its blocks, what each shows that it prints, and which are not run and why.

A block of Python or of a console is followed by what it prints, in a ``text`` block or indented by four spaces; ``...``
there stands for any text. Commands of this package's program alone that are indented are a console too.
``<!-- not run: REASON -->`` in the line before leaves a block out, ``<!-- first: CODE -->`` gives Python that runs before it
and is not shown. ``<!-- provoked by: CODE -->`` before a ``text`` block gives Python that prints it
and is not shown, where it would be no example.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (.*?) -->\s*\Z", re.DOTALL)
_FIRST = re.compile(r"<!-- first:\n(.*?)-->\s*\Z", re.DOTALL)
_PROVOKED = re.compile(r"<!-- provoked by:\n(.*?)-->\s*\Z", re.DOTALL)
_PROGRAM = "vyre-driver"
RUN = {"python", "console"}


@dataclass(frozen=True)
class Block:
    """A block of code; ``shown`` is what stands below it, ``why_not`` the reason if it is not run."""

    language: str
    code: str
    line: int
    shown: str = ""
    why_not: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands of a console, without their prompts; what continues one is on its lines."""
        return [line.removeprefix("$ ") for line in self.code.splitlines() if line.startswith("$ ")]

    @property
    def is_run(self) -> bool:
        """Whether it is run."""
        return self.language in RUN and not self.why_not

    @property
    def fails(self) -> bool:
        """Whether it ends with the error that is shown."""
        return self.shown.startswith(("vyre_driver.errors.", "Traceback"))


def documents(root: Path) -> list[Path]:
    """Return README and all documents in docs/, decisions left out, which are minutes."""
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [one for one in found if not {"decisions", "site"} & set(one.relative_to(root).parts)]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a document in order; those that are shown by others are parts of these."""
    found: list[Block] = []
    before = ""  # the text between the last block and this one
    for kind, content, line in _pieces(text):
        if kind == "prose":
            before = content
            continue
        follows = bool(found) and not before.strip() and found[-1].language in RUN and not found[-1].shown
        provoked = _PROVOKED.search(before) if kind == "text" else None
        if provoked:
            found.append(Block("python", provoked[1], line, content))
        elif follows and kind in {"text", "indented"}:
            found[-1] = Block(**{**vars(found[-1]), "shown": content})
        elif kind == "indented":
            if all(one.startswith(f"{_PROGRAM} ") for one in content.splitlines()):
                prompts = "".join(f"$ {one.partition('  #')[0].rstrip()}\n" for one in content.splitlines())
                found.append(Block("console", prompts, line, why_not=_reason(before)))
        else:
            first = _FIRST.search(before)
            found.append(Block(kind or "none", (first[1] if first else "") + content, line, why_not=_reason(before)))
        before = ""
    return found


def is_same(shown: str, printed: str) -> bool:
    """Whether a text is what is shown, spaces and line breaks aside, where ``...`` stands for any text or none."""
    pieces = (r"\s+".join(re.escape(word) for word in one.split()) for one in shown.split("..."))
    return re.fullmatch(r"\s*.*?\s*".join(pieces), printed.strip(), re.DOTALL) is not None


def _reason(before: str) -> str:
    found = _NOT_RUN.search(before)
    return " ".join(found[1].split()) if found else ""


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield prose, fenced blocks by their language, and indented blocks, each with the number of its first line."""
    lines = text.splitlines(keepends=True)
    at, prose = 0, ""
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        indented = lines[at].startswith("    ") and not prose.rsplit("\n\n", 1)[-1].strip() and not _in_list(prose)
        if not fence and not indented:
            prose += lines[at]
            at += 1
            continue
        yield "prose", prose, at
        prose, start = "", at
        if fence:
            end = next(place for place in range(at + 1, len(lines)) if lines[place].startswith("```"))
            yield fence[1], "".join(lines[at + 1 : end]), start + 1
            at = end + 1
        else:
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield "indented", "".join(line[4:] or "\n" for line in lines[start:at]).rstrip("\n") + "\n", start + 1


def _in_list(prose: str) -> bool:
    """Whether indented text continues an item of a list."""
    paragraphs = [one for one in prose.split("\n\n") if one.strip()]
    return bool(paragraphs) and re.match(r"\s*([-*]|\d+\.) ", paragraphs[-1].lstrip("\n")) is not None


def main() -> None:
    """List the blocks that are not run, with the reason, and how many there are of each kind."""
    root = Path(__file__).parents[2]
    counts: dict[str, int] = {}
    for path in [*documents(root), *sorted((root / "vyre_driver" / "cli" / "error_pages").glob("*.md"))]:
        for one in (found for found in blocks(path.read_text("utf-8")) if found.language != "text"):
            how = "run" if one.is_run else "not run, with a reason" if one.why_not else "of a language that is not run"
            kind = f"{one.language}, {how}"
            counts[kind] = counts.get(kind, 0) + 1
            if one.why_not:
                print(f"{path.relative_to(root)}:{one.line}: {one.language}, not run: {one.why_not}")  # noqa: T201 -- its output
    for kind, count in sorted(counts.items()):
        print(f"{count:4} {kind}")  # noqa: T201 -- its output


if __name__ == "__main__":
    main()
