"""When two pipelines are the same, and when they are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from literals import DEVICE, LIMITS, buffer, device, reflection

from vyre_driver import identity
from vyre_driver.binding import BindingPlan
from vyre_driver.identity import (
    CURRENT_PIPELINE_CACHE_KEY_VERSION,
    PipelineCacheKey,
    PipelineFeatureFlags,
    decode_manifest,
    encode_manifest,
    layout_digest,
    shader_digest,
)
from vyre_driver.specialization import Specialization, SpecializedConstant
from vyre_driver.spirv.types import Element
from vyre_driver.vulkan.devices import DeviceType

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
    "device": DEVICE,
    "enabled_features": ("shaderFloat64",),
}

BUMP = "the key's format has changed: bump CURRENT_PIPELINE_CACHE_KEY_VERSION, then write the new manifest and digest here"
GOLDEN_FIELDS = (
    ("key version", 1),
    ("shader", bytes(range(32))),
    ("binding layout", bytes(range(32, 64))),
    ("push constant bytes", 8),
    ("workgroup x", 256),
    ("workgroup y", 1),
    ("workgroup z", 1),
    ("feature flags", 32),
    ("enabled features", "shaderFloat64"),
    ("backend", "kompute"),
    ("backend flavour", "kp"),
    ("constant 0 count", "u32:0x00000100"),
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
GOLDEN_DIGEST = "1956b037a210fcea164fef122e175d643500b3fa5c95585f7b5f2538655c8301"
GOLDEN_LAYOUT = "332758b7fb68a06d45b622b0cb02dae9811ac74c0019eb4a96e94ae1c7f6ecff"


def key(**changes: Any) -> PipelineCacheKey:  # noqa: ANN401 -- any input of the key
    return PipelineCacheKey.new(**INPUTS | changes)


def constants(**changes: object) -> Specialization:
    return Specialization((replace(ONE, **changes),))  # type: ignore[arg-type]


@pytest.fixture
def _eight_byte_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_POINTER_BYTES", 8)


@pytest.mark.usefixtures("_eight_byte_pointers")
def test_the_manifest_of_version_1_is_these_fields() -> None:
    assert decode_manifest(key().manifest) == GOLDEN_FIELDS, BUMP


@pytest.mark.usefixtures("_eight_byte_pointers")
def test_the_digest_of_version_1_is_this_one() -> None:
    assert (CURRENT_PIPELINE_CACHE_KEY_VERSION, key().hex) == (1, GOLDEN_DIGEST), BUMP


def test_a_field_is_encoded_with_its_lengths_kind_and_value() -> None:
    assert encode_manifest([("n", 258), ("text", "ü"), ("b", b"\0\xff")]) == (
        b"\x01\0\0\0n" + b"u" + b"\x08\0\0\0" + b"\x02\x01\0\0\0\0\0\0"
        b"\x04\0\0\0text" + b"s" + b"\x02\0\0\0" + b"\xc3\xbc"
        b"\x01\0\0\0b" + b"b" + b"\x02\0\0\0" + b"\0\xff"
    )


def test_the_hex_of_a_key_is_its_digest() -> None:
    assert PipelineCacheKey(b"", bytes(range(32))).hex == "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"


CHANGES: dict[str, dict[str, Any]] = {
    "shader": {"shader_hash": bytes(32)},
    "binding layout": {"bind_group_layout_hash": bytes(32)},
    "push constant bytes": {"push_constant_size": 12},
    "workgroup x": {"workgroup_size": (128, 1, 1)},
    "workgroup y": {"workgroup_size": (256, 2, 1)},
    "workgroup z": {"workgroup_size": (256, 1, 2)},
    "feature flags": {"feature_flags": PipelineFeatureFlags(0)},
    "one more flag": {"feature_flags": PipelineFeatureFlags.PUSH_CONSTANTS | PipelineFeatureFlags.SUBGROUP_OPS},
    "backend": {"backend_id": "other"},
    "backend flavour": {"backend_flavour": "other"},
    "no enabled feature": {"enabled_features": ()},
    "another enabled feature": {"enabled_features": ("shaderInt64",)},
    "one more enabled feature": {"enabled_features": ("shaderFloat64", "shaderInt64")},
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


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_the_code_changes_the_key(what: str) -> None:
    assert key(**CHANGES[what]).digest != key().digest


def test_no_two_changes_give_one_key() -> None:
    digests = [key(**change).digest for change in CHANGES.values()]
    assert len(set(digests)) == len(CHANGES)


def test_the_size_of_a_pointer_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key().digest
    monkeypatch.setattr(identity, "_POINTER_BYTES", 16)
    assert key().digest != before


def test_the_version_of_the_key_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key().digest
    monkeypatch.setattr(identity, "CURRENT_PIPELINE_CACHE_KEY_VERSION", 2)
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


def test_the_order_of_enabled_features_does_not_change_the_key() -> None:
    assert key(enabled_features=("b", "a")) == key(enabled_features=("a", "b"))


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


def test_a_field_that_is_cut_off_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^a field of the manifest runs to byte 15 of 14$"):
        decode_manifest(encode_manifest([("n", b"data!")])[:-1])


def test_a_field_of_an_unknown_kind_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^a field of the manifest has the unknown kind b'x'$"):
        decode_manifest(encode_manifest([("n", b"")]).replace(b"nb", b"nx"))


def test_a_length_that_is_cut_off_is_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"^the manifest ends inside a field, at byte 0$"):
        decode_manifest(b"\x01\0\0")


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
