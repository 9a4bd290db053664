"""An artifact with the code that targets have made of it (upstream's "VME0", schema 2).

Source: upstream 0.7, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from vyre_driver.artifacts.documents import Document
from vyre_driver.artifacts.frames import Frame
from vyre_driver.artifacts.neutral import NeutralArtifact
from vyre_driver.artifacts.payload import SPIRV, TargetPayload
from vyre_driver.artifacts.schedule import Runnable, Schedule
from vyre_driver.artifacts.target_code import SpirvArtifact
from vyre_driver.errors import UnsupportedFeature

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
        for payload in payloads:
            _check_payload(document, artifact, payload)
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
        for payload in self.payloads:
            if payload.format == SPIRV:
                return SpirvArtifact.of(self.artifact, payload)
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
