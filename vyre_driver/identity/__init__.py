"""When two pipelines are the same: the strong cache key, and upstream's identities beside it (docs/keys.md)."""

from vyre_driver.identity.keys import (
    CURRENT_PIPELINE_CACHE_KEY_VERSION,
    MANIFEST_VERSION,
    PipelineCacheKey,
    PipelineFeatureFlags,
    device_fields,
    emitter_fields,
    layout_digest,
    manifest_digest,
    policy_fields,
    program_digest,
    shader_digest,
    spec_map_fields,
    specialization_fields,
)
from vyre_driver.identity.manifest import FieldValue, decode_manifest, encode_manifest
from vyre_driver.upstream.keys import (
    PipelineDeviceFingerprint,
    dispatch_policy_cache_string,
    dispatch_policy_digest,
    hex_encode,
    normalized_program_cache_digest,
    program_vsa_fingerprint_words,
)

__all__ = [
    "CURRENT_PIPELINE_CACHE_KEY_VERSION",
    "MANIFEST_VERSION",
    "FieldValue",
    "PipelineCacheKey",
    "PipelineDeviceFingerprint",
    "PipelineFeatureFlags",
    "decode_manifest",
    "device_fields",
    "dispatch_policy_cache_string",
    "dispatch_policy_digest",
    "emitter_fields",
    "encode_manifest",
    "hex_encode",
    "layout_digest",
    "manifest_digest",
    "normalized_program_cache_digest",
    "policy_fields",
    "program_digest",
    "program_vsa_fingerprint_words",
    "shader_digest",
    "spec_map_fields",
    "specialization_fields",
]
