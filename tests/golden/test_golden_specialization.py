"""Upstream's hashes and keys of specialization and tuning, bit for bit, with their collisions."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from vectors import spec_cache_key, spec_map, spec_value, vectors

from vyre_driver.autotune import AutotuneKey
from vyre_driver.identity import encode_manifest, spec_map_fields
from vyre_driver.specialization import SpecCacheKey, versioned_specialization_artifact_key

VALUES = vectors("spec_values.json")["cases"]
MAPS = vectors("spec_maps.json")
KEYS = vectors("spec_cache_keys.json")
ARTIFACTS = vectors("artifact_keys.json")["cases"]
TUNED = vectors("autotune_keys.json")


def f64_bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def numbered(cases: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("facts", cases, ids=[str(place) for place in range(len(cases))])


def test_the_vectors_are_whole() -> None:
    assert [
        len(cases)
        for cases in (
            VALUES,
            MAPS["cases"],
            MAPS["collisions"],
            KEYS["cases"],
            KEYS["equality"],
            ARTIFACTS,
            TUNED["cases"],
            TUNED["collisions"],
            TUNED["ordering"]["sorted"],
        )
    ] == [116, 152, 7, 62, 5, 76, 129, 14, 160]


@numbered(VALUES)
def test_a_value_has_upstreams_hash_and_number(facts: dict[str, Any]) -> None:
    value = spec_value(facts["value"])
    assert (value.cache_hash(), f64_bits(value.as_pipeline_f64())) == (int(facts["cache_hash"]), facts["f64_bits"])


def test_the_widest_element_of_an_array_is_among_the_values() -> None:
    sizes = {facts["value"]["dtype"].get("element_size", 0) for facts in VALUES if facts["value"]["kind"] == "DType"}
    assert max(sizes) == 2**64 - 1


@numbered([*MAPS["cases"], *(side for pair in MAPS["collisions"] for side in (pair["a"], pair["b"]))])
def test_a_map_has_upstreams_order_numbers_and_hash(facts: dict[str, Any]) -> None:
    made = spec_map(facts["inserts"])
    assert (len(made), made.is_empty, [name for name, _ in made]) == (facts["len"], facts["is_empty"], facts["order"])
    numbers = {name: f64_bits(value) for name, value in made.to_numeric_constants().items()}
    assert (numbers, made.cache_hash()) == (facts["numeric_constants"], int(facts["cache_hash"]))


@numbered(MAPS["collisions"])
def test_maps_that_upstreams_hash_takes_for_equal_have_different_manifests(facts: dict[str, Any]) -> None:
    a, b = spec_map(facts["a"]["inserts"]), spec_map(facts["b"]["inserts"])
    assert (a.cache_hash() == b.cache_hash(), a == b) == (facts["equal_hash"], False) == (True, False)
    assert encode_manifest(spec_map_fields(a)) != encode_manifest(spec_map_fields(b))


@numbered(KEYS["cases"])
def test_the_key_of_a_specialized_pipeline_is_upstreams(facts: dict[str, Any]) -> None:
    made = SpecCacheKey.new(
        int(facts["shader_hash"]), int(facts["binding_sig"]), tuple(facts["workgroup_size"]), spec_map(facts["inserts"])
    )
    assert made == spec_cache_key(facts["key"])


@numbered(KEYS["equality"])
def test_keys_are_equal_when_upstreams_are(facts: dict[str, Any]) -> None:
    a, b = spec_cache_key(facts["a"]), spec_cache_key(facts["b"])
    assert (a == b, len({a, b}) == 1) == (facts["equal"], facts["equal"])


@numbered(ARTIFACTS)
def test_the_key_of_an_artifact_is_upstreams(facts: dict[str, Any]) -> None:
    made = versioned_specialization_artifact_key(facts["cache_version"], facts["spec_hash"], facts["backend_fingerprint"])
    assert made == facts["key"]


def test_no_two_artifacts_share_a_key() -> None:
    inputs = {(facts["cache_version"], facts["spec_hash"], facts["backend_fingerprint"]) for facts in ARTIFACTS}
    assert len({versioned_specialization_artifact_key(*one) for one in inputs}) == len(inputs)


@numbered([*TUNED["cases"], *(side for pair in TUNED["collisions"] for side in (pair["a"], pair["b"]))])
def test_the_key_of_a_tuned_kernel_is_upstreams(facts: dict[str, Any]) -> None:
    made = AutotuneKey.new(spec_cache_key(facts["spec"]), facts["adapter"])
    assert (made.key_hex, made.adapter_id) == (facts["key_hex"], facts["adapter_id"])


@numbered(TUNED["collisions"])
def test_kernels_that_upstreams_tuning_takes_for_one_are_told_apart_by_their_whole_keys(facts: dict[str, Any]) -> None:
    a, b = (spec_cache_key(facts[side]["spec"]) for side in "ab")
    keys = [AutotuneKey.new(spec, facts[side]["adapter"]) for spec, side in ((a, "a"), (b, "b"))]
    assert (keys[0] == keys[1], a == b) == (facts["equal"], facts["specs_equal"]) == (True, False)


def test_keys_of_tuned_kernels_stand_in_upstreams_order() -> None:
    unsorted = [AutotuneKey(*pair) for pair in TUNED["ordering"]["unsorted"]]
    assert [[key.key_hex, key.adapter_id] for key in sorted(unsorted)] == TUNED["ordering"]["sorted"]
