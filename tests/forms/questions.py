"""Programs that a driver is known to get wrong, and their kin: by kind, each with inputs of its own and as many random ones.

The kinds are those of ``every_form.FORMS``. Kept cases are as ``vyre_driver.conformance.driver_cases`` has them; the seeds are
the whole programs that they were left of; kin asks the same of many numbers at once.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vyre_driver.backends.reference import interpret
from vyre_driver.binding import BindingPlan
from vyre_driver.conformance import words
from vyre_driver.conformance.case import EXACT, Case
from vyre_driver.conformance.constant_cases import constant_cases
from vyre_driver.conformance.dice import Dice
from vyre_driver.conformance.driver_cases import driver_cases
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.errors import VyreError
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, UnOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.statements import Node

U32, I32, U64, I64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.I64, DataType.F32, DataType.Bool
KEPT = {
    "bits of a signed byte without its sign": "bits",
    "bits of a byte": "bits",
    "a high word less 64 bits": "differences",
    "a high word less a condition": "differences",
    "high words less what stands there": "differences",
    "an atomic whose index is a condition": "atomics",
    "the greater of a word and a rotation less its inversion": "words",
    "choices in choices": "choices",
    "the least of a number and its half negated, by comparisons": "numbers",
}
_SMALL = 60
ROUNDED = ("constants that are rounded twice", "constants of a select that are rounded twice")
SEEDS = {
    1018845: "bits",
    1095105: "bits",
    1032765: "differences",
    1073652: "differences",
    1087451: "differences",
    1098876: "differences",
    1036001: "atomics",
    1055430: "words",
    1067259: "choices",
    1069098: "floats",
}


class Question(NamedTuple):
    """A program, what kind of construct it is about, and the values of lets that are specialized."""

    kind: str
    case: Case
    specs: Mapping[str, float] = MappingProxyType({})

    @property
    def is_small(self) -> bool:
        """Whether a change of the program is likely to leave one that means something, which is also compiled quickly."""
        return sum(1 for _ in terms_within(*self.case.program.entry)) < _SMALL


class Asked(NamedTuple):
    """Inputs for a program, and the outputs that are right."""

    inputs: tuple[NDArray[np.generic], ...]
    expected: Sequence[NDArray[np.generic]]


def questions(lanes: int) -> Iterator[Question]:
    """Every question; ``lanes`` is how many a subgroup of the device has."""
    for case in driver_cases(Options()):
        yield Question(KEPT[case.name], case)
    for case in constant_cases():
        if case.name in ROUNDED:
            yield Question("floats", case)
    for made in (
        _narrow_bits,
        _high_words,
        _identities,
        _found_identities,
        _greatest,
        _choices,
        _joined_floats,
        _specialized_floats,
        _least,
    ):
        yield from made()
    options = Options(subgroups=True, subgroup_lanes=32)  # as they were found
    for seed, kind in SEEDS.items():
        yield Question(kind, replace(generate(seed, options), subgroup_lanes=lanes or 32))


def asked(question: Question, count: int) -> Iterator[Asked]:
    """Yield the case's own inputs and so many random ones: those of which the reference says that there is one result."""
    case = question.case
    types = [one.data_type for one in BindingPlan.build(case.program).descriptors if one.role.consumes_input]
    for number in range(count + 1):
        inputs = case.inputs
        if number:
            dice = Dice(number)
            inputs = tuple(words.array(dice, dtype, len(old)) for dtype, old in zip(types, case.inputs, strict=True))
        try:
            known = interpret(
                case.program,
                inputs,
                specs=question.specs,
                grid=case.grid,
                element_counts=case.element_counts,
                step_budget=1 << 16,
                subgroup_lanes=case.subgroup_lanes,
            )
        except VyreError:  # a quotient that is not defined, or a loop without an end
            continue
        if not (known.order_mattered or known.stores_met):
            yield Asked(inputs, known.outputs)
        if not case.inputs:
            return


def _each(
    kind: str, name: str, given: dict[str, tuple[DataType, NDArray[np.generic]]], out: DataType, terms: list[Expr]
) -> Question:
    """Ask terms of every element of arrays of one length; in a term they are variables of the arrays' names."""
    count = len(next(iter(given.values()))[1])
    declared = [BufferDecl.read(f"{key}_in", place, dtype) for place, (key, (dtype, _)) in enumerate(given.items())]
    result = BufferDecl.output("out", len(declared), out).with_count(count * len(terms))
    i = ir.gid_x()
    lets = [ir.let(key, ir.load(one, i)) for key, one in zip(given, declared, strict=True)]
    stores = [ir.store(result, i * len(terms) + place, term) for place, term in enumerate(terms)]
    body: list[Node] = [ir.if_(i < count, [*lets, *stores])]
    program = Program.wrapped([*declared, result], (32, 1, 1), body)
    arrays = tuple(array for _, array in given.values())
    return Question(kind, Case(name, program, arrays, (-(-count // 32), 1, 1), EXACT))


def _paired(*dtypes: DataType) -> list[NDArray[np.generic]]:
    """Edges of types, each with each."""
    columns = zip(*product(*map(words.edges, dtypes)), strict=True)
    return [np.array(one, words.NUMPY[dtype]) for dtype, one in zip(dtypes, columns, strict=True)]


def _narrow_bits() -> Iterator[Question]:
    """Bits of bytes and of 16 bits, also beside what the shrunk programs have there: a constant quotient."""
    for dtype, unsigned in ((DataType.U8, DataType.U8), (DataType.I8, DataType.U8), (DataType.I16, DataType.U16)):
        values = np.arange(-(2 ** (dtype.bit_width - 1)), 2 ** (dtype.bit_width - 1), 1 if dtype.bit_width == 8 else 257)
        x = ir.cast(unsigned, ir.var("x", dtype))
        terms = [ir.unop(op, ir.cast(U32, x)) for op in (UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS)]
        terms += [ir.cast(U32, ir.unop(op, ir.cast(U64, x))) for op in (UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ)]
        terms.append(ir.cast(U32, ir.cast(F32, ir.cast(U32, x))))
        quotient = ir.cast(U32, ir.f32(0.0) / ir.f32(1.0))
        given = {"x": (dtype, values.astype(words.NUMPY[dtype]))}
        yield _each("bits", f"bits of {dtype}", given, U32, terms)
        yield _each("bits", f"bits of {dtype} beside a quotient", given, U32, [*terms, quotient])
        loaded = ir.cast(U32, ir.cast(F32, ir.cast(U32, x)) / ir.f32(3.0) >= ir.f32(0.0))
        yield _each("bits", f"bits of {dtype} beside a quotient of them", given, U32, [loaded, *terms])


def _high_words() -> Iterator[Question]:
    a, b, c = _paired(U32, U32, U64)
    high = ir.cast(U64, ir.binop(BinOp.MUL_HIGH, ir.var("a", U32), ir.var("b", U32)))
    rest = ir.var("c", U64)
    terms = [ir.binop(BinOp.WRAPPING_SUB, high, rest), ir.binop(BinOp.WRAPPING_SUB, rest, high)]
    terms += [ir.binop(BinOp.WRAPPING_ADD, high, rest), ir.binop(BinOp.WRAPPING_SUB, high, ir.cast(U64, ir.var("a", U32)))]
    given = {"a": (U32, a), "b": (U32, b), "c": (U64, c)}
    yield _each("differences", "high words and 64 bits", given, U64, terms)


def _identities() -> Iterator[Question]:
    """Atomics that change nothing, by a literal: a compiler may make another operation of them."""
    counters = BufferDecl.read_write("counters", 0, U32).with_count(6)
    neutral = {
        AtomicOp.MIN: 2**32 - 1,
        AtomicOp.AND: 2**32 - 1,
        AtomicOp.MAX: 0,
        AtomicOp.OR: 0,
        AtomicOp.ADD: 0,
        AtomicOp.XOR: 0,
    }
    operations = list(neutral.items())
    body = [ir.let(f"v{i}", ir.atomic(op, counters, i, ir.u32(value))) for i, (op, value) in enumerate(operations)]
    values = np.array([7, 2**32 - 1, 2254898474, 0, 1, 2**31], np.uint32)
    yield Question("atomics", Case("atomics that change nothing", _program([counters], body), (values,), (1, 1, 1), EXACT))


def _found_identities() -> Iterator[Question]:
    """Atomics that change nothing, as only the branch tells that they stand in."""
    for op, make in (
        (AtomicOp.MIN, lambda x: ir.unop(UnOp.BIT_NOT, x)),
        (AtomicOp.AND, lambda x: ir.binop(BinOp.SUB, x, ir.u32(1))),
    ):
        given = BufferDecl.read("words_in", 0, U32).with_count(2)
        counters = BufferDecl.read_write("counters", 1, U32).with_count(2)
        x = ir.load(given, ir.gid_x())
        body = [ir.if_(x.eq(0), [ir.let("v", ir.atomic(op, counters, ir.gid_x(), make(x)))])]
        values = np.array([0, 5], np.uint32), np.array([2254898474, 9], np.uint32)
        name = f"an atomic {op.name.lower()} that changes nothing in its branch"
        yield Question("atomics", Case(name, _program([given, counters], body, 2), values, (1, 1, 1), EXACT))


def _program(buffers: list[BufferDecl], body: list[Node], size: int = 1) -> Program:
    return Program.wrapped(buffers, (size, 1, 1), body)


def _greatest() -> Iterator[Question]:
    x, y = ir.var("x", U32), ir.var("y", U32)
    inverse = ir.unop(UnOp.BIT_NOT, x)
    minuends = [ir.u32(one) for one in (0, 1, 2, 3, 2**31, 2**32 - 1)] + [
        y,
        ir.binop(BinOp.ROTATE_RIGHT, ir.u32(1), ir.lid_y()),
    ]
    terms = [choose(one - inverse, x) for one in minuends for choose in (ir.maximum, ir.minimum)]
    terms += [choose(inverse - one, x) for one in minuends for choose in (ir.maximum, ir.minimum)]
    terms += [choose(x, one + inverse) for one in minuends for choose in (ir.maximum, ir.minimum)]
    xs, ys = _paired(U32, U32)
    yield _each("words", "the greater and the lesser beside inverses", {"x": (U32, xs), "y": (U32, ys)}, U32, terms)


def _choices() -> Iterator[Question]:
    """Selects by selects of bools: of 64 bits of either sign, and of words."""
    flags = np.array(list(product((0, 1), repeat=3)) * 4, np.uint32).T
    number = np.tile(np.array([-5, 0, 1, 7], np.int32), 8)
    for dtype in (U64, I64, U32):
        edges = words.edges(dtype)
        values = np.resize(edges, 32), np.resize(edges[::-1], 32)
        names = dict(zip("cab", flags, strict=True))
        given = {name: (BOOL, array) for name, array in names.items()}
        given |= {"n": (I32, number), "p": (dtype, values[0]), "q": (dtype, values[1])}
        c, a, b = (ir.var(name, BOOL) for name in "cab")
        n, p, q = ir.var("n", I32), ir.var("p", dtype), ir.var("q", dtype)
        compared = ir.binop(BinOp.LE, n, ir.i32(0))
        terms = []
        for op in (BinOp.OR, BinOp.AND):
            outer = ir.binop(op, ir.select(c, a, b), compared)
            terms += [ir.select(outer, p, ir.select(a, p, q)), ir.select(outer, q, ir.select(a, p, ir.cast(dtype, ir.u32(0))))]
            terms += [ir.select(ir.binop(op, ir.select(ir.lid_y(), a, b), compared), p, ir.select(a, p, q))]
        yield _each("choices", f"choices of {dtype} in choices", given, dtype, terms)


def _joined_floats() -> Iterator[Question]:
    """Constants that meet where branches do, which only the device folds."""
    flags = BufferDecl.read("flags_in", 0, BOOL).with_count(4)
    out = BufferDecl.output("out", 1, I32).with_count(4)
    i, a = ir.gid_x(), ir.var("a", F32)
    body = [
        ir.let("a", ir.f32(-100.0)),
        ir.if_(ir.load(flags, i), [ir.assign("a", ir.f32(-101.0))]),
        ir.store(out, i, ir.cast(I32, ir.abs_diff(a, ir.f32(8388607.5)) - 2.5)),
    ]
    case = Case(
        "constants that meet behind a branch",
        _program([flags, out], body, 4),
        (np.array([0, 1, 1, 0], np.uint32),),
        (1, 1, 1),
        EXACT,
    )
    yield Question("floats", case)


def _specialized_floats() -> Iterator[Question]:
    """A constant that the device has when it makes a pipeline."""
    out = BufferDecl.output("out", 0, I32).with_count(1)
    far = ir.abs_diff(ir.var("a", F32), ir.f32(8388607.5)) - 2.5
    body: list[Node] = [ir.let("a", ir.f32(-101.0)), ir.store(out, 0, ir.cast(I32, far))]
    case = Case("a constant that is specialized", _program([out], body), (), (1, 1, 1), EXACT)
    yield Question("floats", case, {"a": -100.0})


def _least() -> Iterator[Question]:
    """The least and the greatest of numbers and what negates them, by comparisons."""
    x, y, zero = ir.var("x", I32), ir.var("y", I32), ir.i32(0)
    half = ir.binop(BinOp.DIV, x, ir.i32(2))
    negations = [ir.binop(BinOp.SUB, zero, one) for one in (x, half, y, ir.binop(BinOp.BIT_AND, x, ir.i32(255)))]
    negations += [ir.binop(BinOp.MUL, x, ir.i32(-1)), ir.binop(BinOp.ADD, ir.unop(UnOp.BIT_NOT, x), ir.i32(1))]
    terms = []
    for op, negated in product((BinOp.LT, BinOp.LE, BinOp.GT), negations):
        first = ir.select(ir.binop(op, x, negated), x, negated)
        terms += [ir.select(ir.binop(op, first, one), first, one) for one in (zero, y)]
        terms.append(ir.select(ir.binop(op, first, zero), zero, first))
    xs, ys = _paired(I32, I32)
    yield _each("numbers", "numbers beside their negations, by comparisons", {"x": (I32, xs), "y": (I32, ys)}, I32, terms)
