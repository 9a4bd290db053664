"""The pages of the gallery: the programs of examples/ with their pictures and times, and notebooks with their output."""

from __future__ import annotations

import ast
import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from links import moved

from benchmarks.plot import medians

if TYPE_CHECKING:
    from pathlib import Path

    from staging import Stage

_RESULTS = "2026-11-27-h200-gallery"
_COLUMNS = {
    "device": "vyre_driver",
    "cupy": "CuPy",
    "triton": "Triton",
    "taichi": "Taichi",
    "wgpu": "wgpu-py",
    "numba": "numba, 16 cores",
    "numpy": "numpy",
}
_TITLES = {
    "black_scholes": "Black-Scholes",
    "components": "Connected components",
    "conv2d": "Convolution",
    "heat": "Heat equation",
    "kmeans": "k-means",
    "life": "Game of life",
    "mandelbrot": "Mandelbrot set",
    "matmul": "Matrix product",
    "monte_carlo": "Monte Carlo",
    "nbody": "N bodies",
    "out_of_core": "Out of core, on Dask",
    "particle_grid": "Particles in a grid",
    "scan": "Running sums",
    "sha256": "SHA-256",
    "sobel": "Sobel filter",
    "spmv": "Sparse matrix",
    "transformer": "A transformer's block",
}
SHARED = {"checked", "picture"}


class Program(NamedTuple):
    """A program of examples/: its file, its page, its first sentence and the rest of its docstring, and its code below that."""

    path: Path
    title: str
    about: str
    code: str


def programs(root: Path, folder: str) -> list[Program]:
    """Return the programs of a folder of examples/."""
    return [_read(one) for one in sorted((root / "examples" / folder).glob("*.py")) if one.stem not in SHARED]


def notebooks(root: Path) -> list[Path]:
    """Return the notebooks."""
    return sorted((root / "examples" / "notebooks").glob("*.ipynb"))


def _read(path: Path) -> Program:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    end = tree.body[0].end_lineno or 0
    title = _TITLES.get(path.stem) or path.stem.replace("_", " ").capitalize()
    code = "\n".join(text.split("\n")[end:]).strip("\n")
    return Program(path, title, ast.get_docstring(tree) or "", code)


def stage(made: Stage) -> None:
    """Write the pages, and the pictures that were kept."""
    from staging import toctree

    root = made.root
    runs = json.loads((root / "docs" / "gallery" / "runs.json").read_text("utf-8"))
    pictures = {one.stem: one for one in (root / "docs" / "gallery").glob("*.png")}
    for name, path in pictures.items():
        made.write(f"gallery/{name}.png", path.read_bytes())
    found = programs(root, "gallery")
    found.sort(key=lambda one: (one.path.stem not in pictures, one.title))
    others = [*programs(root, "kernels"), *programs(root, "distributed")]
    for one in [*found, *others]:
        made.write(f"gallery/{one.path.stem}.md", _page(one, root, runs.get(one.path.stem), one.path.stem in pictures))
    books = [(one, json.loads(one.read_text("utf-8"))) for one in notebooks(root)]
    for path, book in books:
        _notebook(made, path, book)
    titles = [(path.stem, _title(book)) for path, book in books]
    parts = [
        "# Gallery\n",
        (
            "Programs of one screen each, as Python kernels. Each has the same in numpy below it and compares the two; the "
            "pictures are what they draw. Run one as `python examples/gallery/mandelbrot.py`.\n"
        ),
        "{.gallery}",
        *(_card(one, one.path.stem in pictures) for one in found),
        "\n## Larger programs\n",
        *(f"- [{one.title}]({one.path.stem}.md): {_sentence(one.about)}" for one in others),
        "\n## Notebooks\n",
        *(f"- [{title}](notebook-{name}.md)" for name, title in titles),
        toctree([f"gallery/{one.path.stem}" for one in found], caption="Kernels"),
        toctree([f"gallery/{one.path.stem}" for one in others], caption="Larger programs"),
        toctree([f"gallery/notebook-{name}" for name, _ in titles], caption="Notebooks"),
    ]
    made.write("gallery/index.md", "\n".join(parts) + "\n")


def _card(one: Program, has_picture: bool) -> str:  # noqa: FBT001 -- one of two looks
    name = one.path.stem
    picture = f"[![{one.title}]({name}.png)]({name}.md)\n\n  " if has_picture else ""
    return f"- {picture}**[{one.title}]({name}.md)** {_sentence(one.about)}"


def _sentence(text: str) -> str:
    first = text.partition("\n\n")[0].replace("\n", " ")
    return first if len(first) < 150 else f"{first[:147].rsplit(' ', 1)[0]} ..."


def _page(one: Program, root: Path, run: dict[str, Any] | None, has_picture: bool) -> str:  # noqa: FBT001 -- one of two looks
    path = one.path.relative_to(root)
    parts = [f"# {one.title}\n", f"{one.about}\n"]
    if has_picture:
        parts.append(f"![What the program drew]({one.path.stem}.png)\n")
    if run is not None:
        what = f"{run['what'][:1].upper()}{run['what'][1:]}"
        device = "Mesa's Vulkan driver for CPUs" if "llvmpipe" in run["device"] else run["device"]
        parts.append(
            f"{what}: equal to numpy. On 2 cores with {device} it takes {run['ms']:.1f} ms from host arrays to host arrays, "
            f"{run['first_ms']:.0f} ms in the first call, which compiles it or loads it from the cache; numpy takes "
            f"{run['numpy_ms']:.1f} ms there.\n"
        )
        parts += _on_hardware(one.path.stem)
    parts += ["## Code\n", f"`{path}`:\n", "```python", one.code, "```\n"]
    return "\n".join(parts)


def _on_hardware(name: str) -> list[str]:
    found = medians(_RESULTS).get(name)
    if found is None:
        return []
    columns = {key: shown for key, shown in _COLUMNS.items() if key in found}
    head = ["| NVIDIA H200, ms |", *(f" {shown} |" for shown in columns.values())]
    rows = ["".join(head), "|---" * (len(columns) + 1) + "|"]
    rows.append("| host to host |" + "".join(f" {found[key] / 1000:.3g} |" for key in columns))
    if any(f"{key}, resident" in found for key in columns):
        cells = (f" {found[f'{key}, resident'] / 1000:.3g} |" if f"{key}, resident" in found else " - |" for key in columns)
        rows.append("| arrays resident |" + "".join(cells))
    return [*rows, f"\nFrom `benchmarks/results/{_RESULTS}.json`.\n"]


def _title(book: dict[str, Any]) -> str:
    first = "".join(book["cells"][0]["source"])
    return first.splitlines()[0].lstrip("# ")


def _notebook(made: Stage, path: Path, book: dict[str, Any]) -> None:
    """Write a notebook as a page: its text, its code, and its stored outputs."""
    name, parts = f"notebook-{path.stem}", []
    for number, cell in enumerate(book["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text, _ = moved(str(path.relative_to(made.root)), source, f"gallery/{name}.md", made.root)
            parts.append(text + "\n")
            continue
        parts.append(f"```ipython3\n{source}\n```\n")
        for place, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{number}-{place}.png"
                made.write(f"gallery/{picture}", base64.b64decode("".join(data["image/png"])))
                parts.append(f"![output]({picture})\n")
            elif "image/svg+xml" in data:
                picture = f"{name}-{number}-{place}.svg"
                made.write(f"gallery/{picture}", "".join(data["image/svg+xml"]))
                parts.append(f"![output]({picture})\n")
            else:
                text = "".join(output.get("text", data.get("text/plain", output.get("traceback", ""))))
                parts.append(f"```text\n{_plain(text)}\n```\n")
    parts.append(f"The notebook is `{path.relative_to(made.root)}`.\n")
    made.write(f"gallery/{name}.md", "\n".join(parts))


def _plain(text: str) -> str:
    """Return a text without the colours of a terminal."""
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip("\n")
