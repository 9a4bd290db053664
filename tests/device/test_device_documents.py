"""README, guide and documents: their code runs, block by block, and prints what stands below it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import documents
import pytest

from vyre_driver.errors import LoopCut

if TYPE_CHECKING:
    from conftest import RunChild

    from vyre_driver import Driver

pytestmark = pytest.mark.device

ROOT = Path(__file__).parents[2]
PAGES = {str(one.relative_to(ROOT)): documents.blocks(one.read_text("utf-8")) for one in documents.documents(ROOT)}
ERROR_PAGES = {
    one.stem: documents.blocks(one.read_text("utf-8")) for one in sorted((ROOT / "vyre_driver/cli/error_pages").glob("*.md"))
}
# Whose commands examine the machine, tune or fill caches for seconds.
SLOW = {f"docs/{name}.md" for name in ("conformance", "guide/caching", "guide/fleet", "guide/install", "guide/tuning")}
RUN = [
    pytest.param(name, marks=pytest.mark.thorough) if name in SLOW else name
    for name, blocks in PAGES.items()
    if any(one.is_run for one in blocks)
]
CHILD = Path(documents.__file__).with_name("document_child.py")
SHORTEST_REASON = 8


def ran(pages: dict[str, list[documents.Block]]) -> str:
    """The pages as the child takes them: the blocks that are run."""
    return json.dumps(
        {name: [{"language": one.language, "code": one.code} for one in blocks if one.is_run] for name, blocks in pages.items()}
    )


def run_pages(run: RunChild, folder: Path, pages: dict[str, list[documents.Block]]) -> dict[str, list[str]]:
    given = folder / "pages.json"
    given.write_text(ran(pages), "utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = run(str(CHILD), str(given), env={"PATH": path}, hangs_after_s=110)
    assert done.status == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def differences(blocks: list[documents.Block], printed: list[str]) -> list[str]:
    """What differs from what a page shows, each with its line; a console without output below it may print anything."""
    wanted = [one for one in blocks if one.is_run]
    found = []
    for block, given in zip(wanted, printed, strict=False):
        got = given.replace("exit status 2\n", "") if "vyre-driver: error" in block.shown else given
        unseen = block.language == "console" and not block.shown and "exit status" not in got
        if not unseen and not documents.is_same(block.shown, got):
            found.append(f"line {block.line} shows\n{block.shown}and prints\n{got}")
    if len(printed) < len(wanted) and not found:
        found.append(f"line {wanted[len(printed) - 1].line} is the last that ran")
    return found


@pytest.mark.parametrize("name", RUN)
def test_the_blocks_of_a_document_print_what_it_shows(run_forked: RunChild, tmp_path: Path, name: str) -> None:
    printed = run_pages(run_forked, tmp_path, {name: PAGES[name]})[name]
    assert differences(PAGES[name], printed) == []


def test_the_example_of_each_error_raises_what_its_page_shows(run_python: RunChild, tmp_path: Path, layered: Driver) -> None:
    opened = layered.context.device
    impossible = [] if opened.loop_limit(opened) else [str(LoopCut.code)]  # llvmpipe of Mesa 25 ends no loops
    pages = {
        name: ERROR_PAGES[name]
        for name in ERROR_PAGES
        if name not in impossible and any(one.is_run for one in ERROR_PAGES[name])
    }
    printed = run_pages(run_python, tmp_path, pages)
    assert {name: found for name, blocks in pages.items() if (found := differences(blocks, printed[name]))} == {}
    assert sorted(set(ERROR_PAGES) - set(pages)) == impossible


def test_each_block_that_is_not_run_says_why_and_most_are_run() -> None:
    """``python tests/support/documents.py`` lists them."""
    every = [one for blocks in [*PAGES.values(), *ERROR_PAGES.values()] for one in blocks if one.language in documents.RUN]
    assert [one.line for one in every if one.why_not and len(one.why_not) < SHORTEST_REASON] == []
    assert sum(one.is_run for one in every) > len(every) / 2
