"""One pipeline's key and what it is made of."""

from __future__ import annotations

from typing import Any

from literals import DEVICE

from vyre_driver.backends import DispatchConfig
from vyre_driver.identity import (
    PipelineCacheKey,
    PipelineFeatureFlags,
)
from vyre_driver.specialization import Specialization, SpecializedConstant, SpecMap, SpecValue

BUMP = "the manifest's format has changed: bump MANIFEST_VERSION, then write the new manifest and digest here"

ONE = SpecializedConstant("count", 0, "u32", 256)
SPECIALIZATION = Specialization((ONE,))

INPUTS: dict[str, Any] = {
    "shader_hash": bytes(range(32)),
    "bind_group_layout_hash": bytes(range(32, 64)),
    "push_constant_size": 8,
    "workgroup_size": (256, 1, 1),
    "feature_flags": PipelineFeatureFlags.PUSH_CONSTANTS,
    "backend_id": "kompute",
    "backend_flavour": "kp",
    "specialization": SPECIALIZATION,
    "specs": SpecMap({"TILE": SpecValue.u32(16)}),
    "config": DispatchConfig(ulp_budget=1, workgroup_override=(256, 1, 1)),
    "emitter_version": 3,
    "emitter_options": {"checks": "all", "unroll": 4, "salt": b"\1"},
    "device": DEVICE,
    "enabled_features": ("shaderFloat64",),
}


def key(**changes: Any) -> PipelineCacheKey:  # noqa: ANN401 -- any input of the key
    return PipelineCacheKey.new(**INPUTS | changes)
