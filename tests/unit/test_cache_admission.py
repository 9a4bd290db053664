"""Which entries from elsewhere get into a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from literals import DEVICE, device
from test_cache_bundles import ELSEWHERE, blob, entry, pipeline

from vyre_driver.cache.admission import admit
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import DeviceIds, Verdict, encode_entry
from vyre_driver.identity import device_fields, encode_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver.cache.admission import Admission
    from vyre_driver.cache.entry import PipelineEntry

KEY = pipeline(1)
HERE = {DeviceIds.of_manifest(encode_manifest(device_fields(DEVICE)))}
FULL, CODE_ONLY = entry(KEY, blob()), entry(KEY)


@pytest.fixture
def cache(tmp_path: Path) -> DiskPipelineCache:
    return DiskPipelineCache(tmp_path / "cache")


def given(cache: DiskPipelineCache, one: PipelineEntry, *, spirv: bytes | None = None, over_code: bool = False) -> Admission:
    data = encode_entry(KEY.digest, one)
    return admit(cache, KEY.digest, data, hmac_key=None, devices=HERE, spirv=spirv, over_code=over_code)


def test_what_is_admitted_is_there_and_marked_and_known_the_next_time(cache: DiskPipelineCache) -> None:
    assert [given(cache, FULL), given(cache, FULL)] == ["imported", "known"]
    assert cache.get(KEY).entry == replace(FULL, imported=True)


@pytest.mark.parametrize("other", [b"", b"spirv" * 3, b"spirv" * 4 + b"x", b"SPIRV" * 4])
def test_an_entry_with_other_code_than_ours_is_refused(cache: DiskPipelineCache, other: bytes) -> None:
    assert given(cache, FULL, spirv=other) == "foreign_code"
    assert cache.get(KEY).verdict is Verdict.MISS
    assert given(cache, FULL, spirv=FULL.spirv) == "imported"


def test_only_an_entry_with_a_blob_takes_the_place_of_one_without_and_only_where_that_is_asked(
    cache: DiskPipelineCache,
) -> None:
    cache.put(KEY, CODE_ONLY)
    assert [given(cache, FULL), given(cache, CODE_ONLY, over_code=True)] == ["known", "known"]
    assert given(cache, FULL, over_code=True) == "imported"
    assert given(cache, entry(KEY, blob() + b"other"), over_code=True) == "known"
    assert cache.get(KEY).entry == replace(FULL, imported=True)


def test_an_entry_under_another_keys_name_or_for_another_device_is_refused(cache: DiskPipelineCache) -> None:
    elsewhere = pipeline(1, ELSEWHERE)
    data = encode_entry(elsewhere.digest, entry(elsewhere, blob(ELSEWHERE)))
    assert admit(cache, elsewhere.digest, data, hmac_key=None, devices=HERE) == "foreign"
    assert admit(cache, KEY.digest, data, hmac_key=None, devices=None) is Verdict.FOREIGN_KEY
    forged = encode_entry(KEY.digest, entry(elsewhere, blob(ELSEWHERE)))  # right name, another key's manifest
    assert admit(cache, KEY.digest, forged, hmac_key=None, devices=None) is Verdict.FOREIGN_KEY
    assert admit(
        cache, KEY.digest, encode_entry(KEY.digest, entry(KEY, blob(device(device_id=7)))), hmac_key=None, devices=None
    ) is (Verdict.FOREIGN_DEVICE)
