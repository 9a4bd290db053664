"""Open a file or a folder from upstream: its first bytes say what it is.

An envelope ("VME0", schema 2) is an artifact with the code that targets have made of it. A package of ``vyre aot`` is a folder:
``manifest.json`` tells what the files are, and their SHA-256; ``artifact.vmk.lzma`` is an envelope, packed by LZMA;
``weights.brotli`` are bytes that the caller splits into arrays, packed by Brotli.

Source: upstream 0.7, section 2.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.artifacts import graph, neutral, payload
from vyre_driver.artifacts.documents import MAX_FRAME_BYTES, Document, Frame, read_bounded, refuse, whole_bytes
from vyre_driver.artifacts.graph import Graph
from vyre_driver.artifacts.neutral import NeutralArtifact
from vyre_driver.artifacts.payload import SPIRV, SpirvArtifact, TargetPayload
from vyre_driver.artifacts.schedule import Runnable, Schedule
from vyre_driver.checks import U64_MAX, integer_within
from vyre_driver.errors import BackendUnavailable, InvalidInput, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable


FRAME = Frame(b"VME0", 2, b"vyre-megakernel-envelope-v2", "an envelope (VME0)")

_MEMBERS = ("schema_version", "neutral_artifact", "target_payloads")


@dataclass(frozen=True, slots=True)
class Envelope(Runnable):
    """An artifact and the code for each target, in the order of their formats.

    It runs as its artifact does: by the programs. ``spirv()`` runs the code of the target "spv" in their place.
    """

    artifact: NeutralArtifact
    payloads: tuple[TargetPayload, ...]
    digest: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """Return the envelope in bytes that upstream wrote (VME0, schema 2).

        Raises
        ------
        InvalidContainer
            If they are not one such envelope, or its parts do not belong together.
        """
        body, digest = FRAME.unwrap(data)
        document = Document(FRAME.what, FRAME.body_at)
        version, neutral, targets = document.members(document.parse(body), "the envelope", *_MEMBERS)
        if document.number(version, "schema_version") != FRAME.version:
            document.refuse(f"schema_version is not the {FRAME.version} of its frame")
        artifact = NeutralArtifact.from_bytes(document.octets(neutral, "neutral_artifact"))
        items = enumerate(document.items(targets, "target_payloads"))
        payloads = tuple([TargetPayload.from_bytes(document.octets(item, f"target_payloads[{at}]")) for at, item in items])
        formats = [payload.format for payload in payloads]
        if formats != sorted(set(formats), key=lambda pair: (pair[0].encode(), pair[1])):
            document.refuse("its payloads are not in the order of their formats, or two have one format")
        for code in payloads:
            _check_payload(document, artifact, code)
        return cls(artifact, payloads, digest)

    def schedule(self) -> Schedule:
        """Return the programs of the artifact's nodes as steps; raises as ``Runnable.schedule``."""
        return self.artifact.schedule()

    def spirv(self) -> SpirvArtifact:
        """Return what runs the code of the target "spv".

        Raises
        ------
        UnsupportedFeature
            If there is none of this format, or of another version.
        InvalidContainer
            If its bytes are not a bundle of modules.
        """
        for code in self.payloads:
            if code.format == SPIRV:
                return SpirvArtifact.of(self.artifact, code)
        formats = ", ".join(
            f"{identity} version {version}" for identity, version in (payload.format for payload in self.payloads)
        )
        raise UnsupportedFeature(
            f"the envelope has no code of format {SPIRV[0]} version {SPIRV[1]} (there is: {formats or 'none'})",
            fix="run it without spirv(), by its programs",
        )


def _check_payload(document: Document, artifact: NeutralArtifact, payload: TargetPayload) -> None:
    """Check that code is of the artifact beside it."""
    if payload.artifact_digest != artifact.digest:
        document.refuse(f"the code of format {payload.format[0]!r} is of another artifact")
    for entry in payload.entries:
        if entry.node >= len(artifact.nodes):
            document.refuse(f"an entry is of node {entry.node}, and the artifact has {len(artifact.nodes)}")
        for binding in entry.bindings:
            if binding.resource >= len(artifact.resources):
                document.refuse(f"an entry names value {binding.resource}, and the artifact has {len(artifact.resources)}")


MANIFEST = "manifest.json"
SCHEMA = "vyre-aot-manifest-v4"
MAX_WEIGHTS_BYTES = 4 << 30

_WHAT = "a package of vyre aot"
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_DECODER_BYTES = 256 << 20  # of memory that LZMA may take for its dictionary
_CHUNK_BYTES = 1 << 20
_MAX_RATIO = 256  # of weights to what they are packed to, unless the caller allows more
_NAMES = (
    *("schema", "aot_version", "artifact_name", "target", "target_payload_format"),
    *("envelope_file", "envelope_compression", "envelope_sha256_hex"),
    *("neutral_artifact_digest_hex", "target_payload_digest_hex"),
    *("weights_file", "weights_compression", "weights_sha256_hex"),
)


@dataclass(frozen=True, slots=True)
class Package(Runnable):
    """A package: its envelope, and its weights, which are read when they are asked for."""

    folder: Path
    name: str
    target: str
    envelope: Envelope
    manifest: dict[str, str]

    @classmethod
    def from_folder(cls, folder: Path) -> Package:
        """Return the package in a folder; its envelope is unpacked and checked.

        Raises
        ------
        InvalidContainer
            If manifest and envelope are not those of one package.
        FileUnusable
            If a file cannot be read.
        """
        manifest = _manifest(read_bounded(folder / MANIFEST, _MAX_MANIFEST_BYTES))
        packed = read_bounded(folder / manifest["envelope_file"], MAX_FRAME_BYTES, follows_links=False)
        plain = _unpacked_envelope(packed)
        if hashlib.sha256(plain).hexdigest() != manifest["envelope_sha256_hex"]:
            refuse(_WHAT, "the SHA-256 of its envelope is not that of the manifest")
        envelope = Envelope.from_bytes(plain)
        if envelope.artifact.digest.hex() != manifest["neutral_artifact_digest_hex"]:
            refuse(_WHAT, "the digest of its artifact is not that of the manifest")
        known = {(payload.format[0], payload.digest.hex()) for payload in envelope.payloads}
        if (manifest["target_payload_format"], manifest["target_payload_digest_hex"]) not in known:
            refuse(_WHAT, f"its envelope has no code of the target {manifest['target']!r} with the manifest's digest")
        return cls(folder, manifest["artifact_name"], manifest["target"], envelope, manifest)

    def schedule(self) -> Schedule:
        """Return the programs of the artifact's nodes as steps; raises as ``Runnable.schedule``."""
        return self.envelope.schedule()

    def spirv(self) -> SpirvArtifact:
        """Return what runs the code of the target "spv"; raises as ``Envelope.spirv``."""
        return self.envelope.spirv()

    def weights(self, max_bytes: int | None = None) -> bytes:
        """Return the bytes of the weights; needs the extra ``aot``.

        There may be ``max_bytes`` of them. Without that, there may be 4 GiB, and 256 bytes for each packed one.

        Raises
        ------
        InvalidContainer
            If they are not what the manifest says, or more.
        FileUnusable
            If the file cannot be read.
        BackendUnavailable
            If the package brotli is not installed.
        InvalidInput
            If ``max_bytes`` is no number of bytes.
        """
        limit = MAX_WEIGHTS_BYTES if max_bytes is None else integer_within(max_bytes, 0, U64_MAX)
        if limit is None:
            raise InvalidInput(f"max_bytes is {max_bytes!r}", fix="give a number of bytes")
        path = self.folder / self.manifest["weights_file"]
        packed = read_bounded(path, limit + _CHUNK_BYTES, follows_links=False)
        if max_bytes is None:
            limit = min(limit, max(_CHUNK_BYTES, len(packed) * _MAX_RATIO))
        weights, digest = _unpacked_weights(packed, limit)
        if digest != self.manifest["weights_sha256_hex"]:
            refuse(_WHAT, "the SHA-256 of its weights is not that of the manifest")
        return weights


def _manifest(data: bytes) -> dict[str, str]:
    document = Document(f"the {MANIFEST} of {_WHAT}")
    value = document.parse(data, is_canonical=False)
    if not isinstance(value, dict) or set(value) - {"notes"} != set(_NAMES):
        document.refuse(f"it has not exactly the keys {', '.join(_NAMES)} and notes")
    manifest = {name: document.text(value[name], name) for name in _NAMES}
    expected = {"schema": SCHEMA, "envelope_compression": "lzma", "weights_compression": "brotli-11"}
    for name, only in expected.items():
        if manifest[name] != only:
            document.refuse(f"{name} is {manifest[name]!r}, and this reads {only!r}")
    for name in ("envelope_file", "weights_file"):
        if manifest[name] == ".." or Path(manifest[name]).name != manifest[name] or "\0" in manifest[name]:
            document.refuse(f"{name} is {manifest[name]!r}, not the name of a file beside it")
    return manifest


def _unpacked_envelope(packed: bytes) -> bytes:
    """Return an envelope that was packed by LZMA alone, of the bytes that a frame may have at most."""
    try:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_MAX_DECODER_BYTES)
        plain = decoder.decompress(packed, max_length=MAX_FRAME_BYTES + 1)
    except (lzma.LZMAError, EOFError) as error:
        return refuse(_WHAT, f"its envelope cannot be unpacked ({error})")
    if len(plain) > MAX_FRAME_BYTES:
        refuse(_WHAT, f"its envelope has more than {MAX_FRAME_BYTES} bytes")
    if not decoder.eof or decoder.unused_data:
        refuse(_WHAT, "its envelope is cut short, or bytes follow it", len(packed) - len(decoder.unused_data))
    return plain


def _unpacked_weights(packed: bytes, limit: int) -> tuple[bytes, str]:
    """Return weights of at most ``limit`` bytes that were packed by Brotli, and their SHA-256."""
    try:
        import brotli  # late: an extra, which only weights need
    except ImportError as error:
        raise BackendUnavailable(
            f"the weights of a package are packed by Brotli, and brotli cannot be imported ({error})",
            fix="pip install 'vyre-driver[aot]'",
        ) from error
    decoder, digest, rest = brotli.Decompressor(), hashlib.sha256(), packed
    plain = io.BytesIO()  # whose value is no copy
    try:
        while not decoder.is_finished():
            part = decoder.process(rest, output_buffer_limit=_CHUNK_BYTES)
            rest = b""
            if plain.tell() + len(part) > limit:
                refuse(_WHAT, f"its weights have more than {limit} bytes (weights(max_bytes) says how many there may be)")
            if not part and decoder.can_accept_more_data() and not decoder.is_finished():
                refuse(_WHAT, "its weights are cut short", len(packed))
            digest.update(part)
            plain.write(part)
    except brotli.error as error:
        refuse(_WHAT, f"its weights cannot be unpacked ({error})")
    return plain.getvalue(), digest.hexdigest()


_READERS: dict[bytes, Callable[[bytes], Graph | NeutralArtifact | Envelope | TargetPayload]] = {
    graph.MAGIC: Graph.from_wire,
    neutral.FRAME.magic: NeutralArtifact.from_bytes,
    payload.FRAME.magic: TargetPayload.from_bytes,
    FRAME.magic: Envelope.from_bytes,
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
    return read_artifact(read_bounded(place, graph.MAX_BYTES))


def read_artifact(data: bytes) -> Graph | NeutralArtifact | Envelope | TargetPayload:
    """Return what the bytes of such a file are; raises InvalidContainer."""
    whole = whole_bytes(data, "an artifact")
    reader = _READERS.get(whole[:4])
    if reader is None:
        hint = " (Program.from_wire reads it)" if whole[:4] == b"VYRE" else ""
        refuse("an artifact", f"it begins with {whole[:4]!r}{hint}, not with VGR0, VMK0, VTP0 or VME0")
    return reader(whole)
