from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import field_values, manifest_fields

from vyre_driver.identity import FieldValue, decode_manifest, encode_manifest

Fields = list[tuple[str, FieldValue]]


@given(manifest_fields)
def test_a_manifest_is_read_back_as_it_was_written(fields: Fields) -> None:
    assert decode_manifest(encode_manifest(fields)) == tuple(fields)


@given(manifest_fields, manifest_fields)
def test_two_manifests_are_the_same_bytes_only_when_they_are_the_same_fields(one: Fields, other: Fields) -> None:
    assert (encode_manifest(one) == encode_manifest(other)) == (one == other)


@given(manifest_fields, st.data())
def test_fields_that_share_their_texts_are_never_the_same_bytes(fields: Fields, data: st.DataObject) -> None:
    texts = [text for name, value in fields for text in (name, str(value))]
    cuts = data.draw(st.lists(st.tuples(st.sampled_from(texts or [""]), field_values), max_size=4))
    assert (encode_manifest(fields) == encode_manifest(cuts)) == (fields == cuts)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_character_that_moves_from_name_to_value_changes_the_bytes(name: str, value: str) -> None:
    assert encode_manifest([(name, value)]) != encode_manifest([(name + value[0], value[1:])])


@given(st.text(), st.integers(0, 2**64 - 1))
def test_a_number_and_its_bytes_and_its_text_are_different_values(name: str, number: int) -> None:
    forms = [encode_manifest([(name, form)]) for form in (number, number.to_bytes(8, "little"), str(number))]
    assert len(set(forms)) == 3


@given(st.binary(max_size=60) | manifest_fields.map(encode_manifest))
def test_any_bytes_are_a_manifest_that_encodes_to_them_or_a_value_error(data: bytes) -> None:
    try:
        fields = decode_manifest(data)
    except ValueError:
        return
    assert encode_manifest(fields) == data


@given(manifest_fields.filter(bool), st.data())
def test_a_manifest_with_a_byte_changed_is_another_or_a_value_error(fields: Fields, data: st.DataObject) -> None:
    encoded = bytearray(encode_manifest(fields))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = decode_manifest(bytes(encoded))
    except ValueError:
        return
    assert found != tuple(fields)


@given(manifest_fields.filter(bool), st.integers(1, 4))
def test_a_manifest_whose_last_bytes_are_cut_off_is_a_value_error(fields: Fields, cut: int) -> None:
    with pytest.raises(ValueError, match="manifest"):
        decode_manifest(encode_manifest(fields)[:-cut])
