"""Bytes that are not a program, and bytes made to hurt: each ends in InvalidProgram, soon and cheaply."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from every_term import CARRIED
from made_containers import SMALL, body_of, buffer_row, metadata, record, signed, text, verdict, with_buffers, with_node

from vyre_driver.errors import InvalidContainer
from vyre_driver.ir.program import Program
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire.format import Cursor, leb
from vyre_driver.ir.wire.reader import TermReader, read_dtype

HUGE = [0xFFFF_FFFF, 2**63, 2**64 - 1]


def test_the_helpers_of_these_tests_make_containers_that_can_be_read() -> None:
    assert signed(body_of(SMALL)) == SMALL
    assert verdict(with_node(b"vyre.node.return", b"\5")) is None


@pytest.mark.parametrize("resigned", [False, True], ids=["as-is", "signed-anew"])
def test_a_container_cut_at_any_length_is_refused(resigned: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    wire = CARRIED.to_wire()
    cuts = [signed(body_of(wire)[:length]) for length in range(len(body_of(wire)))] if resigned else []
    cuts = cuts or [wire[:length] for length in range(len(wire))]
    assert [verdict(cut) for cut in cuts].count(None) == 0


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_container_with_any_byte_changed_is_refused_by_its_digest_or_its_header(mask: int) -> None:
    wire = CARRIED.to_wire()
    read = [
        place for place in range(len(wire)) if verdict(wire[:place] + bytes((wire[place] ^ mask,)) + wire[place + 1 :]) is None
    ]
    assert read == ([4] if mask == 1 else [])  # the version: without tiles format 7 says the same


@pytest.mark.parametrize("mask", [0x01, *(pytest.param(mask, marks=pytest.mark.thorough) for mask in (0x02, 0x10, 0x80, 0xFF))])
def test_a_body_with_any_byte_changed_and_a_right_digest_is_refused_or_is_another_program(mask: int) -> None:
    body = body_of(CARRIED.to_wire())
    others = 0
    for place in range(len(body)):
        data = signed(body[:place] + bytes((body[place] ^ mask,)) + body[place + 1 :])
        if verdict(data) is None:
            others += 1
            assert Program.from_wire(data).digest() != CARRIED.canonical().digest()
    assert 0 < others < len(body)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "has 0 bytes, fewer than its header of 40"),
        (SMALL[:39], "has 39 bytes"),
        (b"VYRF" + SMALL[4:], "begins with b'VYRF'"),
        (SMALL[:4] + b"\3\0" + SMALL[6:], "is of format 3, and this reads formats 4 to 7"),
        (SMALL[:4] + b"\x08\0" + SMALL[6:], "is of format 8, and this reads formats 4 to 7"),
        (SMALL[:6] + b"\5\0" + SMALL[8:], "its flags are 0x0005"),
        (SMALL[:6] + b"\6\0" + SMALL[8:], "its flags are 0x0006"),
        (SMALL[:6] + b"\0\0" + SMALL[8:], "its flags are 0x0000"),
        (SMALL + b"\0", "does not have the digest"),
        (signed(body_of(SMALL) + b"\0"), "1 bytes follow the program"),
        (signed(leb(0)), "no record for the metadata"),
        (signed(leb(1) + record(b"vyre.program.metadatb", b"")), "not 'vyre.program.metadata'"),
        (signed(leb(1) + metadata() + leb(0) + leb(1) + leb(0)), "the output set is not that"),
        (signed(leb(1) + metadata() + leb(1) + bytes(14)), "1 memory regions for 0 buffers"),
        (with_node(b"vyre.node.store", b"\5"), "is said to hold 'vyre.node.store' and holds 'vyre.node.return'"),
        (with_node(b"x", b"\6\x64\0\0\0\5"), "100 nodes are announced and"),
        (signed(leb(100) + metadata()), "100 records are announced and"),
        (with_node(b"vyre.node.return", b"\5\5"), "its payload at byte"),
        (with_node(b"x", b"\x13"), "a node has the unknown tag 0x13"),
        (with_node(b"x", b"\x13", 7), "the node TileLoad of tiles is not read"),
        (with_node(b"x", b"\6\1\0\0\0\x18", 7), "the node TileDecl of tiles is not read"),
        (with_node(b"x", b"\x19", 7), "a node has the unknown tag 0x19"),
        (
            with_node(b"x", b"\0" + text(b"x") + b"\x11\x08\2\1"),
            "operator of a subgroup reduction has the unknown tag 0x08",
        ),
        (
            with_node(b"x", b"\0" + text(b"x") + b"\x11\x80\2\1"),
            "operator of a subgroup reduction has the unknown tag 0x80",
        ),
        (with_node(b"vyre.node.let", b"\0" + text(b"x") + b"\x17"), "an expression has the unknown tag 0x17"),
        (with_node(b"vyre.node.let", b"\0" + text(b"\xff") + b"\0"), "a name is not UTF-8"),
        (with_node(b"vyre.node.let", b"\0" + text(b"\xed\xa0\x80") + b"\0"), "a name is not UTF-8"),
        (with_node(b"\xff", b"\5"), "an op id is not UTF-8"),
        (with_node(b"vyre.node.barrier", b"\7\6"), "a memory ordering has the unknown tag 0x06"),
        (with_node(b"x", b"\0" + text(b"x") + b"\2\2"), "a bool literal is 2"),
        (with_node(b"x", b"\0" + text(b"x") + b"\x0d\x20"), "0x20 is not a tag of a data type"),
        (signed(b"\x82\0" + body_of(SMALL)[1:]), "not written in its shortest form"),
        (signed(b"\xff" * 9 + b"\x7f"), "or passes 64 bits"),
        (signed(b"\xff" * 11), "a number of more than 10 bytes"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(data: bytes, says: str) -> None:
    with pytest.raises(InvalidContainer) as caught:
        Program.from_wire(data)
    assert says in str(caught.value)
    assert (caught.value.code, type(caught.value.context["offset"])) == (2105, int)


@pytest.mark.parametrize("number", HUGE)
def test_huge_counts_are_refused_before_anything_is_made(number: int) -> None:
    u32_number = struct.pack("<I", min(number, 0xFFFF_FFFF))
    hostile = [
        signed(leb(number)),
        signed(leb(2) + metadata(number)),
        signed(leb(1) + leb(number)),
        signed(leb(1) + metadata() + leb(number)),
        signed(leb(1) + metadata() + leb(0) + leb(number)),
        signed(leb(1) + leb(21) + b"vyre.program.metadata" + leb(number)),
        with_node(b"vyre.node.block", b"\6" + u32_number),
        with_node(b"x", b"\0" + u32_number),
        with_node(b"x", b"\x80" + text(b"x") + u32_number),
        with_node(b"x", b"\0" + text(b"x") + b"\x0b" + text(b"f") + u32_number),
        with_node(b"x", b"\0" + text(b"x") + b"\x0d\x1e" + u32_number),
    ]
    tracemalloc.start()
    said = [verdict(data) for data in hostile]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert None not in said
    assert peak < 100_000


def nested_blocks(levels: int) -> bytes:
    return b"\6\1\0\0\0" * (levels - 1) + b"\5"


def negated(levels: int) -> bytes:
    return b"\0" + text(b"x") + b"\x0a\1" * (levels - 1) + b"\2\1"


@pytest.mark.parametrize(
    ("op", "node", "limit"),
    [(b"vyre.node.block", nested_blocks, 64), (b"vyre.node.let", negated, 128)],
    ids=["nodes", "expressions"],
)
def test_nesting_is_read_to_its_limit_and_bombs_are_refused(op: bytes, node: object, limit: int) -> None:
    make = node
    assert callable(make)
    assert verdict(with_node(op, make(limit))) is None
    for levels in (limit + 1, 10_000):
        assert "nest deeper than" in str(verdict(with_node(op, make(levels))))


def test_nested_types_are_read_to_their_limit_and_bombs_are_refused() -> None:
    def dtype(levels: int) -> bytes:
        return b"\0" + text(b"x") + b"\x0d" + b"\x16" * (levels - 1) + b"\1" + b"\2\1"

    assert verdict(with_node(b"vyre.node.let", dtype(64))) is None
    assert "nests deeper than 64" in str(verdict(with_node(b"vyre.node.let", dtype(10_000))))


def test_nodes_over_the_limit_of_their_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_NODES", 3)
    assert "more than 3 nodes" in str(verdict(with_node(b"vyre.node.block", nested_blocks(4))))


def test_terms_over_the_limit_of_their_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_TERMS", 3)
    assert "more than 3 nodes and expressions" in str(verdict(with_node(b"vyre.node.let", negated(3))))


def test_text_and_payload_and_arguments_over_their_limits_are_refused() -> None:
    long_text = b"a" * (wire_format.MAX_STRING_BYTES + 1)
    long_payload = bytes(wire_format.MAX_PAYLOAD_BYTES + 1)
    arguments = b"\2\1" * (wire_format.MAX_CALL_ARGS + 1)
    call = b"\x0b" + text(b"f") + struct.pack("<I", wire_format.MAX_CALL_ARGS + 1) + arguments
    assert "over the limit of 1048576" in str(verdict(with_node(b"x", b"\0" + text(long_text) + b"\2\1")))
    assert "over the limit of 4194304" in str(verdict(with_node(b"x", b"\x80" + text(b"x") + text(long_payload))))
    assert "4097 arguments, over the limit of 4096" in str(verdict(with_node(b"x", b"\0" + text(b"x") + call)))


def block_of(nodes: bytes, count: int) -> bytes:
    return with_node(b"vyre.node.block", b"\6" + struct.pack("<I", count) + nodes)


def unlike_lets(count: int) -> bytes:
    return b"".join(b"\0" + text(b"%05x" % number) + b"\x0a\1\0" + struct.pack("<I", number) for number in range(count))


def table_of(buffers: int) -> bytes:
    """A container that has metadata of buffers alone."""
    return signed(
        leb(1) + metadata(buffers, b"".join(buffer_row(b"%03x" % place) for place in range(buffers))) + leb(0) + leb(0)
    )


REFUSED = [
    *(
        shape
        for filler in (b"\0", b"\5", b"\6", b"\x0a", b"\x0b", b"\x80", b"\xff", b"\6\1\0\0\0", b"\2\0\0\0\0")
        for bulk in [(filler * 65536)[: 65536 - len(filler)]]
        for shape in (signed(leb(2) + metadata() + record(b"x", bulk)), signed(bulk), block_of(bulk[4:], 60_000))
    ),
    block_of(b"\5" * 59_999 + b"\xff", 60_000),
    block_of(unlike_lets(3_500) + b"\xff", 3_501),
    block_of(unlike_lets(3_500) + b"\0" + text(b"x") + b"\x0d\x1f\x0e\0\1\0\0\0\0\0\0\0\0\2\1", 3_501),
    with_node(b"vyre.node.return", b"\6" + struct.pack("<I", 60_000) + b"\5" * 60_000),
    table_of(2_600),
]


def cost(data: bytes) -> float:
    """The most memory that refusing bytes takes, by their number."""
    tracemalloc.start()
    assert verdict(data) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(data)


def test_64_kib_that_are_no_program_cost_a_few_times_their_size() -> None:
    assert max(map(cost, REFUSED)) < 15


def test_shape_predicates_of_a_container_that_is_no_program_cost_more_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b"\3\0" + b"\x09" * 31 + b"\1\1\0\0\0"
    whole = with_buffers(*[deep] * 900)
    assert verdict(whole) is None
    assert cost(signed(body_of(whole) + b"\0")) < 40
    monkeypatch.setattr(wire_format, "MAX_PREDICATE_PARTS", 900 * 32)
    assert verdict(whole) is None
    monkeypatch.setattr(wire_format, "MAX_PREDICATE_PARTS", 900 * 32 - 1)
    assert "shape predicates have more than 28799 parts" in str(verdict(whole))


def test_64_kib_that_are_a_program_cost_no_more_than_that_program_may() -> None:
    tracemalloc.start()
    assert verdict(block_of(unlike_lets(3_500), 3_500)) is None
    assert verdict(block_of(b"\5" * 60_000, 60_000)) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 65536


def test_the_readers_of_single_terms_refuse_the_empty_bytes() -> None:
    with pytest.raises(InvalidContainer):
        TermReader(b"", 6).check(0, 0)
    with pytest.raises(InvalidContainer):
        read_dtype(Cursor(b""))


@pytest.mark.parametrize("given", ["text", 7, None, [1]])
def test_what_is_no_bytes_is_refused(given: object) -> None:
    with pytest.raises(InvalidContainer, match="a container is bytes"):
        Program.from_wire(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_anything_that_holds_bytes_is_read(kind: type) -> None:
    assert Program.from_wire(kind(SMALL)).to_wire() == SMALL
