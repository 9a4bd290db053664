"""What lowering emits: comparisons only where nothing proves the index, and the same bytes for the same program."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3

from vyre_driver.ir import BinOp, BufferDecl, DataType, Program, binop, buf_len, gid_x, if_, lid_x, load, return_, store, u32
from vyre_driver.spirv.emit import EMITTER_VERSION
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from conftest import Lower

ORDERS = {Ins.ULessThan, Ins.UGreaterThan, Ins.ULessThanEqual, Ins.UGreaterThanEqual}
FIXED = BufferDecl.read_write("fixed", 0, DataType.U32).with_count(64)
OPEN = BufferDecl.read_write("open", 1, DataType.U32)


def program(*nodes: object) -> Program:
    return Program.wrapped([FIXED, OPEN], (64, 1, 1), list(nodes))  # type: ignore[arg-type]


def instructions(code: bytes) -> list[int]:
    words, found, at = array.array("I", code), [], 5
    while at < len(words):
        found.append(words[at] & 0xFFFF)
        at += words[at] >> 16
    return found


INDEX, LENGTH = gid_x(), buf_len(OPEN)
WRITE = store(OPEN, INDEX, u32(1))


@pytest.mark.parametrize(
    ("nodes", "comparisons"),
    [
        ([WRITE], 1),
        ([if_(INDEX < LENGTH, [WRITE])], 1),
        ([if_(binop(BinOp.GT, LENGTH, INDEX), [WRITE])], 1),
        ([if_((INDEX >= LENGTH).not_(), [WRITE])], 1),
        ([if_((INDEX < LENGTH).and_(INDEX < 9), [WRITE])], 2),
        ([if_(INDEX >= LENGTH, [return_()]), WRITE], 1),
        ([if_(INDEX <= LENGTH, [WRITE])], 2),
        ([if_(INDEX > LENGTH, [return_()]), WRITE], 2),
        ([if_(INDEX >= LENGTH, [WRITE])], 2),
        ([if_(INDEX < LENGTH, []), WRITE], 1),  # the same comparison, for another branch
        ([store(FIXED, lid_x(), u32(1))], 0),
        ([store(FIXED, lid_x() + 1, u32(1))], 1),
        ([store(FIXED, INDEX % 64, u32(1))], 0),
        ([store(FIXED, INDEX & 63, u32(1))], 0),
        ([if_(INDEX < 64, [store(FIXED, INDEX, u32(1))])], 1),
        ([if_(INDEX <= 63, [store(FIXED, INDEX, u32(1))])], 1),
        ([if_(INDEX <= 64, [store(FIXED, INDEX, u32(1))])], 2),
    ],
)
def test_an_index_is_compared_once_where_a_guard_proves_it_and_again_where_none_does(
    lower: Lower, nodes: list[object], comparisons: int
) -> None:
    found = instructions(lower(program(*nodes)).code)
    assert sum(one in ORDERS for one in found) == comparisons


def test_equal_expressions_are_emitted_once_until_something_is_written(lower: Lower) -> None:
    value = load(OPEN, INDEX) * 3
    found = instructions(
        lower(program(store(FIXED, 0, value + value), store(FIXED, 1, value), WRITE, store(FIXED, 2, value))).code
    )
    assert (found.count(Ins.IMul), found.count(Ins.IAdd)) == (2, 1)


def test_the_bytes_of_a_program_change_with_the_emitter_version_only(lower: Lower) -> None:
    """When this fails, raise EMITTER_VERSION with the digest: caches hold what the old one emitted."""
    one = program(if_(INDEX < LENGTH, [store(OPEN, INDEX, load(FIXED, INDEX) / load(OPEN, INDEX))]))
    first, second = lower(one).code, lower(one).code
    assert (EMITTER_VERSION, blake3(first).hexdigest()[:16], first == second) == (
        1,
        "7bec8ed99b532580",
        True,
    )
