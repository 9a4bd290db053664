"""Quotients and roots are rounded once, whatever the device's own are wrong by.

The device of most test runs gives them right by itself, so that its numbers are put off by instructions that are written into
the module.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from lacking_devices import lack_features
from spirv_machine import decoded

from vyre_driver import Driver, SpirvModule
from vyre_driver.backends.reference import interpret
from vyre_driver.backends.reference.arithmetic import FLOAT_BINARY, FLOAT_UNARY, canonical
from vyre_driver.ir import (
    BinOp,
    BufferDecl,
    DataType,
    Program,
    UnOp,
    absolute,
    binop,
    f32,
    gid_x,
    if_,
    load,
    select,
    sqrt,
    store,
    unop,
)
from vyre_driver.ir.functions import fmod
from vyre_driver.lowering.emit.target import FLUSH, LoweringTarget
from vyre_driver.lowering.program import target_for
from vyre_driver.spirv.opcodes import MODE_DENORM_FLUSH_TO_ZERO, Capability, Glsl, Ins, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Lower
    from numpy.typing import NDArray

    from vyre_driver.ir.expressions import Expr

    Floats = NDArray[np.float32]

pytestmark = pytest.mark.device
EDGES = [*range(12), *((1 << place) - less for place in range(4, 23) for less in (0, 1)), 0x55_5555, 0x35_04F3]
FRACTIONS = np.array([*EDGES, *(0x7F_FFFF - one for one in EDGES)], np.uint32)
SPECIAL = np.array([0, 1, 0x7F_FFFF, 0x80_0000, 0x3F80_0000, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001, 0x7FC1_2345], np.uint32)
OPERATORS = [BinOp.DIV, UnOp.SQRT, UnOp.INVERSE_SQRT, UnOp.RECIPROCAL]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(allow_software=True, cache=tmp_path_factory.mktemp("pipelines")) as driver:
        yield driver


def floats(exponents: NDArray[np.integer], fractions: NDArray[np.integer], signs: NDArray[np.integer]) -> Floats:
    words = np.asarray(exponents, np.uint32) << 23 | np.asarray(fractions, np.uint32) | np.asarray(signs, np.uint32) << 31
    return words.view(np.float32)


@functools.cache
def every_exponent() -> Floats:
    """Both signs of all exponents, with fractions at the edges and 2048 more for each."""
    fractions = np.random.default_rng(7).integers(0, 1 << 23, (512, 2048), np.uint32)
    fractions = np.concatenate([fractions, np.broadcast_to(FRACTIONS, (512, len(FRACTIONS)))], axis=1)
    signs, exponents = np.divmod(np.arange(512, dtype=np.uint32), 256)
    return floats(exponents[:, None], fractions, signs[:, None]).reshape(-1)


def beside_middles(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Significands whose quotient q is as near to a middle of two numbers as can be: (2q + 1) * c is 2^24 * a, and a little."""
    rng = np.random.default_rng(3)
    divisor = rng.integers(1 << 22, 1 << 23, count) * 2 + 1
    little = rng.choice([-5, -3, -1, 1, 3, 5], count)
    inverse = divisor.copy()
    for _ in range(5):  # by Newton's method, modulo 2^24
        inverse = inverse * (2 - divisor * inverse) % (1 << 24)
    odd = (little * inverse) % (1 << 24) + (1 << 24)
    dividend = (odd * divisor - little) >> 24
    kept = (dividend < 1 << 24) | (dividend % 2 == 0)
    return np.where(dividend < 1 << 24, dividend, dividend >> 1)[kept], divisor[kept]


@functools.cache
def pairs() -> tuple[Floats, Floats]:
    """Any numbers; such whose quotients lie about the ends of the range; hard ones; each special one with each."""
    rng, count = np.random.default_rng(5), 1 << 19
    found = [tuple(rng.integers(0, 1 << 32, (2, count), np.uint32).view(np.float32))]
    for exponent in (0, 255):  # of the quotient
        left = rng.integers(1, 255, count)
        right = np.clip(left + 127 - exponent + rng.integers(-2, 3, count), 1, 254)
        sides = []
        for exponents in (left, right):
            fractions = np.where(rng.random(count) < 0.7, rng.choice(FRACTIONS, count), rng.integers(0, 1 << 23, count))
            sides.append(floats(exponents, fractions, rng.integers(0, 2, count)))
        found.append((sides[0], sides[1]))
    hard = [side & 0x7F_FFFF for side in beside_middles(count)]
    exponents = rng.integers(100, 154, (2, len(hard[0])))
    found.append((floats(exponents[0], hard[0], exponents[0] % 2), floats(exponents[1], hard[1], exponents[1] % 2)))
    special = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.float32)
    found.append((np.repeat(special, len(special)), np.tile(special, len(special))))
    return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])


def of(op: BinOp | UnOp, count: int) -> Program:
    inputs = [BufferDecl.read(f"in{place}", place, DataType.F32).with_count(count) for place in range(1 + (op is BinOp.DIV))]
    out = BufferDecl.output("out", len(inputs), DataType.F32).with_count(count)
    loads = [load(one, gid_x()) for one in inputs]
    value = binop(op, *loads) if isinstance(op, BinOp) else unop(op, *loads)
    return Program.wrapped([*inputs, out], (64, 1, 1), [if_(gid_x() < count, [store(out, gid_x(), value)])])


def left_to_the_device(code: bytes) -> bytes:
    """Take out of a module that the device is to flush subnormals."""
    words = np.frombuffer(code, np.uint32).tolist()
    made, at = words[:5], 5
    while at < len(words):
        one = words[at : at + (words[at] >> 16)]
        at += len(one)
        asks = (one[0] & 0xFFFF, one[-1]) == (Op.Capability, Capability.DenormFlushToZero) or one[0] & 0xFFFF == Op.Extension
        if not asks and (one[0] & 0xFFFF, *one[2:3]) != (Op.ExecutionMode, MODE_DENORM_FLUSH_TO_ZERO):
            made += one
    return np.array(made, np.uint32).tobytes()


def wanted(op: BinOp | UnOp, *given: Floats) -> NDArray[np.uint32]:
    function = FLOAT_BINARY[op] if isinstance(op, BinOp) else FLOAT_UNARY[op]
    with np.errstate(all="ignore"):
        return canonical(function(*map(canonical, given))).view(np.uint32)


def put_off(code: bytes, opcode: int, by: int) -> bytes:
    """Add to the bits of what the first instruction of this kind gives, as a device would that is so many steps off."""
    words = np.frombuffer(code, np.uint32).tolist()
    u32, (number, near, its_bits, other_bits) = 0, range(words[3], words[3] + 4)
    made, at = [*words[:3], words[3] + 4, words[4]], 5
    while at < len(words):
        one = words[at : at + (words[at] >> 16)]
        at += len(one)
        if one[0] & 0xFFFF == opcode and (opcode != Ins.ExtInst or one[4] == Glsl.InverseSqrt):
            made += [*one[:2], near, *one[3:], 4 << 16 | Ins.Bitcast, u32, its_bits, near]
            made += [5 << 16 | Ins.IAdd, u32, other_bits, its_bits, number, 4 << 16 | Ins.Bitcast, one[1], one[2], other_bits]
            return np.array([*made, *words[at:]], np.uint32).tobytes()
        made += one
        if one[0] & 0xFFFF == Op.TypeInt and one[2:] == [32, 0]:
            u32 = one[1]
            made += [4 << 16 | Op.Constant, u32, number, by & 0xFFFF_FFFF]
    raise AssertionError(opcode)


@pytest.fixture(params=["all features", "none"])
def either(request: pytest.FixtureRequest, opened: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver, and one whose modules cannot say how the device is to round."""
    if request.param == "all features":
        yield opened
        return
    lack_features(monkeypatch)
    with Driver(allow_software=True) as bare:
        yield bare


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_a_quotient_or_root_is_rounded_once(either: Driver, op: BinOp | UnOp) -> None:
    given = pairs() if op is BinOp.DIV else (every_exponent(),)
    found = either.compile(of(op, len(given[0])))(*given)
    if target_for(either.device, (), None).divides:  # whose NaN is one of its own
        found[np.isnan(found)] = np.float32(np.nan)
    np.testing.assert_array_equal(found.view(np.uint32), wanted(op, *given))


OFF = [(BinOp.DIV, Ins.FDiv), (UnOp.SQRT, Ins.ExtInst), (UnOp.INVERSE_SQRT, Ins.ExtInst), (UnOp.INVERSE_SQRT, Ins.FDiv)]


@pytest.mark.parametrize(("op", "opcode"), OFF, ids=str)
@pytest.mark.parametrize("by", [-25, -1, 2, 25])
def test_a_quotient_or_root_is_right_though_what_the_device_gives_is_not(
    opened: Driver, lower: Lower, op: BinOp | UnOp, opcode: int, by: int
) -> None:
    given = [one[::23] for one in (pairs() if op is BinOp.DIV else (every_exponent(),))]
    code = lower(of(op, len(given[0]))).code
    right = wanted(op, *given)
    modules = [SpirvModule.from_bytes(put_off(code, opcode, steps)) for steps in (by, 400 * by)]
    found, too_far = (opened.compile(one)(*given, np.zeros_like(given[0])).view(np.uint32) for one in modules)
    np.testing.assert_array_equal(found, right)
    assert (too_far != right).any()  # so that what is put off is what the result is made of


BY_BITS: list[Callable[[Expr], Expr]] = [absolute, sqrt, lambda x: x / 3.0, lambda x: 3.0 / x, lambda x: fmod(x, 1.0)]


@pytest.mark.parametrize("function", BY_BITS)
def test_what_is_made_of_bits_takes_subnormals_for_zeros_where_the_device_flushes_them(
    opened: Driver, lower: Lower, function: Callable[[Expr], Expr]
) -> None:
    """A device that flushes does so to what it computes with as floats: here none does."""
    given = np.array([1, 1 << 31 | 1, 0x7F_FFFF, 0x807F_FFFF, 0x80_0000, 0x3F80_0000], np.uint32).view(np.float32)
    source, out = BufferDecl.read("in", 0, DataType.F32).with_count(6), BufferDecl.output("out", 1, DataType.F32).with_count(6)
    program = Program.wrapped([source, out], (6, 1, 1), [store(out, gid_x(), function(load(source, gid_x())))])
    code = left_to_the_device(lower(program, (), LoweringTarget(frozenset({FLUSH}))).code)
    found = opened.compile(SpirvModule.from_bytes(code))(given, np.zeros_like(given))
    with np.errstate(all="ignore"):
        right = np.asarray(interpret(program, [given]).outputs[0])
    np.testing.assert_array_equal(found.view(np.uint32), right.view(np.uint32))


KNOWN = [3.0, -7.0, 10.0, 0.1, 4.0, -0.125, 1e-20, 16777215.0, 2.5e38]


def test_a_quotient_by_what_is_known_is_rounded_once(opened: Driver) -> None:
    """By a constant, and of one of two constants, which a compiler may divide itself."""
    given = every_exponent()[::61]
    count = len(given)
    numbers = BufferDecl.read("numbers", 0, DataType.F32).with_count(count)
    out = BufferDecl.output("out", 1, DataType.F32).with_count(count * (len(KNOWN) + 1))
    x = load(numbers, gid_x())
    quotients = [*(x / known for known in KNOWN), select(binop(BinOp.LT, x, f32(0.0)), x, f32(-79.0)) / 7.0]
    stores = [store(out, gid_x() + k * count, one) for k, one in enumerate(quotients)]
    program = Program.wrapped([numbers, out], (64, 1, 1), [if_(gid_x() < count, stores)])
    found = opened.compile(program)(given)
    expected = [wanted(BinOp.DIV, given, np.full_like(given, known)) for known in KNOWN]
    expected.append(wanted(BinOp.DIV, np.where(canonical(given) < 0, given, np.float32(-79)), np.full_like(given, 7)))
    found[np.isnan(found)] = np.float32(np.nan)  # NVIDIA's has bits of its own
    np.testing.assert_array_equal(found.view(np.uint32), np.concatenate(expected))


@pytest.mark.parametrize(("op", "corrections"), [(BinOp.DIV, 0), (UnOp.RECIPROCAL, 0), (UnOp.INVERSE_SQRT, 2)])
def test_where_the_devices_quotients_are_right_they_are_taken_as_they_are(
    lower: Lower, op: BinOp | UnOp, corrections: int
) -> None:
    targets = [LoweringTarget(frozenset({FLUSH}), divides=divides) for divides in (True, False)]
    plain, corrected = ([opcode for opcode, _ in decoded(lower(of(op, 4), (), target).code)] for target in targets)
    assert (plain.count(Ins.FDiv), plain.count(Ins.IMul)) == (1, corrections)
    assert corrected.count(Ins.IMul) == corrections + 2
