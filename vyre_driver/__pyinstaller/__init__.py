"""The hooks that PyInstaller asks for to freeze a program that uses this package (entry point ``pyinstaller40``)."""

from __future__ import annotations

from pathlib import Path


def hook_dirs() -> list[str]:
    """Return the folders in which PyInstaller finds hooks."""
    return [str(Path(__file__).parent)]
