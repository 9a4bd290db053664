"""Programs as text, and the examples, which print theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from every_term import WHOLE

import vyre_driver
from vyre_driver.ir import expressions, nodes
from vyre_driver.ir.expressions import Expr
from vyre_driver.ir.nodes import Node
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from conftest import RunChild

TEXT = Path(__file__).parent / "text"
EXAMPLE_FILES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
PACKAGE_ROOT = str(Path(vyre_driver.__file__).parents[1])


def test_every_kind_of_term_is_in_the_program_that_has_them_all() -> None:
    held = {type(term).__name__ for term in terms_within(*WHOLE.entry)}
    assert held == {*expressions.__all__, *nodes.__all__} - {Expr.__name__, Node.__name__, "SubgroupAdd", "op_id"}


def test_a_program_with_every_kind_of_term_prints_as_it_did() -> None:
    assert f"{WHOLE}\n" == (TEXT / "every_term.txt").read_text("utf-8")


def test_there_are_four_examples() -> None:
    assert [path.stem for path in EXAMPLE_FILES] == ["histogram", "matmul", "prefix_sum", "saxpy"]


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=[path.stem for path in EXAMPLE_FILES])
def test_an_example_prints_its_program(path: Path, run_python: RunChild) -> None:
    done = run_python("-W", "error", str(path), env={"PYTHONPATH": PACKAGE_ROOT})
    assert (done.status, done.stdout) == (0, (TEXT / f"{path.stem}.txt").read_text("utf-8")), done.stderr
