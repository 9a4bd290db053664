"""The gallery of kernels, examples/gallery: each program on small data, equal to numpy, and the pictures that they write."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from vyre_driver.lang.launch.default_driver import DEFAULT

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator

pytestmark = pytest.mark.device

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SHARED = ("checked", "picture")
SIZES = {
    "bitonic_sort": 256,
    "black_scholes": 1000,
    "components": 50,
    "conv2d": 40,
    "heat": 40,
    "histogram": 5000,
    "kmeans": 1000,
    "life": 40,
    "mandelbrot": 48,
    "matmul": 40,
    "monte_carlo": 8192,
    "nbody": 64,
    "particle_grid": 300,
    "radix_sort": 5000,
    "reduction": 5000,
    "saxpy": 1000,
    "scan": 70_000,
    "sha256": 50,
    "sobel": 40,
    "spmv": 500,
}


@pytest.fixture(autouse=True, scope="module")
def at_the_gallery() -> Iterator[None]:
    """Find its modules by name, as its programs do, and leave neither them nor the driver of their calls behind."""
    before = set(sys.modules)
    sys.path.insert(0, str(GALLERY))
    yield
    sys.path.remove(str(GALLERY))
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == GALLERY:
            del sys.modules[name]
    DEFAULT.close()


def program(name: str) -> types.ModuleType:
    """Import a program of the gallery."""
    spec = importlib.util.spec_from_file_location(name, GALLERY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_program_of_the_gallery_is_run_here() -> None:
    assert sorted(path.stem for path in GALLERY.glob("*.py") if path.stem not in SHARED) == sorted(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_a_program_of_the_gallery_computes_what_numpy_does(name: str) -> None:
    found = program(name).run(SIZES[name])
    assert all(0 < one < 60_000 for one in found[1:])


@pytest.mark.parametrize("wrong", [np.array([1.0, 2.0]), np.array([1.0, 2.0, np.nan])], ids=["a length", "a number"])
def test_a_program_with_a_wrong_result_stops(wrong: Any) -> None:  # noqa: ANN401 -- an array
    right = np.array([1.0, 2.0, 3.0])
    with pytest.raises(AssertionError):
        program("checked").run_checked((), lambda: wrong, lambda: right, rtol=0.1)


@pytest.mark.parametrize(
    ("pixels", "mode"),
    [(np.arange(35, dtype=np.uint8).reshape(5, 7), "L"), (np.arange(105, dtype=np.uint8).reshape(5, 7, 3), "RGB")],
    ids=["grey", "colours"],
)
def test_a_picture_has_the_pixels_that_it_was_given(tmp_path: Path, pixels: Any, mode: str) -> None:  # noqa: ANN401 -- an array
    program("picture").write_png(tmp_path / "a.png", pixels)
    with Image.open(tmp_path / "a.png") as found:
        assert (found.mode, np.asarray(found).tolist()) == (mode, pixels.tolist())


def test_main_tells_what_was_done_and_writes_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sobel = program("sobel")
    sobel.run.__defaults__ = (64,)
    sobel.main()
    first, second = capsys.readouterr().out.splitlines()
    assert (" equal to numpy. " in first, second) == (True, "picture: sobel.png")
    with Image.open("sobel.png") as found:
        assert (found.size, found.getextrema()[1] > 100) == ((64, 64), True)  # type: ignore[operator] # of one channel
