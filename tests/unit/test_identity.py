"""When two pipelines are the same, and when they are not; what a key's manifest is, byte by byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from literals import DEVICE, LIMITS, buffer, cache_key, device, reflection, refusal

from vyre_driver.backends import DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidKey
from vyre_driver.identity import (
    CURRENT_PIPELINE_CACHE_KEY_VERSION,
    MANIFEST_VERSION,
    PipelineCacheKey,
    PipelineFeatureFlags,
    decode_manifest,
    encode_manifest,
    layout_digest,
    shader_digest,
)
from vyre_driver.identity import keys as identity
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint
from vyre_driver.specialization import Specialization, SpecializedConstant, SpecMap, SpecValue
from vyre_driver.spirv.layout import Element
from vyre_driver.vulkan.devices import DeviceType

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


GOLDEN_LAYOUT = "332758b7fb68a06d45b622b0cb02dae9811ac74c0019eb4a96e94ae1c7f6ecff"


def policy(**changes: Any) -> DispatchConfig:  # noqa: ANN401 -- any field
    return replace(INPUTS["config"], **changes)


def specs(**values: SpecValue) -> SpecMap:
    return SpecMap(values)


def constants(**changes: object) -> Specialization:
    return Specialization((replace(ONE, **changes),))  # type: ignore[arg-type]


def test_the_hex_of_a_key_is_its_digest() -> None:
    assert cache_key(bytes(range(32))).hex == "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"


CHANGES: dict[str, dict[str, Any]] = {
    "shader": {"shader_hash": bytes(32)},
    "binding layout": {"bind_group_layout_hash": bytes(32)},
    "push constant bytes": {"push_constant_size": 12},
    "workgroup x": {"workgroup_size": (128, 1, 1)},
    "workgroup y": {"workgroup_size": (256, 2, 1)},
    "workgroup z": {"workgroup_size": (256, 1, 2)},
    "feature flags": {"feature_flags": PipelineFeatureFlags(0)},
    "one more flag": {"feature_flags": PipelineFeatureFlags.PUSH_CONSTANTS | PipelineFeatureFlags.SUBGROUP_OPS},
    "emitter version": {"emitter_version": 4},
    "emitter option's name": {"emitter_options": {"check": "all", "unroll": 4, "salt": b"\1"}},
    "emitter option's text": {"emitter_options": {"checks": "none", "unroll": 4, "salt": b"\1"}},
    "emitter option's number": {"emitter_options": {"checks": "all", "unroll": 5, "salt": b"\1"}},
    "emitter option's bytes": {"emitter_options": {"checks": "all", "unroll": 4, "salt": b"\2"}},
    "emitter option's kind": {"emitter_options": {"checks": b"all", "unroll": 4, "salt": b"\1"}},
    "one emitter option less": {"emitter_options": {"checks": "all", "unroll": 4}},
    "no emitter option": {"emitter_options": None},
    "ulp budget": {"config": policy(ulp_budget=2)},
    "strict": {"config": policy(ulp_budget=None)},
    "workgroup override": {"config": policy(workgroup_override=(256, 1, 2))},
    "no workgroup override": {"config": policy(workgroup_override=None)},
    "no policy": {"config": None},
    "subgroup size": {"config": policy(subgroup_size=32)},
    "another subgroup size": {"config": policy(subgroup_size=64)},
    "spec's name": {"specs": specs(TILES=SpecValue.u32(16))},
    "spec's value": {"specs": specs(TILE=SpecValue.u32(17))},
    "spec is an i32": {"specs": specs(TILE=SpecValue.i32(16))},
    "spec is an f32 of the same bits": {"specs": specs(TILE=SpecValue.f32_bits(16))},
    "spec is a bool": {"specs": specs(TILE=SpecValue.bool(True))},
    "spec is a data type": {"specs": specs(TILE=SpecValue.dtype(DataType.I8))},
    "spec is a vector": {"specs": specs(TILE=SpecValue.dtype(DataType.vec(DataType.U32, 2)))},
    "spec is a longer vector": {"specs": specs(TILE=SpecValue.dtype(DataType.vec(DataType.U32, 3)))},
    "one more spec": {"specs": specs(TILE=SpecValue.u32(16), UNROLL=SpecValue.u32(16))},
    "no specs": {"specs": None},
    "backend": {"backend_id": "other"},
    "backend flavour": {"backend_flavour": "other"},
    "no enabled feature": {"enabled_features": ()},
    "another enabled feature": {"enabled_features": ("shaderInt64",)},
    "one more enabled feature": {"enabled_features": ("shaderFloat64", "shaderInt64")},
    "two features in one name": {"enabled_features": ("shaderFloat64,shaderInt64",)},
    "no constant": {"specialization": Specialization(())},
    "one more constant": {"specialization": Specialization((ONE, replace(ONE, name="other", spec_id=1)))},
    "constant's name": {"specialization": constants(name="other")},
    "constant's id": {"specialization": constants(spec_id=1)},
    "constant's type": {"specialization": constants(type_name="f32")},
    "constant's bits": {"specialization": constants(bits=257)},
    "vendorID": {"device": device(vendor_id=1)},
    "deviceID": {"device": device(device_id=1)},
    "driverID": {"device": device(driver_id=1)},
    "driverName": {"device": device(driver_name="other")},
    "driverInfo": {"device": device(driver_info="other")},
    "driverVersion": {"device": device(driver_version=1)},
    "apiVersion": {"device": device(api_version=1)},
    "driverUUID": {"device": device(driver_uuid=bytes(16))},
    "pipelineCacheUUID": {"device": device(pipeline_cache_uuid=bytes(16))},
}


def test_what_changes_the_code_changes_the_key_and_no_two_changes_give_one() -> None:
    named: dict[bytes, list[str]] = {key().digest: ["no change"]}
    for what, change in CHANGES.items():
        named.setdefault(key(**change).digest, []).append(what)
    assert [several for several in named.values() if len(several) > 1] == []


@pytest.mark.parametrize(
    ("name", "value"), [("_POINTER_BYTES", 16), ("CURRENT_PIPELINE_CACHE_KEY_VERSION", 2), ("MANIFEST_VERSION", 3)]
)
def test_pointers_and_versions_change_the_key(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    before = key().digest
    monkeypatch.setattr(identity, name, value)
    assert key().digest != before


IRRELEVANT: dict[str, dict[str, object]] = {
    "index": {"index": 3},
    "name": {"name": "Example GPU 9000 (unit 2)"},
    "deviceUUID": {"device_uuid": bytes(16)},
    "pci": {"pci": (0, 0x66, 0, 0)},
    "limits": {"limits": replace(LIMITS, max_push_constants_size=256)},
    "memory heaps": {"memory_heaps": ((40 << 30, 1),)},
    "device type": {"device_type": DeviceType.VIRTUAL},
    "conformance": {"conformance": (1, 2, 3, 4)},
    "subgroups": {"subgroup_size": 64, "subgroup_stages": 0, "subgroup_operations": 0},
    "queue families": {"queue_families": ()},
    "extensions": {"extensions": frozenset()},
    "features the device could enable": {"features": frozenset({"shaderFloat64"})},
    "loader": {"loader_version": 1 << 22},
}


@pytest.mark.parametrize("what", IRRELEVANT)
def test_what_does_not_change_the_code_does_not_change_the_key(what: str) -> None:
    assert key(device=device(**IRRELEVANT[what])) == key()


@pytest.mark.parametrize(
    "same",
    [
        {"profile": "fast"},
        {"timeout": 2.5},
        {"label": "step 7"},
        {"max_output_bytes": 1024},
        {"grid_override": (7, 1, 1)},
        {"fixpoint_iterations": 3},
        {"speculation": SpeculationMode.FORCE},
        {"persistent_thread": PersistentThreadMode.DISABLE},
        {"cooperative": True},
    ],
    ids=lambda same: next(iter(same)),
)
def test_what_of_a_dispatch_does_not_change_the_code_does_not_change_the_key(same: dict[str, Any]) -> None:
    assert key(config=policy(**same)) == key()


def test_a_strict_budget_of_0_gives_the_key_of_no_budget() -> None:
    """A departure on purpose: upstream's policy digest tells them apart, though both mean strict."""
    assert key(config=policy(ulp_budget=0)) == key(config=policy(ulp_budget=None))


def test_no_policy_gives_the_key_of_the_default_one() -> None:
    assert key(config=None) == key(config=DispatchConfig())


def test_the_order_of_enabled_features_does_not_change_the_key() -> None:
    assert key(enabled_features=("b", "a", "b")) == key(enabled_features=("a", "b"))


def test_the_order_of_emitter_options_does_not_change_the_key() -> None:
    assert key(emitter_options=dict(reversed(INPUTS["emitter_options"].items()))) == key()


def test_the_order_in_which_specs_were_inserted_does_not_change_the_key() -> None:
    pairs = {"B": SpecValue.bool(True), "A": SpecValue.i32(-1)}
    assert key(specs=SpecMap(pairs)) == key(specs=SpecMap(reversed(pairs.items())))


def test_specs_that_upstreams_hash_takes_for_equal_have_different_keys() -> None:
    """The names run into each other, vectors share a tag, and every quantized type is one sentinel."""
    quantized = [
        DataType.quantized(storage, QuantizationScale.per_tensor(), QuantizationZeroPoint.absent())
        for storage in (DataType.I4, DataType.I8)
    ]
    collisions = [
        (specs(A=SpecValue.u32(0), B=SpecValue.u32(9)), SpecMap({"A" + 8 * "\0" + "B": SpecValue.u32(9)})),
        (specs(v=SpecValue.dtype(DataType.vec(DataType.U32, 1))), specs(v=SpecValue.dtype(DataType.vec(DataType.F32, 4)))),
        (specs(q=SpecValue.dtype(quantized[0])), specs(q=SpecValue.dtype(quantized[1]))),
    ]
    assert [a.cache_hash() == b.cache_hash() for a, b in collisions] == [True] * 3
    assert [key(specs=a).digest == key(specs=b).digest for a, b in collisions] == [False] * 3


def test_a_key_says_what_upstreams_does() -> None:
    one = key()
    assert (
        one.version,
        one.shader_hash,
        one.bind_group_layout_hash,
        one.push_constant_size,
        one.workgroup_size,
        one.feature_flags,
        one.backend_id,
    ) == (1, bytes(range(32)), bytes(range(32, 64)), 8, (256, 1, 1), PipelineFeatureFlags.PUSH_CONSTANTS, "kompute")


def test_equal_keys_have_one_place_in_a_table() -> None:
    assert len({key(), key(), key(backend_id="other")}) == 2


def test_a_key_takes_digests_from_any_buffer_and_a_workgroup_from_any_sequence() -> None:
    same = {
        "shader_hash": np.arange(32, dtype=np.uint8),
        "bind_group_layout_hash": memoryview(bytearray(range(64)))[32:],
        "workgroup_size": np.array([256, 1, 1]),
        "push_constant_size": np.uint8(8),
        "feature_flags": 32,
    }
    assert key(**same) == key()


U32S = "an integer from 0 to 4294967295"
U64S = "an integer from 0 to 18446744073709551615"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"shader_hash": bytes(31)}, "shader_hash has 31 bytes, not 32. Fix: give a 32-byte digest."),
        ({"shader_hash": "00" * 16}, "shader_hash is a str, not bytes. Fix: give a 32-byte digest."),
        ({"bind_group_layout_hash": bytes(33)}, "bind_group_layout_hash has 33 bytes, not 32. Fix: give a 32-byte digest."),
        ({"bind_group_layout_hash": None}, "bind_group_layout_hash is a NoneType, not bytes. Fix: give a 32-byte digest."),
        ({"push_constant_size": -1}, f"push_constant_size is -1, which is not {U32S}. Fix: give {U32S}."),
        ({"push_constant_size": 2**32}, f"push_constant_size is 4294967296, which is not {U32S}. Fix: give {U32S}."),
        ({"push_constant_size": True}, f"push_constant_size is True, which is not {U32S}. Fix: give {U32S}."),
        ({"workgroup_size": (1, 1)}, "workgroup_size is (1, 1), which is not 3 numbers. Fix: give (x, y, z)."),
        ({"workgroup_size": (1, 1, 1, 1)}, "workgroup_size is (1, 1, 1, 1), which is not 3 numbers. Fix: give (x, y, z)."),
        ({"workgroup_size": "111"}, "workgroup_size is '111', which is not 3 numbers. Fix: give (x, y, z)."),
        ({"workgroup_size": 64}, "workgroup_size is 64, which is not 3 numbers. Fix: give (x, y, z)."),
        ({"workgroup_size": (1, 2.0, 1)}, f"workgroup_size is 2.0, which is not {U32S}. Fix: give {U32S}."),
        ({"workgroup_size": (1, 1, 2**32)}, f"workgroup_size is 4294967296, which is not {U32S}. Fix: give {U32S}."),
        ({"feature_flags": 2**32}, f"feature_flags is 4294967296, which is not {U32S}. Fix: give {U32S}."),
        ({"backend_id": b"kompute"}, "backend_id is b'kompute', which is not a str. Fix: give a str."),
        (
            {"backend_flavour": "\ud800"},
            "backend_flavour is '\\ud800', which has a lone surrogate and so no UTF-8 form. Fix: give well-formed Unicode.",
        ),
        ({"enabled_features": (1,)}, "enabled_features is 1, which is not a str. Fix: give a str."),
        ({"emitter_version": -1}, f"emitter_version is -1, which is not {U32S}. Fix: give {U32S}."),
        ({"emitter_options": {1: 1}}, "emitter_options is 1, which is not a str. Fix: give a str."),
        (
            {"emitter_options": {"a": 2.5}},
            f"emitter option a is 2.5, which is not {U64S}. Fix: give {U64S}.",
        ),
        (
            {"emitter_options": {"a": "\udfff"}},
            "emitter option a is '\\udfff', which has a lone surrogate and so no UTF-8 form. Fix: give well-formed Unicode.",
        ),
    ],
)
def test_a_part_of_a_key_that_cannot_be_is_refused(changed: dict[str, Any], problem: str) -> None:
    assert refusal(lambda: key(**changed)) == (InvalidKey, 2203, problem)


def test_equal_inputs_give_one_key() -> None:
    equal = Specialization((replace(ONE),))
    assert key(specialization=equal, device=replace(DEVICE)) == key()


def test_a_shaders_digest_is_that_of_its_bytes() -> None:
    assert shader_digest(b"abc").hex() == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"


def layout(*buffers: Any) -> bytes:  # noqa: ANN401 -- buffers
    return layout_digest(BindingPlan.from_reflection(reflection(*buffers)))


def test_the_layouts_digest_is_this_one() -> None:
    assert layout(buffer("x", 0, "r"), buffer("y", 3, "rw", header_bytes=4)).hex() == GOLDEN_LAYOUT, BUMP


@pytest.mark.parametrize(
    "changed",
    [
        (buffer("y", 1),),
        (buffer("y", 0, "r"), buffer("z", 1)),
        (buffer("y", 0, "w"),),
        (buffer("y", header_bytes=4),),
        (buffer("y", element=Element(8, None, 8)),),
        (buffer("y"), buffer("z", 1)),
    ],
)
def test_what_changes_the_descriptors_changes_the_layouts_digest(changed: tuple[Any, ...]) -> None:
    assert layout(*changed) != layout(buffer("y"))


@pytest.mark.parametrize("same", [buffer("other"), buffer("y", count=7), buffer("y", element=Element(4, None, 4))])
def test_names_counts_and_scalars_do_not_change_the_layouts_digest(same: Any) -> None:  # noqa: ANN401 -- a buffer
    assert layout(same) == layout(buffer("y"))


@pytest.mark.parametrize(
    ("flag", "bit"),
    [
        ("SUBGROUP_OPS", 0x1),
        ("F16", 0x2),
        ("BF16", 0x4),
        ("TENSOR_CORES", 0x8),
        ("ASYNC_COMPUTE", 0x10),
        ("PUSH_CONSTANTS", 0x20),
        ("INDIRECT_DISPATCH", 0x40),
        ("SPECULATIVE", 0x80),
        ("PERSISTENT_THREAD", 0x100),
    ],
)
def test_a_feature_flag_keeps_its_bit(flag: str, bit: int) -> None:
    assert PipelineFeatureFlags[flag] == bit


GOLDEN_FIELDS = (
    ("manifest version", 2),
    ("key version", 1),
    ("shader", bytes(range(32))),
    ("binding layout", bytes(range(32, 64))),
    ("push constant bytes", 8),
    ("workgroup x", 256),
    ("workgroup y", 1),
    ("workgroup z", 1),
    ("feature flags", 32),
    ("backend", "kompute"),
    ("backend flavour", "kp"),
    ("emitter version", 3),
    ("emitter option checks", "all"),
    ("emitter option salt", b"\1"),
    ("emitter option unroll", 4),
    ("ulp budget", 1),
    ("workgroup override", "256x1x1"),
    ("enabled feature shaderFloat64", 1),
    ("constant 0 count", "u32:0x00000100"),
    ("spec TILE", "u32:0x00000010"),
    ("vendorID", 0x10DE),
    ("deviceID", 0x2330),
    ("driverID", 4),
    ("driverName", "Example"),
    ("driverInfo", "545.29.06"),
    ("driverVersion", 0x2230_0000),
    ("apiVersion", 0x0040_30E6),
    ("driverUUID", bytes(range(16))),
    ("pipelineCacheUUID", bytes(range(32, 48))),
    ("pointer bytes", 8),
)
GOLDEN_DIGEST = "a877b41bb94b1db5351c168181b34e1eb0587a769bd29e663b63d3cf38b597c0"


@pytest.fixture
def _eight_byte_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_POINTER_BYTES", 8)


@pytest.mark.usefixtures("_eight_byte_pointers")
def test_the_manifest_of_version_2_is_these_fields() -> None:
    assert decode_manifest(key().manifest) == GOLDEN_FIELDS, BUMP


@pytest.mark.usefixtures("_eight_byte_pointers")
def test_the_digest_of_version_2_is_this_one() -> None:
    assert (CURRENT_PIPELINE_CACHE_KEY_VERSION, MANIFEST_VERSION, key().hex) == (1, 2, GOLDEN_DIGEST), BUMP


def test_a_field_is_encoded_with_its_lengths_kind_and_value() -> None:
    assert encode_manifest([("n", 258), ("text", "ü"), ("b", b"\0\xff")]) == (
        b"\x01\0\0\0n" + b"u" + b"\x08\0\0\0" + b"\x02\x01\0\0\0\0\0\0"
        b"\x04\0\0\0text" + b"s" + b"\x02\0\0\0" + b"\xc3\xbc"
        b"\x01\0\0\0b" + b"b" + b"\x02\0\0\0" + b"\0\xff"
    )


def test_a_field_that_is_cut_off_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^a field of the manifest runs to byte 15 of 14$"):
        decode_manifest(encode_manifest([("n", b"data!")])[:-1])


def test_a_field_of_an_unknown_kind_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^a field of the manifest has the unknown kind b'x'$"):
        decode_manifest(encode_manifest([("n", b"")]).replace(b"nb", b"nx"))


def test_a_length_that_is_cut_off_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^the manifest ends inside a field, at byte 0$"):
        decode_manifest(b"\x01\0\0")


def test_a_key_comes_back_from_its_manifest() -> None:
    key = PipelineCacheKey.new(**INPUTS)
    assert PipelineCacheKey.from_manifest(key.manifest) == key


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"no manifest",
        encode_manifest([("key version", 1)]),
        encode_manifest([("key version", "1"), ("shader", bytes(32))]),
    ],
)
def test_bytes_that_are_no_pipelines_manifest_give_no_key(manifest: bytes) -> None:
    kind, code, message = refusal(lambda: PipelineCacheKey.from_manifest(manifest))
    assert (kind, code, f"the {len(manifest)} bytes are not a manifest of a pipeline" in message) == (InvalidKey, 2203, True)


def test_a_manifest_whose_fields_have_other_kinds_gives_no_key() -> None:
    fields = dict(decode_manifest(PipelineCacheKey.new(**INPUTS).manifest))
    for name in ("key version", "shader", "binding layout", "push constant bytes", "workgroup y", "feature flags", "backend"):
        changed = encode_manifest((fields | {name: 7 if name == "shader" else b"x"}).items())
        assert refusal(lambda changed=changed: PipelineCacheKey.from_manifest(changed))[:2] == (InvalidKey, 2203)
