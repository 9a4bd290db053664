"""The compiled walk over encoded terms, and what seals every term, against their plain twins."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from blake3 import blake3
from every_term import CARRIED, NODES
from hypothesis import given, settings
from hypothesis import strategies as st
from program_strategies import expressions, nodes
from strategies import words  # its import sets hypothesis up
from wire_twin import TwinWalk

from vyre_driver.ir.canonical import canonical_floats, wire_bytes
from vyre_driver.ir.expressions import Expr
from vyre_driver.ir.layout import Step
from vyre_driver.ir.nodes import Node
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import KEY_BYTES, Term, Traits, terms_within
from vyre_driver.ir.wire._scan import Grammar, Walk
from vyre_driver.ir.wire.reader import GRAMMAR, Fault, TermReader, limits

if TYPE_CHECKING:
    from collections.abc import Iterable

assert words is not None

WRITTEN = [wire_bytes(node) for node in canonical_floats(tuple(NODES))]
HOSTILE = [
    b"\xff" * 4,
    b"\x80",
    b"\0",
    b"\6\1\0\0\0" * 70,
    b"\x0a\1" * 140,
    b"\x0d" + b"\x16" * 70,
    b"\xed\xa0\x80",
    b"\xc0\xaf",
]


def answers(data: bytes, bounds: tuple[int, ...]) -> tuple[Any, Any]:
    """What both walks say of a node at the beginning of the bytes: the fault, or where it ends and its terms."""
    walk, twin = Walk(GRAMMAR, data, bounds), TwinWalk(data, bounds)
    ours, theirs = walk.check(0, len(data)), twin.check(0, len(data))
    if ours[0] != Fault.WHOLE or theirs[0] != Fault.WHOLE:
        return ours, theirs
    numbers = list(struct.iter_unpack("=III", walk.terms(0, len(data))))
    return (ours[1], numbers), (theirs[1], twin.found)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A node with bytes changed, inserted, removed or cut."""
    data = bytearray(draw(st.sampled_from(WRITTEN)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 4)):
            case 0:
                data[at : at + 1] = bytes((draw(st.integers(0, 255)),))
            case 1:
                data[at:at] = draw(st.sampled_from(HOSTILE))
            case 2:
                del data[at : at + draw(st.integers(1, 8))]
            case 3:
                data[at : at + 4] = struct.pack("<I", draw(st.sampled_from([0, 1, 2, 65, 129, 4097, 2**31, 2**32 - 1])))
            case _:
                data[at:] = draw(st.sampled_from(WRITTEN))
    return bytes(data)


bounds = st.tuples(
    st.integers(1, 50),
    st.integers(1, 200),
    st.integers(1, 6),
    st.integers(1, 6),
    *[st.integers(1, 64)] * 2,
    *[st.integers(0, 64)] * 3,
)


@given(changed())
@settings(max_examples=1500)
def test_the_walk_over_changed_bytes_is_the_twins(data: bytes) -> None:
    ours, theirs = answers(data, limits())
    assert ours == theirs


@given(changed(), bounds)
@settings(max_examples=500)
def test_the_walk_under_any_limits_is_the_twins(data: bytes, tight: tuple[int, ...]) -> None:
    ours, theirs = answers(data, tight)
    assert ours == theirs


@given(st.binary(max_size=60))
def test_the_walk_over_any_bytes_is_the_twins(data: bytes) -> None:
    ours, theirs = answers(data, limits())
    assert ours == theirs


@given(nodes)
def test_the_walk_over_any_node_is_the_twins_and_ends_with_it(node: Node) -> None:
    data = wire_bytes(canonical_floats((node,))[0])
    ours, theirs = answers(data + b"\5\5", limits())
    assert (ours, ours[0]) == (theirs, len(data))


@given(st.one_of(st.binary(max_size=12), st.text(max_size=6).map(str.encode)), st.sampled_from([b"", b"a", "é".encode()]))
def test_a_name_is_taken_exactly_when_python_takes_it_as_utf8(name: bytes, after: bytes) -> None:
    text = name + after
    data = b"\x0d" + b"\2\1" + struct.pack("<I", len(text)) + text  # a trap
    try:
        text.decode()
        wanted = Fault.WHOLE
    except UnicodeDecodeError:
        wanted = Fault.NO_UTF8
    assert Walk(GRAMMAR, data, limits()).check(0, len(data))[0] == wanted


def test_a_walk_counts_the_nodes_of_a_whole_program() -> None:
    walk = Walk(GRAMMAR, b"\5" * 4, (3, *limits()[1:]))
    assert [walk.check(place, 4)[0] for place in range(4)] == [Fault.WHOLE] * 3 + [Fault.TOO_MANY]


def test_what_no_walk_could_be_bounded_by_is_refused() -> None:
    wrong = [
        lambda: Walk(GRAMMAR, b"", (*limits()[:2], 200, 100, *limits()[4:])),
        lambda: Walk(GRAMMAR, b"", (1, 2**31, *limits()[2:])),
        lambda: Walk(GRAMMAR, b"\5", limits()).check(0, 2),
        lambda: Walk(GRAMMAR, b"\5", limits()).check(1, 0),
        lambda: Walk(GRAMMAR, b"\xff", limits()).terms(0, 1),
        lambda: Grammar([(True, 1, [1] * 8)], [[], []], [], 0, 0),
        lambda: Grammar([], [[]] * 17, [], 0, 0),
        lambda: Grammar([], [[], []], [], 0, 1),
    ]
    refused = []
    for call in wrong:
        try:
            call()
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) == len(wrong)


PACKED = {Step.U8: "<B", Step.U32: "<I", Step.U64: "<Q", Step.I32: "<i", Step.FLAG: "<?"}


def parts(term: Term) -> list[bytes | Term]:
    """The encoding of a term, field by field."""
    found: list[bytes | Term] = [bytes((term.wire_tag,))]
    for name, kind in zip(term.__match_args__, term._layout, strict=False):  # noqa: SLF001 -- what is tested
        value = getattr(term, name)
        if kind.step in PACKED:
            found.append(struct.pack(PACKED[kind.step], value))
        elif kind.step in {Step.ARGUMENTS, Step.BODY}:
            found += [struct.pack("<I", len(value)), *value]
        elif kind.step == Step.EXPRESSION:
            found.append(value)
        elif kind.step == Step.OPTIONAL:
            found += [b"\0"] if value is None else [b"\1", value]
        else:
            found.append(value.encoded if kind.encode is None else kind.encode(value))
    return found


def joined(parts: Iterable[bytes | Term]) -> list[bytes | Term]:
    """Bytes that stand side by side as one."""
    found: list[bytes | Term] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


def folded(term: Term) -> bytes:
    """The key of a term by its definition."""
    key = b"".join(part if isinstance(part, bytes) else part.key for part in term.parts())
    return key if len(key) <= KEY_BYTES else b"\xff" + blake3(key).digest()


def below(term: Term, kind: type, name: str) -> int:
    """The most that parts of a kind have of something, 0 without one."""
    return max((getattr(part, name) for part in term.children if isinstance(part, kind)), default=0)


def check_seal(root: Term) -> None:
    for term in terms_within(root):
        assert joined(term.parts()) == joined(parts(term))
        assert (term.key, term.term_count) == (folded(term), 1 + sum(part.term_count for part in term.children))
        assert [part for part in term.children if term.traits & Traits.ALL & ~part.traits] == []
        if isinstance(term, Expr):
            assert term.depth == 1 + below(term, Expr, "depth")
        else:
            assert isinstance(term, Node)
            assert term.node_count == 1 + sum(part.node_count for part in term.children if isinstance(part, Node))
            assert term.nesting == 1 + below(term, Node, "nesting")
            assert term.expression_depth == max(below(term, Expr, "depth"), below(term, Node, "expression_depth"))


@given(st.one_of(expressions, nodes))
def test_every_term_is_sealed_as_its_parts_say(root: Term) -> None:
    check_seal(root)


def test_a_tree_that_shares_its_parts_is_sealed_though_no_machine_word_holds_its_count() -> None:
    root = NODES[0].children[0]
    for _ in range(100):
        root = root + root
    assert root.term_count > 2**100
    check_seal(root)


def test_eight_threads_read_one_program_as_one_does() -> None:
    wire = CARRIED.to_wire()
    one = Program.from_wire(wire)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda _: Program.from_wire(wire), range(64)))
    assert [(program == one, program.digest()) for program in read] == [(True, one.digest())] * 64


def test_terms_that_are_written_alike_are_one_object_and_long_ones_are_read_too() -> None:
    long_name = "n" * (KEY_BYTES + 1)
    name = struct.pack("<I", len(long_name)) + long_name.encode()
    data = b"\6" + struct.pack("<I", 3) + b"\0" + name + b"\2\1" + b"\0\1\0\0\0a\2\1" + b"\0\1\0\0\0a\2\1"
    reader = TermReader(data, 6)
    assert reader.check(0, len(data)) == len(data)
    block = reader.node(0, len(data))
    first, second, third = block.children
    assert (second is third, first.children[0] is second.children[0]) == (True, True)
    assert (first.name, second.name) == (long_name, "a")  # type: ignore[attr-defined]
