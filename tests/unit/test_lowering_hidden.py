"""Words of which a compiler is to know nothing: which they are, and that they keep their values (docs/lowering.md)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from spirv_machine import Machine, decoded

from vyre_driver.ir import (
    AtomicOp,
    BinOp,
    BufferDecl,
    DataType,
    Program,
    UnOp,
    assign,
    atomic,
    binop,
    cast,
    f32,
    f64,
    i32,
    if_,
    let,
    load,
    loop,
    maximum,
    minimum,
    select,
    store,
    u32,
    unop,
    var,
)
from vyre_driver.ir.builders import operation
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.opcodes import Ins, Op, StorageClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

U8, U32, F32, F64, BOOL = DataType.U8, DataType.U32, DataType.F32, DataType.F64, DataType.Bool
BYTES = BufferDecl.read("bytes", 0, U8).with_count(1)
GIVEN = BufferDecl.read("given", 1, U32).with_count(2)
OPEN = BufferDecl.read_write("open", 2, U32)
OUT = BufferDecl.read_write("out", 3, U32).with_count(2)
ONE = BufferDecl.read_write("one", 4, U32).with_count(1)
NUMBERS = 0x5555_5555  # what numbers made of bools are hidden by, in a buffer without elements
WORDS = (0, 1, 2, 255, 256, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1)
HAS_BYTES = LoweringTarget(frozenset({"storageBuffer8BitAccess"}))


def code(lower: Lower, body: Sequence[Node], *buffers: BufferDecl, specs: Sequence[str] = ()) -> list[tuple[int, list[int]]]:
    program = Program.wrapped(list(buffers or (BYTES, GIVEN, OPEN, OUT)), (1, 1, 1), list(body))
    return decoded(lower(program, specs, HAS_BYTES).code)


def lengths(found: list[tuple[int, list[int]]]) -> list[str]:
    """The names of the buffers whose lengths are asked for."""
    names = {one[0]: bytes(b for word in one[1:] for b in word.to_bytes(4, "little")) for op, one in found if op == Op.Name}
    return [names[one[2]].rstrip(b"\0").decode() for opcode, one in found if opcode == Ins.ArrayLength]


def computed(lower: Lower, value: Expr) -> list[int]:
    """What an invocation stores for each two words."""
    machine = Machine(lower(Program.wrapped([GIVEN, OUT], (1, 1, 1), [store(OUT, 0, value)])).code)
    made = []
    for given in product(WORDS, WORDS):
        out = [0, 0]
        machine.run(0, 1, {"given": list(given), "out": out}, [])
        made.append(out[0])
    return made


def made_by(found: list[tuple[int, list[int]]]) -> dict[int, tuple[int, list[int]]]:
    """The opcode and the operands by result."""
    return {operands[1]: (opcode, operands[2:]) for opcode, operands in found if len(operands) > 1 and opcode != Op.MemberName}


def hides(found: list[tuple[int, list[int]]], word: int, otherwise: int = 2**32 - 1) -> int:
    """What is hidden as a word, of which all is looked at: x ^ (length == 0 ? otherwise : 0). A KeyError where nothing is."""
    made = made_by(found)
    opcode, (inner, zero) = made[word]
    chosen, (is_empty, yes, no) = made[zero]
    compared, (length, nothing) = made[is_empty]
    constants = [made[one][1] for one in (yes, no, nothing)]
    assert (opcode, chosen, compared, made[length][0]) == (Ins.BitwiseXor, Ins.Select, Ins.IEqual, Ins.ArrayLength)
    assert constants == [[otherwise], [0], [0]]
    return inner


@pytest.mark.parametrize("dtype", [U32, DataType.I32, DataType.U64], ids=str)
@pytest.mark.parametrize("features", [(), ("shaderInt64",)], ids=["no features", "64 bits"])
def test_bits_are_counted_of_words_that_are_hidden(lower: Lower, dtype: DataType, features: tuple[str, ...]) -> None:
    given, out = BufferDecl.read("given", 1, dtype).with_count(2), BufferDecl.read_write("out", 3, dtype).with_count(2)
    program = Program.wrapped([given, out], (1, 1, 1), [store(out, 0, unop(UnOp.POPCOUNT, load(given, 0)))])
    found = decoded(lower(program, (), LoweringTarget(frozenset(features))).code)
    counted = [operands[2] for opcode, operands in found if opcode == Ins.BitCount]
    assert len({hides(found, one) for one in counted}) == len(counted) == (2 if dtype == DataType.U64 else 1)
    assert lengths(found) == ["given"]


def test_a_word_that_is_hidden_is_not_hidden_again(lower: Lower) -> None:
    """Twice the same exclusive or is none."""
    flag = cast(U32, cast(BOOL, load(GIVEN, 0)))
    body = [
        let("f", flag),
        let("v", atomic(AtomicOp.MIN, OPEN, var("f", U32), 1)),
        store(OUT, 0, unop(UnOp.POPCOUNT, var("f", U32))),
    ]
    found = code(lower, body)
    (counted,) = [operands[2] for opcode, operands in found if opcode == Ins.BitCount]
    assert made_by(found)[hides(found, counted, NUMBERS)][0] == Ins.Select


@pytest.mark.parametrize("name", ["as an i32", "and 0"])
def test_a_number_that_a_driver_sees_to_be_hidden_is_hidden_by_another_zero(lower: Lower, name: str) -> None:
    """By the same, no operation between the two, it would not be hidden."""
    index = {"as an i32": cast(U32, cast(DataType.I32, cast(BOOL, load(GIVEN, 0)))), "and 0": INDEX + u32(0)}[name]
    found = code(lower, [let("v", atomic(AtomicOp.MIN, OPEN, index, load(GIVEN, 1)))])
    (checked,) = [operands[2] for opcode, operands in found if opcode == Ins.ULessThan]
    made = made_by(found)
    inner = hides(found, checked)
    while made[inner][0] in {Ins.Bitcast, Ins.IAdd}:
        inner = made[inner][1][0]
    assert made[hides(found, inner, NUMBERS)][0] == Ins.Select


def test_a_word_that_is_hidden_is_the_word(lower: Lower) -> None:
    assert computed(lower, unop(UnOp.POPCOUNT, load(GIVEN, 0))) == [a.bit_count() for a, _ in product(WORDS, WORDS)]


def test_a_constant_is_not_hidden(lower: Lower) -> None:
    assert lengths(code(lower, [store(OUT, 0, unop(UnOp.POPCOUNT, u32(12)))])) == []


@pytest.mark.parametrize("first", ["unread bytes", "no lowering", "bytes in words", "no size"])
def test_the_length_is_that_of_a_buffer_that_has_an_element_as_it_is_declared(lower: Lower, first: str) -> None:
    """What is declared as words and has a byte has none."""
    dtype = {"no lowering": DataType.vec(U8, 3), "no size": DataType.vec(DataType.device_mesh([1]), 1)}.get(first, U8)
    buffer = BufferDecl.read("first", 0, dtype)
    counted = unop(UnOp.POPCOUNT, load(GIVEN, 0) if first != "bytes in words" else cast(U32, load(buffer, 0)))
    program = Program.wrapped([buffer, GIVEN, OUT], (1, 1, 1), [store(OUT, 0, counted)])
    assert lengths(decoded(lower(program).code)) == ["given"]


def test_without_such_a_buffer_nothing_is_hidden(lower: Lower) -> None:
    out = BufferDecl.read_write("bytes_out", 1, U8).with_count(1)
    program = Program.wrapped(
        [BYTES, out], (1, 1, 1), [store(out, 0, cast(U8, unop(UnOp.POPCOUNT, cast(U32, load(BYTES, 0)))))]
    )
    found = [lengths(decoded(lower(program, (), target).code)) for target in (LoweringTarget(), HAS_BYTES)]
    assert found == [[], ["bytes"]]


def test_an_f32_that_is_specialized_is_hidden(lower: Lower) -> None:
    """A driver rounds only the last of sums of constants."""
    body = [let("a", f32(1.5)), let("n", u32(3)), store(OUT, 0, cast(U32, var("a", F32) + 0.1) + var("n", U32))]
    assert [lengths(code(lower, body, specs=specs)) for specs in ((), ("n",), ("a",), ("a", "n"))] == [
        [],
        [],
        ["given"],
        ["given"],
    ]


INDEX = cast(U32, cast(BOOL, load(GIVEN, 0)))
FLAGS = {
    "a bool": INDEX,
    "its remainder": binop(BinOp.MOD, INDEX, u32(12)),
    "the lesser of 1": minimum(load(GIVEN, 0), u32(1)),
    "a choice": select(cast(BOOL, load(GIVEN, 0)), u32(1), u32(0)),
}


@pytest.mark.parametrize("op", [AtomicOp.MIN, AtomicOp.ADD, AtomicOp.FETCH_NAND])
def test_the_index_of_an_atomic_is_hidden_before_its_range_is_checked(lower: Lower, op: AtomicOp) -> None:
    """A driver takes an operand for -1 where the index tells that it is 0."""
    found = code(lower, [let("v", atomic(op, OPEN, INDEX, load(GIVEN, 1)))])
    checked = [operands[2] for opcode, operands in found if opcode == Ins.ULessThan]
    places = {
        operands[-1]
        for opcode, operands in found
        if opcode == Ins.AccessChain and made_by(found)[operands[-1]][0] != Op.Constant
    }
    assert (len(checked), places, lengths(found)) == (1, set(checked), ["given"])
    assert made_by(found)[hides(found, checked[0], NUMBERS)][0] == Ins.Select


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("op", [BinOp.LT, BinOp.EQ, BinOp.GE], ids=str)
def test_a_number_that_can_be_made_of_a_bool_is_hidden_where_it_is_compared(lower: Lower, name: str, op: BinOp) -> None:
    found = code(lower, [if_(binop(op, FLAGS[name], u32(1)), [store(OUT, 0, load(GIVEN, 0))])])
    opcodes = {BinOp.LT: Ins.ULessThan, BinOp.EQ: Ins.IEqual, BinOp.GE: Ins.UGreaterThanEqual}
    compared = [
        operands[2] for opcode, operands in found if opcode == opcodes[op] and made_by(found)[operands[2]][0] == Ins.BitwiseXor
    ]
    assert len({hides(found, one, NUMBERS if name in {"a bool", "a choice"} else 2**32 - 1) for one in compared}) == 1


@pytest.mark.parametrize(("yes", "no"), [(1, 0), (0, 1), (0xFFFF_FFFD, 0), (7, 12)])
def test_one_of_two_constants_is_hidden(lower: Lower, yes: int, no: int) -> None:
    """A driver takes one bit of it for the bool that it was chosen by, and that for -1."""
    body = [store(OUT, 0, binop(BinOp.BIT_AND, select(cast(BOOL, load(GIVEN, 0)), u32(yes), u32(no)), load(GIVEN, 1)))]
    found = code(lower, body)
    (masked,) = [operands[2] for opcode, operands in found if opcode == Ins.BitwiseAnd]
    assert made_by(found)[hides(found, masked, NUMBERS)][0] == Ins.Select


@pytest.mark.parametrize("access", ["load", "store"])
@pytest.mark.parametrize("name", ["its remainder", "the lesser of 1"])
def test_an_index_that_can_be_made_of_a_bool_is_hidden_before_its_range_is_checked(
    lower: Lower, name: str, access: str
) -> None:
    """A driver takes what is stored for -1 where the index tells that it is 0."""
    index = FLAGS[name]
    found = code(lower, [store(OPEN, index, u32(7)) if access == "store" else store(OUT, 0, load(OPEN, index))])
    (checked,) = [operands[2] for opcode, operands in found if opcode == Ins.ULessThan]
    assert len({hides(found, checked)}) == 1
    places = {operands[-1] for opcode, operands in found if opcode == Ins.AccessChain}
    chosen = {operands[3] for opcode, operands in found if opcode == Ins.Select}
    assert checked in (places if access == "store" else chosen)


COUNTED = {
    U32: (cast(U32, cast(BOOL, load(GIVEN, 0))), select(cast(BOOL, load(GIVEN, 0)), u32(1), u32(0))),
    DataType.I32: (
        cast(DataType.I32, cast(BOOL, load(GIVEN, 0))),
        select(cast(BOOL, load(GIVEN, 0)), i32(1), i32(0)),
    ),
}


def summed(found: list[tuple[int, list[int]]]) -> list[int]:
    """The ids that are added, without casts, but for the loop's own step of 1."""
    made = made_by(found)
    ones = {result for result, (opcode, operands) in made.items() if opcode == Op.Constant and operands == [1]}
    both = [operands[2:4] for opcode, operands in found if opcode == Ins.IAdd and operands[3] not in ones]
    return [made[one][1][0] if made[one][0] == Ins.Bitcast else one for pair in both for one in pair]


@pytest.mark.parametrize("dtype", COUNTED, ids=str)
@pytest.mark.parametrize("way", ["cast", "chosen"])
@pytest.mark.parametrize("place", ["left", "right"])
@pytest.mark.parametrize("op", [BinOp.ADD, BinOp.WRAPPING_ADD], ids=str)
def test_a_number_that_is_made_of_a_bool_is_hidden_but_for_sums_in_a_loop(
    lower: Lower, op: BinOp, place: str, way: str, dtype: DataType
) -> None:
    """Hidden there too, a loop that counts took 30 % longer. Where the sum may be the number, it is hidden there as well."""
    flag, total = COUNTED[dtype][way == "chosen"], var("total", dtype)
    zero = u32(0) if dtype == U32 else i32(0)

    def hidden(other: Expr, *, looped: bool) -> list[bool]:
        added = binop(op, flag, other) if place == "left" else binop(op, other, flag)
        step = assign("total", added)
        body = [let("total", zero), loop("k", 0, 4, [step]) if looped else step, store(OUT, 0, cast(U32, total))]
        found = code(lower, body)
        made = made_by(found)
        zeros = {result for result, (opcode, operands) in made.items() if opcode == Ins.Select and operands[1:2] == [at(made)]}
        return [made[one][0] == Ins.BitwiseXor and made[one][1][1] in zeros for one in summed(found)]

    def at(made: dict[int, tuple[int, list[int]]]) -> int:
        return next(result for result, (opcode, operands) in made.items() if (opcode, operands) == (Op.Constant, [NUMBERS]))

    assert (any(hidden(total, looped=True)), any(hidden(total, looped=False))) == (False, True)
    assert (any(hidden(zero, looped=True)), any(hidden(flag, looped=True))) == (True, True)


def test_what_is_made_of_a_bool_is_the_number(lower: Lower) -> None:
    wanted = [((a != 0) + (b != 0) + 2 * (a != 0)) for a, b in product(WORDS, WORDS)]
    other = select(cast(BOOL, load(GIVEN, 1)), u32(1), u32(0))
    assert computed(lower, INDEX + other + cast(U32, cast(DataType.I32, cast(BOOL, load(GIVEN, 0)))) * 2) == wanted


def test_what_is_compared_hidden_is_known_as_it_is(lower: Lower) -> None:
    """The index is in range where the branch says so, whatever was hidden for it."""
    body = [if_(binop(BinOp.LT, INDEX, u32(1)), [let("v", atomic(AtomicOp.MIN, ONE, INDEX, load(GIVEN, 1)))])]
    found = code(lower, body, GIVEN, ONE)
    assert sum(opcode == Ins.ULessThan for opcode, _ in found) == 1


def test_the_index_of_an_atomic_that_is_in_range_for_certain_stays(lower: Lower) -> None:
    assert lengths(code(lower, [let("v", atomic(AtomicOp.MIN, OUT, load(GIVEN, 0) & 1, load(GIVEN, 1)))])) == []


INVERSE = unop(UnOp.BIT_NOT, load(GIVEN, 0))
LESS = {
    BinOp.SUB: lambda a, b: a - b & 2**32 - 1,
    BinOp.WRAPPING_SUB: lambda a, b: a - b & 2**32 - 1,
    BinOp.SATURATING_SUB: lambda a, b: max(a - b, 0),
    BinOp.ABS_DIFF: lambda a, b: abs(a - b),
}


@pytest.mark.parametrize("op", LESS, ids=str)
def test_a_difference_of_words_is_a_sum(lower: Lower, op: BinOp) -> None:
    """A driver makes -2 of max(1 - ~x, x) for x = 0."""
    value = maximum(binop(op, load(GIVEN, 1), INVERSE), load(GIVEN, 0))
    assert not [opcode for opcode, _ in code(lower, [store(OUT, 0, value)]) if opcode == Ins.ISub]
    expected = [max(LESS[op](b, a ^ 2**32 - 1), a) for a, b in product(WORDS, WORDS)]
    assert computed(lower, value) == expected


@pytest.mark.parametrize("op", [BinOp.SUB, BinOp.WRAPPING_SUB], ids=str)
def test_a_difference_of_i32_is_a_sum(lower: Lower, op: BinOp) -> None:
    """A driver makes something else of max(0 - (~x + 0), x)."""
    x, y = cast(DataType.I32, load(GIVEN, 0)), cast(DataType.I32, load(GIVEN, 1))
    value = cast(DataType.U32, maximum(binop(op, y, unop(UnOp.BIT_NOT, x)), x))
    assert not [opcode for opcode, _ in code(lower, [store(OUT, 0, value)]) if opcode == Ins.ISub]
    pairs = [(a - (a >> 31 << 32), b) for a, b in product(WORDS, WORDS)]
    differences = [((b - ~a & 2**32 - 1) ^ 2**31) - 2**31 for a, b in pairs]
    expected = [max(one, a) & 2**32 - 1 for one, (a, _) in zip(differences, pairs, strict=True)]
    assert computed(lower, value) == expected


def test_a_constant_is_taken_off_an_i32_as_it_is(lower: Lower) -> None:
    value = cast(DataType.U32, cast(DataType.I32, load(GIVEN, 0)) - 7)
    assert len([opcode for opcode, _ in code(lower, [store(OUT, 0, value)]) if opcode == Ins.ISub]) == 1
    assert computed(lower, value) == [a - 7 & 2**32 - 1 for a, _ in product(WORDS, WORDS)]


def test_a_constant_is_taken_off_as_it_is(lower: Lower) -> None:
    found = code(lower, [store(OUT, 0, load(GIVEN, 0) - 7)])
    assert len([opcode for opcode, _ in found if opcode == Ins.ISub]) == 1
    assert computed(lower, load(GIVEN, 0) - 7) == [a - 7 & 2**32 - 1 for a, _ in product(WORDS, WORDS)]


@pytest.mark.parametrize(
    ("left", "right", "given"),
    [
        ("x", "x", ["hidden", "hidden"]),
        ("x", 3.0, ["hidden", 0x4008_0000]),
        (-0.0, "x", [2**31, "hidden"]),
        ("x", 0.0, ["hidden", "a hidden 0"]),
        (0.0, 5e-324, ["a hidden 0", "a hidden 0"]),
    ],
)
def test_what_can_be_0_in_a_quotient_of_f64_is_hidden(
    lower: Lower, left: float | str, right: float | str, given: list[int | str]
) -> None:
    """By a constant 0 llvmpipe's quotient is undefined, and of one it is 0. So it is there."""
    out = BufferDecl.read_write("out", 0, F64).with_count(1)
    operands = [f64(one) if isinstance(one, float) else load(out, 0) for one in (left, right)]
    program = Program.wrapped([out], (1, 1, 1), [store(out, 0, operation(BinOp.DIV, F64, *operands))])
    found = decoded(lower(program, (), LoweringTarget(frozenset({"shaderFloat64"}), hides=True)).code)
    made = made_by(found)

    def high_word(number: int) -> int | str:
        opcode, parts = made[made[made[number][1][0]][1][1]]
        if opcode == Op.Constant:
            return parts[0]
        is_a_constant = opcode == Ins.Select and [made[one][1] for one in parts[1:]] == [[2**32 - 1], [0]]
        return "hidden" if opcode == Ins.BitwiseXor else "a hidden 0" if is_a_constant else "known"

    (divided,) = [operands[2:] for opcode, operands in found if opcode == Ins.FDiv]
    assert [high_word(one) for one in divided] == given


@pytest.mark.parametrize("hides", [False, True])
def test_all_that_is_pushed_is_hidden_where_the_target_asks_for_it(lower: Lower, *, hides: bool) -> None:
    """The index of a load that is made of it alone takes llvmpipe's compiler minutes."""
    dtypes = U32, DataType.I32, F32, BOOL, DataType.U64, F64
    pushed = [BufferDecl.push(f"pushed{at}", at, dtype, 1 + at % 2) for at, dtype in enumerate(dtypes)]
    outs = [BufferDecl.read_write(f"out{at}", 7 + at, dtype) for at, dtype in enumerate(dtypes)]  # their counts are pushed too
    given = BufferDecl.read("given", 6, U32).with_count(2)
    body = [store(out, load(given, 0), load(one, at % 2)) for at, (one, out) in enumerate(zip(pushed, outs, strict=True))]
    found = decoded(lower(Program.wrapped([*pushed, given, *outs], (1, 1, 1), body), (), LoweringTarget(hides=hides)).code)
    made = made_by(found)
    of_block = {
        operands[1] for opcode, operands in found if opcode == Op.Variable and operands[2] == StorageClass.PUSH_CONSTANT
    }
    chains = {one for one, (opcode, operands) in made.items() if opcode == Ins.AccessChain and operands[0] in of_block}
    loaded = {one for one, (opcode, operands) in made.items() if opcode == Ins.Load and operands[0] in chains}
    as_words = {Ins.Bitcast, Ins.CompositeExtract}
    loaded |= {one for one, (opcode, operands) in made.items() if opcode in as_words and operands[0] in loaded}
    users = {opcode for opcode, operands in found if loaded & set(operands[2 if opcode != Ins.Store else 1 :])}
    assert len(chains) == 2 * len(dtypes)
    assert (users - as_words == {Ins.BitwiseXor}) is hides
