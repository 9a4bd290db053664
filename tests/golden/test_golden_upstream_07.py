"""Containers, fingerprints and digests of upstream 0.7.2, and of 0.6.2 as 0.7.2 reads them, bit for bit."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from described import cases, program

from vyre_driver import Program
from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.identity import normalized_program_cache_digest, program_vsa_fingerprint_words

PROGRAMS = cases("programs.json.xz")
WRITTEN = [facts for facts in PROGRAMS if "wire_hex" in facts]
NO_CONTAINER = [facts for facts in PROGRAMS if "wire_hex" not in facts]
LOSSY = {"Vec", "TensorShaped"}  # elements whose parameters upstream drops, and does not read
CONTAINERS = cases("containers.json")
OLD = cases("wire4.json")


def is_lossy(facts: dict[str, Any]) -> bool:
    return any(buffer["element"]["type"] in LOSSY for buffer in facts["buffers"])


def canonical(facts: dict[str, Any]) -> str:
    return str(facts.get("canonical_wire_hex", facts["wire_hex"]))


def test_the_vectors_are_whole() -> None:
    assert (len(WRITTEN), len(NO_CONTAINER), sum(map(is_lossy, WRITTEN)), len(CONTAINERS), len(OLD)) == (342, 25, 3, 52, 36)


def test_canonical_containers_are_upstreams() -> None:
    unlike = [facts["name"] for facts in WRITTEN if program(facts).canonical_wire_bytes(6).hex() != canonical(facts)]
    assert unlike == []


def test_fingerprints_and_their_words_are_upstreams() -> None:
    unlike = []
    for facts in WRITTEN:
        made, fingerprint = program(facts), bytes.fromhex(facts["fingerprint"])
        if (made.fingerprint(), program_vsa_fingerprint_words(made, 6)) != (fingerprint, struct.unpack("<8I", fingerprint)):
            unlike.append(facts["name"])
    assert unlike == []


def test_digests_v3_are_upstreams() -> None:
    digests = [normalized_program_cache_digest(program(facts), 3).hex() for facts in PROGRAMS]
    assert digests == [facts["normalized_digest"] for facts in PROGRAMS]


def test_what_upstream_writes_is_read_as_the_program_that_it_wrote() -> None:
    unlike = []
    for facts in WRITTEN:
        if is_lossy(facts):
            continue
        read, made = Program.from_wire(bytes.fromhex(facts["wire_hex"])), program(facts)
        names = read.fingerprint().hex(), read.normalized_cache_digest(3).hex()
        if (read, names) != (made, (facts["fingerprint"], facts["normalized_digest"])):
            unlike.append(facts["name"])
    assert unlike == []


@pytest.mark.parametrize("facts", [facts for facts in WRITTEN if is_lossy(facts)], ids=lambda facts: facts["name"])
def test_elements_whose_parameters_upstream_drops_are_refused_both_ways(facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidContainer, match="the format does not carry the parameters"):
        Program.from_wire(bytes.fromhex(facts["wire_hex"]))
    with pytest.raises(InvalidProgram, match="has no place for the parameters of the element type"):
        program(facts).to_wire()


def test_to_wire_writes_upstreams_bytes_or_says_what_they_would_lose() -> None:
    refused = []
    for facts in WRITTEN:
        try:
            assert program(facts).to_wire().hex() == canonical(facts)
        except InvalidProgram as error:
            refused.append((facts["name"], "drops the sign of the literal -0.0" in str(error)))
    assert [name for name, is_sign in refused if not is_sign] == [facts["name"] for facts in WRITTEN if is_lossy(facts)]


@pytest.mark.parametrize("facts", NO_CONTAINER, ids=lambda facts: facts["name"])
def test_what_upstreams_encoder_refuses_is_refused(facts: dict[str, Any]) -> None:
    made = program(facts)
    with pytest.raises(InvalidProgram, match="Fix:"):
        made.to_wire()
    with pytest.raises(InvalidProgram, match="Fix:"):
        made.canonical_wire_bytes(6)
    assert len(made.fingerprint()) == 32


def changed(data: bytes, what: str) -> bytes:
    """A container with another version or other flags, its last byte away, or a byte more."""
    if what == "cut":
        return data[:-1]
    if what == "one more":
        return data + b"\0"
    field, number = what.split()
    at = {"version": 4, "flags": 6}[field]
    return data[:at] + struct.pack("<H", int(number)) + data[at + 2 :]


def test_containers_are_read_where_upstream_reads_them() -> None:
    wires = {facts["name"]: bytes.fromhex(facts["wire_hex"]) for facts in WRITTEN}
    read = []
    for facts in CONTAINERS:
        try:
            Program.from_wire(changed(wires[facts["of"]], facts["what"]))
        except InvalidProgram:
            continue
        read.append(facts)
    # Format 7 is that of 0.8.0, which has the bytes of 6 where there are no tiles.
    assert read == [facts for facts in CONTAINERS if facts["read"] or facts["what"] == "version 7"]


def test_containers_of_0_6_are_read_as_0_7_reads_them() -> None:
    unlike = []
    for place, facts in enumerate(OLD):
        if "error" in facts:
            continue
        data = bytes.fromhex(facts["wire4_hex"])
        read = Program.from_wire(data)
        names = read.fingerprint().hex(), read.normalized_cache_digest(3).hex()
        same = (read, read.canonical_wire_bytes(4)) == (Program.from_wire(bytes.fromhex(facts["wire6_hex"])), data)
        if names != (facts["fingerprint"], facts["normalized_digest"]) or not same:
            unlike.append(place)
    assert unlike == []


def test_of_those_of_0_6_that_0_7_does_not_read_the_ones_with_an_output_of_no_elements_are_read() -> None:
    """More on purpose: upstream's 0.6.2 wrote them, and so did vyre_driver 0.2."""
    counts = []
    for facts in OLD:
        if "output buffer" in facts.get("error", ""):
            read = Program.from_wire(bytes.fromhex(facts["wire4_hex"]))
            counts.append([buffer.count for buffer in read.buffers if buffer.is_output])
    assert counts == [[0], [0, 2, 271]]
