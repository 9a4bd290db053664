"""The notebook of the examples, run without a browser: its cells give what it shows.

``VYRE_ALLOW_SOFTWARE=1 python tests/lang/test_notebook.py`` runs it and writes what came out into it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "kernels.ipynb"


def _run(notebook: Any) -> Any:  # noqa: ANN401 -- nbformat's
    """Run a notebook in a process of its own; cells are files of that process, and are called so."""
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = re.sub(r'File "[^"]*"', 'File "a cell"', output.text)
    return notebook


def _shown(notebook: Any) -> list[tuple[str, list[str]]]:  # noqa: ANN401 -- nbformat's
    return [
        (cell.source, [output.get("text") or output.get("data", {}).get("text/plain") for output in cell.outputs])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.device
def test_a_notebook_gives_what_it_shows() -> None:
    kept = nbformat.read(NOTEBOOK, 4)
    found = _shown(_run(nbformat.read(NOTEBOOK, 4)))
    assert found == _shown(kept)
    assert any("did you mean 'total'?" in text for _, texts in found for text in texts)


if __name__ == "__main__":
    nbformat.write(_run(nbformat.read(NOTEBOOK, 4)), NOTEBOOK)
