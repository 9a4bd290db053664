"""Bundles: what goes out, what comes in, and what is refused on the way."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from literals import DEVICE, device, refusal

from vyre_driver.cache.bundle import LIST_NAME, BundledEntry, ImportReport, export_bundle, import_bundle, list_bundle
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import DeviceIds, PipelineEntry, encode_entry
from vyre_driver.errors import CacheUnusable, InvalidBundle
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags, decode_manifest, encode_manifest
from vyre_driver.specialization import Specialization

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver.vulkan.devices import PhysicalDevice

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
ELSEWHERE = device(driver_info="another build")


def pipeline(number: int, on: PhysicalDevice = DEVICE) -> PipelineCacheKey:
    return PipelineCacheKey.new(
        bytes([number]) * 32,
        bytes(32),
        0,
        (64, 1, 1),
        PipelineFeatureFlags.EMPTY,
        "kompute",
        backend_flavour="kp",
        device=on,
        specialization=Specialization(()),
    )


def blob(on: PhysicalDevice = DEVICE) -> bytes:
    return struct.pack("<IIII16s", 32, 1, on.vendor_id, on.device_id, on.pipeline_cache_uuid) + b"compiled"


def entry(key: PipelineCacheKey, native: bytes = b"") -> PipelineEntry:
    return PipelineEntry(key.manifest, b"spirv" * 4, native)


@pytest.fixture
def full(tmp_path: Path) -> DiskPipelineCache:
    """A cache with two entries for one device and one for another."""
    cache = DiskPipelineCache(tmp_path / "full")
    for key, native in [(pipeline(1), blob()), (pipeline(2), b""), (pipeline(3, ELSEWHERE), blob(ELSEWHERE))]:
        assert cache.put(key, entry(key, native))
    return cache


def exported(cache: DiskPipelineCache, *keys: PipelineCacheKey) -> io.BytesIO:
    made = io.BytesIO()
    export_bundle(cache, made, {key.hex for key in keys} or None)
    made.seek(0)
    return made


def archive(*members: tuple[str, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    made.seek(0)
    return made


def listed(keys: list[str]) -> tuple[str, bytes]:
    """A list that names these keys, and says nothing true of them."""
    told = {"spirv_bytes": 1, "native_bytes": 2, "vendorID": 3, "deviceID": 4, "driverName": "", "driverInfo": ""}
    return LIST_NAME, json.dumps({"format": 1, "entries": [{"key": key, **told} for key in keys]}).encode()


def listing(*members: tuple[str, bytes]) -> io.BytesIO:
    """An archive with a list of its members."""
    return archive(listed([name for name, _ in members]), *members)


def test_what_is_exported_is_found_after_the_import_and_marked(full: DiskPipelineCache, tmp_path: Path) -> None:
    empty = DiskPipelineCache(tmp_path / "empty")
    assert import_bundle(empty, exported(full), trust=True) == ImportReport(3, 0, 0, {})
    for number, on in [(1, DEVICE), (2, DEVICE), (3, ELSEWHERE)]:
        found, before = empty.get(pipeline(number, on)).entry, full.get(pipeline(number, on)).entry
        assert (found.manifest, found.spirv, found.native) == (before.manifest, before.spirv, before.native)  # type: ignore[union-attr]
        assert (found.imported, before.imported) == (True, False)  # type: ignore[union-attr]
    assert (empty.usage().imported, empty.check()) == (3, [])


def test_a_bundle_is_the_same_bytes_wherever_and_whenever_it_is_made(full: DiskPipelineCache, tmp_path: Path) -> None:
    again = DiskPipelineCache(tmp_path / "again")
    import_bundle(again, exported(full), trust=True)
    assert exported(again).getvalue() == exported(full).getvalue()
    assert str(tmp_path).encode() not in exported(full).getvalue()


def test_a_bundle_carries_the_names_of_kernels(full: DiskPipelineCache, tmp_path: Path) -> None:
    assert full.put(pipeline(1), entry(pipeline(1), blob()), kernel="saxpy")
    cache = DiskPipelineCache(tmp_path / "again")
    assert import_bundle(cache, exported(full), trust=True) == ImportReport(3, 0, 0, {})
    named = {pipeline(1).hex: "saxpy", pipeline(2).hex: "", pipeline(3, ELSEWHERE).hex: ""}
    assert {one.key: one.kernel for one in cache.entries()} == named
    assert {one.key: one.kernel for one in list_bundle(exported(cache))} == named


def test_the_kernels_name_of_a_hostile_list_is_made_printable_and_one_that_is_no_text_is_refused(
    full: DiskPipelineCache, tmp_path: Path
) -> None:
    told = {"key": pipeline(2).hex, "spirv_bytes": 1, "native_bytes": 0, "vendorID": 0, "deviceID": 0}
    told |= {"driverName": "", "driverInfo": ""}
    path = full.entry_path(pipeline(2))
    assert path is not None

    def bundle(kernel: object) -> io.BytesIO:
        listing = {"format": 1, "entries": [{**told, "kernel": kernel}]}
        return archive((LIST_NAME, json.dumps(listing).encode()), (f"entries/{pipeline(2).hex}.bin", path.read_bytes()))

    cache = DiskPipelineCache(tmp_path / "again")
    assert import_bundle(cache, bundle("\x1b[2J\n" + "x" * 9999 + "\ud800"), trust=True) == ImportReport(1, 0, 0, {})
    assert [one.kernel for one in cache.entries()] == [r"\x1b[2J\n" + "x" * 188 + "..."]
    kind, code, message = refusal(lambda: import_bundle(cache, bundle(7), trust=True))
    assert (kind, code, "a kernel's name is a text, not 7" in message) == (InvalidBundle, 2206, True)


def test_only_the_wanted_entries_are_exported_and_damaged_ones_are_left_out(full: DiskPipelineCache) -> None:
    assert [one.key for one in list_bundle(exported(full, pipeline(2)))] == [pipeline(2).hex]
    path = full.entry_path(pipeline(1))
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    assert {one.key for one in list_bundle(exported(full))} == {pipeline(2).hex, pipeline(3, ELSEWHERE).hex}


def test_a_bundle_tells_what_is_in_it_before_it_is_used(full: DiskPipelineCache) -> None:
    told = {one.key: one for one in list_bundle(exported(full))}
    assert told[pipeline(3, ELSEWHERE).hex] == BundledEntry(
        pipeline(3, ELSEWHERE).hex, 20, 40, DEVICE.vendor_id, DEVICE.device_id, DEVICE.driver_name, "another build"
    )


def test_an_import_takes_what_is_for_the_devices_that_are_there(full: DiskPipelineCache, tmp_path: Path) -> None:
    here = {DeviceIds.of_manifest(pipeline(1).manifest)}
    cache = DiskPipelineCache(tmp_path / "here")
    assert import_bundle(cache, exported(full), trust=True, devices=here) == ImportReport(2, 0, 1, {})
    assert import_bundle(cache, exported(full), trust=True, devices=here) == ImportReport(0, 2, 1, {})


def test_rule_c11_nothing_is_imported_that_nobody_vouches_for(full: DiskPipelineCache, tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "careful")
    kind, code, message = refusal(lambda: import_bundle(cache, exported(full)))
    assert (kind, code, "nothing vouches for the bundle" in message) == (InvalidBundle, 2206, True)
    assert list(cache.entries()) == []


def test_a_sealed_bundle_is_taken_with_its_key_and_refused_with_another(tmp_path: Path) -> None:
    source = DiskPipelineCache(tmp_path / "source", hmac_key=KEY)
    assert source.put(pipeline(1), entry(pipeline(1)))
    bundle = exported(source)
    with_key = DiskPipelineCache(tmp_path / "with", hmac_key=KEY)
    with_other = DiskPipelineCache(tmp_path / "other", hmac_key=OTHER_KEY)
    assert import_bundle(with_key, bundle) == ImportReport(1, 0, 0, {})
    bundle.seek(0)
    assert import_bundle(with_other, bundle) == ImportReport(0, 0, 0, {"UNTRUSTED": 1})
    bundle.seek(0)
    assert import_bundle(with_other, bundle, trust=True) == ImportReport(1, 0, 0, {})
    assert [with_other.get(pipeline(1)).verdict.name, with_key.get(pipeline(1)).verdict.name] == ["HIT", "HIT"]


def test_an_unsealed_bundle_is_refused_by_who_has_a_key(full: DiskPipelineCache, tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "with", hmac_key=KEY)
    assert import_bundle(cache, exported(full)) == ImportReport(0, 0, 0, {"UNTRUSTED": 3})


def test_an_entry_under_a_key_that_is_not_that_of_its_manifest_is_refused(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    wrong = encode_entry(bytes(32), entry(pipeline(1)))
    no_manifest = encode_entry(bytes(32), PipelineEntry(b"no manifest", b"spirv"))
    for data in (wrong, no_manifest):
        bundle = listing((f"entries/{bytes(32).hex()}.bin", data))
        assert import_bundle(cache, bundle, trust=True) == ImportReport(0, 0, 0, {"FOREIGN_KEY": 1})
    assert list(cache.entries()) == []


def test_every_changed_byte_of_a_bundled_entry_is_refused(full: DiskPipelineCache, tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    path = full.entry_path(pipeline(2))
    assert path is not None
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        report = import_bundle(cache, listing((f"entries/{pipeline(2).hex}.bin", changed)), trust=True)
        assert (report.imported, sum(report.refused.values())) == (0, 1)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../../escape.bin", "belongs in none"),
        ("/etc/passwd", "belongs in none"),
        ("entries/abc.bin", "belongs in none"),
        (f"entries/{'A' * 64}.bin", "belongs in none"),
        (f"entries/{'a' * 64}.bin\n", "belongs in none"),
        ("x" * 500, "belongs in none"),
    ],
)
def test_a_member_that_is_no_entry_ends_the_import(name: str, says: str, tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    kind, code, message = refusal(lambda: import_bundle(cache, listing((name, b"data")), trust=True))
    assert (kind, code, says in message) == (InvalidBundle, 2206, True)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE])
def test_a_member_that_is_no_file_ends_the_import(kind: bytes, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        name, told = listed(["a"])
        info = tarfile.TarInfo(name)
        info.size = len(told)
        tar.addfile(info, io.BytesIO(told))
        info = tarfile.TarInfo(f"entries/{'a' * 64}.bin")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    made.seek(0)
    cache = DiskPipelineCache(tmp_path / "root")
    assert "belongs in none" in refusal(lambda: import_bundle(cache, made, trust=True))[2]


@pytest.mark.parametrize("data", [b"", b"no tar at all", b"\0" * 100, bytes(1024), b"\xff" * 4096])
def test_bytes_that_are_no_archive_are_refused(data: bytes, tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    assert refusal(lambda: import_bundle(cache, io.BytesIO(data), trust=True))[:2] == (InvalidBundle, 2206)
    assert refusal(lambda: list_bundle(io.BytesIO(data)))[:2] == (InvalidBundle, 2206)


def test_a_bundle_cut_anywhere_is_refused_and_what_was_taken_is_whole(full: DiskPipelineCache, tmp_path: Path) -> None:
    data = exported(full).getvalue()
    end = max(i for i in range(0, len(data), 512) if any(data[i : i + 512])) + 512
    for length in {*range(0, end + 512, 173), *range(0, end + 512, 512)}:  # also at the border of each member
        cache = DiskPipelineCache(tmp_path / str(length))
        assert refusal(lambda at=length, to=cache: import_bundle(to, io.BytesIO(data[:at]), trust=True))[0] is InvalidBundle
        assert cache.check() == []


def test_a_bundle_with_other_than_the_listed_number_of_entries_is_refused(full: DiskPipelineCache, tmp_path: Path) -> None:
    path = full.entry_path(pipeline(2))
    assert path is not None
    held = (f"entries/{pipeline(2).hex}.bin", path.read_bytes())
    for keys, lists in ([], 0), (["a", "b"], 2):
        cache = DiskPipelineCache(tmp_path / str(lists))
        message = refusal(lambda to=cache, of=keys: import_bundle(to, archive(listed(of), held), trust=True))[2]
        assert f"it lists {lists} entries and holds 1, of which 1 were taken" in message


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_long_header_record_is_refused_before_it_is_read(kind: bytes, tmp_path: Path) -> None:
    info = tarfile.TarInfo("record")
    info.type, info.size = kind, 3 << 30
    path = tmp_path / "bundle"
    with path.open("wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.truncate(3 << 30)
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            message = refusal(lambda: list_bundle(file))[2]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ("a header record of 3221225472 bytes, over the limit of 65536 bytes" in message, peak < 1 << 20) == (True, True)


def test_a_bundle_that_another_program_has_packed_anew_is_taken(full: DiskPipelineCache, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=exported(full)) as read, tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for one in read:
            one.mtime, one.uname = 1.5, "\u00fcser"  # both need a pax record
            tar.addfile(one, read.extractfile(one))
    made.seek(0)
    assert import_bundle(DiskPipelineCache(tmp_path / "root"), made, trust=True) == ImportReport(3, 0, 0, {})


def test_an_entry_that_goes_while_it_is_exported_is_missed_by_the_import(full: DiskPipelineCache, tmp_path: Path) -> None:
    def remove(done: int, of: int) -> None:
        assert of == 3
        if done == 1:
            full.clear()

    made = io.BytesIO()
    export_bundle(full, made, progress=remove)
    made.seek(0)
    report = import_bundle(DiskPipelineCache(tmp_path / "root"), made, trust=True)
    assert (report.imported, sum(report.refused.values())) == (1, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 3, "entries": []}',
        b'{"format": true, "entries": []}',
        b'{"format": 1, "entries": [{}]}',
        b'{"format": 1, "entries": 7}',
        b"[" * 10**5,
    ],
)
def test_a_list_that_cannot_be_read_is_refused(data: bytes) -> None:
    kind, code, message = refusal(lambda: list_bundle(archive((LIST_NAME, data))))
    assert (kind, code, "list cannot be read" in message or "this reads formats 1 and 2" in message) == (
        InvalidBundle,
        2206,
        True,
    )


@pytest.mark.parametrize(
    "change",
    [{"vendorID": 2**64}, {"vendorID": -1}, {"deviceID": True}, {"driverName": "\ud800"}, {"driverInfo": 7}, {"key": None}],
)
def test_a_line_of_the_list_that_no_device_could_have_is_refused(change: dict[str, object]) -> None:
    line = {"key": "", "spirv_bytes": 1, "native_bytes": 0, "vendorID": 1, "deviceID": 1, "driverName": "", "driverInfo": ""}
    data = json.dumps({"format": 1, "entries": [line | change]}).encode()
    kind, code, message = refusal(lambda: list_bundle(archive((LIST_NAME, data))))
    assert (kind, code, "its list cannot be read" in message) == (InvalidBundle, 2206, True)


def test_an_entry_whose_manifest_has_other_kinds_is_exported_all_the_same(tmp_path: Path) -> None:
    fields = dict(decode_manifest(pipeline(1).manifest)) | {"driverName": b"bytes", "vendorID": "text"}
    key = PipelineCacheKey.from_manifest(encode_manifest(fields.items()))
    cache = DiskPipelineCache(tmp_path / "root")
    assert cache.put(key, entry(key))
    (told,) = list_bundle(exported(cache))
    assert (told.driverName, told.vendorID, told.deviceID) == ("", 0, DEVICE.device_id)


@pytest.mark.parametrize("kind", ["memory", "readonly", "untrusted"])
def test_nothing_is_said_to_be_imported_where_it_would_not_stay(kind: str, full: DiskPipelineCache, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    if kind == "untrusted":
        place.chmod(0o777)
    cache = DiskPipelineCache(None if kind == "memory" else place, readonly=kind == "readonly")
    error, code, message = refusal(lambda: import_bundle(cache, exported(full), trust=True))
    assert (error, code, "may not be changed" in message, list(place.iterdir())) == (CacheUnusable, 2205, True, [])


def test_an_import_does_not_believe_the_list(full: DiskPipelineCache, tmp_path: Path) -> None:
    path = full.entry_path(pipeline(2))
    assert path is not None
    bundle = listing((f"entries/{pipeline(2).hex}.bin", path.read_bytes()))
    assert import_bundle(DiskPipelineCache(tmp_path / "root"), bundle, trust=True) == ImportReport(1, 0, 0, {})
