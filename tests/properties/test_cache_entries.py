from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from strategies import digests, entries

from vyre_driver.cache.entry import Verdict, decode_entry, encode_entry

if TYPE_CHECKING:
    from vyre_driver.cache.entry import PipelineEntry


@given(digests, entries)
def test_any_entry_is_read_back_under_its_key(digest: bytes, entry: PipelineEntry) -> None:
    assert decode_entry(digest, encode_entry(digest, entry)) == (Verdict.HIT, entry)


@given(digests, digests, entries)
def test_an_entry_is_a_hit_under_no_other_key(digest: bytes, other: bytes, entry: PipelineEntry) -> None:
    expected = (Verdict.HIT, entry) if digest == other else (Verdict.FOREIGN_KEY, None)
    assert decode_entry(other, encode_entry(digest, entry)) == expected


@given(digests, entries, st.data())
def test_an_entry_with_any_bytes_changed_is_never_a_hit(digest: bytes, entry: PipelineEntry, data: st.DataObject) -> None:
    encoded = bytearray(encode_entry(digest, entry))
    start = data.draw(st.integers(0, len(encoded)))
    end = data.draw(st.integers(start, len(encoded)))
    encoded[start:end] = data.draw(st.binary(max_size=20))
    verdict, found = decode_entry(digest, bytes(encoded))
    assert (verdict is Verdict.HIT, found) == ((True, entry) if encoded == encode_entry(digest, entry) else (False, None))


@given(digests, st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"VYREPIPE\x02\0\0\0\xd8\0\0\0" + data))
def test_any_bytes_are_judged_and_never_a_hit(digest: bytes, data: bytes) -> None:
    verdict, found = decode_entry(digest, data)
    assert (verdict is Verdict.HIT, found) == (False, None)
