"""Distributions with entry points, laid out on disk as an installer would, for a process or a test to find."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GROUP = "vyre_driver.backends"
GOOD = """
from vyre_driver.backends import BackendRegistration
from vyre_driver.backends.null import NullBackend

class Toy(NullBackend):
    id = {id!r}

def registration():
    return BackendRegistration({id!r}, lambda request: Toy(), precedence=7, dispatches={dispatches})
"""


def good(backend_id: str, *, dispatches: bool = True) -> str:
    """The text of a module with a backend that works."""
    return GOOD.format(id=backend_id, dispatches=dispatches)


def install(place: Path, distribution: str, module: str, text: str, entries: Mapping[str, str]) -> None:
    """Put a module and the metadata of its distribution, version 1.5, into a directory on the path."""
    (place / f"{module}.py").write_text(text, "utf-8")
    metadata = place / f"{distribution.replace('-', '_')}-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n", "utf-8")
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
