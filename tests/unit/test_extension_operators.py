"""The operators that the package adds to the IR: their form, their types, their text, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.backends.reference import run
from vyre_driver.backends.reference.extensions import FUNCTIONS
from vyre_driver.errors import InvalidProgram, UnsupportedFeature
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    binop,
    bitcast,
    boolean,
    convert,
    f32,
    floor_divide,
    floor_modulo,
    gid_x,
    load,
    operation,
    pack_bf16,
    pack_f16,
    store,
    u32,
    var,
)
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.dtypes import extension_id
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.extensions import EXTENSIONS, application, extension, known_operator
from vyre_driver.ir.functions.bodies import body_of
from vyre_driver.ir.operators import BinOp, OpaqueOp, UnOp
from vyre_driver.ir.text import expression_pieces
from vyre_driver.ir.validation.validate import examine, validate
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lowering.emit.operators import LOWERED

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Lower

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node

U32, I32, F32, U64 = DataType.U32, DataType.I32, DataType.F32, DataType.U64
X = var("x", U64)
WORDS = BufferDecl.read("words", 0, U32).with_count(4)
FLOATS = BufferDecl.read("floats", 1, F32).with_count(4)
OUT = BufferDecl.output("out", 2, U32).with_count(4)


def program(*nodes: Node) -> Program:
    return Program.wrapped([WORDS, FLOATS, OUT], (4, 1, 1), nodes)


def stored(value: Expr) -> Program:
    return program(store(OUT, gid_x(), value))


def test_an_operator_of_ours_is_an_opaque_one_under_the_cast_to_its_type() -> None:
    op = OpaqueOp(extension_id("vyre_driver.bitcast<u32>"))
    made = bitcast(U32, f32(1.0))
    assert made == Cast(U32, Binary(op, f32(1.0), LitU32(0)))
    assert application(made) == (EXTENSIONS["bitcast<u32>"], (f32(1.0),))
    assert known_operator(op) is EXTENSIONS["bitcast<u32>"]
    assert made.dtype == U32


def test_no_two_operators_have_one_number() -> None:
    numbers = {one.op.extension_id for one in EXTENSIONS.values()}
    assert (len(numbers), min(numbers) >= 1 << 31) == (len(EXTENSIONS), True)


def test_every_operator_is_computed_by_the_reference_and_lowered() -> None:
    casts = {f"bitcast<{one}>" for one in (U32, I32, F32)}
    bodies = {name for name in EXTENSIONS if body_of(name) is not None}
    assert (set(FUNCTIONS) | bodies, set(LOWERED) | casts | bodies) == (set(EXTENSIONS), set(EXTENSIONS))
    assert set(FUNCTIONS) & bodies == set(LOWERED) & bodies == set()


def test_format_4_carries_it_and_the_text_shows_its_name() -> None:
    made = stored(bitcast(U32, load(FLOATS, gid_x())))
    assert Program.from_wire(made.to_wire()) == made
    assert str(made).splitlines()[-1].strip() == "out[gid.x] = bitcast<u32>(floats[gid.x])"
    bare = stored(Binary(EXTENSIONS["bitcast<u32>"].op, u32(1), u32(0)))
    assert (
        str(bare).splitlines()[-1].strip() == f"out[gid.x] = extension_{EXTENSIONS['bitcast<u32>'].op.extension_id:08x}(1, 0)"
    )


REFUSED = [
    (extension("bitcast<u32>", boolean(True)), "value", "bitcast<u32> takes u32, i32 or f32, and got bool"),
    (
        Cast(U32, Binary(EXTENSIONS["bitcast<u32>"].op, f32(1.0), u32(1))),
        "value",
        "bitcast<u32> takes one operand, and got a second one that is not the literal 0",
    ),
]


@pytest.mark.parametrize(("value", "place", "message"), REFUSED, ids=[one[2] for one in REFUSED])
def test_the_validator_asks_what_it_takes(value: Expr, place: str, message: str) -> None:
    (problem,) = examine(stored(value)).problems
    assert (problem.rule, problem.path, problem.message) == ("R015", f"body[0].value.{place}", message)


def test_its_type_is_known_to_the_validator() -> None:
    (problem,) = examine(stored(bitcast(F32, u32(1)))).problems
    assert (problem.rule, problem.message) == ("V045", "buffer 'out' holds u32, and is given f32")
    bare = binop(EXTENSIONS["bitcast<f32>"].op, u32(1), u32(0))  # whose cast would be no cast
    assert [one.rule for one in examine(stored(bare)).problems] == ["V045"]


WRONGLY_BUILT: list[tuple[Callable[[], Expr], str]] = [
    (lambda: extension("mull<u64>", X, X), "there is no operator 'mull<u64>'. Fix: give a name of "),
    (lambda: extension("mul<u64>", X), "mul<u64> takes 2 operand(s), and got 1. Fix: give 2."),
    (lambda: extension("mul<u64>", X, X, X), "mul<u64> takes 2 operand(s), and got 3. Fix: give 2."),
    (lambda: extension("fma<f64>"), "fma<f64> takes 3 operand(s), and got 0. Fix: give 3."),
    (lambda: operation(BinOp.MUL, U64, X), "MUL takes 2 operand(s), and got 1. Fix: give 2."),
    (lambda: operation(BinOp.ADD, U32, 1, 2, 3), "ADD takes 2 operand(s), and got 3. Fix: give 2."),
    (lambda: operation(UnOp.NEGATE, F32), "NEGATE takes 1 operand(s), and got 0. Fix: give 1."),
    (lambda: operation("add", U32, 1, 2), "'add' is no operator on values. Fix: give a member of BinOp, UnOp or TernaryOp."),  # type: ignore[arg-type]
    (
        lambda: floor_divide(I32, -7, 2),
        "floor_divide takes u64 and i64, and got i32. Fix: convert the operands, or for f32 use ",
    ),
    (
        lambda: floor_modulo(F32, -7.0, 2.0),
        "floor_modulo takes u64 and i64, and got f32. Fix: convert the operands, or for f32 ",
    ),
]


@pytest.mark.parametrize(("build", "message"), WRONGLY_BUILT, ids=[one[1] for one in WRONGLY_BUILT])
def test_what_is_built_wrongly_is_refused_by_name(build: Callable[[], Expr], message: str) -> None:
    with pytest.raises(InvalidProgram) as refused:
        build()
    assert str(refused.value).startswith(message)


def test_there_is_no_bitcast_to_other_types() -> None:
    with pytest.raises(InvalidProgram, match=r"there is no bitcast to u16\. Fix: give DataType\.U32, I32, F32, U64, I64"):
        bitcast(DataType.U16, u32(1))


@pytest.mark.parametrize(
    ("source", "target", "made"),
    [
        (DataType.F16, F32, "f16_to_f32(x)"),
        (F32, DataType.BF16, "f32_to_bf16(x)"),
        (I32, F32, "cast<f32>(x)"),
        (F32, F32, "x"),
    ],
)
def test_a_conversion_is_a_cast_where_the_ir_has_one(source: DataType, target: DataType, made: str) -> None:
    assert "".join(expression_pieces(convert(target, var("x", source)))) == made


def test_what_cannot_be_converted_is_refused() -> None:
    with pytest.raises(InvalidProgram, match=r"the type of what is converted is not known here\. Fix: say it"):
        convert(F32, var("x"))
    with pytest.raises(InvalidProgram, match=r"there is no conversion from f16 to u32\. Fix: convert it by way of"):
        convert(U32, var("x", DataType.F16))


F16_OF_F32 = {
    -0.0: 0x8000,
    65504.0: 0x7BFF,
    65519.0: 0x7BFF,
    65520.0: 0x7C00,
    -1e30: 0xFC00,
    2.0**-24: 0x0001,
    2.0**-25: 0x0000,  # half way to 0, which is even
    -(2.0**-25 + 2.0**-40): 0x8001,
    -1.5 * 2.0**-24: 0x8002,
    2.0**-14 - 2.0**-25: 0x0400,  # rounds up to the least normal
    1 + 2.0**-11: 0x3C00,
    1 + 3 * 2.0**-11: 0x3C02,
    1e-45: 0x0000,
    float("nan"): 0x7E00,
}
BF16_OF_F32 = {
    1.0: 0x3F80,
    1 + 2.0**-8: 0x3F80,
    1 + 3 * 2.0**-8: 0x3F82,
    3.4e38: 0x7F80,
    2.0**-133: 0x0001,
    float("nan"): 0x7FC0,
}


@pytest.mark.parametrize(("pack", "wanted"), [(pack_f16, F16_OF_F32), (pack_bf16, BF16_OF_F32)], ids=["f16", "bf16"])
def test_a_half_is_the_nearest_one_and_of_two_the_even_one(pack: Callable[[Expr], Expr], wanted: dict[float, int]) -> None:
    given = np.array(list(wanted), np.float32)
    floats, out = FLOATS.with_count(len(given)), OUT.with_count(len(given))
    made = Program.wrapped([floats, out], (len(given), 1, 1), [store(out, gid_x(), pack(load(floats, gid_x())))])
    (found,) = run(made, [given])
    assert [hex(one) for one in found] == [hex(one) for one in wanted.values()]


@pytest.mark.parametrize(
    "value",
    [
        Binary(EXTENSIONS["bitcast<u32>"].op, f32(1.0), u32(0)),
        Cast(U32, Binary(EXTENSIONS["bitcast<i32>"].op, f32(1.0), u32(0))),
    ],
    ids=["without its cast", "under another cast"],
)
def test_an_operator_that_does_not_stand_under_its_cast_is_one_of_an_extension(lower: Lower, value: Expr) -> None:
    made = validate(stored(value))
    inner = value.value if isinstance(value, Cast) else value
    name = f"opaque operator {inner.op.extension_id:#010x}"  # type: ignore[union-attr]
    with pytest.raises(UnsupportedFeature, match=f"cannot be lowered to SPIR-V: {name}"):
        lower(made)
    with pytest.raises(UnsupportedFeature, match=f"does not run the {name}"):
        run(made, [np.zeros(4, np.uint32), np.zeros(4, np.float32)])


def test_it_leaves_a_program_free_of_its_workgroup() -> None:
    assert why_workgroup_is_fixed(stored(bitcast(U32, load(FLOATS, gid_x())))) is None
    unknown = stored(Cast(U32, Binary(OpaqueOp(0x8000_0001), u32(1), u32(0))))
    assert why_workgroup_is_fixed(unknown) == "it uses an operator of an extension"
