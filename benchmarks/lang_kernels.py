"""The programs of examples/gallery as modules, for benchmarks of their kernels."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
PROGRAMS = sorted(path.stem for path in GALLERY.glob("*.py") if path.stem not in {"checked", "picture"})


def gallery_module(name: str) -> types.ModuleType:
    """Import a program of the gallery; its folder is on the path from then on, as when it is run."""
    if str(GALLERY) not in sys.path:
        sys.path.insert(0, str(GALLERY))
    return importlib.import_module(name)
