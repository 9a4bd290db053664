"""Where a user's cache lies when nobody names a place."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def default_root() -> Path | None:
    """``$XDG_CACHE_HOME/vyre/pipelines``, else ``~/.cache/vyre/pipelines``; None without a usable home.

    A relative or empty XDG_CACHE_HOME is ignored, and neither the working directory nor a temporary one is ever used.
    """
    try:
        base = Path(platformdirs.user_cache_dir("vyre", appauthor=False))
    except RuntimeError:  # platformdirs found no home
        base = Path()
    if not base.is_absolute():
        base = Path(os.path.expanduser("~/.cache/vyre"))  # noqa: PTH111 -- Path.expanduser raises without a home
    return base / "pipelines" if base.is_absolute() else None
