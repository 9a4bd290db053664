"""Files of upstream's vyre 0.7: graphs of programs, artifacts, envelopes and packages (docs/artifacts.md)."""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.artifacts.envelope import Envelope
from vyre_driver.artifacts.graph import Graph
from vyre_driver.artifacts.neutral import NeutralArtifact
from vyre_driver.artifacts.opening import read_artifact
from vyre_driver.artifacts.package import Package
from vyre_driver.artifacts.parts import Contract, GraphInput, GraphNode, GraphOutput, GraphValue, Lifetime
from vyre_driver.artifacts.payload import TargetPayload
from vyre_driver.artifacts.running import BoundSchedule
from vyre_driver.artifacts.target_code import SpirvArtifact

__all__ = [
    "BoundSchedule",
    "Contract",
    "Envelope",
    "Graph",
    "GraphInput",
    "GraphNode",
    "GraphOutput",
    "GraphValue",
    "Lifetime",
    "NeutralArtifact",
    "Package",
    "SpirvArtifact",
    "TargetPayload",
    "read_artifact",
]
