"""The programs of examples/gallery as modules, for benchmarks of their kernels."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
PROGRAMS = sorted(path.stem for path in GALLERY.glob("*.py") if path.stem not in {"checked", "picture"})


@functools.cache
def gallery_module(name: str) -> types.ModuleType:
    """Import a program of the gallery by its file, for examples/ has a ``matmul`` too; what it imports is found beside it."""
    if str(GALLERY) not in sys.path:
        sys.path.insert(0, str(GALLERY))
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    if spec is None or spec.loader is None:
        raise AssertionError(f"{name} is no program of the gallery")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
