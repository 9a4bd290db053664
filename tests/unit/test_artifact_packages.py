"""Packages of ``vyre aot`` and bundles of modules: hostile ones are refused, and cost no more than their bounds."""

from __future__ import annotations

import builtins
import json
import lzma
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from blake3 import blake3
from extras import imported
from upstream_graphs import bundle, cases, envelope_of, payload_of, write_package

from vyre_driver import from_artifact
from vyre_driver.artifacts import Package
from vyre_driver.artifacts.payload import read_modules
from vyre_driver.errors import BackendUnavailable, FileUnusable, InvalidContainer, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

brotli = imported("brotli")

BIN_ADD = cases()["bin_Add"]
WEIGHTS = b"weights " * 100
MODULE: dict[str, object] = {
    "group": 0,
    "stage": 0,
    "nodes": [0],
    "program": list(BIN_ADD.bytes_of["program"]),
    "descriptor": {"literal": 0.5},
    "entry_point": "main",
    "bytes": [3, 2, 35, 7],
}
ARTIFACT = BIN_ADD.bytes_of["artifact"]
ENVELOPE = envelope_of(ARTIFACT, payload_of(ARTIFACT, bundle([MODULE]), [0, 1]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package that is right."""
    write_package(tmp_path / "package", ENVELOPE, WEIGHTS, brotli.compress(WEIGHTS))
    return tmp_path / "package"


def opened(folder: Path) -> Package:
    package = from_artifact(folder)
    assert isinstance(package, Package)
    return package


def problem_of(folder: Path) -> str:
    with pytest.raises(InvalidContainer) as caught:
        from_artifact(folder)
    return caught.value.problem.partition(": ")[2].partition(": ")[2]


def test_a_package_is_read_whole(folder: Path) -> None:
    package = opened(folder)
    assert (package.name, package.target, package.manifest["aot_version"]) == ("sum", "spv", "0.7.2")
    assert package.envelope.artifact.digest == BIN_ADD.bytes_of["artifact_digest"]
    assert [(module.entry_point, module.nodes, module.code) for module in package.spirv().modules] == [
        ("main", (0,), b"\3\2\x23\7")
    ]
    assert [package.weights(*most) for most in [(), (len(WEIGHTS),), (1 << 40,), (2**64 - 1,)]] == [WEIGHTS] * 4


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("schema", "vyre-aot-manifest-v3", "schema is 'vyre-aot-manifest-v3', and this reads 'vyre-aot-manifest-v4'"),
        ("envelope_compression", "zip", "envelope_compression is 'zip', and this reads 'lzma'"),
        ("weights_compression", "none", "weights_compression is 'none', and this reads 'brotli-11'"),
        ("envelope_file", "../artifact.vmk.lzma", "envelope_file is '../artifact.vmk.lzma', not the name of a file beside it"),
        ("envelope_file", "/etc/passwd", "envelope_file is '/etc/passwd', not the name of a file beside it"),
        ("weights_file", "..", "weights_file is '..', not the name of a file beside it"),
        ("weights_file", "a\0b", "weights_file is 'a\\x00b', not the name of a file beside it"),
        ("envelope_sha256_hex", "0" * 64, "the SHA-256 of its envelope is not that of the manifest"),
        ("neutral_artifact_digest_hex", "0" * 64, "the digest of its artifact is not that of the manifest"),
        ("target_payload_digest_hex", "0" * 64, "its envelope has no code of the target 'spv' with the manifest's digest"),
        ("target_payload_format", "ptx", "its envelope has no code of the target 'spv' with the manifest's digest"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(folder: Path, name: str, text: str, problem: str) -> None:
    write_package(folder, ENVELOPE, WEIGHTS, brotli.compress(WEIGHTS), **{name: text})
    assert problem_of(folder) == problem


def test_a_manifest_with_other_keys_is_refused(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    del manifest["notes"]
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    opened(folder)  # upstream reads it without notes
    for changed in (manifest | {"more": ""}, {name: text for name, text in manifest.items() if name != "target"}, []):
        (folder / "manifest.json").write_text(json.dumps(changed), "utf-8")
        assert problem_of(folder).startswith("it has not exactly the keys schema, ")


def test_an_envelope_that_is_cut_short_or_no_lzma_is_refused(folder: Path) -> None:
    packed = folder / "artifact.vmk.lzma"
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-10])
    assert problem_of(folder) == "its envelope is cut short, or bytes follow it"
    packed.write_bytes(whole + b"x")
    assert problem_of(folder) == "its envelope is cut short, or bytes follow it"
    packed.write_bytes(b"no lzma at all")
    assert problem_of(folder).startswith("its envelope cannot be unpacked (")
    packed.unlink()
    with pytest.raises(FileUnusable, match="does not exist"):
        from_artifact(folder)


def test_a_file_of_a_package_that_leads_elsewhere_is_refused(folder: Path) -> None:
    for name, read in (("weights.brotli", lambda: opened(folder).weights()), ("artifact.vmk.lzma", lambda: opened(folder))):
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)
        with pytest.raises(FileUnusable, match=f"{name} is a symbolic link"):
            read()


def test_an_envelope_that_unpacks_to_more_than_its_bound_is_refused(folder: Path) -> None:
    (folder / "artifact.vmk.lzma").write_bytes(lzma.compress(bytes(80 << 20), lzma.FORMAT_ALONE, preset=0))
    assert problem_of(folder) == f"its envelope has more than {64 << 20} bytes"


def test_weights_are_unpacked_up_to_their_bound(folder: Path) -> None:
    bomb = brotli.compress(bytes(512 << 20), quality=1)
    write_package(folder, ENVELOPE, WEIGHTS, bomb)
    package = opened(folder)
    tracemalloc.start()
    with pytest.raises(InvalidContainer, match=f"its weights have more than {8 << 20} bytes"):
        package.weights(8 << 20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 32 << 20
    with pytest.raises(InvalidInput, match="max_bytes is -1"):
        package.weights(-1)


def test_weights_take_little_more_memory_than_their_bytes(folder: Path) -> None:
    weights = bytes(64 << 20)
    packed = brotli.compress(weights, quality=1)
    write_package(folder, ENVELOPE, weights, packed)
    package = opened(folder)
    with pytest.raises(InvalidContainer, match=f"its weights have more than {max(1 << 20, 256 * len(packed))} bytes"):
        package.weights()
    tracemalloc.start()
    assert package.weights(64 << 20) == weights
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 96 << 20


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_weights_of_any_size_are_unpacked(folder: Path, size: int) -> None:
    write_package(folder, ENVELOPE, bytes(size), brotli.compress(bytes(size)))
    assert opened(folder).weights(2 << 20) == bytes(size)


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (brotli.compress(WEIGHTS)[:-3], "its weights are cut short"),
        (b"\xff" * 20, "its weights cannot be unpacked"),
        (brotli.compress(b"other"), "the SHA-256 of its weights is not that of the manifest"),
    ],
)
def test_weights_that_are_not_what_the_manifest_says_are_refused(folder: Path, packed: bytes, problem: str) -> None:
    write_package(folder, ENVELOPE, WEIGHTS, packed)
    with pytest.raises(InvalidContainer, match=problem):
        opened(folder).weights()


def test_without_brotli_only_the_weights_are_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> object:  # noqa: ANN401 -- those of __import__
        if name == "brotli":
            raise ImportError("No module named 'brotli'")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendUnavailable, match=r"brotli cannot be imported .* Fix: pip install 'vyre-driver\[aot\]'"):
        opened(folder).weights()


@pytest.mark.parametrize(
    ("modules", "problem"),
    [
        ([{**MODULE, "nodes": []}], "modules[0] stands for no node"),
        ([{**MODULE, "program": [1]}], "modules[0].program: "),
        ([{**MODULE, "descriptor": None}], "modules[0].descriptor is not an object"),
        ([{**MODULE, "entry_point": 3}], "modules[0].entry_point is not a text of 1 to 4096 bytes"),
        ([{**MODULE, "group": 1}, MODULE], "its modules are not in the order of stage and group"),
        ([MODULE, MODULE], "its modules are not in the order of stage and group"),
        ([{**MODULE, "more": 1}], "modules[0] has the keys "),
    ],
)
def test_a_bundle_that_is_not_one_is_refused(modules: list[dict[str, object]], problem: str) -> None:
    with pytest.raises(InvalidContainer) as caught:
        read_modules(bundle(modules))
    assert problem in caught.value.problem


def test_the_digest_of_a_bundle_is_compared_before_it_is_parsed() -> None:
    whole = bundle([MODULE])
    for changed in (whole[:-1], b"\0" * 32 + whole[32:], b"", whole + b" "):
        with pytest.raises(InvalidContainer, match=r"its digest is that of another document|fewer than its digest"):
            read_modules(changed)
    with pytest.raises(InvalidContainer, match="it is of schema 3, and this reads 2"):
        read_modules(bundle([MODULE], schema=3))
    body = b'{"schema_version":2,"modules":[]}'
    assert read_modules(blake3(body).digest() + body) == ()
