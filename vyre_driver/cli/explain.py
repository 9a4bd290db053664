"""``vyre-driver explain CODE``: what an error means, an example of it, common causes, and what to do.

The pages are Markdown files beside this one, one for each code; the documentation shows the same ones.
"""

from __future__ import annotations

import re
import textwrap
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cli.options import add_json, tell
from vyre_driver.errors import DeviceLost, FileUnusable, InvalidCommand

if TYPE_CHECKING:
    import argparse

PAGES = Path(__file__).parent / "error_pages"
_MOST_NEAR = 3
_RULE = re.compile(r"[VR]\d{3}")
_COMMENT = re.compile(r"<!--.*?-->\n", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
_FENCE = re.compile(r"^```\w*\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    about = "the code of an error, or the name of its class (default: list all)"
    parser.add_argument("error", nargs="?", metavar="CODE", help=about)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the page of an error, or list all errors."""
    names = titles()
    if options.error is None:
        listed = [{"code": code, "name": name} for code, name in names.items()]
        tell(options, {"errors": listed}, *(f"{code}  {name}" for code, name in names.items()))
        return 0
    code = _code_of(options.error, names)
    page = _COMMENT.sub("", _text(code))
    tell(options, {"code": code, "name": names[code], "page": page}, _as_text(page))
    return 0


def titles() -> dict[int, str]:
    """Return the name of each error that has a page, by its code, in the order of the codes."""
    return {int(one.stem): _text(int(one.stem)).partition("\n")[0].partition(": ")[2] for one in sorted(PAGES.glob("*.md"))}


def _code_of(given: str, names: dict[int, str]) -> int:
    """Return the code that is meant, by upstream's number too; raises InvalidCommand with the ones that are like it."""
    if given == str(DeviceLost.stable_id):
        return DeviceLost.code
    for code, name in names.items():
        if given.casefold() in {str(code), name.casefold()}:
            return code
    if _RULE.fullmatch(given):
        raise InvalidCommand(
            f"{given} is a rule of the validator, not the code of an error",
            fix="see vyre-driver explain 1006, and docs/validation-rules.md for what the rule says",
        )
    near = get_close_matches(given, [str(code) for code in names] if given.isdigit() else list(names.values()), n=_MOST_NEAR)
    swapped = [str(code) for code in names if sorted(str(code)) == sorted(given)]
    # A code of another thousand is an error of another kind: 9999 is not meant for 1999.
    near = [one for one in near if one not in swapped and (not given.isdigit() or one[0] == given[0])]
    near = [*swapped, *near][:_MOST_NEAR]
    fix = f"write {' or '.join(near)}, or see" if near else "see"
    raise InvalidCommand(f"there is no error {given!r}", fix=f"{fix} vyre-driver explain, which lists all")


def _text(code: int) -> str:
    try:
        return (PAGES / f"{code}.md").read_text("utf-8")
    except OSError as error:
        raise FileUnusable(f"cannot read {PAGES / f'{code}.md'} ({error.strerror})", fix="reinstall vyre-driver") from error


def _as_text(page: str) -> str:
    """Return a page as it is read on a terminal: headings without marks, code indented, links as their text and place."""
    page = _FENCE.sub(lambda found: textwrap.indent(found[1], "    "), page)
    page = _LINK.sub(_linked, page).replace("`", "")
    return re.sub(r"^#+ ", "", page, flags=re.MULTILINE).rstrip("\n")


def _linked(found: re.Match[str]) -> str:
    place = found[2].replace("../", "")
    return found[1] if place.removesuffix(".md") == found[1] else f"{found[1]}: {place}"
