"""Digests and containers of programs of upstream 0.6.2, wire format 4, bit for bit."""

from __future__ import annotations

import functools
import struct
from typing import Any

import pytest
from vectors import DATA, program, vectors

from vyre_driver.errors import InvalidProgram
from vyre_driver.identity import normalized_program_cache_digest, program_vsa_fingerprint_words
from vyre_driver.ir import BufferDecl, DataType, Program, cast, gid_x, i32, store, subgroup_add, u32, var
from vyre_driver.ir.canonical import wire_bytes
from vyre_driver.specialization import vsa_specialization_key

VECTORS = vectors("program_digests.json")
CASES = list(enumerate(VECTORS["cases"]))
CARRIED = [case for case in CASES if case[1]["canonical_wire_err"] is None]
REFUSED = [case for case in CASES if case[1]["canonical_wire_err"] is not None]
LOSSY = {"Vec", "TensorShaped"}


def ids(cases: list[tuple[int, Any]]) -> list[str]:
    return [f"{place}-{facts['body']}" for place, facts in cases]


def is_lossy(facts: dict[str, Any]) -> bool:
    return any(one["element"]["type"] in LOSSY for one in facts["buffers"])


def test_the_vectors_are_whole() -> None:
    assert (len(CASES), len(CARRIED), len(REFUSED), len(VECTORS["pairs"])) == (48, 36, 12, 5)


@pytest.mark.parametrize(("place", "facts"), CASES, ids=ids(CASES))
def test_the_nodes_are_written_as_upstream_writes_them(place: int, facts: dict[str, Any]) -> None:
    nodes = program(facts).entry
    assert (struct.pack("<I", len(nodes)) + wire_bytes(*nodes)).hex() == facts["body_bytes_hex"], place


@pytest.mark.parametrize(("place", "facts"), CASES, ids=ids(CASES))
def test_digest_v2_is_upstreams(place: int, facts: dict[str, Any]) -> None:
    digest = normalized_program_cache_digest(program(facts))
    assert digest.hex() == facts["normalized_program_cache_digest"], place


@pytest.mark.parametrize(("place", "facts"), CARRIED, ids=ids(CARRIED))
def test_container_fingerprint_words_and_keys_are_upstreams(place: int, facts: dict[str, Any]) -> None:
    one = program(facts)
    keys = [vsa_specialization_key(one, int(key["spec_hash"])) for key in facts["vsa_specialization_keys"]]
    assert (one.canonical_wire_bytes(4).hex(), one.fingerprint(4).hex(), program_vsa_fingerprint_words(one), keys) == (
        facts["canonical_wire_hex"],
        facts["fingerprint"],
        tuple(facts["vsa_words"]),
        [int(key["key_dec"]) for key in facts["vsa_specialization_keys"]],
    ), place


@pytest.mark.parametrize(("place", "facts"), REFUSED, ids=ids(REFUSED))
def test_what_upstreams_encoder_refuses_is_refused_and_gets_a_fingerprint_of_our_own(place: int, facts: dict[str, Any]) -> None:
    """A departure on purpose: upstream hashes an error text and a 64-bit hash, so that different programs can share it."""
    one = program(facts)
    with pytest.raises(InvalidProgram, match="Fix:"):
        one.canonical_wire_bytes(4)
    assert one.fingerprint(4) != bytes.fromhex(facts["fingerprint"]), place
    assert one.fingerprint(4) == program(facts).fingerprint(4)


def test_programs_that_are_refused_have_different_fingerprints() -> None:
    assert len({program(facts).fingerprint(4) for _, facts in REFUSED}) == len(REFUSED)


@pytest.mark.parametrize(("place", "facts"), CARRIED, ids=ids(CARRIED))
def test_to_wire_writes_upstreams_container_or_says_what_it_would_lose(place: int, facts: dict[str, Any]) -> None:
    """A departure on purpose: upstream drops the parameters of vector and tensor elements without a word."""
    one = program(facts)
    if is_lossy(facts):
        with pytest.raises(InvalidProgram, match="has no place for the parameters of the element type"):
            one.to_wire(4)
        with pytest.raises(InvalidProgram, match="does not carry the parameters"):
            Program.from_wire(bytes.fromhex(facts["canonical_wire_hex"]))
        return
    assert one.to_wire(4).hex() == facts["canonical_wire_hex"], place
    read = Program.from_wire(one.to_wire(4))
    assert (read, read.to_wire(4)) == (one, one.to_wire(4))
    assert read.buffers == one.canonical().buffers


@pytest.mark.parametrize("pair", VECTORS["pairs"], ids=[pair["why"] for pair in VECTORS["pairs"]])
def test_pairs_share_what_they_share_upstream_and_never_the_strong_digest_unless_only_the_flag_differs(
    pair: dict[str, Any],
) -> None:
    a, b = program(pair["a"]), program(pair["b"])
    same = (a.fingerprint(4) == b.fingerprint(4), a.normalized_cache_digest() == b.normalized_cache_digest())
    assert same == (pair["same_fingerprint"], pair["same_normalized_digest"])
    for side, one in ((pair["a"], a), (pair["b"], b)):
        assert one.fingerprint(4).hex() == side["fingerprint"]
        assert one.normalized_cache_digest().hex() == side["normalized_program_cache_digest"]
    assert (a.digest() == b.digest()) == (pair["why"] == "structurally validated flag differs")


def subgroup_sums() -> dict[str, Program]:
    """Programs that add over the subgroup, by a name."""
    out, i = BufferDecl.output("out", 0, DataType.U32).with_count(64), gid_x()
    many = [var(f"a_rather_long_name_of_a_variable_{place}", DataType.U32) for place in range(12)]
    values = {
        "sum": subgroup_add(i),
        "sum of a sum": subgroup_add(subgroup_add(i) + u32(1)),
        "sum of i32": cast(DataType.U32, subgroup_add(i32(-1))),
        "sum of a long expression": subgroup_add(functools.reduce(lambda total, term: total + term, many, u32(0))),
    }
    return {name: Program.wrapped([out], (64, 1, 1), [store(out, i, value)]) for name, value in values.items()}


def test_our_digest_and_digest_v2_are_what_vyre_driver_0_2_made() -> None:
    """Entries of its caches are found under them; a sum over the subgroup had no operator then."""
    programs = {f"vector {place}": program(facts) for place, facts in CASES} | subgroup_sums()
    lines = [f"{made.digest().hex()} {made.normalized_cache_digest().hex()} {name}\n" for name, made in programs.items()]
    assert "".join(lines) == (DATA / "program_keys_0_2.txt").read_text("utf-8")
