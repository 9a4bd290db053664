"""The C table for embedders: what it answers, what it refuses, and that it and its header say the same."""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import c_table
import pytest
import twins
from literals import DEVICE

import vyre_driver
from vyre_driver import embedding
from vyre_driver.binding import BindingRole
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry, Verdict
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags
from vyre_driver.ir.buffers import BufferAccess, MemoryKind
from vyre_driver.specialization import Specialization

if TYPE_CHECKING:
    from conftest import RunChild

HEADER = Path(vyre_driver.get_include()) / "vyre_driver.h"
TEXT = HEADER.read_text("utf-8")
ROWS = [(f"CONSTANT_{place:02}".encode(), place << 8) for place in range(16)]
NATIVE = struct.pack("<IIII16s", 32, 1, DEVICE.vendor_id, DEVICE.device_id, DEVICE.pipeline_cache_uuid) + b"compiled"
SHAPES = {
    "vyre_spec_entry": c_table.SpecEntry,
    "vyre_spec_cache_key": c_table.SpecCacheKey,
    "vyre_buffer_decl": c_table.BufferDecl,
    "vyre_binding": c_table.Binding,
    "vyre_lengths_fault": c_table.LengthsFault,
    "vyre_cache_entry": c_table.CacheEntry,
    "vyre_driver_api": c_table.Table,
}


def pipeline_key() -> PipelineCacheKey:
    """A key as a driver makes it."""
    return PipelineCacheKey.new(
        bytes(range(32)),
        bytes(32),
        8,
        (64, 1, 1),
        PipelineFeatureFlags.PUSH_CONSTANTS,
        "kompute",
        backend_flavour="0.9.0",
        device=DEVICE,
        specialization=Specialization(()),
    )


@pytest.fixture
def vyre() -> c_table.Table:
    return c_table.table()


def enumerated(prefix: str) -> dict[str, int]:
    """The numbers of the header's enumerators of a prefix, by the rest of their names."""
    return {name: int(number) for name, number in re.findall(rf"\b{prefix}_(\w+) = (-?\d+)", TEXT)}


def test_the_header_numbers_roles_accesses_kinds_and_verdicts_as_python_does() -> None:
    assert enumerated("VYRE_ROLE") == {role.name: place for place, role in enumerate(BindingRole)}
    assert enumerated("VYRE_ACCESS") == {access.name: access.value for access in BufferAccess}
    assert enumerated("VYRE_KIND") == {kind.name: kind.value for kind in MemoryKind}
    verdicts = enumerated("VYRE_CACHE")
    assert verdicts.pop("FAILED") == -1
    assert {verdict.name for verdict in Verdict} <= set(verdicts)
    assert [embedding.verdict_number(verdict) for verdict in Verdict] == [verdicts[verdict.name] for verdict in Verdict]


def compiled(source: str, compiler: str, folder: Path, *options: str) -> str:
    """Compile a text with all warnings as errors; returns what the compiler printed."""
    path = folder / ("source.cpp" if compiler == "c++" else "source.c")
    path.write_text(source, "utf-8")
    include = [f"-I{HEADER.parent}", f"-I{sysconfig.get_path('include')}"]
    command = [str(shutil.which(compiler)), *options, "-Wall", "-Wextra", "-Wpedantic", "-Werror", *include]
    return subprocess.run([*command, str(path), "-o", str(folder / "out")], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(("compiler", "standard"), [("cc", "-std=c11"), ("c++", "-std=c++11")])
def test_the_header_compiles_alone_and_with_python_without_a_warning(compiler: str, standard: str, tmp_path: Path) -> None:
    use = "int main(void) { return sizeof(vyre_driver_api) == 0; }\n"
    alone = f"#include <vyre_driver.h>\n{use}"
    assert compiled(alone, compiler, tmp_path, standard) == ""
    with_python = "#include <Python.h>\n#include <vyre_driver.h>\nvoid *used(void) { return (void *)import_vyre_driver(); }\n"
    assert compiled(with_python, compiler, tmp_path, standard, "-c") == ""


def test_the_structs_of_the_header_have_the_sizes_and_places_that_these_tests_use(tmp_path: Path) -> None:
    asked = [(struct, name) for struct, shape in SHAPES.items() for name, *_ in shape._fields_]
    prints = "".join(f'printf("%zu ", offsetof({struct}, {name}));' for struct, name in asked)
    prints += "".join(f'printf("%zu ", sizeof({struct}));' for struct in SHAPES)
    assert compiled(f"#include <stdio.h>\n#include <vyre_driver.h>\nint main(void) {{ {prints} }}\n", "cc", tmp_path) == ""
    printed = subprocess.run([tmp_path / "out"], capture_output=True, text=True, check=True).stdout.split()
    places = [getattr(SHAPES[struct], name).offset for struct, name in asked]
    assert list(map(int, printed)) == places + [ctypes.sizeof(shape) for shape in SHAPES.values()]


def test_the_table_tells_its_version_and_size(vyre: c_table.Table) -> None:
    assert (vyre.abi_version, vyre.struct_size) == (1, ctypes.sizeof(c_table.Table))


def test_the_table_is_found_where_nothing_of_the_package_was_imported_before(run_python: RunChild) -> None:
    code = """
import ctypes
find = ctypes.pythonapi.PyCapsule_Import
find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
print(bool(find(b"vyre_driver._fast._C_API", 0)))
"""
    done = run_python("-c", code)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_table_hashes_keys_and_writes_hex_as_the_twins_do(vyre: c_table.Table) -> None:
    digits, path, key = (ctypes.create_string_buffer(b"\xff" * size) for size in (64, 71, 32))
    digest = bytes(range(32))
    vyre.hex(digest, 32, digits)
    vyre.shard_path(digest, path)
    vyre.autotune_key(c_table.SpecCacheKey(1, 2, 3, (64, 2, 1)), key)
    assert (digits.raw[:64].decode(), digits.raw[64:]) == (twins.hex_text(digest), b"\0")
    assert (path.raw[:71].decode(), path.raw[71:]) == (twins.shard_path(digest), b"\0")
    assert (key.raw[:32].decode(), key.raw[32:]) == (twins.autotune_key_hex(1, 2, (64, 2, 1), 3), b"\0")
    assert vyre.spec_map_hash(c_table.entries(ROWS), 16) == twins.spec_map_hash(ROWS)
    assert vyre.spec_map_hash(None, 0) == twins.spec_map_hash([])


def test_the_table_plans_and_checks_as_the_twins_do(vyre: c_table.Table) -> None:
    declared = [
        twins.Declared(4, 3, 0, 0, 0, 0, is_output=False, pipeline_live_out=False),
        twins.Declared(8, 1, 5, 64, 1, 0, is_output=False, pipeline_live_out=True),
        twins.Declared(4, 0, 16, 0, 4, 1, is_output=False, pipeline_live_out=False),
    ]
    assert c_table.plan(vyre, declared, (40, 12)) == twins.build_plan(declared, (40, 12))
    assert c_table.plan(vyre, [], ()) == twins.build_plan([], ())
    wrong = [*declared, twins.Declared(0, 9, 2, 0, 0, 0, is_output=False, pipeline_live_out=False)]
    assert c_table.plan(vyre, wrong, ()) == twins.build_plan(wrong, ()) == (2, 3)
    bindings = [twins.Measured(4, 0, 0, None, 0), twins.Measured(8, 0, 0, 40, 1)]
    for lengths in [(4, 40), (5, 40), (4, 41), (4,), (4, 40, 1), ()]:
        assert c_table.verdict(vyre, bindings, lengths) == twins.validate_lengths(bindings, lengths)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[bytes, bytes]:
    """A root with one entry of SPIR-V and native blob, and the entry's manifest."""
    key = pipeline_key()
    root = tmp_path / "root"
    assert DiskPipelineCache(root).put(key, PipelineEntry(key.manifest, b"spirv" * 8, NATIVE))
    return str(root).encode(), key.manifest


def looked_up(vyre: c_table.Table, cache: object, manifest: bytes) -> tuple[int, bytes | None, bytes | None, str]:
    entry = c_table.CacheEntry(spirv=1, native=1, owner=1, reason=b"before")
    verdict = vyre.cache_lookup(cache, manifest, len(manifest), entry)
    found = [
        ctypes.string_at(at, length) if at else None
        for at, length in [(entry.spirv, entry.spirv_len), (entry.native, entry.native_len)]
    ]
    reason = entry.reason.decode()
    vyre.cache_release(entry)
    vyre.cache_release(entry)
    assert bytes(entry) == bytes(ctypes.sizeof(entry))
    return verdict, found[0], found[1], reason


def test_the_table_names_finds_and_misses_entries(vyre: c_table.Table, stored: tuple[bytes, bytes]) -> None:
    root, manifest = stored
    digest = ctypes.create_string_buffer(32)
    cache = vyre.cache_open(root, None)
    assert (vyre.pipeline_key(manifest, len(manifest), digest), digest.raw) == (0, pipeline_key().digest)
    assert looked_up(vyre, cache, manifest) == (0, b"spirv" * 8, NATIVE, "")
    path = DiskPipelineCache(Path(root.decode())).root / twins.shard_path(digest.raw)  # type: ignore[operator]
    path.write_bytes(path.read_bytes()[:-1])
    verdict, spirv, native, reason = looked_up(vyre, cache, manifest)
    assert (verdict, spirv, native) == (embedding.verdict_number(Verdict.TRUNCATED), None, None)
    assert "shorter" in reason
    assert looked_up(vyre, cache, manifest)[:3] == (embedding.verdict_number(Verdict.MISS), None, None)
    vyre.cache_close(cache)
    vyre.cache_close(None)


def test_an_entry_outlives_its_cache_and_its_file(vyre: c_table.Table, stored: tuple[bytes, bytes], tmp_path: Path) -> None:
    root, manifest = stored
    cache, entry = vyre.cache_open(root, None), c_table.CacheEntry()
    assert vyre.cache_lookup(cache, manifest, len(manifest), entry) == 0
    vyre.cache_close(cache)
    shutil.rmtree(tmp_path / "root")
    assert ctypes.string_at(entry.spirv, entry.spirv_len) == b"spirv" * 8
    vyre.cache_release(entry)


def test_the_table_refuses_what_cannot_be_meant_and_says_why(vyre: c_table.Table, tmp_path: Path) -> None:
    reason = ctypes.create_string_buffer(256)
    assert (vyre.cache_open(b"", reason), vyre.cache_open(b"", None)) == (None, None)
    assert (
        reason.value.decode()
        == "ValueError: the directory of the cache has an empty name. Fix: name one, or pass NULL for the settings'."
    )
    cache = vyre.cache_open(str(tmp_path).encode(), None)
    for manifest in (b"", b"no manifest", b"\xff" * 64):
        verdict, spirv, native, why = looked_up(vyre, cache, manifest)
        assert (verdict, spirv, native) == (-1, None, None)
        assert why.startswith(f"InvalidKey: the {len(manifest)} bytes are not a manifest of a pipeline")
    vyre.cache_close(cache)


def test_the_settings_choose_the_cache_when_no_directory_is_given(
    vyre: c_table.Table,
    stored: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, manifest = stored
    monkeypatch.setenv("VYRE_CACHE_DIR", root.decode())
    cache = vyre.cache_open(None, None)
    assert looked_up(vyre, cache, manifest)[0] == 0
    vyre.cache_close(cache)
    monkeypatch.setenv("VYRE_CACHE_DIR", "relative")
    reason = ctypes.create_string_buffer(256)
    assert (vyre.cache_open(None, reason), reason.value.decode().partition(":")[0]) == (None, "InvalidSetting")


def test_a_long_reason_is_cut_at_a_whole_character(vyre: c_table.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", "é" * 400)
    reason = ctypes.create_string_buffer(256)
    assert vyre.cache_open(None, reason) is None
    assert 250 < len(reason.value) < 256
    assert "é" in reason.value.decode()


def test_eight_threads_without_the_interpreters_lock_get_the_answers_of_one(
    vyre: c_table.Table, stored: tuple[bytes, bytes]
) -> None:
    root, manifest = stored
    cache = vyre.cache_open(root, None)
    key_of = {place: twins.autotune_key_hex(place, 2, (64, 1, 1), 3) for place in range(200)}

    def work(_: int) -> bool:
        digits = ctypes.create_string_buffer(32)
        good = vyre.spec_map_hash(c_table.entries(ROWS), 16) == twins.spec_map_hash(ROWS)
        for place, wanted in key_of.items():
            vyre.autotune_key(c_table.SpecCacheKey(place, 2, 3, (64, 1, 1)), digits)
            good &= digits.raw.decode() == wanted
            good &= looked_up(vyre, cache, manifest) == (0, b"spirv" * 8, NATIVE, "")
        return good

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [True] * 8
    vyre.cache_close(cache)


def test_the_command_line_prints_where_the_header_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vyre_driver", "--includes"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"-I{vyre_driver.get_include()}\n", "")
