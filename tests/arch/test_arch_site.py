"""What the documentation's site has, without building it: pages, links, public names, errors, pictures and charts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING

import built_links
import gallery
import links
import public_api
import pytest
import reference
import sections
import staging

from benchmarks.plot import CHARTS, medians
from vyre_driver import errors
from vyre_driver.cli.explain import PAGES, titles

if TYPE_CHECKING:
    from pathlib import Path

PICTURES_BYTES = 400_000


def written(root: Path) -> list[str]:
    """The documents that people write, by their paths."""
    return staging.documents(root)


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub and MyST make them."""
    found: Counter[str] = Counter()
    names = set()
    for line, is_prose in links.lines_outside_code(text):
        if is_prose and (heading := re.match(r"#+ +(.*)", line)):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").strip().lower()
            slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            names.add(f"{slug}-{found[slug]}" if found[slug] else slug)
            found[slug] += 1
    return names


def test_the_navigation_has_each_document_once(root: Path) -> None:
    named, there = Counter(sections.pages()), sections.documents(root)
    assert (set(named) - there, [one for one, count in named.items() if count > 1]) == (set(), [])
    assert set(named) | set(sections.rest(root).pages) == there - {"guide/index"}  # which is the section's own


def test_links_between_the_documents_lead_to_files_and_headings(root: Path) -> None:
    broken = []
    for path in written(root):
        text = (root / path).read_text("utf-8")
        for target in links.targets(text):
            place, anchor = links.target_path(path, target)
            there = root / place
            known = anchors(there.read_text("utf-8")) if there.suffix == ".md" and there.exists() else set()
            if not there.exists() or (anchor and place.endswith(".md") and anchor[1:] not in known):
                broken.append(f"{path}: {target}")
        broken += [f"{path}: #{one}" for one in re.findall(r"\]\(#([^)\s]+)\)", text) if one not in anchors(text)]
    assert broken == []


def test_a_link_is_written_as_it_is_in_the_site(root: Path) -> None:
    picture = "benchmarks/results/2026-11-27-h200-stream-pinned.svg"
    text = f"[a](../arrays.md#calls) [b](../../README.md) ![c](../../{picture})\n[d](../decisions) [e](../../vyre_driver)\n"
    code = "```text\n[f](../../README.md)\n```\n"
    page, files = links.moved("docs/guide/x.md", text + code, "guide/x.md", root)
    assert page == (
        f"[a](../arrays.md#calls) [b](../project/readme.md) ![c](../files/{picture})\n[d](../decisions/index.md) e\n{code}"
    )
    assert files == {picture}


def test_the_reference_has_each_public_name_once() -> None:
    found = Counter(
        f"{section.module}.{name}" for page in reference.PAGES for section in page.sections for name in section.names
    )
    expected = {
        f"{place}.{name}"
        for place, module in public_api.modules()
        if place != "vyre_driver.errors"
        for name in public_api.public_names(module)
        if name not in reference.SAME_ELSEWHERE.get(place, ())
    }
    assert (expected - set(found), [name for name, count in found.items() if count > 1]) == (set(), [])


def coded() -> list[type[errors.VyreError]]:
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.VyreError)]
    return sorted((one for one in classes if "code" in vars(one)), key=lambda one: one.code)


def test_each_error_has_a_page() -> None:
    assert titles() == {one.code: one.__name__ for one in coded()}


@pytest.mark.parametrize("error", coded(), ids=lambda one: one.__name__)
def test_the_page_of_an_error_is_whole(error: type[errors.VyreError]) -> None:
    text = (PAGES / f"{error.code}.md").read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        f"# {error.code}: {error.__name__}",
        "## Example",
        "## Causes",
        "## Cure",
    ]
    _, meaning, example, causes, cure = re.split(r"^#+ .*\n", text, flags=re.MULTILINE)
    assert all([meaning.strip(), "```text\n" in example, causes.strip(), cure.strip()])
    # A page that says which exception of Python's it is too says the right one.
    told = set(re.findall(r"It is an? `(\w+)`", text))
    assert told <= {one.__name__ for one in error.__mro__}


def test_each_program_of_the_gallery_has_a_run_and_what_it_draws(root: Path) -> None:
    import json

    kept = root / "docs" / "gallery"
    runs = json.loads((kept / "runs.json").read_text("utf-8"))
    programs = gallery.programs(root, "gallery")
    drawn = {one.path.stem for one in programs if "write_png(" in one.path.read_text("utf-8")}
    assert set(runs) == {one.path.stem for one in programs}
    assert {one.stem for one in kept.glob("*.png")} == drawn
    assert sum(one.stat().st_size for one in kept.glob("*.png")) < PICTURES_BYTES


@pytest.mark.parametrize("chart", CHARTS, ids=lambda one: one.name)
def test_a_chart_shows_medians_of_its_results_on_light_and_on_dark(chart: object) -> None:
    svg = chart.svg()  # type: ignore[attr-defined]
    tree = ET.fromstring(svg)  # noqa: S314 -- ours
    space = "{http://www.w3.org/2000/svg}"
    assert not [one for one in tree.iter(f"{space}rect") if one.get("width") == "100%"]
    assert "prefers-color-scheme:dark" in svg
    shown = [one.text or "" for one in tree.iter(f"{space}title")][1:]
    figures = [float(found[1]) for one in shown if (found := re.search(r": ([\d.e+-]+) ", one))]
    known = {
        f"{value / scale:.4g}" for row in medians(chart.results).values() for value in row.values() for scale in (1, 1e3, 1e6)
    }  # type: ignore[attr-defined]
    assert {f"{one:.4g}" for one in figures} <= known
    assert figures or len(list(tree.iter(f"{space}polyline"))) >= 2


def test_a_built_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#here">b</a><a href="#top">a</a><a href="c.html">c</a><a href="b.html#gone">d</a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org">e</a>',
        "utf-8",
    )
    (tmp_path / "b.html").write_text('<p id="here"></p>', "utf-8")
    assert built_links.broken_links(tmp_path) == [
        "a.html: fetches https://example.org/x.js",
        "a.html: leads to b.html#gone, which is not there",
        "a.html: leads to c.html, which is not there",
    ]
