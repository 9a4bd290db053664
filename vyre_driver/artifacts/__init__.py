"""Files of upstream's vyre 0.7: graphs of programs, artifacts, envelopes and packages (docs/artifacts.md)."""

from vyre_driver.process.imports import check_required

check_required()

from vyre_driver.artifacts.graph import Graph
from vyre_driver.artifacts.neutral import NeutralArtifact
from vyre_driver.artifacts.opening import Envelope, Package, read_artifact
from vyre_driver.artifacts.parts import Contract, GraphInput, GraphNode, GraphOutput, GraphValue, Lifetime
from vyre_driver.artifacts.payload import SpirvArtifact, TargetPayload
from vyre_driver.artifacts.schedule import BoundSchedule

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
