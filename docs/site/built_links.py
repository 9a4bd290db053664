"""Links of the pages that were built: each has to lead to a file of the site, and its anchor to a place on that page."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path


class _Page(HTMLParser):
    """The links of a page, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.foreign: set[str] = set()  # what a browser would fetch from elsewhere to show the page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what leads somewhere, and what can be led to."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        target = given.get("href") or given.get("src")
        if target and tag in {"a", "img", "link", "script", "object"}:
            self.links.add(target)
            if tag != "a" and (urlsplit(target).scheme in {"http", "https"} or target.startswith("//")):
                self.foreign.add(target)


def broken_links(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and for each file that a page would fetch from elsewhere."""
    pages: dict[str, _Page] = {}
    for path in (one for one in site.rglob("*.html") if "_static" not in one.parts):
        page = pages[str(path.relative_to(site))] = _Page()
        page.feed(path.read_text("utf-8"))
    found = []
    for name, page in sorted(pages.items()):
        found += [f"{name}: fetches {one}" for one in sorted(page.foreign)]
        found += [
            f"{name}: leads to {one}, which is not there" for one in sorted(page.links) if not _leads(site, name, one, pages)
        ]
    return found


def _leads(site: Path, name: str, link: str, pages: dict[str, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    path = os.path.normpath(os.path.join(os.path.dirname(name), unquote(parts.path))) if parts.path else name  # noqa: PTH118, PTH120 -- a URL's
    if not (site / path).is_file():
        return False
    return not parts.fragment or path not in pages or unquote(parts.fragment) in pages[path].anchors
