"""Upstream's device fingerprints, policies, flags and key fields, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
from vectors import vectors

from vyre_driver import _fast
from vyre_driver.backends import DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre_driver.errors import InvalidDispatchConfig
from vyre_driver.identity import (
    CURRENT_PIPELINE_CACHE_KEY_VERSION,
    PipelineCacheKey,
    PipelineDeviceFingerprint,
    PipelineFeatureFlags,
    dispatch_policy_cache_string,
    dispatch_policy_digest,
    hex_encode,
)

VECTORS = vectors("pipeline_device_fingerprint.json")
OTHER_FIELDS: dict[str, Any] = {
    "profile": "fast",
    "timeout": 1.5,
    "label": "label",
    "max_output_bytes": 4096,
    "grid_override": (1, 2, 3),
    "fixpoint_iterations": 4,
    "speculation": SpeculationMode.FORCE,
    "persistent_thread": PersistentThreadMode.FORCE,
    "cooperative": True,
}


def numbered(cases: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("facts", cases, ids=[str(place) for place in range(len(cases))])


def test_the_vectors_are_whole() -> None:
    names = ("cases", "raw", "dispatch_policy", "feature_flags", "flag_cases", "hex_encode")
    assert [len(VECTORS[name]) for name in names] == [79, 17, 40, 10, 38, 4]
    assert len(EMPTY_GROUPS) == 2
    assert len(VECTORS["pipeline_cache_key"]["keys"]) == 9


def check_names(fingerprint: PipelineDeviceFingerprint, facts: dict[str, Any]) -> None:
    """The digest, the key and the path below the root."""
    key = fingerprint.cache_key(bytes.fromhex(facts["program_digest"]))
    assert (fingerprint.driver_digest.hex(), key.hex(), _fast.shard_path(key)) == (
        facts["driver_digest"],
        facts["cache_key"],
        facts["relative_path"],
    )


@numbered(VECTORS["cases"])
def test_a_device_told_by_texts_is_upstreams(facts: dict[str, Any]) -> None:
    parts = (facts["vendor"], facts["device"], facts["revision"], facts["revision_extra"])
    made = PipelineDeviceFingerprint.from_parts(*parts)
    assert (made.vendor, made.device) == (facts["vendor"], facts["device"])
    check_names(made, facts)


@numbered(VECTORS["raw"])
def test_a_device_told_by_a_digest_is_upstreams(facts: dict[str, Any]) -> None:
    check_names(PipelineDeviceFingerprint(facts["vendor"], facts["device"], bytes.fromhex(facts["driver_digest"])), facts)


POLICIES = [facts for facts in VECTORS["dispatch_policy"] if 0 not in (facts["workgroup_override"] or ())]
EMPTY_GROUPS = [facts for facts in VECTORS["dispatch_policy"] if facts not in POLICIES]


@numbered(POLICIES)
def test_a_policys_text_and_digest_are_upstreams(facts: dict[str, Any]) -> None:
    override = facts["workgroup_override"]
    others = OTHER_FIELDS if facts["other_fields_set"] else {}
    config = DispatchConfig(ulp_budget=facts["ulp_budget"], workgroup_override=override and tuple(override), **others)
    assert (dispatch_policy_cache_string(config), dispatch_policy_digest(config).hex()) == (facts["string"], facts["digest"])


@numbered(EMPTY_GROUPS)
def test_a_policy_with_an_empty_workgroup_is_refused(facts: dict[str, Any]) -> None:
    """A departure on purpose: upstream hashes a workgroup of no invocations, which no device can run."""
    with pytest.raises(InvalidDispatchConfig, match="is 0, which is not an integer from 1 to"):
        DispatchConfig(ulp_budget=facts["ulp_budget"], workgroup_override=tuple(facts["workgroup_override"]))


def test_the_bits_of_the_flags_are_upstreams() -> None:
    assert {name: int(PipelineFeatureFlags[name]) for name in VECTORS["feature_flags"]} == VECTORS["feature_flags"]
    assert set(PipelineFeatureFlags.__members__) == set(VECTORS["feature_flags"])


@numbered(VECTORS["flag_cases"])
def test_flags_unite_and_contain_as_upstreams_do(facts: dict[str, Any]) -> None:
    a, b = PipelineFeatureFlags(facts["a"]), PipelineFeatureFlags(facts["b"])
    assert (int(a | b), b in a) == (facts["union"], facts["a_contains_b"])


def test_flags_are_carried_as_their_number() -> None:
    facts = VECTORS["flags_serde"]
    assert (str(int(PipelineFeatureFlags(5))), int(PipelineFeatureFlags(0))) == (facts["json_of_5"], facts["default_bits"])


@numbered(VECTORS["hex_encode"])
def test_hex_is_upstreams(facts: tuple[list[int], str]) -> None:
    assert hex_encode(bytes(facts[0])) == facts[1]


def test_keys_differ_where_upstreams_do() -> None:
    keys = [
        PipelineCacheKey(
            facts["version"],
            bytes.fromhex(facts["shader_hash"]),
            bytes.fromhex(facts["bind_group_layout_hash"]),
            facts["push_constant_size"],
            tuple(facts["workgroup_size"]),
            PipelineFeatureFlags(facts["feature_flags"]),
            facts["backend_id"],
            b"",
            b"",
        )
        for facts in VECTORS["pipeline_cache_key"]["keys"]
    ]
    equal = VECTORS["pipeline_cache_key"]["equal_to_first"]
    assert [key == keys[0] for key in keys] == equal
    assert [hash(key) == hash(keys[0]) for key in keys] == equal


def test_the_version_of_upstreams_key_is_kept() -> None:
    assert VECTORS["pipeline_cache_key"]["current_version"] == CURRENT_PIPELINE_CACHE_KEY_VERSION
