"""The sections of the site and their pages, in the order of its navigation; a test holds that no document is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Group(NamedTuple):
    """Pages under one caption, by their names in docs/ without ``.md``."""

    caption: str
    pages: tuple[str, ...]


def _group(caption: str, pages: str) -> Group:
    return Group(caption, tuple(pages.split()))


GUIDE = (
    _group("Start", "guide/install guide/first-kernel guide/glsl-and-spirv guide/grids guide/coming-from"),
    _group("Arrays and work", "guide/buffers-and-futures guide/big-data"),
    _group("Speed", "guide/tuning guide/caching"),
    _group("More devices", "guide/several-gpus guide/fleet"),
    _group("Finding faults", "guide/debugging"),
    _group("Extending", "guide/embedding guide/backends"),
)

REFERENCE = (
    _group("Language", "lang-reference validation-rules"),
    _group("Command line and settings", "command-line settings"),
    _group("Errors", "errors"),
    _group("Files and promises", "cache-format autotune-format compatibility"),
)

EXPLANATION = (
    _group("Kernels in Python", "lang kernel-debugging"),
    _group("Arrays and calls", "arrays binding futures transfers streams cuda interrupts"),
    _group("Shaders and programs", "spirv ir lowering strict artifacts upstream-differences"),
    _group("Included kernels and tuning", "kernels tensor-cores tuning"),
    _group("Devices and backends", "devices backends isolated kompute"),
    _group("Several machines", "distributed fleet"),
    _group("Installing and operating", "install status doctor observability profiling keys embedding migration"),
    _group("How it is built and tested", "architecture conformance validation vendors foreign-modules dependencies"),
)

# In the navigation by themselves, or below the plots.
ALONE = ("glossary", "performance")


def documents(root: Path) -> set[str]:
    """Return the names of all documents in docs/ but decisions, which have a list of their own."""
    found = (str(one.relative_to(root / "docs").with_suffix("")) for one in (root / "docs").rglob("*.md"))
    return {one for one in found if not one.startswith(("decisions/", "site/"))}


def rest(root: Path) -> Group:
    """Return the documents that no group names: they come last, so that none is left out."""
    return Group("More", tuple(sorted(documents(root) - set(pages()) - {"guide/index"})))


def pages() -> list[str]:
    """Return the names of all pages that the navigation has."""
    return [page for section in (GUIDE, REFERENCE, EXPLANATION) for group in section for page in group.pages] + list(ALONE)
