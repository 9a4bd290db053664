"""The notebooks of the examples, run without a browser: their cells give what they show.

``VYRE_ALLOW_SOFTWARE=1 python tests/lang/test_notebook.py`` runs them and writes what came out into them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(one.name for one in FOLDER.glob("*.ipynb"))
PICTURES = ("image/png", "image/svg+xml")


def _run(notebook: Any) -> Any:  # noqa: ANN401 -- nbformat's
    """Run a notebook in a process of its own; cells are files of that process, and are called so."""
    resources = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = re.sub(r'File "[^"]*"', 'File "a cell"', output.text)
    return notebook


def _output(output: Any) -> str:  # noqa: ANN401 -- nbformat's
    """Text as it is, and of a picture its kind: times are drawn."""
    data = output.get("data", {})
    return next((kind for kind in PICTURES if kind in data), None) or output.get("text") or data.get("text/plain")


def _shown(notebook: Any) -> list[tuple[str, list[str]]]:  # noqa: ANN401 -- nbformat's
    return [(cell.source, [_output(one) for one in cell.outputs]) for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.device
@pytest.mark.parametrize("name", [NOTEBOOKS[0], *(pytest.param(one, marks=pytest.mark.thorough) for one in NOTEBOOKS[1:])])
def test_a_notebook_gives_what_it_shows(name: str) -> None:
    kept = nbformat.read(FOLDER / name, 4)
    found = _shown(_run(nbformat.read(FOLDER / name, 4)))
    assert found == _shown(kept)


def test_the_notebooks_store_their_outputs_and_a_picture() -> None:
    stored = {name: dict(_shown(nbformat.read(FOLDER / name, 4))) for name in NOTEBOOKS}
    pictures = {name: sum(one in PICTURES for shown in cells.values() for one in shown) for name, cells in stored.items()}
    assert pictures == {"big-data.ipynb": 2, "kernels.ipynb": 2, "tuning-and-caching.ipynb": 2}


if __name__ == "__main__":
    for one in NOTEBOOKS:
        nbformat.write(_run(nbformat.read(FOLDER / one, 4)), FOLDER / one)
