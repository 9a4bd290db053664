"""Open a file or a folder from upstream: its first bytes say what it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.artifacts import envelope, graph_wire, neutral, payload
from vyre_driver.artifacts.faults import refuse, whole_bytes
from vyre_driver.artifacts.files import read_bounded
from vyre_driver.artifacts.graph import Graph
from vyre_driver.artifacts.package import Package
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.artifacts.envelope import Envelope
    from vyre_driver.artifacts.neutral import NeutralArtifact
    from vyre_driver.artifacts.payload import TargetPayload

_READERS: dict[bytes, Callable[[bytes], Graph | NeutralArtifact | Envelope | TargetPayload]] = {
    graph_wire.MAGIC: Graph.from_wire,
    neutral.FRAME.magic: neutral.NeutralArtifact.from_bytes,
    payload.FRAME.magic: payload.TargetPayload.from_bytes,
    envelope.FRAME.magic: envelope.Envelope.from_bytes,
}


def from_artifact(path: str | os.PathLike[str]) -> Graph | NeutralArtifact | Envelope | TargetPayload | Package:
    """Return what upstream's vyre 0.7 wrote to a file, or the package that ``vyre aot`` made in a folder.

    A file is a graph of programs (VGR0), an artifact (VMK0), the code for a target (VTP0) or an envelope with both (VME0).
    Digests are compared before anything is parsed. All but code without its artifact have ``run`` and ``bind``.

    Raises
    ------
    InvalidContainer
        If the bytes are none of these, in full.
    FileUnusable
        If it cannot be read, or is too large.
    InvalidInput
        If ``path`` is no path.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str):
        raise InvalidInput(f"the path is of type {type(name).__name__}", fix="give the path of a file or a folder as text")
    if not name:
        raise InvalidInput("the path is empty", fix="give the path of a file or a folder")
    place = Path(name)
    if os.path.isdir(place):  # noqa: PTH112 -- that of Path raises where a folder above may not be looked into
        return Package.from_folder(place)
    return read_artifact(read_bounded(place, graph_wire.MAX_BYTES))


def read_artifact(data: bytes) -> Graph | NeutralArtifact | Envelope | TargetPayload:
    """Return what the bytes of such a file are; raises InvalidContainer."""
    whole = whole_bytes(data, "an artifact")
    reader = _READERS.get(whole[:4])
    if reader is None:
        hint = " (Program.from_wire reads it)" if whole[:4] == b"VYRE" else ""
        refuse("an artifact", f"it begins with {whole[:4]!r}{hint}, not with VGR0, VMK0, VTP0 or VME0")
    return reader(whole)
